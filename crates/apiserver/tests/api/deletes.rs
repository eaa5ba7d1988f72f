use crate::kit::{Kit, LIST};
use futures_util::{StreamExt, stream};
use serde_json::json;

#[tokio::test]
async fn an_object_that_nobody_holds_goes_at_once() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    let object = kit.widget("a", "red").await;
    let uid = object["metadata"]["uid"].clone();
    let wrong = kit.delete(&url, &json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(wrong.code, 409);
    assert_eq!(
        wrong.message(),
        format!(
            "Operation cannot be fulfilled on Widget.sample.example.io \"a\": the UID in the precondition (other) does not \
             match the UID in record ({}). The object might have been deleted and then recreated",
            uid.as_str().unwrap()
        )
    );
    let stale = kit.delete(&url, &json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!((stale.code, stale.json()["details"]["kind"].as_str()), (409, Some("Widget")));
    for query in ["uid=other", "resourceVersion=1"] {
        let refused = kit.delete(&format!("{url}?{query}"), &json!(null)).await;
        assert_eq!((refused.code, kit.get(&url).await.code), (409, 200), "{query}: {}", refused.text);
    }
    let gone =
        kit.delete(&url, &json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"})).await;
    assert_eq!(gone.code, 200);
    assert_eq!(
        gone.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "group": "sample.example.io", "kind": "widgets", "uid": uid}})
    );
    assert_eq!(kit.delete(&url, &json!(null)).await.code, 404);
    let object = kit.widget("a", "red").await;
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    let same = format!("{url}?uid={}&resourceVersion={}", text("uid"), text("resourceVersion"));
    assert_eq!(kit.delete(&same, &json!(null)).await.code, 200);
}

#[tokio::test]
async fn metadata_finalizers_hold_an_object_until_they_are_gone() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    kit.post(LIST, &json!({"metadata": {"name": "a", "finalizers": ["x/y"]}})).await;
    let marked = kit.delete(&url, &json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(marked.code, 200);
    let marked = marked.json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["x/y", "foregroundDeletion"]));
    assert_eq!(
        (&marked["metadata"]["deletionGracePeriodSeconds"], &marked["metadata"]["generation"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(marked["status"]["phase"], "Terminating");
    let again = kit.delete(&url, &json!(null)).await.json();
    assert_eq!(
        again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"],
        "nothing changed"
    );
    let added = kit.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": ["x/y", "x/z"]}})).await;
    assert_eq!(added.code, 422);
    assert!(added.message().contains("no new finalizers can be added if the object is being deleted"));
    let taken = kit.post(LIST, &json!({"metadata": {"name": "a"}})).await;
    assert!(taken.message().starts_with("object is being deleted: "), "{}", taken.text);
    let last = kit.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!((last.code, last.json()["kind"].as_str()), (200, Some("Widget")));
    assert_eq!(kit.get(&url).await.code, 404);
}

#[tokio::test]
async fn finalizers_of_the_spec_hold_an_object_too() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    kit.post(LIST, &json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["hold"]}})).await;
    let marked = kit.delete(&url, &json!({})).await;
    assert_eq!((marked.code, marked.json()["status"]["phase"].as_str()), (200, Some("Terminating")));
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string());
    let waiting = kit.delete(&url, &json!({})).await;
    assert_eq!(waiting.code, 409);
    assert!(waiting.message().ends_with("the widget's finalizers have not let it go"));
    let mut object = marked.json();
    object["spec"]["finalizers"] = json!([]);
    let finalized = kit.put(&format!("{url}/finalize"), &object).await;
    assert_eq!(finalized.code, 200, "{}", finalized.text);
    assert_eq!(kit.get(&url).await.code, 404);
}

#[tokio::test]
async fn only_an_explicit_orphaning_false_is_answered_with_accepted() {
    let kit = Kit::start().await;
    kit.post(LIST, &json!({"metadata": {"name": "a", "finalizers": ["x/y"]}})).await;
    let answer = kit.delete(&format!("{LIST}/a?orphanDependents=false"), &json!(null)).await;
    assert_eq!(answer.code, 202);
    let wrong = kit.delete(&format!("{LIST}/a"), &json!({"kind": "Pod"})).await;
    assert_eq!(
        (wrong.code, wrong.message().as_str()),
        (400, "decoded object cannot be converted to DeleteOptions")
    );
}

#[tokio::test]
async fn a_collection_is_deleted_object_by_object() {
    let kit = Kit::start().await;
    for name in ["a", "b", "c"] {
        kit.widget(name, "red").await;
    }
    kit.widget("d", "blue").await;
    kit.post(LIST, &json!({"metadata": {"name": "e"}, "spec": {"finalizers": ["hold"]}})).await;
    let one =
        kit.delete(&format!("{LIST}?limit=1&fieldSelector=spec.colour%3Dred"), &json!(null)).await.json();
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    assert!(one["metadata"]["continue"].is_string());
    let names = |answer: &serde_json::Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let red = format!("{LIST}?resourceVersion=0&fieldSelector=spec.colour%3Dred");
    let rest = kit.delete(&red, &json!(null)).await.json();
    assert_eq!(names(&rest), ["b", "c", "e"]);
    assert_eq!(names(&kit.get(LIST).await.json()), ["d", "e"], "e waits for its finalizer");
    let again = kit.delete(LIST, &json!(null)).await;
    assert_eq!((again.code, names(&again.json())), (200, vec!["d".to_owned(), "e".to_owned()]));
    let stale = kit.delete(LIST, &json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(stale.code, 409, "what waits already is asked for its revision, too: {}", stale.text);
}

#[tokio::test]
async fn a_collection_is_deleted_to_its_end_though_its_first_pages_state_is_not_known_any_more() {
    let kit = Kit::start_with(|config| config.cache.ring_changes = 8).await;
    // More than one page of the server's own page size.
    let count = 520;
    let kit_of_all = &kit;
    let made = (0..count).map(|number| async move { kit_of_all.widget(&format!("w{number}"), "red").await });
    assert_eq!(stream::iter(made).buffer_unordered(64).count().await, count);
    let answer = kit.delete(LIST, &json!(null)).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert_eq!(answer.json()["items"].as_array().unwrap().len(), count);
    assert_eq!(kit.get(LIST).await.json()["items"], json!([]));
}

/// Objects that were created since then stay, also those with the name of a deleted object.
#[tokio::test]
async fn a_collection_is_deleted_as_it_was_at_the_revision_that_is_named() {
    let kit = Kit::start_with(|config| config.cache.ring_changes = 8).await;
    let names = |answer: &serde_json::Value| -> Vec<String> {
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for name in ["a", "b"] {
        kit.widget(name, "red").await;
    }
    let listed = kit.get(LIST).await.json();
    let at = format!("{LIST}?resourceVersion={}", listed["metadata"]["resourceVersion"].as_str().unwrap());
    kit.delete(&format!("{LIST}/a"), &json!(null)).await;
    for name in ["a", "later"] {
        kit.widget(name, "red").await;
    }
    for (query, want) in [
        ("", vec!["b"]),
        ("&resourceVersionMatch=Exact", vec!["b"]),
        ("&resourceVersionMatch=NotOlderThan", vec!["a", "b", "later"]),
    ] {
        let rehearsed = kit.delete(&format!("{at}{query}&dryRun=All"), &json!(null)).await;
        assert_eq!(rehearsed.code, 200, "{query}: {}", rehearsed.text);
        assert_eq!(names(&rehearsed.json()), want, "{query}");
    }
    let deleted = kit.delete(&format!("{at}&resourceVersionMatch=Exact"), &json!({})).await;
    assert_eq!(names(&deleted.json()), ["b"]);
    assert_eq!(names(&kit.get(LIST).await.json()), ["a", "later"]);
    let far = kit.delete(&format!("{LIST}?resourceVersion=999999999"), &json!({})).await;
    assert_eq!((far.code, far.json()["reason"].as_str()), (504, Some("Timeout")));
    for number in 0..32 {
        kit.widget(&format!("w{number}"), "red").await;
    }
    let expired = kit.delete(&at, &json!({})).await;
    assert_eq!((expired.code, expired.json()["reason"].as_str()), (410, Some("Expired")));
    assert_eq!(names(&kit.get(LIST).await.json()).len(), 34);
}

#[tokio::test]
async fn a_delete_finds_the_object_that_has_a_name_anew() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    for _ in 0..20 {
        kit.post(LIST, &json!({"metadata": {"name": "a", "finalizers": ["x/y"]}})).await;
        kit.delete(&url, &json!(null)).await;
        kit.patch(&url, "merge-patch", &json!({"metadata": {"finalizers": null}})).await;
        kit.widget("a", "red").await;
        let gone = kit.delete(&url, &json!(null)).await.json();
        assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    }
}

#[tokio::test]
async fn an_object_of_the_largest_size_gets_its_status_and_goes() {
    const OBJECT_BYTES_MAX: usize = 2 * 1024 * 1024;
    let kit = Kit::start().await;
    let of = |name: &str, part: &str| json!({"metadata": {"name": name}, "spec": {"parts": [{"name": part}], "finalizers": ["hold"]}});
    // The name of a part is stored twice: in the part, and in the managed fields.
    let small = kit.post(LIST, &of("a", "x")).await;
    let part = "x".repeat((OBJECT_BYTES_MAX - small.text.len()) / 2);
    let url = format!("{LIST}/b");
    assert_eq!(kit.post(LIST, &of("b", &part)).await.code, 201);
    let ready = json!({"status": {"phase": "Ready"}});
    assert_eq!(kit.patch(&format!("{url}/status"), "merge-patch", &ready).await.code, 200);
    let more = kit.patch(&url, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!((more.code, more.json()["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    let less = json!({"spec": {"colour": "tan"}});
    let less = kit.patch(&format!("{url}?fieldManager=kubectl"), "merge-patch", &less).await;
    assert_eq!(less.code, 200, "as large as it was");
    let marked = kit.delete(&url, &json!(null)).await;
    assert_eq!(marked.code, 200);
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string());
    let let_go = json!({"spec": {"finalizers": null}});
    assert_eq!(kit.patch(&format!("{url}/finalize"), "merge-patch", &let_go).await.code, 200);
    assert_eq!(kit.get(&url).await.code, 404);
}
