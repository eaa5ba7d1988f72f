use crate::kit::{Kit, LIST};
use http::Method;
use serde_json::json;
use store::Visibility;

#[tokio::test]
async fn a_created_object_has_its_system_fields_and_defaults() {
    let kit = Kit::start().await;
    let body = json!({"apiVersion": "sample.example.io/v1", "kind": "Widget",
        "metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 7,
            "finalizers": ["x/y"]},
        "spec": {"size": 3, "weight": "0.5"}, "status": {"phase": "Forged"}});
    let answer = kit.post(LIST, &body).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    let made = answer.json();
    assert_eq!(made["apiVersion"], "sample.example.io/v1");
    assert_eq!(made["metadata"]["namespace"], "n");
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["finalizers"], json!(["x/y"]));
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_ne!(made["metadata"]["creationTimestamp"], "2000-01-01T00:00:00Z");
    assert_eq!(made["spec"], json!({"colour": "red", "size": 3, "weight": "500m"}));
    assert_eq!(made["status"], json!({"phase": "New"}));
    assert!(made["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let got = kit.get(&format!("{LIST}/a")).await;
    assert_eq!((got.code, got.text), (200, answer.text));
}

#[tokio::test]
async fn a_name_is_taken_once_and_generated_when_asked() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let again = kit.post(LIST, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(
        (again.code, again.message().as_str()),
        (409, "widgets.sample.example.io \"a\" already exists")
    );
    assert_eq!(again.json()["reason"], "AlreadyExists");
    let generated = kit.post(LIST, &json!({"metadata": {"generateName": "w-"}})).await.json();
    let name = generated["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("w-") && name.len() == 7, "{name}");
    assert_eq!(generated["metadata"]["generateName"], "w-");
}

#[tokio::test]
async fn a_bad_body_is_refused_with_the_right_code_and_text() {
    let kit = Kit::start().await;
    let cases = [
        (
            json!({"apiVersion": "v2", "metadata": {"name": "a"}}),
            400,
            "the API version in the data (v2) does not match",
        ),
        (
            json!({"kind": "Pod", "metadata": {"name": "a"}}),
            400,
            "Pod in version \"v1\" cannot be handled as a Widget",
        ),
        (
            json!({"metadata": {"name": "a", "namespace": "m"}}),
            400,
            "the namespace of the provided object does not match",
        ),
        (
            json!({"metadata": {"name": "a"}, "spec": {"size": "x"}}),
            400,
            "Widget in version \"v1\" cannot be handled",
        ),
        (
            json!({"metadata": {"name": "A_"}}),
            422,
            "Widget.sample.example.io \"A_\" is invalid: metadata.name",
        ),
        (json!({"metadata": {}}), 422, "name or generateName is required"),
        (
            json!({"metadata": {"name": "a"}, "spec": {"size": -1}}),
            422,
            "spec.size: Invalid value: -1: must not be negative",
        ),
        (
            json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
            500,
            "resourceVersion should not be set on objects",
        ),
    ];
    for (body, code, text) in cases {
        let answer = kit.post(LIST, &body).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text);
        assert!(answer.message().contains(text), "{body}: {}", answer.text);
    }
    let broken = kit.ask(Method::POST, LIST, &[], "{").await;
    assert_eq!(broken.code, 400);
    let protobuf = kit
        .ask(Method::POST, LIST, &[("content-type", "application/vnd.kubernetes.protobuf")], "k8s\0")
        .await;
    assert_eq!((protobuf.code, protobuf.json()["reason"].as_str()), (415, Some("UnsupportedMediaType")));
    assert!(protobuf.message().contains("set the content type application/json"), "{}", protobuf.message());
    let unacceptable = kit.ask(Method::POST, LIST, &[("accept", "text/html")], "{}").await;
    assert_eq!(unacceptable.code, 406);
    assert!(kit.get(LIST).await.json()["items"].as_array().unwrap().is_empty(), "nothing was stored");
}

#[tokio::test]
async fn revision_0_of_a_new_object_is_none() {
    let kit = Kit::start().await;
    let made = kit.post(LIST, &json!({"metadata": {"name": "a", "resourceVersion": "0"}})).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_ne!(made.json()["metadata"]["resourceVersion"], "0");
    assert_eq!(kit.get(&format!("{LIST}/a")).await.json(), made.json());
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_of_or_refused() {
    let kit = Kit::start().await;
    let body = json!({"metadata": {"name": "a"}, "spec": {"size": 1, "extra": 2}});
    let strict = kit.post(&format!("{LIST}?fieldValidation=Strict"), &body).await;
    assert_eq!(strict.code, 400);
    assert!(
        strict.message().contains("strict decoding error: unknown field \"spec.extra\""),
        "{}",
        strict.text
    );
    let warned = kit.post(LIST, &body).await;
    assert_eq!((warned.code, warned.header("warning")), (201, "299 - \"unknown field \\\"spec.extra\\\"\""));
    assert_eq!(warned.json()["spec"], json!({"colour": "red", "size": 1}));
    let body = json!({"metadata": {"name": "b"}, "spec": {"extra": 2}});
    let ignored = kit.post(&format!("{LIST}?fieldValidation=Ignore"), &body).await;
    assert_eq!((ignored.code, ignored.header("warning")), (201, ""));
}

#[tokio::test]
async fn a_dry_run_answers_but_stores_nothing() {
    let kit = Kit::start().await;
    let tried = kit.post(&format!("{LIST}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(tried.code, 201);
    assert_eq!(tried.json()["metadata"].get("resourceVersion"), None);
    assert!(tried.json()["metadata"]["uid"].is_string());
    assert_eq!(kit.get(&format!("{LIST}/a")).await.code, 404);
    let made = kit.widget("a", "red").await;
    let taken = kit.post(&format!("{LIST}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(taken.code, 409, "{}", taken.text);
    let tried = kit.delete(&format!("{LIST}/a?dryRun=All"), &json!(null)).await;
    assert_eq!((tried.code, tried.json()["status"].as_str()), (200, Some("Success")));
    let mut changed = made.clone();
    changed["spec"]["colour"] = json!("blue");
    let tried = kit.put(&format!("{LIST}/a?dryRun=All"), &changed).await.json();
    assert_eq!(
        (&tried["spec"]["colour"], &tried["metadata"]["resourceVersion"]),
        (&json!("blue"), &made["metadata"]["resourceVersion"])
    );
    assert_eq!(kit.get(&format!("{LIST}/a")).await.json(), made);
}

#[tokio::test]
async fn yaml_is_read_and_written() {
    let kit = Kit::start().await;
    let headers = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let answer =
        kit.ask(Method::POST, LIST, &headers, "metadata:\n  name: a\nspec:\n  colour: green\n").await;
    assert_eq!((answer.code, answer.header("content-type")), (201, "application/yaml"));
    assert!(answer.text.contains("  colour: green\n"), "{}", answer.text);
}

#[tokio::test]
async fn a_tenant_owns_what_he_makes_and_others_do_not_see_it() {
    let kit = Kit::start().await;
    let (one, other) = (kit.seen_by(Visibility::tenant("t1")), kit.seen_by(Visibility::tenant("t2")));
    one.widget("a", "red").await;
    let url = format!("{LIST}/a");
    assert_eq!(one.get(&url).await.code, 200);
    for answer in [
        other.get(&url).await,
        other.delete(&url, &json!(null)).await,
        other.patch(&url, "merge-patch", &json!({"spec": {"size": 1}})).await,
        other.put(&url, &json!({"metadata": {"name": "a", "resourceVersion": "1"}})).await,
        other.get(&format!("{url}/status")).await,
    ] {
        assert_eq!(
            (answer.code, answer.message().as_str()),
            (404, "widgets.sample.example.io \"a\" not found")
        );
    }
    assert!(other.get(LIST).await.json()["items"].as_array().unwrap().is_empty());
    let nobody = kit.seen_by(Visibility::Nothing);
    assert_eq!(nobody.post(LIST, &json!({"metadata": {"name": "b"}})).await.code, 403);
    let list = nobody.get(LIST).await.json();
    assert_eq!(list["items"], json!([]));
    assert_ne!(list["metadata"]["resourceVersion"], "0");
    let deleted = nobody.delete(LIST, &json!(null)).await;
    assert_eq!((deleted.code, deleted.json()["items"].clone()), (200, json!([])));
    assert_eq!(kit.get(LIST).await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_body_over_three_mebibytes_is_too_large() {
    let kit = Kit::start().await;
    let answer = kit.ask(Method::POST, LIST, &[], vec![b' '; 3 * 1024 * 1024 + 1]).await;
    assert_eq!((answer.code, answer.message().as_str()), (413, "Request entity too large: limit is 3145728"));
}
