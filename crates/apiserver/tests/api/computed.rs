//! A kind whose objects are computed when they are read.

use crate::kit::{Kit, LIST};
use http::Method;
use serde_json::{Value, json};
use store::Visibility;

const COLOURS: &str = "/apis/sample.example.io/v1/namespaces/n/colours";
const EVERYWHERE: &str = "/apis/sample.example.io/v1/colours";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn painted() -> Kit {
    let kit = Kit::start().await;
    for (name, colour) in [("a", "red"), ("b", "red"), ("c", "blue")] {
        kit.widget(name, colour).await;
    }
    let elsewhere = LIST.replace("/n/", "/m/");
    let body = json!({"metadata": {"name": "a"}, "spec": {"colour": "green"}});
    assert_eq!(kit.post(&elsewhere, &body).await.code, 201);
    kit
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn it_is_got_and_listed_as_a_stored_one() {
    let kit = painted().await;
    let list = kit.get(COLOURS).await.json();
    assert_eq!((&list["kind"], names(&list)), (&json!("ColourList"), vec!["blue", "red"]));
    assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let red = kit.get(&format!("{COLOURS}/red")).await.json();
    let want = json!({
        "apiVersion": "sample.example.io/v1", "kind": "Colour", "status": {"widgets": 2},
        "metadata": {"name": "red", "namespace": "n", "labels": {"some": "many"}},
    });
    assert_eq!(red, want);
    let missing = kit.get(&format!("{COLOURS}/pink")).await;
    assert_eq!(
        (missing.code, missing.message().as_str()),
        (404, "colours.sample.example.io \"pink\" not found")
    );
    assert_eq!(names(&kit.get(EVERYWHERE).await.json()), ["green", "blue", "red"], "by namespace, then name");
}

#[tokio::test]
async fn selectors_forms_and_options_are_those_of_every_list() {
    let kit = painted().await;
    for (query, want) in [
        ("labelSelector=some%3Dmany", Ok(vec!["red"])),
        ("fieldSelector=metadata.name%3Dblue", Ok(vec!["blue"])),
        ("fieldSelector=metadata.name!%3Dblue", Ok(vec!["red"])),
        ("resourceVersion=0", Ok(vec!["blue", "red"])),
        ("limit=1", Ok(vec!["blue", "red"])),
        ("fieldSelector=spec.x%3D1", Err("field label not supported: spec.x")),
        (
            "resourceVersion=1&resourceVersionMatch=Exact",
            Err("objects of this kind are only there as they are now"),
        ),
        ("continue=x", Err("invalid continue token: lists of this kind have one page")),
    ] {
        let answer = kit.get(&format!("{COLOURS}?{query}")).await;
        match want {
            Ok(want) => assert_eq!(names(&answer.json()), want, "{query}"),
            Err(want) => assert_eq!((answer.code, answer.message().as_str()), (400, want), "{query}"),
        }
    }
    let table = kit.get_as(COLOURS, TABLE).await.json();
    assert_eq!(table["columnDefinitions"][1]["name"], "Widgets");
    assert_eq!(table["rows"][1]["cells"][0], "red");
    assert_eq!(table["rows"][1]["cells"][1], 2);
    let partial = kit.get_as(COLOURS, PARTIAL).await.protobuf();
    assert_eq!(partial["items"][0]["metadata"]["name"], "blue");
    let yaml = kit.get_as(&format!("{COLOURS}/red"), "application/yaml").await;
    assert!(yaml.text.contains("widgets: 2\n"), "{}", yaml.text);
}

#[tokio::test]
async fn each_caller_sees_his_own() {
    let kit = painted().await;
    let tenant = kit.seen_by(Visibility::tenant("t"));
    let body = json!({"metadata": {"name": "mine"}, "spec": {"colour": "red"}});
    assert_eq!(tenant.post(LIST, &body).await.code, 201);
    let red = tenant.get(&format!("{COLOURS}/red")).await.json();
    assert_eq!(red["status"]["widgets"], 1);
    assert_eq!(names(&tenant.get(EVERYWHERE).await.json()), ["red"]);
    assert_eq!(names(&kit.seen_by(Visibility::Nothing).get(COLOURS).await.json()), [""; 0]);
}

#[tokio::test]
async fn what_was_written_before_is_in_it() {
    let kit = painted().await;
    for n in 0..20 {
        kit.widget(&format!("w{n}"), "grey").await;
        let grey = kit.get(&format!("{COLOURS}/grey")).await.json();
        assert_eq!(grey["status"]["widgets"], n + 1);
    }
}

#[tokio::test]
async fn it_is_read_only_and_said_to_be_so() {
    let kit = painted().await;
    let one = format!("{COLOURS}/red");
    let watch = format!("{COLOURS}?watch=1");
    for (method, url) in [
        (Method::POST, COLOURS),
        (Method::DELETE, COLOURS),
        (Method::PUT, &one),
        (Method::PATCH, &one),
        (Method::DELETE, &one),
        (Method::GET, &watch),
    ] {
        assert_eq!(kit.ask(method.clone(), url, &[], Vec::new()).await.code, 405, "{method} {url}");
    }
    let paths = kit.get("/openapi/v3/apis/sample.example.io/v1").await.json()["paths"].clone();
    let described = |path: &str| -> Vec<String> {
        paths[path].as_object().unwrap().keys().filter(|key| *key != "parameters").cloned().collect()
    };
    assert_eq!(described("/apis/sample.example.io/v1/namespaces/{namespace}/colours"), ["get"]);
    assert_eq!(described("/apis/sample.example.io/v1/namespaces/{namespace}/colours/{name}"), ["get"]);
    assert_eq!(described("/apis/sample.example.io/v1/colours"), ["get"]);
}
