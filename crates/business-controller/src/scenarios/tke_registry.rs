use crate::controller::Controller as _;
use crate::fixtures::server::Server;
use crate::fixtures::world::{World, times};
use crate::kinds::{ChangeSource, Kind, ObjectKey as _, ProjectKey, View};
use crate::objects::RegisteredKind;
use crate::outcome::PassOutcome;
use crate::registry::backend::Backend;
use crate::registry::kind::{BusinessChartGroup as Charts, BusinessImageNamespace as Images};
use crate::registry::tke::TkeRegistry;
use business_types::{RegistrySpec, RegistryStatus, names};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::{Instant, sleep};

const NAMESPACES: &str = "/apis/registry.tkestack.io/v1/namespaces";
const GROUP: &str = "/apis/registry.tkestack.io/v1/chartgroups/chartgroup-1";

/// A controller with TKE's registry, which the same server simulates.
fn world() -> World {
    let server = Server::default();
    let client = server.client();
    World::with_registry(&server, |fence| {
        Some(Box::new(TkeRegistry::with_client(client, Arc::clone(fence))) as Box<dyn Backend>)
    })
}

fn path<K: Kind>(project: &str) -> String {
    format!("/apis/business.tkestack.io/v1/namespaces/{project}/{}/web", K::PLURAL)
}

/// Puts `t/web` of a project into the API, and delivers it to the controller.
fn put_object<K: Kind<Spec = RegistrySpec, Status = RegistryStatus, Key = ProjectKey> + RegisteredKind>(
    world: &World,
    project: &str,
    token: &str,
) {
    let spec = json!({"finalizers": [token], "name": "web", "tenantID": "t", "displayName": "Web"});
    let metadata =
        json!({"namespace": project, "name": "web", "uid": format!("u-{project}"), "generation": 1});
    world.server.put(
        &path::<K>(project),
        &json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "observedGeneration": 0}}),
    );
    sync::<K>(world, project);
}

fn sync<K: Kind + RegisteredKind>(world: &World, project: &str) {
    if let Some(stored) = world.server.find(&path::<K>(project)) {
        let stored: DynamicObject = serde_json::from_value(stored).unwrap();
        K::cache(&world.cx.objects).upsert(View::decode(stored).unwrap(), ChangeSource::WatchEvent);
    }
}

async fn image_pass(world: &World, project: &str) -> PassOutcome {
    let outcome = Images::reconcile(&world.cx, &ProjectKey::new(Some(project), "web")).await.unwrap();
    sync::<Images>(world, project);
    outcome
}

async fn chart_pass(world: &World, project: &str) -> PassOutcome {
    let outcome = Charts::reconcile(&world.cx, &ProjectKey::new(Some(project), "web")).await.unwrap();
    sync::<Charts>(world, project);
    outcome
}

fn mark_deleted<K: Kind + RegisteredKind>(world: &World, project: &str) {
    let patch = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Terminating"}});
    world.server.edit(&path::<K>(project), &patch);
    sync::<K>(world, project);
}

fn status<K: Kind>(world: &World, project: &str) -> Value {
    world.stored(&path::<K>(project))["status"].clone()
}

/// The registry's namespace and its path.
fn in_registry(world: &World) -> Option<(String, Value)> {
    let found = world.server.list(NAMESPACES).into_iter().next()?;
    Some((format!("{NAMESPACES}/{}", found["metadata"]["name"].as_str().unwrap()), found))
}

#[tokio::test]
async fn a_namespace_of_the_registry_is_made_followed_and_removed_by_its_uid() {
    let world = world();
    put_object::<Images>(&world, "p", "imagenamespace");
    image_pass(&world, "p").await;
    let (at, made) = in_registry(&world).unwrap();
    assert_eq!(made["spec"], json!({"name": "web", "tenantID": "t", "displayName": "Web"}));
    let annotations = json!({"projectName": "p", names::UID_ANNOTATION: "u-p"});
    assert_eq!(made["metadata"]["annotations"], annotations);
    let record = json!({"backend": "TKE", "provenance": "Made", "uid": made["metadata"]["uid"]});
    assert_eq!(
        (&status::<Images>(&world, "p")["phase"], &status::<Images>(&world, "p")["registry"]),
        (&json!("Available"), &record)
    );

    world.server.edit(&at, &json!({"status": {"locked": true}}));
    image_pass(&world, "p").await;
    assert_eq!(
        (&status::<Images>(&world, "p")["phase"], &status::<Images>(&world, "p")["reason"]),
        (&json!("Locked"), &json!("LockedInRegistry"))
    );
    world.server.edit(&at, &json!({"status": {"locked": false}}));
    image_pass(&world, "p").await;
    assert_eq!(status::<Images>(&world, "p")["phase"], "Available");

    world.server.remove(&at);
    image_pass(&world, "p").await;
    let (_, again) = in_registry(&world).unwrap();
    assert_eq!(status::<Images>(&world, "p")["registry"]["uid"], again["metadata"]["uid"], "made anew");

    mark_deleted::<Images>(&world, "p");
    image_pass(&world, "p").await;
    assert!(in_registry(&world).is_none() && world.server.find(&path::<Images>("p")).is_some());
    image_pass(&world, "p").await;
    assert!(world.server.find(&path::<Images>("p")).is_none());
}

#[tokio::test]
async fn a_failed_one_takes_nothing_of_another_projects_along() {
    let world = world();
    put_object::<Images>(&world, "p", "imagenamespace");
    image_pass(&world, "p").await;
    put_object::<Images>(&world, "q", "imagenamespace");
    assert_eq!(image_pass(&world, "q").await, PassOutcome::Refused);
    assert_eq!(status::<Images>(&world, "q")["phase"], "Failed");
    mark_deleted::<Images>(&world, "q");
    image_pass(&world, "q").await;
    assert!(world.server.find(&path::<Images>("q")).is_none());
    assert!(in_registry(&world).is_some(), "it is the other project's");
}

#[tokio::test]
async fn what_was_made_without_a_record_is_found_by_the_uid_of_its_object() {
    let world = world();
    put_object::<Images>(&world, "p", "imagenamespace");
    image_pass(&world, "p").await;
    // The answer was lost: nothing is on record.
    world.server.edit(&path::<Images>("p"), &json!({"status": {"registry": null, "phase": "Pending"}}));
    sync::<Images>(&world, "p");
    mark_deleted::<Images>(&world, "p");
    image_pass(&world, "p").await;
    assert!(in_registry(&world).is_none());
    image_pass(&world, "p").await;
    assert!(world.server.find(&path::<Images>("p")).is_none());
}

#[tokio::test]
async fn what_the_old_controller_made_for_the_project_is_taken_over() {
    let world = world();
    let old = json!({
        "metadata": {"uid": "old", "annotations": {"projectName": "p"}},
        "spec": {"name": "web", "tenantID": "t"}, "status": {"locked": true},
    });
    world.server.put(&format!("{NAMESPACES}/ns-1"), &old);
    put_object::<Images>(&world, "p", "imagenamespace");
    assert_eq!(image_pass(&world, "p").await, PassOutcome::Refused, "it is new, and was nobody's");
    world.server.edit(&path::<Images>("p"), &json!({"status": {"phase": "Locked"}}));
    sync::<Images>(&world, "p");
    image_pass(&world, "p").await;
    let status = status::<Images>(&world, "p");
    assert_eq!(status["registry"], json!({"backend": "TKE", "provenance": "Adopted", "uid": "old"}));
    assert_eq!(
        (&status["phase"], &status["locked"]),
        (&json!("Locked"), &Value::Null),
        "the registry has the lock"
    );
}

#[tokio::test]
async fn what_was_imported_takes_its_content_along_also_if_no_registry_was_there_at_first() {
    let world = world();
    let old = json!({
        "metadata": {"uid": "old", "annotations": {"projectName": "p"}},
        "spec": {"name": "web", "tenantID": "t"},
    });
    world.server.put(&format!("{NAMESPACES}/ns-1"), &old);
    put_object::<Images>(&world, "p", "imagenamespace");
    let imported = json!({"status": {"phase": "Available", "observedGeneration": null}});
    world.server.edit(&path::<Images>("p"), &imported);
    let without_registry = World::at(&world.server);
    sync::<Images>(&without_registry, "p");
    image_pass(&without_registry, "p").await;
    assert_eq!(status::<Images>(&world, "p")["conditions"][0]["reason"], "NoRegistry");
    mark_deleted::<Images>(&without_registry, "p");
    for _ in 0..2 {
        image_pass(&without_registry, "p").await;
        assert_eq!(status::<Images>(&world, "p")["reason"], "NoRegistry", "it waits");
    }
    sync::<Images>(&world, "p");
    image_pass(&world, "p").await;
    assert!(in_registry(&world).is_none());
    image_pass(&world, "p").await;
    assert!(world.server.find(&path::<Images>("p")).is_none());
}

#[tokio::test]
async fn a_chart_group_is_the_projects_that_it_lists() {
    let world = world();
    put_object::<Charts>(&world, "p", "chartgroup");
    assert_eq!(chart_pass(&world, "p").await, PassOutcome::Refused, "there is none");
    let group =
        json!({"metadata": {"uid": "g"}, "spec": {"name": "web", "tenantID": "t", "projects": ["other"]}});
    world.server.put(GROUP, &group);
    assert_eq!(chart_pass(&world, "p").await, PassOutcome::Refused, "it does not list the project");
    world.server.edit(GROUP, &json!({"spec": {"projects": ["other", "p"]}}));
    chart_pass(&world, "p").await;
    assert_eq!(status::<Charts>(&world, "p")["phase"], "Available");
    mark_deleted::<Charts>(&world, "p");
    chart_pass(&world, "p").await;
    assert_eq!(world.stored(GROUP)["spec"]["projects"], json!(["other"]));
    chart_pass(&world, "p").await;
    assert!(world.server.find(&path::<Charts>("p")).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_former_holder_may_still_make_is_waited_for_and_removed() {
    let world = world();
    put_object::<Images>(&world, "p", "imagenamespace");
    mark_deleted::<Images>(&world, "p");
    world.acquires(Instant::now(), false);
    let begun = Instant::now();
    let is_there = || world.server.find(&path::<Images>("p")).is_some();
    assert!(matches!(image_pass(&world, "p").await, PassOutcome::WaitingFor(_)));
    sleep(times().lease_duration).await;
    // It was sent at the last moment, and its answer was lost.
    let late = json!({
        "metadata": {"uid": "late", "annotations": {"projectName": "p", names::UID_ANNOTATION: "u-p"}},
        "spec": {"name": "web", "tenantID": "t"},
    });
    world.server.put(&format!("{NAMESPACES}/ns-1"), &late);
    while is_there() {
        world.renews(Instant::now());
        let PassOutcome::WaitingFor(wait) = image_pass(&world, "p").await else { continue };
        sleep(wait).await;
    }
    assert!(in_registry(&world).is_none());
    assert!(begun.elapsed() >= times().lease_duration + times().write_deadline);
}
