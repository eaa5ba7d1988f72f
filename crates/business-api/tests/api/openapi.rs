//! The shapes of our kinds, as the console's types are generated from them.

use crate::support::World;
use serde_json::json;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/output/openapi.json");

#[tokio::test]
async fn the_consoles_types_are_the_servers() {
    let world = World::new().await;
    let document = world.operator().get("/openapi/v3/apis/business.tkestack.io/v1").await.expect(200);
    let shapes = json!({
        "openapi": document["openapi"], "info": {"title": "business", "version": "v1"}, "paths": {},
        "components": {"schemas": document["components"]["schemas"]},
    });
    let shapes = format!("{shapes:#}\n");
    if std::env::var_os("UPDATE_OUTPUT").is_some() {
        std::fs::write(FILE, &shapes).unwrap();
    }
    let recorded = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(shapes == recorded, "the shapes changed; record them with UPDATE_OUTPUT=1, and build web/ anew");
}

#[tokio::test]
async fn kinds_with_a_budget_for_each_cluster_offer_no_strategic_merge() {
    let world = World::new().await;
    let document = world.operator().get("/openapi/v3/apis/business.tkestack.io/v1").await.expect(200);
    for (path, is_offered) in [
        ("projects/{name}", false),
        ("projects/{name}/status", false),
        ("tenants/{name}", false),
        ("tenants/{name}/status", false),
        ("memberclusters/{name}", false),
        ("memberclusters/{name}/capacity", false),
        ("namespaces/{namespace}/namespaces/{name}", true),
        ("platforms/{name}", true),
    ] {
        let patch = &document["paths"][format!("/apis/business.tkestack.io/v1/{path}")]["patch"];
        let types = patch["requestBody"]["content"].as_object().expect(path);
        assert_eq!(types.contains_key("application/strategic-merge-patch+json"), is_offered, "{path}");
        assert!(types.contains_key("application/merge-patch+json"), "{path}");
    }
}

/// Clients with types made from the document refuse an answer that it does not allow, and ask for what it requires.
#[tokio::test]
async fn what_is_left_out_and_what_is_null_is_said() {
    let world = World::new().await;
    let document = world.operator().get("/openapi/v3/apis/business.tkestack.io/v1").await.expect(200);
    let shape = |name: &str| &document["components"]["schemas"][format!("io.tkestack.business.v1.{name}")];
    assert_eq!(shape("NsEmigrationSpec")["required"], json!(["destination", "namespace"]));
    assert!(world.operator().get("/portal").await.expect(200)["extension"].is_null());
    assert_eq!(shape("Portal")["properties"]["extension"]["nullable"], true);
}
