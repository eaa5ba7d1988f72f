//! A person who is admin of a cluster's namespace, or of the whole cluster.

use crate::fixtures::pending;
use crate::fixtures::world::{NAMESPACE, OBJECT, QUOTA, World};
use crate::outcome::PassOutcome;
use business_types::names::DELETE_REPLACED_ANNOTATION;
use serde_json::{Value, json};
use tokio::time::{Duration, advance};

/// An Available object with its namespace in use.
async fn available() -> World {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("2");
    world.pass().await.unwrap();
    world
}

#[tokio::test]
async fn a_label_and_a_made_up_uid_charge_no_foreign_project() {
    let world = World::new();
    let labels = json!({ "tkestack.io/projectName": "p", "tkestack.io/namespaceName": "was-here" });
    let marks = json!({ "business.tkestack.io/uid": "6f2f2d68-52f0-4a47-9a2e-0d3f8e0a4f11" });
    let metadata = json!({ "name": "web", "uid": "w", "labels": labels, "annotations": marks });
    world.server.put(NAMESPACE, &json!({ "metadata": metadata }));
    let hard = json!({ "pods": "100000" });
    let quota =
        json!({ "metadata": metadata, "spec": { "hard": hard }, "status": { "hard": hard, "used": hard } });
    world.server.put(QUOTA, &quota);
    let comparison = world.audit().await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
    assert_eq!((comparison.unreported, comparison.strange), (0, 1), "nobody's growth waits for him");
    let stranger = &comparison.strangers[0];
    assert_eq!((stranger.namespace.as_str(), stranger.project.as_str()), ("web", "p"));
}

#[tokio::test]
async fn an_adopted_mark_of_somebody_else_releases_nothing() {
    let world = available().await;
    world.server.edit(
        NAMESPACE,
        &json!({ "metadata": { "annotations": { "business.tkestack.io/adopted": "true" } } }),
    );
    world.watches();
    world.holds(&world.seen().ending());
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.server.find(NAMESPACE), None, "it is deleted: we have made it");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
}

#[tokio::test]
async fn marks_that_are_taken_away_free_no_charge() {
    let world = available().await;
    world.server.edit(NAMESPACE, &json!({ "metadata": { "annotations": null, "labels": null } }));
    world.server.edit(QUOTA, &json!({ "metadata": { "annotations": null, "labels": null } }));
    world.holds(&world.seen().ending());
    world.watches();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.server.find(NAMESPACE), None);
    assert!(world.server.find(OBJECT).is_some());
}

#[tokio::test]
async fn marks_that_are_taken_away_are_restored() {
    let world = available().await;
    let (before, quota) = (world.stored(NAMESPACE), world.stored(QUOTA));
    world.server.edit(NAMESPACE, &json!({ "metadata": { "annotations": null, "labels": null } }));
    world
        .server
        .edit(QUOTA, &json!({ "metadata": { "annotations": null }, "spec": { "hard": { "pods": "99" } } }));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(world.stored(QUOTA)["metadata"]["annotations"], quota["metadata"]["annotations"]);
    assert_eq!(world.stored(QUOTA)["spec"], quota["spec"]);
}

/// A controller of the owner undoes our writes each time.
#[tokio::test(start_paused = true)]
async fn what_he_changes_back_each_time_is_repaired_ever_more_slowly() {
    let world = available().await;
    let changes = || {
        world.server.edit(QUOTA, &json!({ "spec": { "hard": { "pods": "99" } } }));
        world.watches();
        world.calls();
    };
    for _ in 0..2 {
        changes();
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    }
    for seconds in [1, 2] {
        changes();
        let pause = Duration::from_secs(seconds);
        let outcome = world.pass().await.unwrap();
        assert!(matches!(outcome, PassOutcome::WaitingFor(wait) if wait <= pause), "{outcome:?}");
        assert_eq!(world.calls(), [""; 0]);
        advance(pause).await;
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
        assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }));
    }
    // A change of the object does not wait for the backoff.
    changes();
    world.holds(&world.seen().asks(&[("pods", "2")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
}

#[tokio::test]
async fn a_namespace_that_he_deletes_and_makes_again_keeps_the_charge() {
    let world = available().await;
    let copied = world.stored(NAMESPACE)["metadata"].clone();
    world.server.remove(NAMESPACE);
    let mut his = copied.clone();
    his["uid"] = json!("his");
    world.server.put(NAMESPACE, &json!({ "metadata": his }));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    let status = &world.stored(OBJECT)["status"];
    assert_eq!((&status["reason"], &status["clusterNamespace"]["uid"]), (&json!("Replaced"), &copied["uid"]));
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }), "it gets the quota");
    world.watches();
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], "his");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.holds(&world.seen().annotated(DELETE_REPLACED_ANNOTATION, "his"));
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!((world.server.find(NAMESPACE), world.server.find(OBJECT)), (None, None));
}

/// The owner has made another namespace in the place of ours, in a cluster with the policies of deploy/member.
async fn replaced() -> World {
    let world = available().await;
    world.server.remove(NAMESPACE);
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "his" } }));
    world.watches();
    world.server.confine();
    world
}

/// The message of a condition of the object.
fn condition_message(world: &World, type_: &str) -> String {
    let conditions = world.stored(OBJECT)["status"]["conditions"].clone();
    let found = conditions.as_array().unwrap().iter().find(|condition| condition["type"] == type_);
    found.map(|found| found["message"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn consent_in_cluster(world: &World) {
    let consent = json!({ (DELETE_REPLACED_ANNOTATION): "his" });
    world.server.edit(NAMESPACE, &json!({ "metadata": { "annotations": consent } }));
    world.watches();
}

#[tokio::test]
async fn what_he_made_in_the_place_of_ours_gets_the_quota_under_the_policies_of_his_cluster() {
    let world = replaced().await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(OBJECT)["status"]["reason"], "Replaced");
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
}

#[tokio::test]
async fn what_he_made_in_the_place_of_ours_is_deleted_when_both_sides_have_consented() {
    let world = replaced().await;
    world.holds(&world.seen().annotated(DELETE_REPLACED_ANNOTATION, "his"));
    for _ in 0..2 {
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
        let said = condition_message(&world, "Replaced");
        assert!(said.contains("refused the deletion with 403"), "{said}");
        assert!(
            said.contains("annotating the namespace there with business.tkestack.io/delete-replaced=his")
        );
        assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], "his");
        assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }), "meanwhile it has the quota");
        world.watches();
    }
    consent_in_cluster(&world);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.server.find(NAMESPACE), None);
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::WaitingFor(Duration::ZERO));
    assert_ne!(world.stored(NAMESPACE)["metadata"]["uid"], "his", "ours is made anew");
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(condition_message(&world, "Replaced"), "");
}

#[tokio::test]
async fn what_may_be_ours_is_left_as_it_is_until_both_sides_have_consented_to_its_deletion() {
    let world = World::new();
    world.server.confine();
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "his" } }));
    world.holds(&pending(&[("pods", "3")]).ending().annotated(DELETE_REPLACED_ANNOTATION, "his"));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    let said = condition_message(&world, "Terminating");
    assert!(
        said.contains("annotating the namespace there with business.tkestack.io/delete-replaced=his"),
        "{said}"
    );
    assert!(world.stored(NAMESPACE)["metadata"]["annotations"].is_null(), "he may delete it himself");
    consent_in_cluster(&world);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!((world.server.find(NAMESPACE), world.server.find(OBJECT)), (None, None));
}

/// The pass ends with the refusal, and not as if the namespace kept changing under it.
#[tokio::test(start_paused = true)]
async fn marks_that_the_cluster_refuses_are_told() {
    let world = replaced().await;
    let label = json!({ "business.tkestack.io/off-limits": "true" });
    world.server.edit(NAMESPACE, &json!({ "metadata": { "labels": label } }));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    let status = &world.stored(OBJECT)["status"];
    assert_eq!(status["reason"], "Refused");
    assert!(status["message"].as_str().unwrap().contains("off limits"), "{status}");
    assert_eq!(status["cachedSpecHard"], json!({ "pods": "3" }));
}

#[tokio::test]
async fn a_seal_that_he_copies_to_another_namespace_proves_nothing() {
    let world = available().await;
    let (copied, quota) = (world.stored(NAMESPACE)["metadata"].clone(), world.stored(QUOTA));
    world.server.remove(NAMESPACE);
    world.server.remove(OBJECT);
    let mut his = copied;
    his["uid"] = json!("his");
    world.server.put(NAMESPACE, &json!({ "metadata": his }));
    world.server.put(QUOTA, &quota);
    let comparison = world.audit().await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>, "what was freed stays free");
    assert_eq!(comparison.strange, 1);
}

#[tokio::test]
async fn a_mark_of_a_living_object_hides_no_orphan() {
    let world = available().await;
    world.server.remove(OBJECT);
    let other = "/apis/business.tkestack.io/v1/namespaces/p/namespaces/other";
    let alive = json!({ "metadata": { "name": "other", "namespace": "p", "uid": "alive", "generation": 1 } });
    world.server.put(other, &alive);
    world
        .server
        .edit(NAMESPACE, &json!({ "metadata": { "annotations": { "business.tkestack.io/uid": "alive" } } }));
    world.audit().await;
    assert_eq!(world.project()["status"]["orphans"][0]["namespace"], "web");
}
