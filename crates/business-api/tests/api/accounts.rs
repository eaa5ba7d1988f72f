//! The charge of a namespace: who may raise it, who may lower it, and what remains when somebody gives up.

use crate::support::{Client, World, namespace, namespaces, project};
use serde_json::{Value, json};

const PATH: &str = "/namespaces/p/namespaces/c1-a";

async fn charged(hard: Value) -> (World, Client, Client) {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("a", hard)).await.expect(201);
    (world, admin, operator)
}

#[tokio::test]
async fn each_endpoint_writes_its_own_part_only() {
    let (_world, admin, operator) = charged(json!({"pods": "1"})).await;
    let all = |object: &mut Value| {
        object["metadata"]["labels"] = json!({"by": "everybody"});
        object["spec"]["hard"] = json!({"pods": "2"});
        object["spec"]["finalizers"] = json!(["namespace", "more"]);
        object["status"]["phase"] = json!("Available");
    };
    let before = admin.get(PATH).await.expect(200);
    let by_status = operator.replace(PATH, "/status", all).await.expect(200);
    assert_eq!(
        (&by_status["spec"]["hard"], &by_status["status"]["phase"]),
        (&json!({"pods": "1"}), &json!("Available"))
    );
    assert_eq!(by_status["spec"]["finalizers"], json!(["namespace"]));
    assert_eq!(by_status["metadata"]["generation"], before["metadata"]["generation"]);
    let by_finalize = operator.replace(PATH, "/finalize", all).await.expect(200);
    assert_eq!(by_finalize["spec"]["finalizers"], json!(["namespace", "more"]));
    assert_eq!(by_finalize["spec"]["hard"], json!({"pods": "1"}));
    assert_eq!(by_finalize["metadata"]["labels"], Value::Null);
    let by_main = admin.replace(PATH, "", |object| {
        all(object);
        object["spec"]["finalizers"] = json!([]);
        object["status"] = json!({"phase": "Failed", "cachedSpecHard": {}});
    });
    let by_main = by_main.await.expect(200);
    assert_eq!(by_main["spec"]["hard"], json!({"pods": "2"}));
    assert_eq!(by_main["spec"]["finalizers"], json!(["namespace", "more"]));
    assert_eq!(by_main["status"]["phase"], "Available");
    assert_eq!(by_main["status"]["cachedSpecHard"], json!({"pods": "2"}), "raised by the server");
    assert_eq!(by_main["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_status_sent_with_a_create_is_dropped() {
    let (_world, admin, _operator) = charged(json!({"pods": "1"})).await;
    let mut body = namespace("b", json!({"pods": "2"}));
    body["status"] = json!({"phase": "Available", "cachedSpecHard": {}, "used": {"pods": "1"}});
    let made = admin.post(&namespaces("p"), body).await.expect(201);
    let status = json!({"phase": "Pending", "observedGeneration": 0, "cachedSpecHard": {"pods": "2"}});
    assert_eq!(made["status"], status);
}

#[tokio::test]
async fn a_key_that_is_given_up_is_charged_until_that_is_confirmed() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "1", "services": "3"}))).await.expect(201);
    let lowered = admin.patch(PATH, json!({"spec": {"hard": {"services": null}}})).await.expect(200);
    assert_eq!(lowered["status"]["cachedSpecHard"], json!({"pods": "1", "services": "3"}));
    let confirmed = operator.replace(PATH, "/status", |object| {
        object["status"]["observedGeneration"] = json!(2);
        object["status"]["cachedSpecHard"] = json!({"pods": "1"});
    });
    assert_eq!(confirmed.await.expect(200)["status"]["cachedSpecHard"], json!({"pods": "1"}));
    world.assert_books_agree().await;
}

#[tokio::test]
async fn finalizing_by_hand_refunds_nothing_that_is_not_confirmed() {
    let (world, admin, operator) = charged(json!({"pods": "6"})).await;
    let drop = |object: &mut Value| object["spec"]["finalizers"] = json!([]);
    assert_eq!(operator.replace(PATH, "/finalize", drop).await.code, 409, "not even deleted");
    admin.delete(PATH).await.expect(200);
    let refused = operator.replace(PATH, "/finalize", drop).await;
    assert_eq!(refused.code, 409, "{}", refused.message());
    let over = admin.post(&namespaces("p"), namespace("b", json!({"pods": "5"}))).await;
    assert_eq!(over.code, 403, "a namespace that is being deleted is charged");

    let reason =
        json!({"metadata": {"annotations": {"business.tkestack.io/abandon": "the cluster burnt down"}}});
    operator.patch(PATH, reason).await.expect(200);
    operator.replace(PATH, "/finalize", drop).await.expect(200);
    assert_eq!(operator.get(PATH).await.code, 404);
    let over = admin.post(&namespaces("p"), namespace("b", json!({"pods": "5"}))).await;
    assert_eq!(over.code, 403, "what is given up still counts: {:#}", over.body);
    let again = admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await;
    assert_eq!(again.code, 409, "and keeps its place in the cluster: {:#}", again.body);
    assert_eq!(again.causes(), [("ClaimTaken".to_owned(), "spec.namespace".to_owned())]);
    world.assert_books_agree().await;
}

/// A finalizer of the tenant's keeps the object after the operator has given its charge up.
#[tokio::test]
async fn what_is_given_up_counts_whoever_removes_the_last_finalizer() {
    let (world, admin, operator) = charged(json!({"pods": "6"})).await;
    admin.patch(PATH, json!({"metadata": {"finalizers": ["example.com/somebody"]}})).await.expect(200);
    admin.delete(PATH).await.expect(200);
    operator.post(&format!("{PATH}/abandon"), json!({"reason": "the cluster burnt down"})).await.expect(201);
    let drop = |object: &mut Value| object["spec"]["finalizers"] = json!([]);
    operator.replace(PATH, "/finalize", drop).await.expect(200);
    admin.patch(PATH, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(admin.get(PATH).await.code, 404);
    let over = admin.post(&namespaces("p"), namespace("b", json!({"pods": "5"}))).await;
    assert_eq!(over.code, 403, "what is given up still counts: {:#}", over.body);
    let again = admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await;
    assert_eq!(again.code, 409, "and keeps its place in the cluster: {:#}", again.body);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn two_objects_never_share_a_clusters_namespace() {
    let (world, _admin, _operator) = charged(json!({"pods": "1"})).await;
    let other = world.admin("u");
    other.post("/projects", project("q", json!({"pods": "10"}))).await.expect(201);
    let mut body = namespace("a", json!({"pods": "1"}));
    body["metadata"]["name"] = json!("another-name");
    let refused = other.post(&namespaces("q"), body).await;
    assert_eq!((refused.code, refused.body["reason"].as_str()), (409, Some("Conflict")));
    let text = refused.body.to_string();
    assert!(!text.contains("\"t\"") && !text.contains("\"p\"") && !text.contains("c1-a"), "{text}");
    world.assert_books_agree().await;
}

#[tokio::test]
async fn budget_is_made_by_administrators_and_operators_only() {
    let (world, admin, operator) = charged(json!({"pods": "1"})).await;
    let raise = json!({"spec": {"clusters": {"c1": {"hard": {"pods": "11"}}}}});
    admin.patch("/projects/p", raise).await.expect(200);
    let alice = world.member("alice", "t");
    let refused = alice.post("/projects", project("mine", json!({}))).await;
    assert_eq!(refused.code, 403);
    let mut body = project("top", json!({"pods": "5"}));
    body["spec"]["tenantID"] = json!("t");
    operator.post("/projects", body).await.expect(201);
    let attach = json!({"spec": {"parentProjectName": "p"}});
    admin.patch("/projects/top", attach).await.expect(200);
    admin.patch("/projects/top", json!({"spec": {"parentProjectName": null}})).await.expect(200);
    world.assert_books_agree().await;
}
