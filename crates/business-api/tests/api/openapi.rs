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
