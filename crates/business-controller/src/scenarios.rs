//! Whole passes against a server in memory: each scenario is the exact list of calls that are made.

use crate::error::Error;
use crate::fixtures::world::{NAMESPACE, OBJECT, QUOTA, World};
use crate::fixtures::{amounts, pending};
use crate::member::Reach;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn a_new_namespace_costs_three_calls_and_then_none() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    let status = format!("PATCH {OBJECT}/status");
    let quotas = format!("POST {NAMESPACE}/resourcequotas");
    assert_eq!(world.calls(), ["POST /api/v1/namespaces", quotas.as_str(), status.as_str()]);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(world.pass().await.unwrap(), Outcome::Unchanged);
    assert_eq!(world.calls(), [""; 0]);
    world.enforces("0");
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    assert_eq!(world.calls(), [status]);
    assert_eq!(world.pass().await.unwrap(), Outcome::Unchanged);
    assert_eq!(world.calls(), [""; 0]);
}

#[tokio::test]
async fn lowering_is_written_first_and_refunded_when_the_cluster_counts_with_it() {
    let world = World::new();
    world.holds(&pending(&[("pods", "9")]));
    world.pass().await.unwrap();
    world.enforces("5");
    world.pass().await.unwrap();
    world.holds(&world.seen().asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "9" }));
    world.enforces("5");
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "5" }), "still in use");
    world.enforces("1");
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "2" }));
}

#[tokio::test]
async fn a_new_leader_writes_at_once_but_refunds_nothing_yet() {
    let world = World::new();
    world.cx.fence.acquired(Instant::now(), false);
    world.holds(&pending(&[("pods", "9")]).asks(&[("pods", "2")]));
    world.pass().await.unwrap();
    world.enforces("0");
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, Outcome::WaitingFor(wait) if wait > Duration::from_secs(15)), "{outcome:?}");
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "9" }));
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
}

#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing_when_it_wakes() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.cx.fence.renewed(Instant::now().checked_sub(Duration::from_secs(11)).unwrap());
    assert!(matches!(world.pass().await, Err(Error::NotLeading)));
    assert_eq!(world.calls(), [""; 0]);
}

#[tokio::test]
async fn a_leader_that_was_replaced_does_not_overwrite_the_new_ones_quota() {
    let world = World::new();
    let old = pending(&[("pods", "9")]);
    world.holds(&old);
    world.pass().await.unwrap();
    world.holds(&world.seen().asks(&[("pods", "8")]));
    world.watches();
    // Meanwhile the new leader has carried over a later generation, which lowers to 2.
    world
        .server
        .edit(OBJECT, &json!({ "metadata": { "generation": 3 }, "spec": { "hard": { "pods": "2" } } }));
    let mark = json!({ "business.tkestack.io/generation": "3" });
    world
        .server
        .edit(QUOTA, &json!({ "metadata": { "annotations": mark }, "spec": { "hard": { "pods": "2" } } }));
    let outcome = world.pass().await.unwrap();
    assert!(matches!(outcome, Outcome::WaitingFor(_)), "it finds itself behind: {outcome:?}");
    assert_eq!(world.stored(QUOTA)["spec"]["hard"], json!({ "pods": "2" }));
}

#[tokio::test]
async fn what_is_there_already_is_neither_touched_nor_deleted_without_consent() {
    let world = World::new();
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "theirs" } }));
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), Outcome::Refused);
    let (get, quota, status) =
        (format!("GET {NAMESPACE}"), format!("GET {QUOTA}"), format!("PATCH {OBJECT}/status"));
    assert_eq!(world.calls(), ["POST /api/v1/namespaces", get.as_str(), quota.as_str(), status.as_str()]);
    assert_eq!(world.stored(OBJECT)["status"]["reason"], "NamespaceConflict");
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    assert_eq!(world.stored(NAMESPACE)["metadata"]["uid"], "theirs");
    assert_eq!(world.server.find(OBJECT), None);
}

#[tokio::test]
async fn a_namespace_is_refunded_after_it_was_seen_gone() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.watches();
    world.holds(&world.seen().ending());
    world.calls();
    assert!(matches!(world.pass().await.unwrap(), Outcome::WaitingFor(_)));
    assert_eq!(world.calls(), [format!("DELETE {NAMESPACE}")]);
    assert_eq!(world.stored(OBJECT)["status"]["cachedSpecHard"], json!({ "pods": "3" }));
    world.watches();
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    let expected =
        [format!("GET {NAMESPACE}"), format!("PATCH {OBJECT}/status"), format!("PATCH {OBJECT}/finalize")];
    assert_eq!(world.calls(), expected);
    assert_eq!(world.server.find(OBJECT), None, "it goes with its charge");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_gets_no_calls_and_keeps_the_charge() {
    let world = World::new();
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    world.holds(&pending(&[("pods", "3")]).ending());
    assert_eq!(world.pass().await.unwrap(), Outcome::Waiting);
    assert_eq!(world.calls(), [format!("PATCH {OBJECT}/status")]);
    assert_eq!(world.pass().await.unwrap(), Outcome::Waiting);
    assert_eq!(world.calls(), [""; 0], "it is said once");
    assert_eq!(world.seen().status.cached_spec_hard, Some(amounts(&[("pods", "3")])));
    let mut given_up = world.seen();
    given_up.annotations.insert(business_types::names::ABANDON_ANNOTATION.into(), "cluster lost".into());
    world.holds(&given_up);
    assert_eq!(world.pass().await.unwrap(), Outcome::Applied);
    assert_eq!(world.calls(), [format!("PATCH {OBJECT}/finalize")]);
}

const PROJECT: &str = "/apis/business.tkestack.io/v1/projects/p";

/// Our objects by uid, and one namespace in the cluster with its quota.
fn holds(world: &World, project: &Value, alive: &[&str], in_cluster: Option<&Value>) {
    let server = &world.server;
    server.remove(OBJECT);
    for uid in alive {
        server.put(OBJECT, &json!({ "metadata": { "name": "n", "namespace": "p", "uid": uid } }));
    }
    server.remove(NAMESPACE);
    if let Some(namespace) = in_cluster {
        server.put(NAMESPACE, namespace);
        let quota = json!({ "metadata": { "name": "web" }, "spec": { "hard": { "pods": "3" } },
            "status": { "hard": { "pods": "3" }, "used": { "pods": "1" } } });
        server.put(QUOTA, &quota);
    }
    server.put(PROJECT, project);
}

#[tokio::test]
async fn an_orphan_is_told_to_its_project_and_forgotten_when_it_is_gone() {
    let world = World::new();
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": {} });
    let namespace = json!({ "metadata": {
        "name": "web", "uid": "w", "labels": { "tkestack.io/projectName": "p" },
        "annotations": { "business.tkestack.io/uid": "lost" },
    } });
    holds(&world, &project, &["lost"], Some(&namespace));
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    assert!(comparison.is_complete_since(1) && comparison.clusters.contains_key("c1"));
    assert_eq!(world.stored(PROJECT)["status"], json!({}), "it belongs to an object");

    holds(&world, &project, &[], Some(&namespace));
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    let told = json!([{ "clusterName": "c1", "namespace": "web", "uid": "w", "hard": { "pods": "3" } }]);
    let project = world.stored(PROJECT);
    assert_eq!((&project["status"]["orphans"], comparison.unreported), (&told, 0));

    // A cluster that does not answer takes nothing back.
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    holds(&world, &project, &[], None);
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    assert!(comparison.missing.contains_key("c1") && comparison.clusters.is_empty());
    assert_eq!(world.stored(PROJECT)["status"]["orphans"], told);

    world.member.set_reach(Reach::Reachable);
    holds(&world, &project, &[], None);
    crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!(world.stored(PROJECT)["status"], json!({}));
}

#[tokio::test]
async fn what_is_released_while_the_audit_looks_is_no_orphan() {
    let world = World::new();
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": {} });
    let mut namespace = json!({ "metadata": {
        "name": "web", "uid": "w", "labels": { "tkestack.io/projectName": "p" },
        "annotations": { "business.tkestack.io/uid": "released" },
    } });
    holds(&world, &project, &[], Some(&namespace));
    namespace["metadata"]["annotations"] = json!({});
    world.server.put(NAMESPACE, &namespace);
    crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!(world.stored(PROJECT)["status"], json!({}));
}

#[tokio::test]
async fn what_is_held_for_a_place_is_looked_for_there_whatever_its_marks() {
    let world = World::new();
    let held = json!({ "uid": "u", "state": "abandoned", "clusterName": "c1", "namespace": "web", "reason": "lost" });
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": { "ledger": { "held": [held] } } });
    let unmarked = json!({ "metadata": { "name": "web", "uid": "w" } });
    holds(&world, &project, &[], Some(&unmarked));
    crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!(world.stored(PROJECT)["status"]["orphans"][0]["namespace"], "web");
}

#[tokio::test]
async fn an_orphan_without_a_project_keeps_the_comparison_from_being_complete() {
    let world = World::new();
    let project = json!({ "metadata": { "name": "p", "uid": "p" }, "spec": {}, "status": {} });
    let namespace = json!({ "metadata": {
        "name": "web", "uid": "w", "labels": { "tkestack.io/projectName": "gone" },
        "annotations": { "business.tkestack.io/uid": "lost" },
    } });
    holds(&world, &project, &[], Some(&namespace));
    let comparison = crate::audit::pass(&world.cx).await.unwrap();
    assert_eq!((comparison.unreported, comparison.homeless), (1, 1));
    assert!(!comparison.is_complete_since(1));
}
