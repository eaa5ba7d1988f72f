//! A subresource with a handler of its own.

use crate::kit::{Kit, LIST};
use http::Method;
use serde_json::json;
use std::sync::Arc;
use store::Visibility;

fn paint(colour: &str) -> serde_json::Value {
    json!({"apiVersion": "sample.example.io/v1", "kind": "Paint", "spec": {"colour": colour}})
}

#[tokio::test]
async fn a_post_changes_the_object_in_one_write_and_answers_with_its_own_kind() {
    let kit = Kit::start().await;
    let made = kit.widget("a", "red").await;
    let url = format!("{LIST}/a/paint");
    let answer = kit.post(&url, &paint("blue")).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    let want = json!({
        "apiVersion": "sample.example.io/v1", "kind": "Paint",
        "spec": {"colour": "blue"}, "status": {"before": "red"},
    });
    assert_eq!(answer.json(), want);
    let painted = kit.get(&format!("{LIST}/a")).await.json();
    assert_eq!(painted["spec"]["colour"], "blue");
    assert_eq!(painted["metadata"]["generation"], 2, "the specification has changed");
    assert_eq!(painted["metadata"]["uid"], made["metadata"]["uid"]);
    let owners = painted["metadata"]["managedFields"].as_array().unwrap();
    let painter = owners.iter().find(|owner| owner["subresource"] == "paint").unwrap();
    assert_eq!(painter["fieldsV1"], json!({"f:spec": {"f:colour": {}}}));
    let now = kit.get(&url).await;
    assert_eq!((now.code, &now.json()["spec"]), (200, &json!({"colour": "blue"})));
    let yaml = kit.get_as(&url, "application/yaml").await;
    assert_eq!(yaml.text, "apiVersion: sample.example.io/v1\nkind: Paint\nspec:\n  colour: blue\n");
    let text = kit.get(&format!("{url}?format=text")).await;
    assert_eq!((text.text.as_str(), text.header("content-type")), ("blue\n", "text/plain; charset=utf-8"));
}

#[tokio::test]
async fn its_bodies_are_checked_as_those_of_a_kind() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let url = format!("{LIST}/a/paint");
    for (query, body, code, why) in [
        ("", json!({"kind": "Widget"}), 400, "Widget in version \"v1\" cannot be handled as a Paint"),
        ("", json!({"spec": {"colour": 7}}), 400, "Paint in version \"v1\" cannot be handled as a Paint"),
        ("", json!({"spec": {"colour": "x\u{0}"}}), 400, "spec.colour: a text must not contain"),
        ("?fieldValidation=Strict", json!({"spec": {"coat": 1}}), 400, "unknown field \"spec.coat\""),
        ("?dryRun=Some", paint("blue"), 422, "dryRun: Unsupported value"),
        ("", json!({}), 400, "a colour is wanted"),
    ] {
        let answer = kit.post(&format!("{url}{query}"), &body).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
    let warned = kit.post(&url, &json!({"spec": {"colour": "blue", "coat": 1}})).await;
    assert_eq!((warned.code, warned.header("warning")), (201, "299 - \"unknown field \\\"spec.coat\\\"\""));
    let missing = kit.post(&format!("{LIST}/none/paint"), &paint("blue")).await;
    assert_eq!(
        (missing.code, missing.message().as_str()),
        (404, "widgets.sample.example.io \"none\" not found")
    );
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        assert_eq!(kit.ask(method, &url, &[], Vec::new()).await.code, 405);
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(kit.get_as(&url, table).await.code, 406, "it has one form");
}

#[tokio::test]
async fn what_changes_nothing_is_not_written_and_a_rehearsal_stores_nothing() {
    let kit = Kit::start().await;
    let made = kit.widget("a", "red").await;
    let url = format!("{LIST}/a/paint");
    let rehearsed = kit.post(&format!("{url}?dryRun=All"), &paint("blue")).await;
    assert_eq!((rehearsed.code, &rehearsed.json()["status"]["before"]), (201, &json!("red")));
    let same = kit.post(&url, &paint("red")).await;
    assert_eq!((same.code, same.header("warning")), (201, "299 - \"the widget is red already\""));
    let found = kit.get(&format!("{LIST}/a")).await.json();
    assert_eq!(found, made, "neither has left anything");
}

#[tokio::test]
async fn many_at_once_each_see_the_colour_before() {
    let kit = Arc::new(Kit::start().await);
    kit.widget("a", "0").await;
    let mut painters = tokio::task::JoinSet::new();
    for colour in 1..=16 {
        let kit = Arc::clone(&kit);
        painters.spawn(async move {
            let answer = kit.post(&format!("{LIST}/a/paint"), &paint(&colour.to_string())).await;
            assert_eq!(answer.code, 201, "{}", answer.text);
            answer.json()["status"]["before"].as_str().unwrap().to_owned()
        });
    }
    let mut before: Vec<String> = painters.join_all().await;
    before.push(kit.get(&format!("{LIST}/a")).await.json()["spec"]["colour"].as_str().unwrap().to_owned());
    before.sort_unstable();
    let mut all: Vec<String> = (0..=16).map(|colour| colour.to_string()).collect();
    all.sort_unstable();
    assert_eq!(before, all, "each colour was there once, and one is the last");
}

#[tokio::test]
async fn what_a_caller_does_not_see_is_not_there_to_be_painted() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let stranger = kit.seen_by(Visibility::tenant("t"));
    for url in [format!("{LIST}/a/paint"), format!("{LIST}/none/paint")] {
        let answer = stranger.post(&url, &paint("blue")).await;
        assert_eq!((answer.code, answer.header("warning")), (404, ""));
        assert_eq!(stranger.get(&url).await.code, 404);
    }
}

#[tokio::test]
async fn discovery_and_openapi_know_its_bodies() {
    let kit = Kit::start().await;
    let document = kit.get("/openapi/v3/apis/sample.example.io/v1").await.json();
    let path = &document["paths"]["/apis/sample.example.io/v1/namespaces/{namespace}/widgets/{name}/paint"];
    let methods: Vec<&String> = path.as_object().unwrap().keys().collect();
    assert_eq!(methods, ["get", "parameters", "post"]);
    let reference = json!({"$ref": "#/components/schemas/io.example.sample.v1.Paint"});
    assert_eq!(path["post"]["requestBody"]["content"]["*/*"]["schema"], reference);
    assert_eq!(path["post"]["responses"]["201"]["content"]["application/json"]["schema"], reference);
    assert_eq!(path["post"]["x-kubernetes-group-version-kind"]["kind"], "Paint");
    let shape = &document["components"]["schemas"]["io.example.sample.v1.Paint"];
    assert_eq!(shape["x-kubernetes-group-version-kind"][0]["kind"], "Paint");
}
