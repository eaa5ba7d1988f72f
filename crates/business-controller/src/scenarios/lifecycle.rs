use crate::error::{CallFailure, Error};
use crate::fixtures::server::{BEGINNING, DEAD_WEBHOOK, Fault, KUBE_SYSTEM};
use crate::fixtures::world::{BINDINGS, NAMESPACE, OBJECT, QUOTA, World, times};
use crate::fixtures::{CLUSTER_UID, amounts, pending};
use crate::member::Reach;
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::namespace::problem::NamespaceProblem;
use crate::outcome::PassOutcome;
use crate::seal::key_manager::KeyManager;
use crate::shares::lease::Leases;
use business_types::Provenance;
use business_types::condition::{QUOTA_ENFORCED, TERMINATING, find};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, advance};

const NOTHING: [&str; 0] = [];

#[tokio::test]
async fn a_new_namespace_costs_four_calls_and_then_none() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    let status = format!("PATCH {OBJECT}/status");
    let quotas = format!("POST {NAMESPACE}/resourcequotas");
    let bindings = format!("POST {BINDINGS}");
    assert_eq!(
        world.calls(),
        ["POST /api/v1/namespaces", quotas.as_str(), bindings.as_str(), status.as_str()]
    );
    let made = world.stored(NAMESPACE)["metadata"]["uid"].clone();
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(
        world.stored(OBJECT)["status"]["clusterNamespace"],
        json!({ "uid": made, "provenance": "Made" })
    );
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
    assert_eq!(world.calls(), NOTHING);
    world.enforces("0");
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.calls(), [status]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
    assert_eq!(world.calls(), NOTHING);
}

#[tokio::test]
async fn in_a_quiet_time_the_namespace_is_sealed_with_its_uid() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("0");
    world.pass().await.unwrap();
    world.calls();
    world.server.clock.advance(61_000_000);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.calls(), [format!("PATCH {NAMESPACE}")]);
    let there = world.stored(NAMESPACE);
    let seal = there["metadata"]["annotations"]["business.tkestack.io/seal"].as_str().unwrap();
    assert!(seal.contains(&format!(r#""namespaceUID":{}"#, there["metadata"]["uid"])), "{seal}");
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
}

/// The charge of the namespace.
fn charge(world: &World) -> Value {
    world.stored(OBJECT)["status"]["cachedSpecHard"].clone()
}

/// Reason and message of the condition `QuotaEnforced`.
fn quota_condition(world: &World) -> (String, String) {
    let status = world.seen().status;
    let condition = find(&status.conditions, QUOTA_ENFORCED).unwrap();
    (condition.reason.clone(), condition.message.clone())
}

/// Advances the clock by minutes, and renews the lease.
async fn advance_minutes(world: &World, minutes: u64) {
    advance(Duration::from_mins(minutes)).await;
    world.renews(Instant::now());
}

/// A namespace with 9 pods that was lowered to 2, with this many in use.
async fn lowered_with(used: &str) -> World {
    let world = World::new();
    world.holds(&pending(&[("pods", "9")]));
    world.pass().await.unwrap();
    world.enforces(used);
    world.pass().await.unwrap();
    world.holds(&world.seen().asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
    assert_eq!(charge(&world), json!({ "pods": "9" }));
    world
}

#[tokio::test(start_paused = true)]
async fn lowering_is_written_first_and_refunded_when_the_cluster_counts_with_it() {
    let world = lowered_with("5").await;
    world.enforces("5");
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(charge(&world), json!({ "pods": "5" }), "still in use");
    advance_minutes(&world, 6).await;
    world.enforces("1");
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(charge(&world), json!({ "pods": "2" }));
}

#[tokio::test]
async fn what_was_not_in_use_is_refunded_as_soon_as_the_cluster_counts_with_less() {
    for used in ["0", "2"] {
        let world = lowered_with(used).await;
        world.enforces(used);
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
        assert_eq!(charge(&world), json!({ "pods": "2" }));
        assert_eq!(quota_condition(&world).0, "Enforced");
    }
}

/// Pods that were admitted a moment before may be missing when the lower quota is first counted.
#[tokio::test(start_paused = true)]
async fn what_was_in_use_when_it_was_lowered_is_charged_until_the_cluster_has_counted_anew() {
    let world = lowered_with("8").await;
    world.enforces("0");
    let waits = |outcome: &PassOutcome, minutes: u64| matches!(outcome, PassOutcome::WaitingFor(wait) if *wait <= Duration::from_mins(minutes));
    let outcome = world.pass().await.unwrap();
    assert!(waits(&outcome, 6), "{outcome:?}");
    assert_eq!(charge(&world), json!({ "pods": "8" }));
    let (reason, message) = quota_condition(&world);
    assert_eq!(reason, "NotEnforced");
    assert!(message.contains("stays charged until its cluster has counted again"), "{message}");
    world.calls();
    advance_minutes(&world, 4).await;
    let outcome = world.pass().await.unwrap();
    assert!(waits(&outcome, 2), "{outcome:?}");
    assert_eq!(world.calls(), NOTHING);
    world.enforces("7");
    world.pass().await.unwrap();
    assert_eq!(charge(&world), json!({ "pods": "8" }));
    advance_minutes(&world, 2).await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(charge(&world), json!({ "pods": "7" }));
    assert_eq!(quota_condition(&world).0, "UsedAboveHard");
}

#[tokio::test(start_paused = true)]
async fn who_has_not_seen_what_was_in_use_waits_until_the_cluster_has_counted_anew() {
    let former = lowered_with("0").await;
    former.enforces("0");
    let world = World::at(&former.server);
    world.catches_up();
    world.watches();
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, PassOutcome::WaitingFor(_)), "{outcome:?}");
    assert_eq!(charge(&world), json!({ "pods": "9" }));
    advance_minutes(&world, 6).await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(charge(&world), json!({ "pods": "2" }));
}

#[tokio::test]
async fn a_new_leader_writes_at_once_but_refunds_nothing_yet() {
    let world = World::new();
    world.acquires(Instant::now(), false);
    world.holds(&pending(&[("pods", "9")]).asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    world.enforces("0");
    let outcome = world.pass().await.unwrap();
    assert!(
        matches!(outcome, PassOutcome::WaitingFor(wait) if wait > Duration::from_secs(15)),
        "{outcome:?}"
    );
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "9" }));
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
}

#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing_when_it_wakes() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.renews(Instant::now().checked_sub(Duration::from_secs(11)).unwrap());
    assert!(matches!(world.pass().await, Err(Error::NotLeading)));
    assert_eq!(world.calls(), NOTHING);
}

#[tokio::test]
async fn a_leader_that_was_replaced_does_not_overwrite_the_new_ones_quota() {
    let world = World::new();
    world.holds(&pending(&[("pods", "9")]));
    world.pass().await.unwrap();
    world.watches();
    let old = world.seen();
    // Meanwhile the new leader applies a later generation, which lowers to 2.
    let new = World::at(&world.server);
    new.holds(&old.clone().asks(&[("pods", "8")]).asks(&[("pods", "2")]));
    new.watches();
    new.pass().await.unwrap();
    world.sees(&old.asks(&[("pods", "8")]));
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, PassOutcome::WaitingFor(_)), "it finds itself behind: {outcome:?}");
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
}

/// This holds for our objects, for Leases and for the keys of seals.
#[tokio::test]
async fn a_page_of_a_proxy_before_kube_apiserver_says_of_nothing_that_it_is_not_there() {
    const SECRET: &str = "/api/v1/namespaces/tke-business/secrets/business-controller-seal";
    const LEASE: &str =
        "/apis/coordination.k8s.io/v1/namespaces/tke-business/leases/business-controller-fleet";
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    let (server, cx) = (&world.server, &world.cx);
    for path in [OBJECT, SECRET, LEASE] {
        server.intercept(path);
    }
    let read = cx.business.get::<BusinessNamespace>(&world.seen().key).await;
    assert!(matches!(read, Err(CallFailure::Unavailable(_))), "{read:?}");
    let leases = Leases::new(server.client(), "tke-business", "a".to_owned(), times(), 1);
    let read = leases.get("business-controller-fleet").await;
    assert!(matches!(read, Err(CallFailure::Unavailable(_))), "{read:?}");
    assert!(!leases.is_new_installation().await);
    let secrets = kube::Api::namespaced(server.client(), "tke-business");
    assert!(KeyManager::new(secrets, Arc::clone(cx)).look().await.is_err());
    assert_eq!(server.find(SECRET), None, "no other key is made");
    server.forget_faults();
    assert!(leases.is_new_installation().await);
    assert_eq!(leases.get("business-controller-fleet").await, Ok(None));
}

#[tokio::test]
async fn what_is_there_already_is_neither_touched_nor_deleted_without_consent() {
    let world = World::new();
    let theirs = json!({ "name": "web", "uid": "theirs", "creationTimestamp": "2025-01-01T00:00:00Z" });
    world.server.put(NAMESPACE, &json!({ "metadata": theirs }));
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    let (get, quota, status) =
        (format!("GET {NAMESPACE}"), format!("GET {QUOTA}"), format!("PATCH {OBJECT}/status"));
    assert_eq!(world.calls(), ["POST /api/v1/namespaces", get.as_str(), quota.as_str(), status.as_str()]);
    assert_eq!(world.stored(OBJECT)["status"]["reason"], "NamespaceConflict");
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"]["provenance"], "Foreign");
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], "theirs");
    assert_eq!(world.server.find(OBJECT), None);
}

#[tokio::test]
async fn an_object_that_this_leader_has_seen_being_born_finds_out_that_nothing_was_made_for_it() {
    let world = World::new();
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "theirs" } }));
    world.is_born(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"]["provenance"], "Foreign");
    world.server.remove(NAMESPACE);
    world.server.fault(Fault::AnswerLost);
    tokio::time::pause();
    assert!(world.pass().await.is_err());
    assert!(!world.has_untried("u"), "its answer was lost");
}

#[tokio::test]
async fn a_namespace_is_refunded_after_it_was_seen_gone() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.watches();
    world.holds(&world.seen().ending());
    world.calls();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.calls(), [format!("DELETE {NAMESPACE}")]);
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    let expected = [
        format!("GET {NAMESPACE}"),
        format!("GET {KUBE_SYSTEM}"),
        format!("PATCH {OBJECT}/status"),
        format!("PATCH {OBJECT}/finalize"),
    ];
    assert_eq!(world.calls(), expected);
    assert_eq!(world.server.find(OBJECT), None, "it goes with its charge");
}

#[tokio::test]
async fn a_namespace_that_is_granted_nothing_goes_like_any_other() {
    let world = World::new();
    world.holds(&pending(&[("pods", "0")]));
    world.pass().await.unwrap();
    world.watches();
    world.holds(&world.seen().ending());
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.server.find(OBJECT), None);
}

/// A namespace that is being deleted, and whose watch has stopped.
async fn ending_unwatched() -> World {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.watches();
    world.holds(&world.seen().ending());
    world
}

#[tokio::test]
async fn a_watch_that_still_shows_what_is_gone_keeps_nobody_waiting() {
    let world = ending_unwatched().await;
    world.server.remove(NAMESPACE);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.server.find(OBJECT), None, "it goes with its charge");

    let world = ending_unwatched().await;
    world.server.remove(NAMESPACE);
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "his" } }));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "another one stands there by now");
    assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], "his");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
}

#[tokio::test]
async fn what_a_watch_shows_as_going_for_too_long_is_asked_of_the_cluster() {
    let world = ending_unwatched().await;
    world.server.linger();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    world.watches();
    world.server.sweep();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)), "a watch tells soon");
    world.server.clock.advance(31_000_000);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.server.find(OBJECT), None);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_waits_for_what_the_former_one_deletes() {
    let former = World::new();
    let server = former.server.clone();
    former.holds(&pending(&[("pods", "3")]));
    former.pass().await.unwrap();
    former.watches();
    former.holds(&former.seen().ending());
    server.linger();
    assert!(matches!(former.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    server.calls();

    let world = World::led_by_another(&server);
    world.catches_up();
    world.watches();
    assert!(
        matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)),
        "its content is being removed"
    );
    server.sweep();
    world.watches();
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, PassOutcome::WaitingFor(_)), "the former one may still write: {outcome:?}");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    assert!(!server.calls().iter().any(|call| call.starts_with("DELETE")), "it was deleted once");

    advance(Duration::from_secs(21)).await;
    world.renews(Instant::now());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(server.find(OBJECT), None, "it goes with its charge");
}

#[tokio::test(start_paused = true)]
async fn gone_is_what_was_looked_at_after_every_write_had_ended() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.server.fault(Fault::Late);
    assert!(world.pass().await.is_err(), "the create has no answer");
    world.holds(&world.seen().ending());
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, PassOutcome::WaitingFor(_)), "it may still arrive: {outcome:?}");
    world.server.clock.advance(31_000_000);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    let said = world.stored(OBJECT)["status"]["conditions"].to_string();
    assert!(said.contains("may still be under way"), "{said}");
    advance(Duration::from_secs(6)).await;
    assert_eq!(world.server.land(), 0, "its deadline has passed");
    world.renews(Instant::now());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.server.find(OBJECT), None);
}

#[tokio::test(start_paused = true)]
async fn a_create_without_an_answer_is_found_by_its_seal() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.server.fault(Fault::AnswerLost);
    assert!(world.pass().await.is_err());
    assert_eq!(world.stored(OBJECT)["status"].get("clusterNamespace"), None);
    world.holds(&world.seen().ending());
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.server.find(NAMESPACE), None, "it was made for the object, and is deleted with it");
}

#[tokio::test(start_paused = true)]
async fn a_not_found_that_the_cluster_has_not_said_frees_no_charge() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.server.fault(Fault::AnswerLost);
    assert!(world.pass().await.is_err());
    world.holds(&world.seen().ending());
    advance(Duration::from_secs(6)).await;
    world.renews(Instant::now());
    world.server.intercept(NAMESPACE);
    let outcome = world.pass().await;
    assert!(matches!(outcome, Err(Error::Member(CallFailure::Unavailable(_)))), "{outcome:?}");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.server.forget_faults();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.server.find(NAMESPACE), None, "it is there, and deleted");
}

#[tokio::test]
async fn what_another_cluster_does_not_have_frees_no_charge() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.holds(&world.seen().ending());
    // The address leads to another cluster, and no probe has noticed that yet.
    let there = world.server.remove(NAMESPACE).unwrap();
    world.server.is_cluster("another");
    world.watches();
    let outcome = world.pass().await;
    assert!(matches!(outcome, Err(Error::Member(CallFailure::Unavailable(_)))), "{outcome:?}");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.server.is_cluster(CLUSTER_UID);
    world.server.put(NAMESPACE, &there);
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)), "it is deleted");
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.server.find(OBJECT), None);
}

#[tokio::test]
async fn what_was_adopted_stays_with_its_quota_and_its_charge_is_held() {
    let world = World::new();
    let consent = json!({ "business.tkestack.io/adopt": "p/n" });
    let metadata = json!({ "name": "web", "uid": "theirs", "annotations": consent });
    world.server.put(NAMESPACE, &json!({ "metadata": metadata }));
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::WaitingFor(Duration::ZERO));
    assert_eq!(
        world.stored(OBJECT)["status"]["clusterNamespace"],
        json!({ "uid": "theirs", "provenance": "Adopted" })
    );
    assert_eq!(
        world.stored(NAMESPACE)["metadata"].get("labels"),
        None,
        "it is on record before it is marked"
    );
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    world.enforces("2");
    world.pass().await.unwrap();
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }));
    let seal = world.stored(NAMESPACE)["metadata"]["annotations"]["business.tkestack.io/seal"].clone();
    assert!(seal.as_str().unwrap().contains(r#""origin":"Released""#), "{seal}");
    assert_eq!(world.server.find(OBJECT), None);
    assert_eq!(world.server.held().len(), 1, "the server holds the charge");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_gets_no_calls_and_keeps_the_charge() {
    let world = World::new();
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    world.holds(&pending(&[("pods", "3")]).ending());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Waiting);
    assert_eq!(world.calls(), [format!("PATCH {OBJECT}/status")]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Waiting);
    assert_eq!(world.calls(), NOTHING, "it is said once");
    assert_eq!(world.seen().status.cached_spec_hard, Some(amounts(&[("pods", "3")])));
    world.holds(&world.seen().annotated(business_types::names::ABANDON_ANNOTATION, "cluster lost"));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.calls(), [format!("PATCH {OBJECT}/finalize")]);
    assert_eq!(world.server.held().len(), 1);
}

/// An operator abandons the object: it goes, the namespace stays, and the server holds the charge.
async fn abandon(world: &World, why: &str) {
    let kept = world.stored(NAMESPACE)["metadata"]["uid"].clone();
    world.holds(&world.seen().annotated(business_types::names::ABANDON_ANNOTATION, "it does not go"));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied, "{why}");
    assert_eq!(world.server.find(OBJECT), None, "{why}");
    assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], kept, "{why}");
    assert_eq!(world.server.held().len(), 1, "{why}");
}

#[tokio::test]
async fn what_a_cluster_that_answers_does_not_let_go_is_given_up() {
    let world = ending_unwatched().await;
    world.server.linger();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    world.watches();
    abandon(&world, "it is being deleted for ever").await;

    let world = ending_unwatched().await;
    world.server.refuse(&format!("DELETE {NAMESPACE}"));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    abandon(&world, "it may not be deleted").await;

    let world = ending_unwatched().await;
    world.server.refuse_because(&format!("DELETE {NAMESPACE}"), "InternalError");
    assert!(matches!(world.pass().await, Err(Error::Member(_))));
    abandon(&world, "a webhook is dead").await;

    let calls = [format!("DELETE {BINDINGS}"), format!("PATCH {NAMESPACE}")];
    let cases = calls.into_iter().flat_map(|call| [(call.clone(), "Forbidden"), (call, "InternalError")]);
    for (refused, why) in cases {
        let world = World::new();
        let metadata = json!({ "uid": "theirs", "annotations": { "business.tkestack.io/adopt": "p/n" } });
        world.server.put(NAMESPACE, &json!({ "metadata": metadata }));
        world.holds(&pending(&[("pods", "3")]));
        world.pass().await.unwrap();
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
        world.enforces("2");
        world.pass().await.unwrap();
        world.server.refuse_because(&refused, why);
        world.holds(&world.seen().ending());
        let outcome = world.pass().await;
        assert!(!matches!(outcome, Ok(PassOutcome::Applied)), "{refused}: {outcome:?}");
        abandon(&world, &format!("{refused}: {why}")).await;
    }
}

/// It says why for whoever looks, and is counted for the alert.
#[tokio::test]
async fn what_a_webhook_that_does_not_answer_keeps_from_being_done_is_told() {
    for call in ["POST /api/v1/namespaces".to_owned(), format!("POST {NAMESPACE}/resourcequotas")] {
        let world = World::new();
        world.holds(&pending(&[("pods", "3")]));
        world.server.refuse_because(&call, DEAD_WEBHOOK);
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "{call}");
        let status = world.seen().status;
        assert!(status.message.contains(DEAD_WEBHOOK), "{call}: {}", status.message);
        assert_eq!(NamespaceProblem::of(&world.seen(), BEGINNING), Some(NamespaceProblem::Refused), "{call}");
    }
    let world = ending_unwatched().await;
    world.server.refuse_because(&format!("DELETE {NAMESPACE}"), DEAD_WEBHOOK);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    let told = find(&world.seen().status.conditions, TERMINATING).unwrap().message.clone();
    assert!(told.contains(DEAD_WEBHOOK), "{told}");
}

/// Such as a webhook that hangs: whether the write was executed is not known.
#[tokio::test]
async fn what_is_not_answered_for_long_is_told() {
    for call in ["POST /api/v1/namespaces".to_owned(), format!("POST {NAMESPACE}/resourcequotas")] {
        let world = World::new();
        world.holds(&pending(&[("pods", "3")]));
        world.server.refuse_because(&call, "InternalError");
        assert!(world.pass().await.is_err());
        assert_eq!(world.seen().status.message, "", "{call}: it may be over soon");
        world.server.clock.advance(31_000_000);
        assert!(world.pass().await.is_err());
        let status = world.seen().status;
        assert!(status.message.contains("500 InternalError"), "{call}: {}", status.message);
        assert_eq!(NamespaceProblem::of(&world.seen(), BEGINNING), Some(NamespaceProblem::Refused), "{call}");
        world.server.forget_faults();
        world.watches();
        world.pass().await.unwrap();
        assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available", "{call}");
    }
    let world = ending_unwatched().await;
    world.server.refuse_because(&format!("DELETE {NAMESPACE}"), "InternalError");
    world.server.clock.advance(31_000_000);
    assert!(world.pass().await.is_err());
    let told = find(&world.seen().status.conditions, TERMINATING).unwrap().message.clone();
    assert!(told.contains("500 InternalError"), "{told}");
}

/// A quota of 3 pods was raised to 9, and 8 are in use. With it, the object before the raise.
async fn raised_world() -> (World, NamespaceView) {
    let world = World::new();
    let before = pending(&[("pods", "3")]);
    world.holds(&before);
    world.pass().await.unwrap();
    world.holds(&world.seen().asks(&[("pods", "9")]));
    world.watches();
    world.pass().await.unwrap();
    world.enforces("8");
    (world, before)
}

/// Its generation is the sealed one again when an audit compares it, and growth may go on after that.
#[tokio::test]
async fn an_object_that_was_changed_after_its_restore_is_told_all_the_same() {
    let (world, before) = raised_world().await;
    let mut restored = before.recorded(Provenance::Made).asks(&[("pods", "2")]);
    let uid = world.stored(NAMESPACE)["metadata"]["uid"].as_str().unwrap().to_owned();
    restored.status.cluster_namespace.as_mut().unwrap().uid = uid;
    assert_eq!(restored.generation, world.seen().generation);
    world.holds(&restored);
    world.audit().await;
    let told = world.project()["status"]["orphans"][0].clone();
    assert_eq!((&told["state"], &told["hard"]), (&json!("Ahead"), &json!({ "pods": "6" })), "{told}");
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
}

#[tokio::test]
async fn a_cluster_that_came_back_from_a_backup_gets_the_lower_quota_when_the_excess_is_held() {
    let world = World::new();
    world.holds(&pending(&[("pods", "9")]));
    world.pass().await.unwrap();
    world.enforces("0");
    world.pass().await.unwrap();
    let backup = world.server.backup(NAMESPACE);
    world.holds(&world.seen().asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    world.enforces("0");
    world.pass().await.unwrap();
    assert_eq!(charge(&world), json!({ "pods": "2" }));
    world.server.restore(NAMESPACE, &backup);
    world.enforces("8");
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "9" }), "the proof stays");
    world.audit().await;
    let told = world.project()["status"]["orphans"][0].clone();
    assert_eq!((&told["state"], &told["hard"]), (&json!("Ahead"), &json!({ "pods": "7" })), "{told}");
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
    world.enforces("8");
    world.audit().await;
    assert_eq!(world.project()["status"]["orphans"][0]["hard"], json!({ "pods": "6" }), "it is in use");
}

#[tokio::test]
async fn an_object_that_came_back_from_a_backup_lowers_the_quota_when_the_excess_is_held() {
    let (world, before) = raised_world().await;
    let uid = world.stored(NAMESPACE)["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut restored = before.recorded(Provenance::Made);
    restored.status.cluster_namespace.as_mut().unwrap().uid = uid.clone();
    world.holds(&restored);
    world.calls();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "9" }), "the proof stays");
    let told = json!([{ "clusterName": "c1", "namespace": "web", "uid": uid, "state": "Ahead", "hard": { "pods": "6" } }]);
    world.audit().await;
    assert_eq!(world.project()["status"]["orphans"], told);
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "3" }));
    // The excess over the charge stays held, and goes with the namespace.
    world.enforces("8");
    world.audit().await;
    assert_eq!(world.project()["status"]["orphans"][0]["hard"], json!({ "pods": "5" }));
    world.enforces("2");
    world.audit().await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}
