//! Objects that were imported, and what their former system has left in the cluster.

use crate::fixtures::pending;
use crate::fixtures::world::{NAMESPACE, OBJECT, QUOTA, World};
use crate::namespace::kind::NamespaceView;
use crate::outcome::PassOutcome;
use business_types::{ClusterNamespaceRecord, NamespacePhase, names};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::Duration;

const AT_ONCE: PassOutcome = PassOutcome::WaitingFor(Duration::ZERO);

fn imported() -> NamespaceView {
    let mut object = pending(&[("pods", "3")]);
    object.status.phase = NamespacePhase::Available;
    object.status.cluster_namespace = Some(ClusterNamespaceRecord::imported());
    object
}

/// Puts the namespace and quota of the former system into the cluster.
fn put_leftovers(world: &World, hard: &str) {
    let labels = json!({ "tkestack.io/projectName": "p", "tkestack.io/namespaceName": "n" });
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "theirs", "labels": labels } }));
    let quota = json!({
        "metadata": { "name": "web", "namespace": "web", "uid": "their-quota" },
        "spec": { "hard": { "pods": hard } }, "status": { "hard": { "pods": hard }, "used": { "pods": "2" } },
    });
    world.server.put(QUOTA, &quota);
    world.watches();
}

#[tokio::test]
async fn the_namespace_of_an_imported_object_is_sealed_and_not_made_anew() {
    let world = World::new();
    put_leftovers(&world, "3");
    world.holds(&imported());
    assert_eq!(world.pass().await.unwrap(), AT_ONCE);
    let record = json!({ "uid": "theirs", "provenance": "Made" });
    assert_eq!(
        world.stored(OBJECT)["status"]["clusterNamespace"],
        record,
        "it is on record before it is marked"
    );
    assert_eq!(world.stored(NAMESPACE)["metadata"].get("annotations"), None);
    world.watches();
    world.pass().await.unwrap();
    let (namespace, quota) = (world.stored(NAMESPACE), world.stored(QUOTA));
    assert_eq!(
        (&namespace["metadata"]["uid"], &quota["metadata"]["uid"]),
        (&json!("theirs"), &json!("their-quota"))
    );
    for object in [&namespace, &quota] {
        let seal = &object["metadata"]["annotations"]["business.tkestack.io/seal"];
        assert!(seal.as_str().is_some_and(|seal| seal.contains(r#""origin":"Made""#)), "{object}");
    }
    assert!(!world.calls().iter().any(|call| call == &format!("DELETE {NAMESPACE}")), "{:?}", world.calls());
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
}

#[tokio::test]
async fn what_its_quota_lets_in_beyond_the_charge_is_held_before_it_is_lowered() {
    let world = World::new();
    put_leftovers(&world, "8");
    world.holds(&imported());
    for is_new in [true, false] {
        assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
        let is_wanted = world.cx.audit_wanted.notified().now_or_never().is_some();
        assert_eq!(is_wanted, is_new, "an audit is asked for once: it may not be able to tell it");
    }
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"]["provenance"], "Imported");
    assert_eq!(world.stored(QUOTA)["spec"]["hard"]["pods"], "8");
    let comparison = world.audit().await;
    assert!(comparison.clusters.contains_key("c1"));
    let told = json!([{ "clusterName": "c1", "namespace": "web", "uid": "theirs", "state": "Ahead", "hard": { "pods": "5" } }]);
    assert_eq!(world.project()["status"]["orphans"], told);
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), AT_ONCE);
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.stored(QUOTA)["spec"]["hard"]["pods"], "3");
    world.enforces("2");
    world.audit().await;
    assert_eq!(
        world.project()["status"].get("orphans"),
        None::<&Value>,
        "nothing is let in beyond the charge now"
    );
}

#[tokio::test]
async fn what_its_quota_lets_in_beyond_the_charge_is_held_before_a_consent_adopts_it() {
    let world = World::new();
    put_leftovers(&world, "8");
    world.server.edit(NAMESPACE, &json!({ "metadata": { "labels": { "tkestack.io/projectName": null } } }));
    world.watches();
    world.holds(&imported().annotated(names::ADOPT_ANNOTATION, "true"));
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"]["provenance"], "Imported");
    assert_eq!(world.stored(QUOTA)["spec"]["hard"]["pods"], "8");
    world.audit().await;
    assert_eq!(world.project()["status"]["orphans"][0]["hard"], json!({ "pods": "5" }));
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), AT_ONCE);
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"]["provenance"], "Adopted");
}

#[tokio::test]
async fn what_does_not_bear_the_labels_is_left_alone() {
    let world = World::new();
    put_leftovers(&world, "3");
    world.server.edit(NAMESPACE, &json!({ "metadata": { "labels": { "tkestack.io/projectName": "q" } } }));
    world.watches();
    world.holds(&imported());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(NAMESPACE)["metadata"].get("annotations"), None);
    assert_eq!(world.stored(OBJECT)["status"]["clusterNamespace"]["provenance"], "Imported");
    world.audit().await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}
