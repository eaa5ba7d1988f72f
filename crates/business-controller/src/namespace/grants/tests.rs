use super::*;
use crate::fixtures::pending;
use crate::project::ancestors::ChainEnd;
use crate::project::kind::ProjectView;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn of_acme() -> NamespaceView {
    let mut object = pending(&[("pods", "3")]);
    object.spec.tenant_id = "acme".into();
    object
}

/// A chain of projects with these specs.
fn line(specs: &[Value]) -> AncestorChain {
    let project = |spec: &Value| {
        Arc::new(ProjectView {
            spec: serde_json::from_value(spec.clone()).unwrap(),
            ..ProjectView::default()
        })
    };
    AncestorChain { projects: specs.iter().map(project).collect(), end: ChainEnd::Root }
}

fn named(object: &NamespaceView, specs: &[Value], identity: ClusterIdentity) -> Grants {
    let administrators = serde_json::from_value::<Vec<Subject>>(json!([
        {"kind": "User", "name": "oidc:root"}, {"kind": "ServiceAccount", "name": "ci", "namespace": "n"},
    ]));
    let administrators = administrators.unwrap();
    compute_grants(
        object,
        GrantSources { ancestors: &line(specs), administrators: &administrators, identity },
    )
}

/// The grants in a tenant without an object.
fn certified(specs: &[Value]) -> Grants {
    let identity = ClusterIdentity::Certificates;
    compute_grants(&of_acme(), GrantSources { ancestors: &line(specs), administrators: &[], identity })
}

fn names(grants: &Grants, role: AccessRole) -> Vec<String> {
    let texts = grants.roles.get(&role).into_iter().flatten().map(|grantee| match grantee {
        Grantee::User(name) | Grantee::Group(name) => name.clone(),
        Grantee::ServiceAccount { namespace, name } => format!("{namespace}/{name}"),
        Grantee::Other => "?".into(),
    });
    texts.collect()
}

#[test]
fn members_edit_and_administrators_rule() {
    let grants = certified(&[json!({"members": ["alice", "bob", "alice"]})]);
    let administrators = BTreeSet::from([Grantee::Group("business:acme:administrators".into())]);
    assert_eq!(grants.roles[&AccessRole::Admin], administrators);
    assert_eq!(names(&grants, AccessRole::Edit), ["business:acme:alice", "business:acme:bob"]);
    assert_eq!(
        grants.access_state("acme"),
        crate::namespace::access_state::AccessState::Granted(OmittedSubjects::default())
    );
}

#[test]
fn whom_the_tenant_names_as_administrator_rules_by_his_own_name() {
    let grants = named(&of_acme(), &[json!({})], ClusterIdentity::Certificates);
    assert_eq!(
        names(&grants, AccessRole::Admin),
        ["business:acme:oidc:root", "business:acme:user:oidc:root", "business:acme:administrators"]
    );
}

#[test]
fn roles_come_down_the_line_and_the_highest_counts() {
    let grants = certified(&[
        json!({"members": ["ann"], "access": [
            {"kind": "User", "name": "bob", "role": "view"}, {"kind": "Group", "name": "devs", "role": "edit"}]}),
        json!({"access": [{"kind": "User", "name": "bob", "role": "edit"}]}),
        json!({"members": ["zoe"], "access": [
            {"kind": "User", "name": "ann", "role": "admin"}, {"kind": "Group", "name": "devs", "role": "view"},
            {"kind": "Group", "name": "audit", "role": "view"}]}),
    ]);
    let admin = ["business:acme:ann", "business:acme:user:ann", "business:acme:administrators"];
    assert_eq!(names(&grants, AccessRole::Admin), admin);
    // Zoe is a member: a user of her name without a tenant is somebody else.
    let edit =
        ["business:acme:bob", "business:acme:user:bob", "business:acme:zoe", "business:acme:group:devs"];
    assert_eq!(names(&grants, AccessRole::Edit), edit);
    assert_eq!(names(&grants, AccessRole::View), ["business:acme:group:audit"]);
}

#[test]
fn a_service_account_is_named_in_its_own_cluster_alone() {
    let account = |cluster: &str, namespace: &str, name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace, "cluster": cluster, "role": "edit"});
    let grants = certified(&[json!({"access": [
        account("", "gitops", "host"), account("c2", "gitops", "other"), account("c1", "gitops", "argocd"),
        account("c1", "kube-system", "root"), account("c1", "tke-business", "business-member"),
        account("c1", "gitops", "Not_A_Name"),
    ]})]);
    assert_eq!(names(&grants, AccessRole::Edit), ["gitops/argocd"]);
    assert_eq!(grants.omitted.unnameable, 3, "the cluster would refuse the binding with everybody in it");
}

#[test]
fn a_cluster_with_the_hosts_identity_knows_people_by_both_names() {
    let specs = [json!({"members": ["namesake"], "access": [
        {"kind": "User", "name": "oidc:ann", "role": "edit"},
        {"kind": "Group", "name": "oidc:devs", "role": "view"},
        {"kind": "User", "name": "business:acme:administrators", "role": "view"},
        {"kind": "Group", "name": "system:masters", "role": "admin"},
        {"kind": "ServiceAccount", "name": "ci", "namespace": "n", "role": "admin"}]})];
    let grants = named(&of_acme(), &specs, ClusterIdentity::Shared);
    assert_eq!(
        names(&grants, AccessRole::Edit),
        ["business:acme:namesake", "business:acme:oidc:ann", "business:acme:user:oidc:ann", "oidc:ann",]
    );
    assert_eq!(
        names(&grants, AccessRole::View),
        [
            "business:acme:business:acme:administrators",
            "business:acme:user:business:acme:administrators",
            "business:acme:group:oidc:devs",
            "oidc:devs"
        ],
        "nobody is copied whose name means somebody else there"
    );
    let admins = [
        "business:acme:oidc:root",
        "business:acme:user:oidc:root",
        "oidc:root",
        "business:acme:administrators",
        "business:acme:group:system:masters",
    ];
    assert_eq!(names(&grants, AccessRole::Admin), admins);
}

#[test]
fn who_cannot_be_named_is_counted_and_nobody_is_named_in_his_place() {
    let specs = [json!({"members": ["ali\u{7}ce", "x".repeat(300), "bob"]})];
    let grants = certified(&specs);
    assert_eq!(grants.omitted.unnameable, 2);
    assert_eq!(names(&grants, AccessRole::Edit), ["business:acme:bob"]);
    let mut object = of_acme();
    object.spec.tenant_id = "acme:b".into();
    let none = named(&object, &specs, ClusterIdentity::Certificates);
    assert_eq!((none.roles.len(), none.omitted.unnameable), (0, 4), "it would be another tenant's user");
}

#[test]
fn what_an_object_cannot_hold_is_left_out_from_the_lowest_role_on() {
    let many = |count: usize, prefix: &str| -> Vec<String> {
        (0..count).map(|number| format!("{prefix}-{number:0>150}")).collect()
    };
    let viewers: Vec<Value> = many(3_000, "v")
        .into_iter()
        .map(|name| json!({"kind": "User", "name": name, "role": "view"}))
        .collect();
    let grants = certified(&[json!({"members": many(500, "e"), "access": viewers})]);
    assert_eq!(grants.roles[&AccessRole::Edit].len(), 500);
    let viewers = grants.roles[&AccessRole::View].len();
    assert_eq!((viewers > 1_000, viewers + grants.omitted.surplus), (true, 6_000));
}

#[test]
fn what_an_answer_escapes_counts_as_it_is_read() {
    let members: Vec<String> = (0..2_000).map(|number| format!("{number:0>4}{}", "<".repeat(150))).collect();
    let grants = certified(&[json!({ "members": members })]);
    let named = grants.roles[&AccessRole::Edit].len();
    assert!((450..510).contains(&named), "{named}");
    assert_eq!(named + grants.omitted.surplus, 2_000);
}
