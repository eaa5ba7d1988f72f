use crate::kit::{Kit, LIST};
use http::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn an_update_needs_the_revision_it_was_made_from() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    let mut object = kit.widget("a", "red").await;
    let stale = object.clone();
    object["spec"]["colour"] = json!("blue");
    let updated = kit.put(&url, &object).await;
    assert_eq!(updated.code, 200, "{}", updated.text);
    let updated = updated.json();
    assert_eq!((&updated["spec"]["colour"], &updated["metadata"]["generation"]), (&json!("blue"), &json!(2)));
    let conflict = kit.put(&url, &stale).await;
    assert_eq!((conflict.code, conflict.json()["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(
        conflict.message(),
        "Operation cannot be fulfilled on widgets.sample.example.io \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    let mut unversioned = updated.clone();
    unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let refused = kit.put(&url, &unversioned).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message(),
        "widgets.sample.example.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    unversioned["metadata"]["resourceVersion"] = json!("0");
    assert_eq!(kit.put(&url, &unversioned).await.message(), refused.message());
    let zero = json!({"metadata": {"resourceVersion": "0"}, "spec": {"size": 1}});
    let patched = kit.patch(&url, "merge-patch", &zero).await;
    assert_eq!((patched.code, patched.message()), (422, refused.message()));
    let mut other = updated.clone();
    other["metadata"]["uid"] = json!("other");
    assert!(
        kit.put(&url, &other).await.message().contains("Precondition failed: UID in precondition: other")
    );
    let mut renamed = updated;
    renamed["metadata"]["name"] = json!("b");
    let refused = kit.put(&url, &renamed).await;
    assert_eq!(
        (refused.code, refused.message().as_str()),
        (400, "the name of the object (b) does not match the name on the URL (a)")
    );
    assert_eq!(kit.put(&format!("{LIST}/b"), &renamed).await.code, 404);
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_revision() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    let object = kit.widget("a", "red").await;
    assert_eq!(kit.put(&url, &object).await.json(), object);
    assert_eq!(kit.patch(&url, "merge-patch", &json!({"spec": {"colour": "red"}})).await.json(), object);
    let labelled = kit.patch(&url, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await.json();
    assert_eq!(labelled["metadata"]["generation"], 1, "metadata is no spec");
    assert_ne!(labelled["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn each_subresource_writes_only_its_own_part() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    kit.post(LIST, &json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["hold"]}})).await;
    let everything = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"size": 5, "finalizers": []}, "status": {"phase": "Ready"}});
    let through = |path: &'static str| {
        let url = format!("{url}{path}");
        let (kit, everything) = (&kit, &everything);
        async move {
            let answer = kit.patch(&url, "merge-patch", everything).await;
            assert_eq!(answer.code, 200, "{}", answer.text);
            let object = answer.json();
            (object["metadata"]["labels"].clone(), object["spec"].clone(), object["status"]["phase"].clone())
        }
    };
    let held = json!({"colour": "red", "finalizers": ["hold"]});
    assert_eq!(through("/status").await, (Value::Null, held, json!("Ready")));
    let sized = json!({"colour": "red", "size": 5, "finalizers": ["hold"]});
    assert_eq!(through("").await, (json!({"a": "b"}), sized, json!("Ready")));
    kit.patch(&format!("{url}/status"), "merge-patch", &json!({"status": {"phase": "Old"}})).await;
    let let_go = json!({"colour": "red", "size": 5, "finalizers": []});
    let (_, spec, phase) = through("/finalize").await;
    assert!(spec == let_go || spec == json!({"colour": "red", "size": 5}), "{spec}");
    assert_eq!(phase, "Old");
    let got = kit.get(&format!("{url}/status")).await.json();
    assert_eq!(got["metadata"]["generation"], 2, "only the main write changed the spec");
    assert_eq!(kit.delete(&format!("{url}/status"), &json!(null)).await.code, 405);
    assert_eq!(kit.get(&format!("{url}/scale")).await.code, 404);
}

#[tokio::test]
async fn patches_of_all_kinds_do_what_they_say() {
    let kit = Kit::start().await;
    let url = format!("{LIST}/a");
    let parts = json!([{"name": "x", "count": 1}, {"name": "y", "count": 2}]);
    kit.post(LIST, &json!({"metadata": {"name": "a"}, "spec": {"parts": parts}})).await;
    let patched = kit
        .patch(
            &url,
            "json-patch",
            &json!([
        {"op": "test", "path": "/spec/parts/0/name", "value": "x"},
        {"op": "replace", "path": "/spec/parts/0/count", "value": 5}]),
        )
        .await;
    assert_eq!(patched.code, 200, "{}", patched.text);
    let strategic = json!({"spec": {"parts": [{"name": "y", "count": 7}, {"name": "z"}]}});
    let patched = kit.patch(&url, "strategic-merge-patch", &strategic).await.json();
    let counts: Vec<&Value> =
        patched["spec"]["parts"].as_array().unwrap().iter().map(|part| &part["count"]).collect();
    assert!(counts.contains(&&json!(5)) && counts.contains(&&json!(7)), "{patched}");
    assert_eq!(counts.len(), 3);
    let failed =
        kit.patch(&url, "json-patch", &json!([{"op": "test", "path": "/spec/colour", "value": "x"}])).await;
    assert_eq!((failed.code, failed.json()["reason"].as_str()), (422, Some("Invalid")));
    let wrong = kit.patch(&url, "merge-patch", &json!({"spec": {"size": "x"}})).await;
    assert_eq!(wrong.code, 422);
    assert!(wrong.message().starts_with(" \"\" is invalid: patch: Invalid value:"), "{}", wrong.text);
    let broken = kit.ask(Method::PATCH, &url, &[("content-type", "application/merge-patch+json")], "{").await;
    assert_eq!(broken.code, 400);
    let unknown = kit.ask(Method::PATCH, &url, &[("content-type", "application/json")], "{}").await;
    assert_eq!(unknown.code, 415);
    let uid = kit.patch(&url, "merge-patch", &json!({"metadata": {"uid": "x"}})).await;
    assert_eq!(uid.code, 422);
    let stale = kit
        .patch(&url, "merge-patch", &json!({"metadata": {"resourceVersion": "1"}, "spec": {"size": 1}}))
        .await;
    assert_eq!(stale.code, 409);
    assert_eq!(kit.patch(&format!("{LIST}/b"), "merge-patch", &json!({})).await.code, 404);
}

#[tokio::test]
async fn concurrent_patches_all_get_through() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let url = format!("{LIST}/a");
    let patches = (0..20).map(|i| {
        let (kit, url) = (&kit, &url);
        async move {
            let patch = json!({"metadata": {"labels": {format!("l{i}"): "x"}}});
            kit.patch(url, "merge-patch", &patch).await.code
        }
    });
    assert!(futures_util::future::join_all(patches).await.into_iter().all(|code| code == 200));
    let object = kit.get(&url).await.json();
    assert_eq!(object["metadata"]["labels"].as_object().unwrap().len(), 20);
}

#[tokio::test]
async fn the_garbage_collector_takes_one_owner_off_the_list() {
    let kit = Kit::start().await;
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "A", "name": uid, "uid": uid});
    let owners = json!([owner("u1"), owner("u2"), owner("u1")]);
    let made = kit.post(LIST, &json!({"metadata": {"name": "a", "ownerReferences": owners}})).await;
    assert!(made.header("warning").contains("ownerReferences contains duplicate entries"));
    let uid = made.json()["metadata"]["uid"].clone();
    let patch = |uid: &Value| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u1"}], "uid": uid}});
    let url = format!("{LIST}/a");
    assert_eq!(kit.patch(&url, "strategic-merge-patch", &patch(&json!("other"))).await.code, 422);
    let left = kit.patch(&url, "strategic-merge-patch", &patch(&uid)).await;
    assert_eq!((left.code, left.json()["metadata"]["ownerReferences"].clone()), (200, json!([owner("u2")])));
}
