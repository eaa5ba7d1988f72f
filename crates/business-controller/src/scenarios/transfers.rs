use crate::controller::Controller as _;
use crate::fixtures::pending;
use crate::fixtures::server::{Link, Passage};
use crate::fixtures::world::{NAMESPACE, OBJECT, OTHER_PROJECT, QUOTA, World};
use crate::kinds::{ChangeSource, ObjectKey as _, ProjectKey, ViewChange};
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::nsemigration::kind::{EmigrationView, NsEmigration};
use crate::outcome::PassOutcome;
use business_types::access::AccessRole;
use business_types::{NamespaceTransfer, names};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const ADMINISTRATORS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/web/rolebindings/business:admin";
const MOVED: &str = "/apis/business.tkestack.io/v1/namespaces/q/namespaces/n";
const EMIGRATION: &str = "/apis/business.tkestack.io/v1/namespaces/p/nsemigrations/n";

/// A provisioned namespace in use, and another project.
async fn provisioned_world() -> World {
    let world = World::new();
    world.knows_other_project();
    world.is_born(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    world.calls();
    world
}

async fn transfer(world: &World) {
    let to = NamespaceTransfer { project: "q".into(), ..NamespaceTransfer::default() };
    let key = ProjectKey::new(Some("p"), "n");
    world.cx.business.call_subresource::<BusinessNamespace>(&key, names::TRANSFER, &to, false).await.unwrap();
    world.calls();
}

fn decoded(object: Value) -> NamespaceView {
    NamespaceView::decode(serde_json::from_value::<DynamicObject>(object).unwrap()).unwrap()
}

fn deliver_added_event(world: &World) {
    let change = world.cx.objects.namespaces.upsert(decoded(world.stored(MOVED)), ChangeSource::WatchEvent);
    BusinessNamespace::changed(&world.cx, &change.unwrap());
}

fn deliver_deleted_event(world: &World, last: &NamespaceView) {
    let change: ViewChange<_> = world.cx.objects.namespaces.remove(last).unwrap();
    BusinessNamespace::changed(&world.cx, &change);
}

/// The two events may come in either order, or only in a new list.
#[tokio::test]
async fn the_marks_follow_and_nothing_is_deleted() {
    for order in ["departure first", "arrival first", "a new list"] {
        let world = provisioned_world().await;
        let last = world.seen();
        let uid = world.stored(NAMESPACE)["metadata"]["uid"].clone();
        transfer(&world).await;
        match order {
            "departure first" => {
                deliver_deleted_event(&world, &last);
                assert!(world.cx.objects.namespaces.at_place("c1", "web").is_none());
                deliver_added_event(&world);
            }
            "arrival first" => {
                deliver_added_event(&world);
                deliver_deleted_event(&world, &last);
            }
            _ => world.relists(),
        }
        let there = world.cx.objects.namespaces.at_place("c1", "web").unwrap();
        assert_eq!(&*there.key.project, "q", "{order}");
        assert_eq!(
            world.pass().await.unwrap(),
            PassOutcome::Skipped,
            "{order}: nothing is left to do for the old key"
        );
        assert_eq!(world.pass_in("q").await.unwrap(), PassOutcome::Applied);
        let calls = [
            format!("PATCH {ADMINISTRATORS}"),
            format!("PATCH {NAMESPACE}"),
            format!("PATCH {QUOTA}"),
            format!("PATCH {MOVED}/status"),
        ];
        assert_eq!(world.calls(), calls, "{order}");
        let namespace = world.stored(NAMESPACE);
        assert_eq!(namespace["metadata"]["uid"], uid, "it is the same namespace");
        for object in [&namespace, &world.stored(QUOTA)] {
            let metadata = &object["metadata"];
            assert_eq!(metadata["labels"]["tkestack.io/projectName"], "q");
            let seal = metadata["annotations"]["business.tkestack.io/seal"].as_str().unwrap();
            assert!(seal.contains(r#""project":"q","projectUID":"project-2""#), "{seal}");
        }
        let object = decoded(world.stored(MOVED));
        assert!(object.was_transferred() && !object.is_being_transferred());
        assert_eq!(object.status.cluster_namespace, last.status.cluster_namespace, "the record goes with it");
        world.enforces("1");
        world.pass_in("q").await.unwrap();
        world.calls();
        assert_eq!(world.pass_in("q").await.unwrap(), PassOutcome::Unchanged, "{order}");
    }
}

/// Both keys are in the cache, as in the middle of a new list.
#[tokio::test]
async fn from_the_old_place_no_marks_are_written_any_more() {
    let world = provisioned_world().await;
    transfer(&world).await;
    deliver_added_event(&world);
    world.pass_in("q").await.unwrap();
    world.watches();
    let before = [world.stored(NAMESPACE), world.stored(QUOTA)];
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, PassOutcome::WaitingFor(_)), "the quota's seal is later than it: {outcome:?}");
    assert_eq!([world.stored(NAMESPACE), world.stored(QUOTA)], before);
    world.server.remove(QUOTA);
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Skipped, "without that proof, by the place alone");
    assert_eq!(world.server.find(QUOTA), None);
    assert_eq!(world.stored(NAMESPACE), before[0]);
}

/// A pass over the former key may still be running.
#[tokio::test]
async fn from_the_old_place_nobody_is_named_any_more() {
    let world = provisioned_world().await;
    world.has_members(&["alice"]);
    transfer(&world).await;
    deliver_added_event(&world);
    world.pass_in("q").await.unwrap();
    world.watches();
    drop(world.pass().await);
    assert_eq!(world.grantees(AccessRole::Edit), None, "alice is nobody in q");
    assert!(world.grantees(AccessRole::Admin).is_some());
}

/// An object whose creation was not seen may have been tried under its former key.
#[tokio::test]
async fn who_came_from_another_project_is_not_new() {
    let world = World::new();
    world.knows_other_project();
    world.is_born(&pending(&[("pods", "3")]));
    let last = world.seen();
    assert!(world.has_untried("u"));
    transfer(&world).await;
    deliver_deleted_event(&world, &last);
    deliver_added_event(&world);
    assert!(!world.has_untried("u"));
    world.pass_in("q").await.unwrap();
    assert_eq!(world.stored(NAMESPACE)["metadata"]["labels"]["tkestack.io/projectName"], "q");
}

/// A pass over the former key has a write under way when the object is moved and deleted.
#[tokio::test(start_paused = true)]
async fn nothing_is_freed_while_what_was_begun_where_it_lay_may_still_be_made() {
    let world = World::new();
    world.knows_other_project();
    world.is_born(&pending(&[("pods", "3")]));
    let last = world.seen();
    let link = Link::default();
    world.member.set_client(world.server.client_over(&link));
    link.is(Passage::Slow(Duration::from_secs(2)));
    let begun = world.pass();
    let meanwhile = async {
        sleep(Duration::from_secs(1)).await;
        link.is(Passage::Open);
        transfer(&world).await;
        deliver_deleted_event(&world, &last);
        deliver_added_event(&world);
        world.server.edit(MOVED, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
        world.catches_up();
        assert!(matches!(world.pass_in("q").await.unwrap(), PassOutcome::NotBegun(_)));
    };
    let (begun, ()) = tokio::join!(begun, meanwhile);
    assert_eq!(begun.unwrap(), PassOutcome::Skipped);
    assert_eq!(world.server.find(QUOTA), None, "what it has begun it does not go on with");
    assert!(world.server.find(NAMESPACE).is_some(), "its write came late");
    assert_eq!(world.stored(MOVED)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.watches();
    assert!(matches!(world.pass_in("q").await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.server.find(NAMESPACE), None, "it is found by its seal, and deleted");
    world.watches();
    world.pass_in("q").await.unwrap();
    assert_eq!(world.server.find(MOVED), None);
}

#[tokio::test]
async fn old_seals_charge_nobody_while_they_are_rewritten() {
    let world = provisioned_world().await;
    transfer(&world).await;
    let comparison = world.audit().await;
    assert!(comparison.missing.is_empty() && comparison.unreported == 0, "{comparison:?}");
    for project in ["/apis/business.tkestack.io/v1/projects/p", OTHER_PROJECT] {
        assert_eq!(world.stored(project)["status"].get("orphans"), None::<&Value>, "{project}");
    }
    // The raise that is lost with the database's history belongs to the new project.
    world
        .server
        .edit(MOVED, &json!({ "spec": { "hard": { "pods": "9" } }, "metadata": { "generation": 7 } }));
    world.catches_up();
    world.pass_in("q").await.unwrap();
    world.enforces("1");
    let lowered = json!({ "pods": "3" });
    let back = json!({ "spec": { "hard": lowered }, "metadata": { "generation": 6 }, "status": { "cachedSpecHard": lowered } });
    world.server.edit(MOVED, &back);
    world.audit().await;
    let told = &world.stored(OTHER_PROJECT)["status"]["orphans"];
    assert_eq!((&told[0]["state"], &told[0]["hard"]), (&json!("Ahead"), &json!({ "pods": "6" })), "{told}");
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}

/// Creates an emigration of the namespace to project q.
fn create_emigration(world: &World) {
    let uid = world.stored(OBJECT)["metadata"]["uid"].clone();
    let body = json!({
        "metadata": { "namespace": "p", "name": "n", "uid": "e" },
        "spec": { "tenantID": "", "namespace": "n", "nsShowName": "n", "destination": "q" },
        "status": { "phase": "Pending", "namespaceUID": uid },
    });
    world.server.put(EMIGRATION, &body);
}

async fn emigration_pass(world: &World) -> Result<PassOutcome, crate::error::Error> {
    let stored: DynamicObject = serde_json::from_value(world.stored(EMIGRATION)).unwrap();
    world.cx.objects.nsemigrations.upsert(EmigrationView::decode(stored).unwrap(), ChangeSource::WatchEvent);
    NsEmigration::reconcile(&world.cx, &ProjectKey::new(Some("p"), "n")).await
}

fn phase(world: &World) -> String {
    world.stored(EMIGRATION)["status"]["phase"].as_str().unwrap().to_owned()
}

/// Status and reason of its condition Ready.
fn ready(world: &World) -> (Value, Value) {
    let ready = world.stored(EMIGRATION)["status"]["conditions"][0].clone();
    assert_eq!(ready["type"], "Ready");
    (ready["status"].clone(), ready["reason"].clone())
}

#[tokio::test]
async fn an_imported_emigration_that_has_failed_is_not_ready() {
    let world = provisioned_world().await;
    create_emigration(&world);
    let why = "spec.hard[pods]: Invalid value: \"10\"";
    let failed = json!({ "phase": "Failed", "message": "it had got to OldOneDetached", "reason": why });
    world.server.edit(EMIGRATION, &json!({ "status": failed }));
    for _ in 0..2 {
        assert!(matches!(emigration_pass(&world).await.unwrap(), PassOutcome::WaitingFor(_)));
        assert_eq!(ready(&world), (json!("False"), json!("Failed")));
    }
    let status = &world.stored(EMIGRATION)["status"];
    assert_eq!((&status["phase"], &status["message"]), (&failed["phase"], &failed["message"]));
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(message, format!("it had got to OldOneDetached: {why}"));
}

#[tokio::test]
async fn an_emigration_walks_its_phases_and_goes() {
    let world = provisioned_world().await;
    create_emigration(&world);
    for expected in ["OldOneLocked", "OldOneDetached", "NewOneCreated", "OldOneTerminating"] {
        let outcome = emigration_pass(&world).await.unwrap();
        assert_eq!(
            (outcome, phase(&world).as_str()),
            (PassOutcome::WaitingFor(Duration::from_secs(1)), expected)
        );
        assert_eq!(ready(&world), (json!("False"), json!(expected)));
    }
    emigration_pass(&world).await.unwrap();
    assert_eq!(phase(&world), "OldOneTerminating", "the cluster still names the former project");
    world.server.clock.advance(31_000_000);
    let slow = emigration_pass(&world).await.unwrap();
    assert_eq!(slow, PassOutcome::WaitingFor(Duration::from_secs(15)), "that may take its time");
    world.catches_up();
    world.pass_in("q").await.unwrap();
    emigration_pass(&world).await.unwrap();
    assert_eq!(phase(&world), "Finished");
    assert_eq!(ready(&world), (json!("True"), json!("Finished")));
    assert!(matches!(emigration_pass(&world).await.unwrap(), PassOutcome::WaitingFor(_)));
    world.server.clock.advance(11_000_000);
    emigration_pass(&world).await.unwrap();
    assert!(world.server.find(EMIGRATION).is_none(), "it goes after a while");
    assert!(world.server.find(MOVED).is_some() && world.server.find(OBJECT).is_none());
}

/// A replica that takes over half-way locates the namespace.
#[tokio::test]
async fn an_emigration_whose_transfer_was_not_answered_goes_on() {
    let world = provisioned_world().await;
    create_emigration(&world);
    emigration_pass(&world).await.unwrap();
    emigration_pass(&world).await.unwrap();
    world.server.lose_transfers(true);
    assert!(emigration_pass(&world).await.is_err());
    assert_eq!(phase(&world), "OldOneDetached");
    let next = World::led_by_another(&world.server);
    emigration_pass(&next).await.unwrap();
    assert_eq!(phase(&next), "NewOneCreated");
}

/// What gets in the way.
type Obstacle = fn(&World);

#[tokio::test]
async fn an_emigration_that_cannot_be_leaves_everything_as_it_was() {
    let obstacles: [(&str, Obstacle); 5] = [
        ("destination gone", |world| drop(world.server.remove(OTHER_PROJECT))),
        ("destination full", |world| {
            drop(world.server.edit(OTHER_PROJECT, &json!({ "status": { "locked": true } })));
        }),
        ("name taken", |world| drop(world.server.put(MOVED, &json!({ "metadata": { "uid": "another" } })))),
        ("namespace deleted", |world| drop(world.server.remove(OBJECT))),
        ("another of its name", |world| {
            drop(world.server.edit(OBJECT, &json!({ "metadata": { "uid": "other" } })));
        }),
    ];
    for (what, obstacle) in obstacles {
        for passes in 0..3 {
            let world = provisioned_world().await;
            create_emigration(&world);
            for _ in 0..passes {
                emigration_pass(&world).await.unwrap();
            }
            obstacle(&world);
            let before = world.server.find(OBJECT);
            for _ in 0..4 {
                emigration_pass(&world).await.unwrap();
            }
            let status = &world.stored(EMIGRATION)["status"];
            assert_eq!(phase(&world), "Failed", "{what} after {passes}: {status}");
            assert!(
                !status["reason"].as_str().unwrap().is_empty() && status["message"].is_string(),
                "{status}"
            );
            assert_eq!(ready(&world), (json!("False"), status["reason"].clone()), "{what}");
            assert_eq!(world.server.find(OBJECT), before, "{what}");
        }
    }
    let world = provisioned_world().await;
    create_emigration(&world);
    world.server.remove(OTHER_PROJECT);
    emigration_pass(&world).await.unwrap();
    assert!(
        matches!(emigration_pass(&world).await.unwrap(), PassOutcome::WaitingFor(_)),
        "it stays to be read"
    );
    world.server.remove("/apis/business.tkestack.io/v1/projects/p");
    emigration_pass(&world).await.unwrap();
    assert!(world.server.find(EMIGRATION).is_none(), "and goes with its project");
}
