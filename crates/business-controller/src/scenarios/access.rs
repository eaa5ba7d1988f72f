//! Who may use a namespace in its cluster, and who may not any more.

use crate::controller::Controller as _;
use crate::error::{Error, ListFailure};
use crate::fixtures::pending;
use crate::fixtures::server::{Fault, Server};
use crate::fixtures::world::{BINDINGS, NAMESPACE, OBJECT, PROJECT, QUOTA, World};
use crate::kinds::{ChangeSource, ObjectKey as _, RootKey, ViewChange};
use crate::metrics::{Drift, DriftLabels};
use crate::namespace::kind::NamespaceView;
use crate::outcome::PassOutcome;
use crate::project::kind::BusinessProject;
use crate::tenant::kind::{BusinessTenant, TenantView};
use business_types::access::AccessRole::{Admin, Edit, View};
use business_types::condition::{self, ACCESS_READY, OTHER_ACCESS};
use business_types::{AccessEntry, ProjectSpec, names};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const NOTHING: [&str; 0] = [];
const QUOTAS: &str = "/api/v1/namespaces/web/resourcequotas";

fn of_acme() -> NamespaceView {
    let mut object = pending(&[("pods", "3")]);
    object.spec.tenant_id = "acme".into();
    object
}

/// A namespace in use of tenant acme, in a project with these members.
async fn world_with_members(members: &[&str]) -> World {
    let world = World::new();
    world.holds(&of_acme());
    world.has_members(members);
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    world.calls();
    world
}

fn access_condition(world: &World) -> (String, String) {
    let status = world.seen().status;
    let condition = condition::find(&status.conditions, ACCESS_READY).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

#[tokio::test]
async fn members_and_administrators_are_named_and_nobody_else() {
    let world = world_with_members(&["alice", "bob"]).await;
    assert_eq!(world.grantees(Admin).unwrap(), ["business:acme:administrators"]);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice", "business:acme:bob"]);
    let role = world.stored(&World::binding(Edit))["roleRef"]["name"].clone();
    assert_eq!((role, access_condition(&world)), (json!("business:edit"), ("True".into(), "Granted".into())));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
    assert_eq!(world.calls(), NOTHING);
}

#[tokio::test]
async fn who_is_no_member_any_more_loses_it_in_the_next_pass() {
    let world = world_with_members(&["alice", "bob"]).await;
    world.has_members(&["bob"]);
    world.pass().await.unwrap();
    assert_eq!(world.calls(), [format!("PATCH {}", World::binding(Edit))]);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:bob"]);
    world.has_members(&[]);
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit), None);
    assert!(world.grantees(Admin).is_some());
}

/// Puts project p below q, and q below r. Project r has these access entries.
fn add_ancestors(world: &World, access: &Value) {
    for (name, parent, access) in [("r", "", access), ("q", "r", &json!([]))] {
        let spec = json!({ "tenantID": "acme", "parentProjectName": parent, "access": access });
        world.knows_project(&json!({ "metadata": { "name": name, "uid": name }, "spec": spec }));
    }
    world.server.edit(PROJECT, &json!({ "spec": { "tenantID": "acme", "parentProjectName": "q" } }));
    world.catches_up();
}

#[tokio::test]
async fn a_role_further_up_counts_and_is_lost_there() {
    let world = world_with_members(&["alice"]).await;
    let zoe = json!([{ "kind": "User", "name": "zoe", "role": "admin" },
        { "kind": "Group", "name": "audit", "role": "view" }]);
    add_ancestors(&world, &zoe);
    world.pass().await.unwrap();
    let admins = ["business:acme:user:zoe", "business:acme:zoe", "business:acme:administrators"];
    assert_eq!(world.grantees(Admin).unwrap(), admins);
    assert_eq!(world.grantees(View).unwrap(), ["business:acme:group:audit"]);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"]);
    add_ancestors(&world, &json!([]));
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Admin).unwrap(), ["business:acme:administrators"]);
    assert_eq!(world.grantees(View), None);
    assert_eq!(access_condition(&world), ("True".into(), "Granted".into()));
}

#[tokio::test]
async fn a_parent_that_is_not_there_gives_nobody_anything_and_takes_no_role_of_others() {
    let world = world_with_members(&["alice"]).await;
    world.server.edit(PROJECT, &json!({ "spec": { "tenantID": "acme", "parentProjectName": "gone" } }));
    world.catches_up();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "it is tried again");
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"]);
    assert_eq!(access_condition(&world), ("False".into(), "ParentUnknown".into()));
    // The watch has not delivered it; the API has it.
    let late = json!({ "metadata": { "name": "gone", "uid": "late" }, "spec": { "tenantID": "acme", "members": ["zoe"] } });
    world.server.put("/apis/business.tkestack.io/v1/projects/gone", &late);
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice", "business:acme:zoe"]);
    assert_eq!(access_condition(&world).0, "True");
    world.server.edit(PROJECT, &json!({ "spec": { "parentProjectName": "p" } }));
    world.catches_up();
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"], "a circle of one");
    assert_eq!(access_condition(&world), ("False".into(), "ParentUnknown".into()));
}

#[tokio::test]
async fn a_change_further_up_wakes_the_namespaces_below() {
    let world = world_with_members(&["alice"]).await;
    add_ancestors(&world, &json!([]));
    world.woken();
    let r = RootKey::new(None, "r");
    let old = world.cx.objects.projects.get(&r).unwrap();
    let changed = |change: &dyn Fn(&mut ProjectSpec)| {
        let mut new = (*old).clone();
        change(&mut new.spec);
        let change = ViewChange {
            old: Some(Arc::clone(&old)),
            new: Some(Arc::new(new)),
            source: ChangeSource::WatchEvent,
        };
        BusinessProject::changed(&world.cx, &change);
    };
    for (field, change) in [
        ("access", &(|spec: &mut ProjectSpec| spec.access = zoe_views()) as &dyn Fn(&mut ProjectSpec)),
        ("displayName", &|spec| spec.display_name = "x".into()),
        ("members", &|spec| spec.members = vec!["zoe".into()]),
        ("parentProjectName", &|spec| spec.parent_project_name = "x".into()),
        ("tenantID", &|spec| spec.tenant_id = "x".into()),
    ] {
        world.woken();
        changed(change);
        assert_eq!(world.woken().contains(&"p/n".to_owned()), field != "displayName", "{field}");
    }
}

fn zoe_views() -> Vec<AccessEntry> {
    serde_json::from_value(json!([{ "kind": "User", "name": "zoe", "role": "view" }])).unwrap()
}

/// Sets the administrators of tenant acme.
fn set_administrators(world: &World, revision: &str, names: &[&str]) {
    let administrators: Value = names.iter().map(|name| json!({ "kind": "User", "name": name })).collect();
    let object = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
        "metadata": { "name": "acme", "uid": "acme", "resourceVersion": revision },
        "spec": { "administrators": administrators },
    });
    let view = TenantView::decode(serde_json::from_value(object).unwrap()).unwrap();
    let change = world.cx.objects.tenants.upsert(view, ChangeSource::WatchEvent).unwrap();
    BusinessTenant::changed(&world.cx, &change);
}

#[tokio::test]
async fn whom_the_tenant_names_rules_until_it_names_him_no_more() {
    let world = world_with_members(&[]).await;
    add_ancestors(&world, &json!([]));
    for (revision, names, named) in [
        (
            "1",
            vec!["root"],
            vec!["business:acme:root", "business:acme:user:root", "business:acme:administrators"],
        ),
        ("2", vec![], vec!["business:acme:administrators"]),
    ] {
        world.woken();
        set_administrators(&world, revision, &names);
        assert!(world.woken().contains(&"p/n".to_owned()), "its namespaces are looked at");
        world.pass().await.unwrap();
        assert_eq!(world.grantees(Admin).unwrap(), named);
    }
}

#[tokio::test]
async fn who_has_left_is_out_although_the_cluster_does_not_take_who_has_come() {
    let world = world_with_members(&["alice", "bob"]).await;
    world.server.refuse_text("business:acme:eve");
    world.has_members(&["bob", "eve"]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:bob"]);
    assert_eq!(access_condition(&world), ("False".into(), "Refused".into()));

    world.server.refuse(&format!("PATCH {}", World::binding(Edit)));
    world.has_members(&[]);
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit), None);
}

#[tokio::test]
async fn who_has_left_is_out_without_a_key_to_seal_with_and_without_our_label() {
    let mut world = world_with_members(&["alice", "bob"]).await;
    world.server.edit(NAMESPACE, &json!({ "metadata": { "labels": null } }));
    world.server.refuse(QUOTAS);
    world.watches();
    world.has_members(&["bob"]);
    drop(world.pass().await);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:bob"]);

    Arc::get_mut(&mut world.cx).unwrap().seals = crate::seal::SealKeys::default();
    world.has_members(&[]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Waiting);
    assert_eq!(world.grantees(Edit), None);
}

#[tokio::test]
async fn bindings_that_somebody_has_made_are_told_and_left_alone() {
    let world = world_with_members(&["alice"]).await;
    let other = format!("{BINDINGS}/ci");
    let ci = json!([{ "kind": "ServiceAccount", "namespace": "web", "name": "ci" }]);
    world.server.put(
        &other,
        &json!({ "metadata": { "name": "ci" }, "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" }, "subjects": ci }),
    );
    world.watches();
    world.pass().await.unwrap();
    let told = |world: &World| condition::find(&world.seen().status.conditions, OTHER_ACCESS).cloned();
    let condition = told(&world).unwrap();
    assert!(condition.is_true() && condition.message.contains("ci (edit to ServiceAccount web/ci)"));
    assert_eq!(access_condition(&world).0, "True", "ours are right");
    world.has_members(&[]);
    world.pass().await.unwrap();
    assert!(world.server.find(&other).is_some(), "it is somebody's own");
    world.server.remove(&other);
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(told(&world).unwrap().status, "False");
}

#[tokio::test]
async fn what_the_owner_does_to_the_bindings_is_undone() {
    let world = world_with_members(&["alice"]).await;
    let edit = World::binding(Edit);
    let before = world.stored(&edit)["subjects"].clone();
    let eve = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }]);
    world.server.edit(&edit, &json!({ "subjects": eve, "metadata": { "annotations": null } }));
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.stored(&edit)["subjects"], before);

    world.server.edit(&edit, &json!({ "metadata": { "labels": null }, "subjects": eve }));
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.stored(&edit)["subjects"], before, "found although the watch does not see it");

    world.server.edit(&edit, &json!({ "roleRef": { "name": "cluster-admin" } }));
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(world.stored(&edit)["roleRef"]["name"], "business:edit");

    world.server.remove(&World::binding(Admin));
    world.watches();
    world.pass().await.unwrap();
    assert!(world.grantees(Admin).is_some());
}

fn restored_bindings(world: &World) -> u64 {
    world.cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Binding }).get()
}

#[tokio::test]
async fn a_binding_that_somebody_changed_is_told_and_one_that_was_asked_for_is_not() {
    let world = world_with_members(&["alice"]).await;
    world.has_members(&["alice", "bob"]);
    world.pass().await.unwrap();
    world.has_members(&[]);
    world.pass().await.unwrap();
    world.has_members(&["alice"]);
    world.pass().await.unwrap();
    assert_eq!(restored_bindings(&world), 0, "the project's members have changed");

    let eve = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }]);
    world.server.edit(&World::binding(Edit), &json!({ "subjects": eve }));
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(restored_bindings(&world), 1);
    world.server.remove(&World::binding(Admin));
    world.watches();
    world.pass().await.unwrap();
    assert_eq!(restored_bindings(&world), 2);
    world.pass().await.unwrap();
    assert_eq!(restored_bindings(&world), 2, "nothing was to be done");

    world.holds(&world.seen().ending());
    world.pass().await.unwrap();
    assert_eq!(restored_bindings(&world), 2, "what goes with its object was taken by nobody");
}

#[tokio::test]
async fn a_member_leaves_even_while_the_quota_cannot_be_written() {
    let world = world_with_members(&["alice"]).await;
    world.holds(&world.seen().annotated("business.tkestack.io/x", "1").asks(&[("pods", "4")]));
    world.server.refuse(QUOTAS);
    world.has_members(&[]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.grantees(Edit), None);
}

#[tokio::test]
async fn nobody_comes_into_a_namespace_whose_quota_the_cluster_refuses() {
    let world = World::new();
    world.server.refuse(QUOTAS);
    world.holds(&of_acme());
    world.has_members(&["alice"]);
    for _ in 0..2 {
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
        world.watches();
    }
    assert!(world.server.find(NAMESPACE).is_some(), "it is there, without a quota");
    assert!(world.server.list(BINDINGS).is_empty());
    assert_eq!(access_condition(&world), ("Unknown".into(), "Pending".into()));
    world.server.forget_faults();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"]);
    assert_eq!(access_condition(&world), ("True".into(), "Granted".into()));
    assert_eq!(restored_bindings(&world), 0);
}

#[tokio::test]
async fn while_the_quota_is_gone_people_leave_and_who_has_come_comes_with_it() {
    let world = world_with_members(&["alice"]).await;
    world.server.remove(QUOTA);
    world.watches();
    world.server.refuse(QUOTAS);
    world.has_members(&["alice", "bob"]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"], "nobody is added");
    assert_eq!(access_condition(&world), ("Unknown".into(), "Pending".into()));
    world.has_members(&["bob"]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.grantees(Edit).unwrap(), NOTHING);
    assert!(world.grantees(Admin).is_some(), "nothing has changed for them");

    world.server.forget_faults();
    world.calls();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    let writes: Vec<String> = world.calls().into_iter().filter(|call| !call.starts_with("GET")).collect();
    let edit = format!("PATCH {}", World::binding(Edit));
    assert_eq!(writes, [format!("POST {QUOTAS}"), edit, format!("PATCH {OBJECT}/status")]);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:bob"]);
    assert_eq!((access_condition(&world).0, restored_bindings(&world)), ("True".into(), 0));
}

#[tokio::test]
async fn a_cluster_that_takes_no_bindings_keeps_nobody_from_his_quota() {
    let world = World::new();
    world.server.refuse(BINDINGS);
    world.holds(&of_acme());
    world.has_members(&["alice"]);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "it is tried again");
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(access_condition(&world), ("False".into(), "Refused".into()));
}

#[tokio::test]
async fn where_bindings_cannot_be_listed_that_is_said_and_nothing_is_tried() {
    let world = World::new();
    world.member.observed.reset();
    let forbidden = ListFailure { text: "403 rolebindings is forbidden".to_owned(), is_forbidden: true };
    world.member.observed.binding_list_failed(&forbidden);
    world.holds(&of_acme());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert_eq!(access_condition(&world), ("False".into(), "Refused".into()));
    assert!(world.server.list(BINDINGS).is_empty());
}

#[tokio::test]
async fn who_has_left_is_out_although_there_are_more_bindings_than_can_be_listed() {
    let world = world_with_members(&["alice", "bob"]).await;
    world.member.observed.reset();
    let too_much = ListFailure { text: "the pages of lists may be 32 MiB".to_owned(), is_forbidden: false };
    world.member.observed.binding_list_failed(&too_much);
    world.has_members(&["bob"]);
    drop(world.pass().await);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:bob"]);
    assert_eq!(world.grantees(Admin).unwrap(), ["business:acme:administrators"]);
    world.has_members(&[]);
    drop(world.pass().await);
    assert_eq!(world.grantees(Edit), None);
}

#[tokio::test(start_paused = true)]
async fn who_has_left_does_not_stay_in_until_a_long_list_ends() {
    let world = world_with_members(&["alice", "bob"]).await;
    world.member.observed.reset();
    world.member.observed.begin_binding_list();
    for _ in 0..8 {
        tokio::time::advance(Duration::from_secs(4)).await;
        world.renews(tokio::time::Instant::now());
    }
    world.has_members(&["bob"]);
    drop(world.pass().await);
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:bob"]);
}

#[tokio::test]
async fn in_a_namespace_that_somebody_made_in_the_place_of_ours_nobody_is_named() {
    let world = world_with_members(&["alice"]).await;
    world.server.remove(NAMESPACE);
    world.server.put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "his" } }));
    world.watches();
    world.pass().await.unwrap();
    assert!(world.server.list(BINDINGS).is_empty());
    assert_eq!(access_condition(&world), ("False".into(), "Replaced".into()));
}

/// A namespace of somebody else that alice's project has consent to adopt, and that is on record.
async fn adoptable_world() -> World {
    let world = World::new();
    let consent = json!({ "business.tkestack.io/adopt": "p/n" });
    world
        .server
        .put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "theirs", "annotations": consent } }));
    world.holds(&of_acme());
    world.has_members(&["alice"]);
    world.pass().await.unwrap();
    world
}

#[tokio::test]
async fn what_was_adopted_is_bound_and_released_without_our_bindings() {
    let world = adoptable_world().await;
    assert!(world.server.list(BINDINGS).is_empty(), "it is not ours yet");
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"]);
    world.enforces("1");
    world.pass().await.unwrap();
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert!(world.server.find(NAMESPACE).is_some());
    assert!(world.server.list(BINDINGS).is_empty());
}

#[tokio::test]
async fn a_quota_that_counts_only_some_objects_lets_nobody_in() {
    let world = adoptable_world().await;
    let spec = json!({ "hard": { "pods": "3" }, "scopes": ["BestEffort"] });
    world.server.put(QUOTA, &json!({ "metadata": { "name": "web", "uid": "his" }, "spec": spec }));
    for _ in 0..2 {
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
        assert!(world.server.list(BINDINGS).is_empty());
    }
    world.server.remove(QUOTA);
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"]);
}

/// A finalizer of somebody else keeps the binding.
#[tokio::test]
async fn a_binding_that_stays_in_a_namespace_that_is_given_back_names_nobody() {
    let world = adoptable_world().await;
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    world.server.refuse(&format!("DELETE {BINDINGS}"));
    world.holds(&world.seen().ending());
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    for role in [Admin, Edit] {
        assert_eq!(world.grantees(role).unwrap(), NOTHING, "{role:?}");
    }
}

/// Each pass tries to remove somebody first, and a write without an answer is waited for.
#[tokio::test]
async fn what_is_given_up_goes_although_no_binding_can_be_written() {
    let world = adoptable_world().await;
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    world.server.refuse_because(BINDINGS, "InternalError");
    world.has_members(&[]);
    world.holds(&world.seen().ending());
    for _ in 0..2 {
        drop(world.pass().await);
        assert!(world.server.find(OBJECT).is_some());
    }
    world.holds(&world.seen().annotated(names::ABANDON_ANNOTATION, "a webhook is dead"));
    drop(world.pass().await);
    assert!(world.server.find(OBJECT).is_none() && world.server.find(NAMESPACE).is_some());
}

/// The object is gone, so nobody reconciles its bindings later.
#[tokio::test]
async fn in_an_abandoned_namespace_nobody_keeps_a_role() {
    for refused in [None, Some(BINDINGS)] {
        let world = world_with_members(&["alice"]).await;
        world.server.linger();
        world.holds(&world.seen().ending());
        assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)));
        world.watches();
        if let Some(path) = refused {
            world.server.refuse(path);
        }
        world.holds(&world.seen().annotated(names::ABANDON_ANNOTATION, "it does not go"));
        assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied, "{refused:?}");
        assert!(world.server.find(OBJECT).is_none() && world.server.find(NAMESPACE).is_some());
        assert_eq!(world.server.list(BINDINGS).is_empty(), refused.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_whose_answer_was_lost_is_found() {
    let world = world_with_members(&[]).await;
    world.has_members(&["alice"]);
    world.server.fault(Fault::AnswerLost);
    let outcome = world.pass().await;
    assert!(matches!(outcome, Ok(PassOutcome::Refused) | Err(Error::Member(_))), "{outcome:?}");
    tokio::time::advance(Duration::from_secs(6)).await;
    world.renews(tokio::time::Instant::now());
    world.pass().await.unwrap();
    assert_eq!(world.grantees(Edit).unwrap(), ["business:acme:alice"]);
    assert_eq!(access_condition(&world).0, "True");
}

#[tokio::test]
async fn what_a_former_leader_writes_late_is_undone() {
    let server = Server::default();
    let world = World::at(&server);
    world.holds(&of_acme());
    world.has_members(&["alice"]);
    world.pass().await.unwrap();
    world.watches();
    let new = World::led_by_another(&server);
    new.relists();
    new.has_members(&[]);
    new.watches();
    new.pass().await.unwrap();
    assert_eq!(new.grantees(Edit), None);
    // The former leader still believes that alice is a member.
    world.cx.objects.namespaces.all();
    drop(world.pass().await);
    new.watches();
    new.pass().await.unwrap();
    assert_eq!(new.grantees(Edit), None);
}
