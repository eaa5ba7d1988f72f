use crate::kit::{Kit, LIST};
use serde_json::{Value, json};

fn config(spec: &Value) -> Value {
    json!({"apiVersion": "sample.example.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn owners(object: &Value) -> Vec<(&str, &str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries
        .iter()
        .map(|entry| {
            (
                entry["manager"].as_str().unwrap_or_default(),
                entry["operation"].as_str().unwrap_or_default(),
                entry["subresource"].as_str().unwrap_or_default(),
            )
        })
        .collect()
}

#[tokio::test]
async fn who_writes_owns_what_he_writes() {
    let kit = Kit::start().await;
    let made = kit.widget("a", "red").await;
    assert_eq!(owners(&made), [("kubectl", "Update", "")]);
    let url = format!("{LIST}/a");
    let status = json!({"status": {"phase": "Ready"}});
    let ready = kit.patch(&format!("{url}/status?fieldManager=robot"), "merge-patch", &status).await.json();
    assert!(owners(&ready).contains(&("robot", "Update", "status")), "{ready}");
    assert_eq!(ready["metadata"]["generation"], 1);
}

#[tokio::test]
async fn an_apply_takes_shares_conflicts_and_lets_go() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let url = format!("{LIST}/a");
    let unnamed = kit.patch(&url, "apply", &config(&json!({}))).await;
    assert_eq!(unnamed.code, 422, "{}", unnamed.text);
    let conflict = kit
        .patch(&format!("{url}?fieldManager=me"), "apply", &config(&json!({"colour": "blue", "size": 3})))
        .await;
    assert_eq!((conflict.code, conflict.json()["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(conflict.json()["details"]["causes"][0]["field"], ".spec.colour");
    let forced = format!("{url}?fieldManager=me&force=true");
    let applied = kit.patch(&forced, "apply", &config(&json!({"colour": "blue", "size": 3}))).await;
    assert_eq!(applied.code, 200, "{}", applied.text);
    let applied = applied.json();
    assert_eq!(applied["spec"], json!({"colour": "blue", "size": 3}));
    assert!(owners(&applied).contains(&("me", "Apply", "")));
    let again = kit.patch(&forced, "apply", &config(&json!({"colour": "blue", "size": 3}))).await.json();
    assert_eq!(again["metadata"]["resourceVersion"], applied["metadata"]["resourceVersion"]);
    let less = kit.patch(&forced, "apply", &config(&json!({"colour": "blue"}))).await.json();
    assert_eq!(less["spec"], json!({"colour": "blue"}), "what is no longer applied goes");
    let unknown = kit.patch(&forced, "apply", &config(&json!({"extra": 1}))).await;
    assert_eq!(unknown.code, 500);
    assert!(unknown.message().contains("field not declared in schema"), "{}", unknown.text);
}

#[tokio::test]
async fn an_apply_of_something_new_needs_the_right_to_create() {
    let kit = Kit::start().await;
    let refused =
        kit.patch(&format!("{LIST}/a?fieldManager=me"), "apply", &config(&json!({"size": 1}))).await;
    assert_eq!((refused.code, refused.json()["reason"].as_str()), (403, Some("Forbidden")));
    let misnamed = kit.patch(&format!("{LIST}/b?fieldManager=me"), "apply", &config(&json!({}))).await;
    assert_eq!(misnamed.code, 400);
    let status = kit.patch(&format!("{LIST}/a/status?fieldManager=me"), "apply", &config(&json!({}))).await;
    assert_eq!(status.code, 404, "a subresource never creates");
}
