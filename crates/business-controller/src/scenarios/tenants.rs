use crate::controller::Controller as _;
use crate::fixtures::pending;
use crate::fixtures::world::World;
use crate::kinds::{ChangeSource, ObjectKey as _, RootKey};
use crate::outcome::PassOutcome;
use crate::tenant::kind::{BusinessTenant, TenantView};
use kube::api::DynamicObject;
use serde_json::json;

const TENANT: &str = "/apis/business.tkestack.io/v1/tenants/t";

fn sync_tenant(world: &World) {
    let stored: DynamicObject = serde_json::from_value(world.server.get(TENANT)).unwrap();
    let view = TenantView::decode(stored).unwrap();
    if let Some(change) = world.cx.objects.tenants.upsert(view, ChangeSource::WatchEvent) {
        BusinessTenant::changed(&world.cx, &change);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenants_status_follows_its_projects_and_namespaces() {
    let world = World::new();
    let ceiling = json!({ "clusters": { "c1": { "hard": { "pods": "5" } } } });
    world
        .server
        .put(TENANT, &json!({ "metadata": { "name": "t", "uid": "t", "generation": 1 }, "spec": ceiling }));
    sync_tenant(&world);
    let pass = async || BusinessTenant::reconcile(&world.cx, &RootKey::new(None, "t")).await.unwrap();
    assert_eq!(pass().await, PassOutcome::Applied);
    assert_eq!(world.server.get(TENANT)["status"]["observedGeneration"], 1);
    assert_eq!(pass().await, PassOutcome::Unchanged);

    let root = |pods: &str| {
        json!({
            "metadata": { "name": "p", "uid": "p" },
            "spec": { "tenantID": "t", "clusters": { "c1": { "hard": { "pods": pods } } } }, "status": {},
        })
    };
    world.knows_project(&root("6"));
    world.holds(&pending(&[("pods", "3")]));
    assert!(matches!(pass().await, PassOutcome::WaitingFor(_)), "figures wait for each other");
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    world.renews(tokio::time::Instant::now());
    assert_eq!(pass().await, PassOutcome::Applied);
    let status = world.server.get(TENANT)["status"].clone();
    assert_eq!((&status["projects"], &status["namespaces"]), (&json!(1), &json!(1)));
    assert_eq!(status["clusters"]["c1"]["used"]["pods"], "6");
    let conditions = status["conditions"].as_array().unwrap();
    let within = conditions.iter().find(|one| one["type"] == "WithinCeilings").unwrap();
    assert_eq!((&within["status"], &within["reason"]), (&json!("False"), &json!("AboveCeiling")));
    assert_eq!(world.calls().iter().filter(|call| call.contains("/tenants/t")).count(), 2);
}
