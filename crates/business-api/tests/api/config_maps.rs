//! Config maps: whose they are, and what they may hold.

use crate::support::World;
use http::Method;
use serde_json::{Value, json};

const MAPS: &str = "/configmaps";
const LABEL: &str = "business.tkestack.io/tenant";

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "business.tkestack.io/v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn world() -> World {
    let world = World::new().await;
    for tenant in ["acme", "globex"] {
        let made = world.admin(tenant).post(MAPS, map(&format!("cm-{tenant}"), &json!({"k": "v"}))).await;
        assert_eq!(made.expect(201)["metadata"]["labels"], json!({LABEL: tenant}));
    }
    world.operator().post(MAPS, map("ours", &json!({"a": "1"}))).await.expect(201);
    world
}

#[tokio::test]
async fn a_tenant_has_its_own_and_sees_no_others() {
    let world = world().await;
    assert_eq!(world.operator().get(MAPS).await.names(), ["cm-acme", "cm-globex", "ours"]);
    let (admin, member) = (world.admin("acme"), world.member("alice", "acme"));
    for who in [&admin, &member] {
        assert_eq!(who.get(MAPS).await.names(), ["cm-acme"]);
        let watched = who.get("/configmaps?watch=true&resourceVersion=0&timeoutSeconds=3").await.body;
        let text =
            if watched.is_string() { watched.as_str().unwrap().to_owned() } else { watched.to_string() };
        assert!(text.contains("cm-acme") && !text.contains("cm-globex") && !text.contains("ours"), "{text}");
        for name in ["cm-globex", "ours"] {
            let path = &format!("{MAPS}/{name}");
            let message = format!("configmaps.business.tkestack.io {name:?} not found");
            let missing = who.get(path).await;
            assert_eq!((missing.code, missing.message()), (404, message.as_str()));
            assert!([403, 404].contains(&who.delete(path).await.code));
            assert!([403, 404].contains(&who.patch(path, json!({"data": {"k": "taken"}})).await.code));
        }
    }
    assert_eq!(member.post(MAPS, map("mine", &json!({}))).await.code, 403, "members look");
    assert_eq!(member.delete("/configmaps/cm-acme").await.code, 403);
    admin.delete(MAPS).await.expect(200);
    assert_eq!(world.operator().get(MAPS).await.names(), ["cm-globex", "ours"]);
    assert_eq!(world.stranger().get(MAPS).await.code, 403);
}

#[tokio::test]
async fn a_tenant_cannot_give_its_label_away_nor_take_it_off() {
    let world = world().await;
    let (admin, operator) = (world.admin("acme"), world.operator());
    let path = "/configmaps/cm-acme";
    for labels in [json!({LABEL: "globex"}), json!({LABEL: null}), json!(null), json!({"team": "red"})] {
        let answer = admin.patch(path, json!({"metadata": {"labels": labels}})).await.expect(200);
        assert_eq!(answer["metadata"]["labels"][LABEL], "acme");
    }
    let put = admin.replace(path, "", |object| object["metadata"]["labels"] = json!({})).await.expect(200);
    assert_eq!(put["metadata"]["labels"], json!({LABEL: "acme"}));
    let mut stolen = map("stolen", &json!({}));
    stolen["metadata"]["labels"] = json!({LABEL: "globex"});
    let made = admin.post(MAPS, stolen).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({LABEL: "acme"}));
    // An operator gives one to a tenant, and takes it back.
    let of = |tenant: Value| json!({"metadata": {"labels": {LABEL: tenant}}});
    operator.patch("/configmaps/ours", of(json!("acme"))).await.expect(200);
    assert_eq!(admin.get("/configmaps/ours").await.code, 200);
    operator.patch("/configmaps/ours", of(Value::Null)).await.expect(200);
    assert_eq!(admin.get("/configmaps/ours").await.code, 404);
}

#[tokio::test]
async fn what_costs_no_quota_is_bounded_for_each_tenant() {
    let world = World::with_settings(&["--tenant-objects-max=3", "--tenant-bytes-max=8Ki"]).await;
    let (acme, operator) = (world.admin("acme"), world.operator());
    acme.post(MAPS, map("a", &json!({}))).await.expect(201);
    let large = json!({"k": "x".repeat(8 << 10)});
    let refused = acme.patch("/configmaps/a", json!({"data": large})).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "TenantFull");
    for name in ["b", "c"] {
        acme.post(MAPS, map(name, &json!({}))).await.expect(201);
    }
    let refused = acme.post(&format!("{MAPS}?dryRun=All"), map("d", &json!({}))).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            403,
            "configmaps.business.tkestack.io \"d\" is forbidden: tenant \"acme\" may keep 3 objects here, and 1 more would be too many"
        )
    );
    let cause = json!({
        "reason": "TenantFull", "field": "metadata.name", "message": "tenant=acme what=objects requested=1 max=3"
    });
    assert_eq!(refused.body["details"]["causes"], json!([cause]));
    // Another tenant's room is its own, an operator is not bounded, and deleting makes room.
    world.admin("globex").post(MAPS, map("e", &json!({}))).await.expect(201);
    let of_acme = json!({"metadata": {"labels": {LABEL: "acme"}}});
    operator.post(MAPS, map("f", &json!({}))).await.expect(201);
    operator.patch("/configmaps/f", of_acme).await.expect(200);
    acme.patch("/configmaps/a", json!({"data": {"k": "v"}})).await.expect(200);
    for name in ["a", "b"] {
        acme.delete(&format!("{MAPS}/{name}")).await.expect(200);
    }
    acme.post(MAPS, map("d", &json!({}))).await.expect(201);
}

#[tokio::test]
async fn keys_and_sizes_are_bounded() {
    let world = world().await;
    let operator = world.operator();
    for (data, binary, field) in [
        (json!({"a b/c": "1"}), json!({}), "data[a b/c]"),
        (json!({"": "1"}), json!({}), "data[]"),
        (json!({"..": "1"}), json!({}), "data[..]"),
        (json!({"a": "1"}), json!({"a": "AAEC"}), "data[a]"),
        (json!({"a": "x".repeat(1024 * 1024 + 1)}), json!({}), "data"),
    ] {
        let mut body = map("odd", &data);
        body["binaryData"] = binary;
        let refused = operator.post(MAPS, body).await;
        assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, field), "{field}");
    }
    let mut body = map("full", &json!({"a": "x".repeat(1024 * 1024)}));
    body["immutable"] = json!(true);
    let made = operator.post(MAPS, body).await.expect(201);
    assert!(made["immutable"].is_null());
    assert_eq!(operator.get(MAPS).await.names().len(), 4);
    assert_eq!(operator.post(MAPS, map("cm.dotted", &json!({}))).await.code, 422);
}

/// The format of the old controllers' lock: a record in an annotation, renewed by PUT against the version that was read.
#[tokio::test]
async fn a_leader_is_elected_by_an_annotation() {
    let world = world().await;
    let operator = world.operator();
    let record = |holder: &str| {
        let record = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaderTransitions": 0});
        json!({"tke/leader": record.to_string()})
    };
    assert_eq!(operator.get("/configmaps/my-lock").await.code, 404);
    let mut lock = map("my-lock", &json!(null));
    lock["metadata"]["annotations"] = record("host_a");
    let made = operator.post(MAPS, lock).await.expect(201);
    let mut renewed = made.clone();
    renewed["metadata"]["annotations"] = record("host_a2");
    let content = "application/json";
    operator.send(Method::PUT, "/configmaps/my-lock", content, Some(renewed)).await.expect(200);
    let mut late = made;
    late["metadata"]["annotations"] = record("host_b");
    assert_eq!(operator.put("/configmaps/my-lock", late).await.code, 409, "somebody was faster");
    let read = operator.get("/configmaps/my-lock").await.expect(200);
    assert!(read["metadata"]["annotations"]["tke/leader"].as_str().unwrap().contains("host_a2"));
}
