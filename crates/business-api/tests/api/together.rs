//! Namespaces that an operator creates together: all of them, or none.

use crate::support::{World, namespace, project};
use serde_json::{Value, json};

const ALL: &str = "/namespaces";

fn list(items: &[(&str, &str, u32)]) -> Value {
    let items = items.iter().map(|(project, name, pods)| {
        let mut item = namespace(name, json!({"pods": pods.to_string()}));
        item["metadata"] =
            json!({"namespace": project, "annotations": {"business.tkestack.io/adopt": "true"}});
        item
    });
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceList", "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

#[tokio::test]
async fn all_are_created_or_none_and_each_refusal_has_its_place() {
    let world = World::new().await;
    let operator = world.operator();
    for name in ["p", "q"] {
        let mut body = project(name, json!({"pods": "5"}));
        body["spec"]["tenantID"] = json!("t");
        operator.post("/projects", body).await.expect(201);
    }
    let too_much = list(&[("p", "a", 3), ("p", "b", 3), ("q", "c", 1), ("nowhere", "d", 1)]);
    let refused = operator.post(ALL, too_much).await;
    assert_eq!(refused.code, 422, "{:#}", refused.body);
    let fields: Vec<String> = refused.causes().into_iter().map(|(_, field)| field).collect();
    assert_eq!(fields.len(), 2, "{:#}", refused.body);
    assert_eq!(fields[0], "items[1].spec.hard[pods]");
    assert!(fields[1].starts_with("items[3]"), "{fields:?}");
    assert!(
        refused.message().starts_with("none of 4 objects is created; items[1]: "),
        "{}",
        refused.message()
    );
    assert_eq!(operator.get(ALL).await.names(), [""; 0]);

    let good = list(&[("p", "a", 3), ("q", "b", 5)]);
    let rehearsed = operator.post(&format!("{ALL}?dryRun=All"), good.clone()).await.expect(201);
    assert_eq!(rehearsed["items"].as_array().unwrap().len(), 2);
    assert_eq!(operator.get(ALL).await.names(), [""; 0]);
    let created = operator.post(ALL, good.clone()).await.expect(201);
    assert_eq!(created["items"][1]["spec"]["tenantID"], "t", "its project's");
    assert_eq!(operator.get(ALL).await.names(), ["c1-a", "c1-b"]);
    assert_eq!(operator.post(ALL, good).await.code, 409, "they are there");
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_is_no_such_list_is_refused_and_so_are_tenants() {
    let world = World::new().await;
    let operator = world.operator();
    let mut wrong = list(&[]);
    wrong["kind"] = json!("Namespace");
    assert_eq!(operator.post(ALL, wrong).await.code, 400);
    for empty in [json!({"kind": "NamespaceList"}), json!({"kind": "NamespaceList", "items": []})] {
        assert_eq!(operator.post(ALL, empty).await.code, 400);
    }
    let many: Vec<(&str, &str, u32)> = vec![("p", "a", 1); 1001];
    assert_eq!(operator.post(ALL, list(&many)).await.code, 413);
    operator.post("/projects", project("p", json!({"pods": "5"}))).await.expect(201);
    let twice = operator.post(ALL, list(&[("p", "a", 1), ("p", "a", 1)])).await;
    assert_eq!(twice.code, 409, "{:#}", twice.body);
    let malformed = operator.post(ALL, list(&[("p", "kube-system", 1)])).await;
    assert_eq!(malformed.causes()[0].1, "items[0].spec.namespace", "{:#}", malformed.body);
    for tenant in [world.admin("t"), world.member("ann", "t")] {
        assert_eq!(tenant.post(ALL, list(&[("p", "a", 1)])).await.code, 403);
    }
    assert_eq!(operator.post("/projects", json!({"kind": "ProjectList", "items": []})).await.code, 400);
}
