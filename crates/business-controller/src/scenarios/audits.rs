use super::ledger::Ledger;
use crate::acquisition::{AcquisitionSnapshot, GenerationSnapshot};
use crate::audit::Audit;
use crate::audit::judge::{Evidence, Judgement};
use crate::audit::scan::{ClusterScanner, ScanBudget};
use crate::controller::Controller as _;
use crate::error::{CallFailure, Error};
use crate::fence::Moment;
use crate::fixtures::server::{CLUSTER, Fault, Link, Passage, Server};
use crate::fixtures::world::{BINDINGS, NAMESPACE, OBJECT, OTHER_PROJECT, PROJECT, QUOTA, World};
use crate::fixtures::{CLUSTER_UID, bulky, pending};
use crate::kinds::{ChangeSource, ObjectKey as _, ProjectKey, RootKey};
use crate::member::recount::RECOUNT;
use crate::member::{Member, Reach};
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use crate::metrics::StateLabels;
use crate::namespace::problem::NamespaceProblem;
use crate::objects::ObjectRef;
use crate::outcome::PassOutcome;
use crate::project::kind::BusinessProject;
use crate::queue::Lane;
use crate::seal::Keyring;
use crate::seal::key_manager::KeyManager;
use crate::shares::Share;
use business_types::Comparison;
use business_types::access::AccessRole::{Admin, Edit};
use runtime::Tasks;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

pub(super) async fn audit(world: &World) -> Comparison {
    world.audit().await
}

/// A namespace of the project in the cluster, in use, whose object was lost.
async fn world_with_lost_object() -> (World, String) {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("1");
    world.server.remove(OBJECT);
    let uid = world.stored(NAMESPACE)["metadata"]["uid"].as_str().unwrap().to_owned();
    (world, uid)
}

pub(super) fn orphans(uid: &str, state: &str) -> Value {
    json!([{ "clusterName": "c1", "namespace": "web", "uid": uid, "state": state, "hard": { "pods": "3" } }])
}

#[tokio::test]
async fn an_orphan_is_told_to_its_project_and_forgotten_when_it_is_gone() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("1");
    let comparison = audit(&world).await;
    assert!(comparison.is_complete_since(1) && comparison.clusters.contains_key("c1"));
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>, "it belongs to an object");

    world.server.remove(OBJECT);
    let comparison = audit(&world).await;
    let uid = world.stored(NAMESPACE)["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!((&world.project()["status"]["orphans"], comparison.unreported), (&orphans(&uid, "Lost"), 0));

    // A cluster that does not answer deletes nothing.
    let since = "2026-01-01T00:00:00Z".to_owned();
    world.member.set_reach(Reach::Unreachable { since, reason: "no answer".into() });
    world.server.remove(NAMESPACE);
    let comparison = audit(&world).await;
    assert!(comparison.missing.contains_key("c1") && comparison.clusters.is_empty());
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));

    world.member.set_reach(Reach::Reachable);
    audit(&world).await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}

#[tokio::test(start_paused = true)]
async fn what_is_large_together_keeps_nothing_from_being_compared() {
    let (world, uid) = world_with_lost_object().await;
    for number in 0..100 {
        world.server.put(&format!("/api/v1/namespaces/theirs/resourcequotas/x{number}"), &bulky());
    }
    let comparison = audit(&world).await;
    assert!(comparison.clusters.contains_key("c1"), "{comparison:?}");
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));
}

/// A namespace of tenant acme that alice uses, with a binding of a template. Beside them is a binding of somebody else.
async fn world_with_bindings() -> World {
    let world = World::new();
    let mut object = pending(&[("pods", "3")]);
    object.spec.tenant_id = "acme".into();
    world.holds(&object);
    world.has_members(&["alice"]);
    world.pass().await.unwrap();
    add_binding(&world, TEMPLATES_BINDING, &json!({ "business.tkestack.io/template": "standard" }));
    add_binding(&world, OWN_BINDING, &json!({}));
    world.enforces("1");
    assert!(world.grantees(Edit).is_some() && world.grantees(Admin).is_some());
    world
}

/// Adds a binding with these labels that names somebody.
fn add_binding(world: &World, name: &str, labels: &Value) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": name, "uid": name, "labels": labels },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }],
    });
    world.server.put(&format!("{BINDINGS}/{name}"), &binding);
}

fn bindings(world: &World) -> Vec<String> {
    let all = world.server.list(BINDINGS);
    all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

const TEMPLATES_BINDING: &str = "business:template:sre";
const OWN_BINDING: &str = "ci";

#[tokio::test]
async fn in_a_namespace_whose_object_is_lost_nobody_keeps_a_role() {
    let world = world_with_bindings().await;
    audit(&world).await;
    assert_eq!(bindings(&world).len(), 4, "its object lives");
    world.server.remove(OBJECT);
    world.server.refuse(&format!("DELETE {}", World::binding(Edit)));
    let comparison = audit(&world).await;
    assert!(comparison.missing.is_empty(), "what stays keeps nothing from being told: {comparison:?}");
    assert_eq!(world.project()["status"]["orphans"][0]["state"], "Lost");
    assert_eq!(world.grantees(Edit).unwrap(), Vec::<String>::new(), "it names nobody");
    assert_eq!(bindings(&world), ["business:edit", OWN_BINDING]);
    world.server.forget_faults();
    world.watches();
    audit(&world).await;
    assert_eq!(bindings(&world), [OWN_BINDING]);
}

/// The webhook for updates is dead, and it is not called for deletions.
#[tokio::test]
async fn a_binding_that_cannot_be_emptied_is_deleted() {
    let world = world_with_bindings().await;
    world.server.remove(OBJECT);
    world.server.refuse_because(&format!("PATCH {BINDINGS}"), "InternalError");
    audit(&world).await;
    assert_eq!(bindings(&world), [OWN_BINDING]);
}

#[tokio::test(start_paused = true)]
async fn roles_that_take_long_to_take_away_keep_nothing_from_being_told() {
    let world = world_with_bindings().await;
    for number in 0..60 {
        let labels = json!({ "business.tkestack.io/template": "standard" });
        add_binding(&world, &format!("{TEMPLATES_BINDING}-{number:02}"), &labels);
        world.server.fault(Fault::AnswerLost);
    }
    world.watches();
    world.server.remove(OBJECT);
    let comparison = long_audit(&world).await;
    assert!(comparison.clusters.contains_key("c1"), "{comparison:?}");
    assert_eq!(world.project()["status"]["orphans"][0]["state"], "Lost");
}

#[tokio::test]
async fn where_no_seal_says_that_a_namespace_is_ours_its_bindings_stay() {
    let world = world_with_bindings().await;
    let unsealed = json!({ "metadata": { "annotations": { "business.tkestack.io/seal": null } } });
    world.server.edit(NAMESPACE, &unsealed);
    world.server.edit(QUOTA, &unsealed);
    world.server.remove(OBJECT);
    audit(&world).await;
    assert_eq!(bindings(&world).len(), 4);
}

#[tokio::test]
async fn what_another_cluster_does_not_have_is_not_written_off() {
    let (world, uid) = world_with_lost_object().await;
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));
    world.server.remove(NAMESPACE);
    world.server.is_cluster("another");
    let comparison = audit(&world).await;
    assert!(comparison.missing.contains_key("c1") && comparison.clusters.is_empty(), "{comparison:?}");
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));
    world.server.is_cluster(CLUSTER_UID);
    audit(&world).await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}

/// The cluster is identified before it is compared, and again after everything was judged.
#[tokio::test]
async fn an_audit_in_whose_midst_another_cluster_answers_counts_for_nothing() {
    let (world, uid) = world_with_lost_object().await;
    audit(&world).await;
    world.server.remove(NAMESPACE);
    world.server.becomes_cluster("another");
    let comparison = audit(&world).await;
    assert!(comparison.missing.contains_key("c1"), "{comparison:?}");
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));

    let world = world_with_bindings().await;
    world.server.remove(OBJECT);
    world.server.becomes_cluster("another");
    assert!(audit(&world).await.missing.contains_key("c1"));
    assert_eq!(bindings(&world).len(), 4, "nobody loses a role in it");
}

#[tokio::test]
async fn an_orphan_is_found_by_either_of_its_seals_and_charged_the_most_that_anything_says() {
    let (world, uid) = world_with_lost_object().await;
    world.server.edit(NAMESPACE, &json!({ "metadata": { "annotations": null, "labels": null } }));
    world.server.edit(QUOTA, &json!({ "status": { "hard": { "pods": "5" }, "used": { "pods": "4" } } }));
    audit(&world).await;
    let orphan = &world.project()["status"]["orphans"][0];
    assert_eq!((&orphan["uid"], &orphan["hard"]), (&json!(uid), &json!({ "pods": "5" })));
    world.server.edit(QUOTA, &json!({ "spec": { "hard": { "pods": "1" } }, "status": null }));
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"][0]["hard"], json!({ "pods": "3" }), "as sealed");
}

#[tokio::test]
async fn what_is_released_while_the_audit_looks_is_no_orphan() {
    let world = World::new();
    let marks = json!({ "business.tkestack.io/uid": "released" });
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "w", "annotations": marks } }));
    let survey = &crate::audit::survey::ProjectSurvey::read(&world.cx.business).await.unwrap();
    let keyring = &world.cx.seals.keyring().unwrap();
    let scanner = ClusterScanner { cx: &world.cx, survey, keyring, budget: &ScanBudget::new(usize::MAX, 1) };
    let scan = scanner.scan(&world.member).await.unwrap();
    world.server.edit(NAMESPACE, &json!({ "metadata": { "annotations": null } }));
    let evidence = Evidence { cx: &world.cx, survey, keyring, snapshot: &GenerationSnapshot::default() };
    let judged = evidence.judge(&scan.namespaces[0]).await.unwrap();
    assert_eq!(judged.judgement, Judgement::Nothing);
}

#[tokio::test]
async fn a_cluster_whose_marks_take_more_than_there_is_room_for_is_not_compared() {
    let world = World::new();
    let name = "x".repeat(60 << 10);
    let paths = [0, 1, 2, 3, 4].map(|number| format!("/api/v1/namespaces/n{number}{name}"));
    for path in &paths {
        let annotations = json!({ "business.tkestack.io/uid": "another" });
        world.server.put(path, &json!({ "metadata": { "annotations": annotations } }));
    }
    let comparison = audit(&world).await;
    let why = &comparison.missing["c1"];
    assert!(why.contains("there is no room for more"), "{why}");
    for path in &paths {
        world.server.remove(path).unwrap();
    }
    let comparison = audit(&world).await;
    assert!(comparison.clusters.contains_key("c1"), "{comparison:?}");
}

#[tokio::test]
async fn marks_and_seals_that_cannot_be_ours_take_no_room() {
    let world = World::new();
    let long = "x".repeat(60 << 10);
    for number in 0..5 {
        let name = format!("n{number}");
        let annotations = json!({ "business.tkestack.io/uid": long, "business.tkestack.io/seal": long });
        let metadata = json!({ "name": name, "uid": name, "annotations": annotations });
        world.server.put(&format!("/api/v1/namespaces/{name}"), &json!({ "metadata": metadata }));
        let metadata = json!({ "name": name, "namespace": name, "annotations": annotations });
        let quota = format!("/api/v1/namespaces/{name}/resourcequotas/{name}");
        world.server.put(&quota, &json!({ "metadata": metadata }));
    }
    let comparison = audit(&world).await;
    assert!(comparison.clusters.contains_key("c1"), "{comparison:?}");
}

#[tokio::test]
async fn what_is_held_for_a_place_is_looked_for_there_whatever_its_marks() {
    let world = World::new();
    let held = json!({ "uid": "u", "state": "abandoned", "clusterName": "c1", "namespace": "web", "reason": "lost" });
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "held": [held] } } }));
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "w" } }));
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"][0]["namespace"], "web");
}

#[tokio::test]
async fn an_orphan_whose_project_is_another_one_by_now_keeps_the_comparison_from_being_complete() {
    let (world, _) = world_with_lost_object().await;
    world.server.edit(PROJECT, &json!({ "metadata": { "uid": "made anew" } }));
    let comparison = audit(&world).await;
    assert_eq!((comparison.unreported, comparison.homeless), (1, 1));
    assert!(!comparison.is_complete_since(1));
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}

/// For example because its status is too long. That lasts.
#[tokio::test]
async fn a_project_that_cannot_be_told_keeps_no_other_from_being_told() {
    let (world, uid) = world_with_lost_object().await;
    world.knows_other_project();
    let held = json!({ "uid": "v", "state": "abandoned", "clusterName": "c1", "namespace": "web2", "reason": "lost" });
    world.server.edit(OTHER_PROJECT, &json!({ "status": { "ledger": { "held": [held] } } }));
    world.server.put("/api/v1/namespaces/web2", &json!({ "metadata": { "name": "web2", "uid": "w" } }));
    world.server.refuse(PROJECT);
    let comparison = audit(&world).await;
    assert!(comparison.missing.is_empty() && comparison.clusters.contains_key("c1"), "{comparison:?}");
    assert_eq!((comparison.unreported, comparison.is_complete_since(1)), (1, false));
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
    assert_eq!(world.stored(OTHER_PROJECT)["status"]["orphans"][0]["namespace"], "web2");
    world.server.forget_faults();
    assert_eq!(audit(&world).await.unreported, 0);
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));
}

/// The database was restored to a state in which another project, or another object, had the place.
#[tokio::test]
async fn what_was_granted_at_a_place_is_told_to_who_granted_it_whoever_holds_something_for_the_place() {
    let (world, uid) = world_with_lost_object().await;
    world.knows_other_project();
    let hold = |project: &str, uid: &str, state: &str| {
        let held = json!({ "uid": uid, "state": state, "clusterName": "c1", "namespace": "web", "reason": "before" });
        world.server.edit(project, &json!({ "status": { "ledger": { "held": [held] } } }));
    };
    hold(OTHER_PROJECT, "v", "released");
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));
    assert_eq!(world.stored(OTHER_PROJECT)["status"].get("orphans"), None::<&Value>);

    // The object itself was moved there, and abandoned before anything was sealed again.
    let object = pending(&[]).uid;
    hold(OTHER_PROJECT, &object, "abandoned");
    audit(&world).await;
    assert_eq!(world.stored(OTHER_PROJECT)["status"]["orphans"], orphans(&uid, "Lost"));
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);

    world.server.edit(OTHER_PROJECT, &json!({ "status": { "ledger": null } }));
    for (held, state) in [("v", "Lost"), (object.as_str(), "Released")] {
        hold(PROJECT, held, "released");
        audit(&world).await;
        assert_eq!(world.project()["status"]["orphans"], orphans(&uid, state), "{held}");
    }
}

/// Another cluster with many namespaces to judge. Each of its answers takes almost as long as it may.
fn slow_cluster(world: &World) {
    let (server, link) = (Server::default(), Link::default());
    server.is_cluster("cluster-2");
    for number in 0..300 {
        let metadata =
            json!({ "uid": format!("{number}"), "annotations": { "business.tkestack.io/uid": "made up" } });
        server.put(&format!("/api/v1/namespaces/n{number}"), &json!({ "metadata": metadata }));
    }
    let recorded = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "MemberCluster",
        "metadata": { "name": "c2", "uid": "m2", "resourceVersion": "0" }, "spec": {}, "status": { "uid": "cluster-2" },
    });
    let recorded = MemberClusterView::decode(serde_json::from_value(recorded).unwrap()).unwrap();
    world.cx.objects.member_clusters.upsert(recorded, ChangeSource::List);
    let share = world.cx.shares.state(Share::Clusters(0));
    let member = Member::new("c2", "cluster-2", server.client_over(&link), share, RECOUNT);
    member.set_acquisition_snapshot(AcquisitionSnapshot::default());
    member.set_reach(Reach::Reachable);
    world.cx.members.insert(member);
    link.is(Passage::Slow(Duration::from_millis(2_400)));
}

/// An audit that takes minutes, during which the leases are renewed.
async fn long_audit(world: &World) -> Comparison {
    let begun = Instant::now();
    let renewing = async {
        while begun.elapsed() < Duration::from_mins(5) {
            world.renews(Instant::now());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        comparison = audit(world) => comparison,
        () = renewing => panic!("the audit does not end"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_takes_its_time_keeps_no_other_from_being_compared() {
    let (world, uid) = world_with_lost_object().await;
    slow_cluster(&world);
    let comparison = long_audit(&world).await;
    assert!(comparison.missing["c2"].contains("in time"), "{comparison:?}");
    assert!(comparison.clusters.contains_key("c1"), "{comparison:?}");
    assert_eq!(world.project()["status"]["orphans"], orphans(&uid, "Lost"));
}

/// An adopted namespace that is released while two pods are in use.
pub(super) async fn released_world() -> World {
    let world = World::new();
    let consent = json!({ "business.tkestack.io/adopt": "p/n" });
    world
        .server
        .put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "w", "annotations": consent } }));
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.pass().await.unwrap();
    world.enforces("2");
    world.holds(&world.seen().ending());
    world.pass().await.unwrap();
    world
}

/// It may be another object's by now, or in use.
#[tokio::test]
async fn a_quota_that_was_changed_since_it_was_read_is_not_deleted() {
    let (world, _) = world_with_lost_object().await;
    let api = &world.member.api;
    let read = api.quota("web").await.unwrap().unwrap();
    world.server.edit(QUOTA, &json!({ "status": { "used": { "pods": "2" } } }));
    let deleted = api.delete_quota("web", &read).await;
    assert!(matches!(deleted, Err(Error::Member(CallFailure::Conflict(_)))), "{deleted:?}");
    let read = api.quota("web").await.unwrap().unwrap();
    api.delete_quota("web", &read).await.unwrap();
    assert_eq!(world.server.find(QUOTA), None);
}

/// The server holds the charge of the object.
pub(super) fn hold_charge(world: &World) {
    let held = json!({ "uid": "u", "state": "released", "clusterName": "c1", "namespace": "web", "reason": "adopted" });
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "held": [held] } } }));
}

#[tokio::test]
async fn what_was_released_is_held_until_it_is_unused_and_then_loses_our_quota_and_marks() {
    let world = released_world().await;
    hold_charge(&world);
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"], orphans("w", "Released"));
    world.enforces("0");
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"], orphans("w", "Unused"), "so it is written off");
    assert!(world.server.find(QUOTA).is_some());

    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "held": [] } } }));
    audit(&world).await;
    assert_eq!(
        world.project()["status"]["orphans"],
        orphans("w", "Unused"),
        "a project that is deleted waits for it"
    );
    assert!(world.server.find(QUOTA).is_some());
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "writtenOff": ["w"] } } }));
    audit(&world).await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
    assert_eq!(world.server.find(QUOTA), None);
    let metadata = &world.stored(NAMESPACE)["metadata"];
    assert_eq!((&metadata["labels"], &metadata["annotations"]), (&json!({}), &json!({})));
}

/// An audit by a new leader, after an audit whose end was not seen.
async fn audit_of_a_new_leader(server: &Server) -> Comparison {
    let world = World::led_by_another(server);
    tokio::time::advance(Duration::from_secs(21)).await;
    world.renews(Instant::now());
    let comparison = audit(&world).await;
    assert!(comparison.missing.is_empty(), "{comparison:?}");
    comparison
}

#[tokio::test(start_paused = true)]
async fn a_cluster_to_which_a_write_may_be_under_way_is_compared_when_that_is_over() {
    let (world, _) = world_with_lost_object().await;
    let world = World::led_by_another(&world.server);
    world.catches_up();
    let period = Duration::from_mins(5);
    let (begun, end) = (Instant::now(), CancellationToken::new());
    let auditing = tokio::spawn(Audit { cx: Arc::clone(&world.cx), period }.run(end.clone()));
    world.cx.audit_wanted.notify_one();
    let compared = || world.cx.objects.member_clusters.memory.audit("c1")?.into_comparison();
    let mut first = None;
    while first.is_none() || compared().is_none_or(|found| !found.missing.is_empty()) {
        assert!(begun.elapsed() < period, "{:?}", compared());
        world.renews(Instant::now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        first = first.or_else(compared);
    }
    let first = first.unwrap();
    assert!(first.missing.contains("under way"), "{first:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    end.cancel();
    auditing.abort();
}

/// The same, followed by what the API server makes of it.
async fn audited_by_a_new_leader(server: &Server, ledger: &mut Ledger) {
    let comparison = audit_of_a_new_leader(server).await;
    let told = ledger.follow(&server.get(PROJECT)["status"], comparison.missing.is_empty());
    server.edit(PROJECT, &json!({ "status": { "ledger": null } }));
    server.edit(PROJECT, &json!({ "status": { "ledger": told } }));
}

/// What still exists: our quota, our marks, the hold.
fn remaining(server: &Server, ledger: &Ledger) -> [bool; 3] {
    let marks = &server.get(NAMESPACE)["metadata"]["annotations"];
    [server.find(QUOTA).is_some(), marks["business.tkestack.io/seal"].is_string(), ledger.holds("web")]
}

#[tokio::test(start_paused = true)]
async fn a_released_namespace_is_emptied_by_one_leader_after_another() {
    let world = released_world().await;
    let server = world.server.clone();
    let mut ledger = Ledger::default();
    ledger.take(vec![json!({
        "uid": "u", "state": "released", "clusterName": "c1", "namespace": "web", "hard": { "pods": "3" }, "reason": "adopted",
    })]);
    for _ in 0..3 {
        audited_by_a_new_leader(&server, &mut ledger).await;
        assert_eq!(remaining(&server, &ledger), [true; 3], "it is in use");
    }
    world.enforces("0");
    server.calls();
    let mut seen = Vec::new();
    for _ in 0..6 {
        // What this audit has found never reaches the API server.
        audit_of_a_new_leader(&server).await;
        audited_by_a_new_leader(&server, &mut ledger).await;
        seen.push(remaining(&server, &ledger));
    }
    seen.dedup();
    assert_eq!(
        seen,
        [[true, true, false], [false; 3]],
        "what is held is written off while our quota is in place, then quota and marks go"
    );
    let deleted = server.calls().iter().filter(|call| call.starts_with("DELETE")).count();
    assert_eq!(deleted, 1);
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}

#[tokio::test(start_paused = true)]
async fn what_a_former_leader_took_away_in_part_is_taken_away() {
    let world = released_world().await;
    let server = world.server.clone();
    world.enforces("0");
    server.edit(PROJECT, &json!({ "status": { "ledger": { "writtenOff": ["w"] } } }));
    // The former leader ended between the two writes.
    server.remove(QUOTA);
    server.calls();
    audit_of_a_new_leader(&server).await;
    let metadata = &world.stored(NAMESPACE)["metadata"];
    assert_eq!((&metadata["labels"], &metadata["annotations"]), (&json!({}), &json!({})));
    assert!(!server.calls().iter().any(|call| call.starts_with("DELETE")), "nothing is deleted twice");
}

/// Its project may be deleted, and would not wait for the orphan any more.
#[tokio::test]
async fn what_could_not_be_taken_away_is_told_until_it_is() {
    let world = released_world().await;
    world.enforces("0");
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "writtenOff": ["w"] } } }));
    let count = json!({ "status": { "used": { "services": "0" } } });
    world.server.meddle_after(&format!("GET {QUOTA}"), QUOTA, &count);
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"], orphans("w", "Unused"));
    assert!(world.server.find(QUOTA).is_some());
    audit(&world).await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
    assert_eq!(world.server.find(QUOTA), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_used_again_before_it_is_written_off_stays_held() {
    let world = released_world().await;
    let server = world.server.clone();
    hold_charge(&world);
    world.enforces("0");
    audit(&world).await;
    world.enforces("1");
    audit_of_a_new_leader(&server).await;
    assert_eq!(world.project()["status"]["orphans"], orphans("w", "Released"));
}

#[tokio::test]
async fn what_was_released_and_lost_its_quota_to_its_owner_stays_held() {
    let world = released_world().await;
    hold_charge(&world);
    world.server.remove(QUOTA);
    world.server.edit(NAMESPACE, &json!({ "metadata": { "labels": null, "annotations": null } }));
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"][0]["state"], "Released");
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"][0]["state"], "Released");
}

#[tokio::test]
async fn what_was_released_and_written_off_loses_our_quota_and_marks_when_the_ledger_says_so() {
    let world = released_world().await;
    audit(&world).await;
    assert_eq!(
        world.project()["status"]["orphans"],
        orphans("w", "Released"),
        "nothing is held: that may be a restore"
    );
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "writtenOff": ["w"] } } }));
    audit(&world).await;
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
    assert_eq!(world.server.find(QUOTA), None);
}

#[tokio::test]
async fn a_project_waits_until_what_it_released_is_free_of_our_quota_and_marks() {
    let world = released_world().await;
    hold_charge(&world);
    audit(&world).await;
    let ends = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "finalizers": ["project"] } });
    world.server.edit(PROJECT, &ends);
    let pass = async || {
        world.catches_up();
        BusinessProject::reconcile(&world.cx, &RootKey::new(None, "p")).await.unwrap()
    };
    let waits_for = || {
        let status = world.project()["status"].clone();
        let all = status["conditions"].as_array().unwrap();
        let ending = all.iter().find(|one| one["type"] == "Terminating").unwrap();
        (ending["reason"].clone(), ending["message"].as_str().unwrap_or_default().to_owned())
    };
    assert!(matches!(pass().await, PassOutcome::WaitingFor(_)));
    assert_eq!(waits_for().0, "AmountsHeld");
    assert!(waits_for().1.contains("web of cluster c1 still counts"), "{}", waits_for().1);
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "held": null, "writtenOff": ["w"] } } }));
    assert!(matches!(pass().await, PassOutcome::WaitingFor(_)), "nobody else knows what to take away");
    audit(&world).await;
    assert_eq!(world.server.find(QUOTA), None);
    assert_eq!(pass().await, PassOutcome::Applied);
    assert_eq!(world.server.find(PROJECT), None);
}

#[tokio::test]
async fn clusters_in_use_that_nobody_could_look_at_are_missing() {
    let world = World::new();
    let mut elsewhere = pending(&[("pods", "3")]);
    elsewhere.spec.cluster_name = "lost".into();
    world.holds(&elsewhere);
    let held = json!({ "uid": "u", "state": "abandoned", "clusterName": "held", "namespace": "x", "reason": "lost" });
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "held": [held] } } }));
    let absent = BTreeMap::from([("locked".to_owned(), "its kubeconfig cannot be used: locked".to_owned())]);
    world.cx.members.set_absent(absent);
    world.cx.members.set_complete_shares(world.cx.shares.held());
    let comparison = audit(&world).await;
    let missing: Vec<&str> = comparison.missing.keys().map(String::as_str).collect();
    assert_eq!(missing, ["held", "locked", "lost"]);
    assert!(comparison.missing["locked"].contains("kubeconfig"));
    assert!(comparison.missing["lost"].contains("not in the directory"));
    assert!(comparison.clusters.contains_key("c1") && !comparison.is_complete_since(1));
}

/// An audit by the holder of the cluster's share, with its result in the `MemberCluster`.
async fn audit_and_publish(world: &World) {
    audit(world).await;
    BusinessMemberCluster::reconcile(&world.cx, &RootKey::new(None, "c1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_retired_when_no_seal_bears_it_any_more() {
    const SECRET: &str = "/api/v1/namespaces/tke-business/secrets/business-controller-seal";
    const OTHER_PROJECT: &str = "/apis/business.tkestack.io/v1/memberclusters/c2";
    let server = Server::default();
    let world = Arc::new(World::at(&server));
    world.knows_cluster(&json!({ "metadata": { "uid": "m" }, "spec": {}, "status": { "uid": CLUSTER_UID } }));
    let cx = Arc::clone(&world.cx);
    let secrets = kube::Api::namespaced(server.client(), "tke-business");
    let keeper = KeyManager::new(secrets, Arc::clone(&cx));
    keeper.look().await.unwrap();
    let keys = |server: &Server| server.get(SECRET)["data"].as_object().unwrap().len();
    let active = |server: &Server| {
        server.get(SECRET)["metadata"]["annotations"]["business.tkestack.io/active-key"].clone()
    };
    assert_eq!(keys(&server), 1, "it makes its own");
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("0");
    audit_and_publish(&world).await;
    server.edit(
        SECRET,
        &json!({ "metadata": { "annotations": { "business.tkestack.io/rotate-key": "now" } } }),
    );
    keeper.look().await.unwrap();
    assert_eq!(keys(&server), 2, "no comparison is from after the rotation");
    let former: Keyring = (*cx.seals.keyring().unwrap()).clone();
    audit_and_publish(&world).await;
    assert_eq!(server.get(CLUSTER)["status"]["comparison"]["activeKey"], active(&server));
    keeper.look().await.unwrap();
    assert_eq!(keys(&server), 2, "the former one is in use");
    let seal_of = |path| world.stored(path)["metadata"]["annotations"]["business.tkestack.io/seal"].clone();
    let formerly = [NAMESPACE, QUOTA].map(seal_of);
    server.clock.advance(120_000_000);
    world.pass().await.unwrap();
    world.watches();
    world.pass().await.unwrap();
    world.renews(Instant::now());
    // Whoever writes in the cluster copies former seals to other places, and makes one up.
    let made_up = json!(formerly[0].as_str().unwrap().replace("web", "theirs"));
    let copies = [("theirs", &formerly[0]), ("web/resourcequotas/copy", &formerly[1])];
    for (path, seal) in copies.into_iter().chain([("theirs/resourcequotas/theirs", &made_up)]) {
        let (namespace, marks) = (path.split('/').next(), json!({ "business.tkestack.io/seal": seal }));
        let metadata = json!({ "namespace": namespace, "uid": path, "annotations": marks });
        server.put(&format!("/api/v1/namespaces/{path}"), &json!({ "metadata": metadata }));
    }
    audit_and_publish(&world).await;
    // This cluster is in another share, whose holder may still use the former key for seals.
    server.put(
        OTHER_PROJECT,
        &json!({ "metadata": { "name": "c2" }, "spec": {}, "status": { "uid": "other" } }),
    );
    keeper.look().await.unwrap();
    assert_eq!(keys(&server), 2, "one cluster was not compared");
    let comparison = json!({ "revision": 1, "activeKey": "former" });
    server.edit(OTHER_PROJECT, &json!({ "status": { "comparison": comparison } }));
    keeper.look().await.unwrap();
    assert_eq!(keys(&server), 2, "it was compared before");
    server.edit(OTHER_PROJECT, &json!({ "status": { "comparison": { "activeKey": active(&server) } } }));
    keeper.look().await.unwrap();
    assert_eq!(keys(&server), 1);
    let opened = former.open(seal_of(QUOTA).as_str().unwrap());
    assert!(opened.is_some(), "nothing but the key that nobody needs has gone");
}

#[tokio::test(start_paused = true)]
async fn keys_are_read_anew_before_a_share_is_worked_on() {
    let server = Server::default();
    let keeper = |world: &World| {
        KeyManager::new(kube::Api::namespaced(server.client(), "tke-business"), Arc::clone(&world.cx))
    };
    let [maker, other] = [(); 2].map(|()| World::at(&server));
    let long_ago = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
    other.cx.fleet().renewed(Moment::at(long_ago));
    keeper(&maker).look().await.unwrap();
    keeper(&other).look().await.unwrap();
    server.edit(
        "/api/v1/namespaces/tke-business/secrets/business-controller-seal",
        &json!({ "metadata": { "annotations": { "business.tkestack.io/rotate-key": "now" } } }),
    );
    keeper(&other).look().await.unwrap();
    keeper(&maker).look().await.unwrap();
    let active = |world: &World| world.cx.seals.keyring().unwrap().active().to_owned();
    assert_ne!(active(&maker), active(&other), "whoever has not the fleet's share rotates nothing");
    let tasks = Tasks::new();
    tasks.spawn("keys", keeper(&other).run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.cx.seals.wait_for_read().await;
    assert_eq!(active(&maker), active(&other));
}

#[tokio::test(start_paused = true)]
async fn whoever_holds_no_share_tells_of_no_orphans() {
    let (world, _) = world_with_lost_object().await;
    audit(&world).await;
    assert_eq!(world.cx.metrics.orphans.get(), 1);
    for post in world.cx.shares.states() {
        post.begin_drain();
        post.stop();
    }
    assert_eq!(audit(&world).await, Comparison::default());
    assert_eq!(world.cx.metrics.orphans.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_its_cluster_refuses_is_counted_by_whoever_has_that_cluster() {
    let world = World::new();
    world.holds(&pending(&[("pods", "3")]));
    world.server.refuse(NAMESPACE);
    world.pass().await.unwrap();
    let refused = StateLabels { state: NamespaceProblem::Refused.label() };
    audit(&world).await;
    assert_eq!(world.cx.metrics.namespaces.get_or_create(&refused).get(), 1);
    for post in world.cx.shares.states() {
        post.begin_drain();
        post.stop();
    }
    audit(&world).await;
    assert_eq!(world.cx.metrics.namespaces.get_or_create(&refused).get(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_a_share_that_is_not_ours_nothing_is_compared_and_nothing_done() {
    let (world, _) = world_with_lost_object().await;
    let post = Arc::clone(world.cx.shares.state(Share::Clusters(0)));
    post.begin_drain();
    post.stop();
    world.server.calls();
    assert_eq!(audit(&world).await, Comparison::default());
    assert!(world.project()["status"].get("orphans").is_none());
    world.holds(&pending(&[("pods", "3")]));
    let waiting = world.cx.queue.sizes();
    let key = ProjectKey::new(Some("p"), "n");
    world.cx.enqueue(&ObjectRef::Namespace(key), "c1", Lane::Urgent, Duration::ZERO);
    assert_eq!(world.cx.queue.sizes(), waiting);
    post.fence.close();
    world.server.remove(NAMESPACE);
    world.watches();
    world.server.calls();
    assert!(world.pass().await.is_err(), "its fence is closed");
    assert!(world.calls().iter().all(|call| call.starts_with("GET")));
}
