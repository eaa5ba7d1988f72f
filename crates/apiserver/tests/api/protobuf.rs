use crate::kit::{Kit, LIST};
use http::Method;
use meta::protobuf::{Message, body};
use serde_json::{Value, json};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The `Accept` header of the garbage collector.
const PARTIAL: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                       application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

fn lists() -> String {
    PARTIAL.replace("Metadata;", "MetadataList;")
}

/// What the protobuf answer contains of an object.
fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

#[tokio::test]
async fn every_verb_answers_with_metadata_in_protobuf() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    let made = json!({"metadata": {"name": "a", "labels": {"k": "v"}, "finalizers": ["x/y"],
        "annotations": {"words": "\"a\" & \u{1F600}\n"}}});
    let partial = [("accept", PARTIAL)];
    let created = kit.ask(Method::POST, LIST, &partial, made.to_string()).await;
    let object = kit.get(&url).await.json();
    assert_eq!((created.code, created.protobuf()), (201, metadata_of(&object)));
    assert_eq!(kit.get_as(&url, PARTIAL).await.protobuf(), metadata_of(&object));
    assert_eq!(object["metadata"]["annotations"]["words"], "\"a\" & \u{1F600}\n");
    let old = PARTIAL.replace("v=v1", "v=v1beta1");
    assert_eq!(kit.get_as(&url, &old).await.protobuf()["apiVersion"], "meta.k8s.io/v1beta1");

    let headers = [("accept", PARTIAL), ("content-type", "application/merge-patch+json")];
    let patched = kit.ask(Method::PATCH, &url, &headers, r#"{"spec":{"size":3}}"#).await.protobuf();
    assert_eq!(patched["metadata"]["generation"], 2);
    let mut object = kit.get(&url).await.json();
    object["spec"]["size"] = json!(4);
    let updated = kit.ask(Method::PUT, &url, &partial, object.to_string()).await.protobuf();
    assert_eq!(updated, metadata_of(&kit.get(&url).await.json()));

    let marked = kit.ask(Method::DELETE, &url, &partial, "").await;
    let marked = (marked.code, marked.protobuf());
    assert_eq!((marked.0, &marked.1["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(0)));
    assert!(marked.1["metadata"]["deletionTimestamp"].is_string());
    kit.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await;
    kit.widget("a", "red").await;
    let gone = kit.ask(Method::DELETE, &url, &partial, "").await.protobuf();
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(gone["details"]["kind"], "widgets");
}

#[tokio::test]
async fn a_large_list_of_metadata_comes_in_pieces() {
    let kit = Kit::start().await;
    let empty = kit.get_as(LIST, &lists()).await.protobuf();
    assert_eq!((&empty["kind"], empty.get("items")), (&json!("PartialObjectMetadataList"), None));
    let notes = "x".repeat(20_000);
    for i in 0..12 {
        let body = json!({"metadata": {"name": format!("w{i:02}"), "annotations": {"notes": notes}}});
        assert_eq!(kit.post(LIST, &body).await.code, 201);
    }
    let objects = kit.get(LIST).await.json();
    let whole = kit.get_as(LIST, &lists()).await;
    assert!(whole.bytes.len() > 12 * 20_000);
    let list = whole.protobuf();
    assert_eq!(list["metadata"], objects["metadata"]);
    let of = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"].clone()).collect()
    };
    assert_eq!(of(&list), of(&objects));
    let old = kit.get_as(LIST, &lists().replace("v=v1", "v=v1beta1")).await.protobuf();
    assert_eq!((of(&old), &old["metadata"]), (of(&objects), &objects["metadata"]));
    let page = kit.get_as(&format!("{LIST}?limit=2"), &lists()).await.protobuf();
    assert_eq!((of(&page).len(), &page["metadata"]["remainingItemCount"]), (2, &json!(10)));

    let headers = [("accept", &*lists()), ("accept-encoding", "gzip")];
    let zipped = kit.ask(Method::GET, LIST, &headers, "").await;
    assert_eq!(zipped.header("content-encoding"), "gzip");
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*zipped.bytes), &mut bytes).unwrap();
    assert_eq!(bytes, whole.bytes);
    let removed = kit.ask(Method::DELETE, LIST, &[("accept", &lists())], "").await.protobuf();
    assert_eq!(of(&removed).len(), 12);
}

#[tokio::test]
async fn a_watch_tells_changes_bookmarks_and_errors_in_protobuf() {
    let kit = Kit::start().await;
    let made = kit.widget("a", "red").await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = kit.watch(&format!("{LIST}?{query}"), PARTIAL).await;
    assert_eq!(events.next().await.unwrap(), json!({"type": "ADDED", "object": metadata_of(&made)}));
    let end = events.next().await.unwrap();
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("BOOKMARK"), &json!("PartialObjectMetadata")));
    let metadata = &end["object"]["metadata"];
    assert_eq!(metadata["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_eq!(metadata["resourceVersion"], made["metadata"]["resourceVersion"]);
    kit.patch(&format!("{LIST}/a"), "merge-patch", &json!({"spec": {"size": 1}})).await;
    assert_eq!(events.brief().await.0, "MODIFIED");
    let future = format!("{LIST}?{query}&resourceVersion=999999999");
    let mut failed = kit.watch(&future, PARTIAL).await;
    let event = failed.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ERROR"), &json!("Status")));
    assert_eq!((&event["object"]["code"], failed.next().await), (&json!(504), None));
}

#[tokio::test]
async fn failures_are_in_protobuf_where_they_can_be() {
    let kit = Kit::start().await;
    let missing = kit.get_as(&format!("{LIST}/none"), PARTIAL).await;
    assert_eq!((missing.code, missing.header("content-type")), (404, "application/json"));
    let both = format!("{PARTIAL},{PROTOBUF}");
    let missing = kit.get_as(&format!("{LIST}/none"), &both.replace(",application/json,", ",")).await;
    assert_eq!((missing.code, &missing.protobuf()["reason"]), (404, &json!("NotFound")));
    let whole = kit.get_as(LIST, PROTOBUF).await;
    assert_eq!((whole.code, &whole.protobuf()["reason"]), (406, &json!("NotAcceptable")));
    let next = kit.get_as(LIST, &format!("{PROTOBUF}, application/json")).await.json();
    assert_eq!(next["kind"], "WidgetList");
    let nowhere = kit.get_as("/apis/sample.example.io/v1/gadgets", PROTOBUF).await;
    assert_eq!((nowhere.code, &nowhere.protobuf()["kind"]), (404, &json!("Status")));
    let documents = kit.get_as("/apis", &format!("{PROTOBUF}, application/json")).await;
    assert_eq!(documents.header("content-type"), "application/json");
    let documents = kit.get_as("/apis/sample.example.io/v1", PROTOBUF).await;
    assert_eq!((documents.code, &documents.protobuf()["reason"]), (406, &json!("NotAcceptable")));
}

#[tokio::test]
async fn options_of_a_delete_are_read_in_protobuf_and_objects_are_not() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    kit.widget("a", "red").await;
    let sent = [("content-type", PROTOBUF)];
    let mut options = Message::default();
    body(&mut options, "v1", "DeleteOptions", |out| out.nested(2, |out| out.text(1, "other")));
    let wrong = kit.ask(Method::DELETE, &url, &sent, options.as_slice()).await;
    assert_eq!(wrong.code, 409, "{}", wrong.text);
    let mut options = Message::default();
    body(&mut options, "v1", "DeleteOptions", |out| out.text(5, "All"));
    assert_eq!(kit.ask(Method::DELETE, &url, &sent, options.as_slice()).await.code, 200);
    assert_eq!(kit.get(&url).await.code, 200, "it was only tried");
    for (bytes, text) in [
        (
            &b"{}"[..],
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0\x12\x7f", "unexpected EOF"),
        (b"k8s\0\x0a\x08\x12\x06Status", "decoded object cannot be converted to DeleteOptions"),
    ] {
        let refused = kit.ask(Method::DELETE, &url, &sent, bytes).await;
        assert_eq!((refused.code, &*refused.message()), (400, text));
    }
    let other = kit.ask(Method::DELETE, &url, &[("content-type", "text/plain")], "x").await;
    assert!(
        other.message().ends_with("application/json, application/yaml, application/vnd.kubernetes.protobuf")
    );
    let object = kit.ask(Method::POST, LIST, &sent, options.as_slice()).await;
    assert_eq!((object.code, object.json()["reason"].as_str()), (415, Some("UnsupportedMediaType")));
    let gone = kit.ask(Method::DELETE, &url, &[("content-type", PROTOBUF)], "").await;
    assert_eq!(gone.code, 200);
}
