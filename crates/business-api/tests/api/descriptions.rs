//! What the server says of a namespace's cluster: one and the same in every answer, whatever clients send.

use crate::support::{Answer, World, member_cluster, namespace, namespaces, project, until};
use http::Method;
use serde_json::{Value, json};

const PATH: &str = "/namespaces/p/namespaces/c1-a";

async fn directory(world: &World, version: &str) {
    let mut cluster = member_cluster("c1", &["*"]);
    cluster["spec"]["displayName"] = json!("Cluster one");
    cluster["spec"]["type"] = json!("Imported");
    world.register(cluster, json!({"version": version})).await;
}

async fn world() -> World {
    let world = World::new().await;
    directory(&world, "v1").await;
    world.admin("t").post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    world
}

fn version(object: &Value) -> &str {
    object["spec"]["clusterVersion"].as_str().unwrap_or_default()
}

/// The objects of a watch that begins with a state, by its lines.
async fn watched(world: &World) -> Vec<Value> {
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=3";
    let answer = world.admin("t").get(&format!("/namespaces?{query}")).await;
    let text = match &answer.body {
        Value::String(text) => text.clone(),
        one => one.to_string(),
    };
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| event["object"].clone()).collect()
}

#[tokio::test]
async fn every_answer_says_the_same_and_what_was_read_changes_nothing() {
    let world = world().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let mut body = namespace("a", json!({"pods": "1"}));
    body["spec"]["clusterVersion"] = json!("mine");
    let made = admin.post(&namespaces("p"), body).await.expect(201);
    assert_eq!(version(&made), "v1");
    let read = admin.get(PATH).await.expect(200);
    assert_eq!(read, made);
    assert_eq!(watched(&world).await, std::slice::from_ref(&read));
    assert_eq!(admin.get(&namespaces("p")).await.body["items"][0]["spec"], read["spec"]);
    let same = |what: &str, answer: Answer| assert_eq!(answer.expect(200), read, "{what}");
    for subresource in ["/status", "/finalize"] {
        same(subresource, operator.get(&format!("{PATH}{subresource}")).await);
        same(subresource, operator.put(&format!("{PATH}{subresource}"), read.clone()).await);
    }
    same("put", admin.put(PATH, read.clone()).await);
    same("an empty patch", admin.patch(PATH, json!({})).await);
    same(
        "a patch of what it is not his to say",
        admin.patch(PATH, json!({"spec": {"clusterType": "mine"}})).await,
    );
    same("nor to remove", admin.patch(PATH, json!({"spec": {"clusterDisplayName": null}})).await);
    let applied = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Namespace", "metadata": {"name": "c1-a"},
        "spec": {"clusterName": "c1", "namespace": "a", "hard": {"pods": "1"}, "clusterVersion": "mine"},
    });
    let apply = async |body: &Value| {
        let path = format!("{PATH}?fieldManager=gitops&force=true");
        admin.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(body.clone())).await.expect(200)
    };
    let first = apply(&applied).await;
    assert_eq!(first["spec"], read["spec"]);
    assert_eq!(apply(&applied).await, first, "no change");
}

#[tokio::test]
async fn a_new_description_comes_with_a_status_and_is_no_change_of_the_spec() {
    let world = world().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let made = admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.expect(201);
    directory(&world, "v2").await;
    let unchanged = admin.put(PATH, made.clone()).await.expect(200);
    assert_eq!(unchanged, made, "what was read changes nothing");
    let labelled = admin.patch(PATH, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!((version(&labelled), &labelled["metadata"]["generation"]), ("v1", &json!(1)));
    let touch = async || operator.patch(&format!("{PATH}/status"), json!({})).await.expect(200);
    until("the new version is known", async || version(&touch().await) == "v2").await;
    let touched = touch().await;
    assert_eq!((version(&touched), &touched["metadata"]["generation"]), ("v2", &json!(1)));
    assert_ne!(touched["metadata"]["resourceVersion"], labelled["metadata"]["resourceVersion"]);
    assert_eq!(admin.get(PATH).await.expect(200), touched);
    assert_eq!(watched(&world).await, std::slice::from_ref(&touched));
    assert_eq!(operator.patch(&format!("{PATH}/status"), json!({})).await.expect(200), touched, "once");
    let raised = admin.patch(PATH, json!({"spec": {"hard": {"pods": "2"}}})).await.expect(200);
    assert_eq!((version(&raised), &raised["metadata"]["generation"]), ("v2", &json!(2)));
}
