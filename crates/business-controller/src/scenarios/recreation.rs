//! The namespace of an object is gone, and something goes wrong while it is created again. It is the object's, whatever
//! is on record by then.

use crate::error::{CallFailure, Error};
use crate::fixtures::pending;
use crate::fixtures::server::Fault;
use crate::fixtures::world::{NAMESPACE, OBJECT, QUOTA, World};
use crate::outcome::PassOutcome;
use business_types::names::ADOPTED_ANNOTATION;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

const OURS: &str = "/apis/business.tkestack.io/";
const QUOTAS: &str = "POST /api/v1/namespaces/web/resourcequotas";
const AT_ONCE: PassOutcome = PassOutcome::WaitingFor(Duration::ZERO);

/// The namespace of an Available object is gone, in a cluster with or without the policies of deploy/member.
async fn world_without_namespace(confined: bool) -> World {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("2");
    world.pass().await.unwrap();
    if confined {
        world.server.confine();
    }
    world.server.remove(NAMESPACE);
    world.watches();
    world.calls();
    world
}

/// The namespace must not be marked as a replacement: that mark stays.
fn assert_not_replaced(world: &World) {
    let annotations = world.stored(NAMESPACE)["metadata"]["annotations"].clone();
    assert_eq!(annotations.get(ADOPTED_ANNOTATION), None::<&Value>, "{annotations}");
}

fn assert_ours(world: &World) {
    let record = json!({ "uid": world.stored(NAMESPACE)["metadata"]["uid"], "provenance": "Made" });
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"], record);
    assert_not_replaced(world);
}

#[tokio::test]
async fn it_goes_on_record_before_anything_else_that_can_fail() {
    let world = world_without_namespace(false).await;
    assert_eq!(world.pass().await.unwrap(), AT_ONCE);
    let writes: Vec<String> = world.calls().into_iter().filter(|call| !call.starts_with("GET")).collect();
    assert_eq!(
        writes,
        ["POST /api/v1/namespaces".to_owned(), QUOTAS.to_owned(), format!("PATCH {OBJECT}/status")]
    );
    assert_ours(&world);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
}

#[tokio::test]
async fn its_quota_proves_it_while_it_cannot_go_on_record() {
    for confined in [false, true] {
        let world = world_without_namespace(confined).await;
        world.server.refuse(&format!("PATCH {OBJECT}"));
        for _ in 0..2 {
            assert!(world.pass().await.is_err());
            assert_not_replaced(&world);
            world.watches();
        }
        world.server.forget_faults();
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
        assert_ours(&world);
        world.holds(&world.seen().ending());
        assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
        assert_eq!(world.server.find(NAMESPACE), None);
    }
}

#[tokio::test]
async fn its_record_proves_it_while_it_cannot_have_its_quota() {
    for confined in [false, true] {
        let world = world_without_namespace(confined).await;
        world.server.refuse(QUOTAS);
        assert_eq!(world.pass().await.unwrap(), AT_ONCE);
        assert_ours(&world);
        world.watches();
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
        assert_eq!(world.stored(OBJECT)["status"]["reason"], "Refused");
        world.server.forget_faults();
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
        assert_ours(&world);
        assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }));
    }
}

#[tokio::test(start_paused = true)]
async fn its_own_seal_proves_it_where_nobody_heard_that_it_was_made() {
    for confined in [false, true] {
        let world = world_without_namespace(confined).await;
        world.server.fault(Fault::AnswerLost);
        assert!(world.pass().await.is_err());
        assert!(world.server.find(NAMESPACE).is_some() && world.server.find(QUOTA).is_none());
        world.renews(Instant::now());
        world.watches();
        world.pass().await.unwrap();
        assert_ours(&world);
        assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }));
    }
}

/// The record was written, but the answer was lost.
#[tokio::test]
async fn a_record_that_is_not_seen_yet_keeps_nothing_from_being_ours() {
    let world = world_without_namespace(true).await;
    let before = world.seen();
    world.server.refuse(QUOTAS);
    assert_eq!(world.pass().await.unwrap(), AT_ONCE);
    world.server.forget_faults();
    world.sees(&before);
    world.watches();
    let outcome = world.pass().await.unwrap_err();
    assert!(matches!(outcome, Error::Api(CallFailure::Conflict(_))), "it is behind: {outcome:?}");
    assert_ours(&world);
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_ours(&world);
}

#[tokio::test]
async fn a_database_of_before_does_not_make_it_somebody_elses() {
    for ends in [false, true] {
        let world = world_without_namespace(true).await;
        let backup = world.server.backup(OURS);
        assert_eq!(world.pass().await.unwrap(), AT_ONCE);
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
        world.watches();
        world.server.restore(OURS, &backup);
        world.relists();
        if ends {
            world.holds(&world.seen().ending());
            assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
            assert_eq!(world.server.find(NAMESPACE), None, "it is deleted with its object");
        } else {
            assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
            assert_ours(&world);
        }
    }
}
