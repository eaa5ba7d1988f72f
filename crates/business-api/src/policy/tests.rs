use super::*;
use crate::kinds::KINDS;
use crate::role_bindings::{ObjectBindings, RoleBindings};
use crate::subjects::tenant_user;
use business_types::names::CONFIG_MAPS;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use store::{Sight, TenantSight};

/// Tenants t and u; in t the projects p ⊃ kid and q, in u the project far.
fn policy(tenant_grant: bool) -> BusinessPolicy {
    let changes = RoleChanges::default();
    let projects = RoleBindings::synced(changes.clone());
    projects.set("p", "", "t", &[("ann", Role::Admin), ("eve", Role::Edit), ("vic", Role::View)]);
    projects.set("kid", "p", "t", &[("vic", Role::Edit)]);
    projects.set("q", "", "t", &[("\u{1}devs", Role::Edit)]);
    projects.set("far", "", "u", &[("both", Role::View)]);
    let platforms = RoleBindings::synced(changes.clone());
    platforms.set("plf", "", "t", &[(&tenant_user("root"), Role::Administrator)]);
    let tenants = RoleBindings::synced(changes.clone());
    tenants.set("t", "", "t", &[("boss", Role::Administrator), ("both", Role::Administrator)]);
    let roles = Roles {
        tenant_admin_group: "tenant-admins".to_owned(),
        projects,
        administrators: vec![platforms, tenants],
        tenant_grant,
    };
    BusinessPolicy::new(roles, KINDS.rights(), changes)
}

fn caller(name: &str, tenant: Option<&str>, groups: &[&str]) -> Caller {
    Caller {
        name: name.to_owned(),
        tenant: tenant.map(str::to_owned),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        ..Caller::default()
    }
}

fn named(name: &str) -> Caller {
    caller(name, None, &[])
}

fn of(verb: &'static str, resource: &str, subresource: &str, namespace: &str, name: &str) -> RequestInfo {
    ResourceRequest {
        verb: verb.into(),
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ResourceRequest::default()
    }
    .into()
}

fn verdict(policy: &BusinessPolicy, caller: &Caller, request: &RequestInfo) -> AuthzVerdict {
    policy.judge(caller, request, false).verdict
}

fn allows(policy: &BusinessPolicy, caller: &Caller, request: &RequestInfo) -> bool {
    match verdict(policy, caller, request) {
        AuthzVerdict::Allow => true,
        AuthzVerdict::Deny(_) => false,
        other => panic!("{caller:?} {request:?}: {other:?}"),
    }
}

fn sight(policy: &BusinessPolicy, caller: &Caller) -> Visibility {
    policy.judge(caller, &of("list", PROJECTS, "", "", ""), false).visibility.unwrap()
}

fn of_tenant(tenant: &str, projects: &[&str]) -> TenantSight {
    let projects: BTreeSet<String> = projects.iter().map(|name| (*name).to_owned()).collect();
    TenantSight { tenant: Arc::from(tenant), sight: Sight::Namespaces(Arc::new(projects)) }
}

/// Records the least role for each kind, verb and subresource.
#[test]
fn the_table_of_rights_is_as_recorded() {
    let mut table = format!("{:<31}{:<18}least role\n", "", "verb");
    let objects = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
        GRANT,
        OPERATE,
        "else",
    ]
    .map(|verb| ("", verb));
    let subresources = [
        "status",
        "finalize",
        CERTIFICATE,
        "finalizers",
        "token",
        "transfer",
        "lock",
        "unlock",
        "abandon",
        "else",
    ];
    let subresources = subresources
        .into_iter()
        .flat_map(|subresource| ["create", "get", "patch", "update"].map(|verb| (subresource, verb)));
    let asked: Vec<(&str, &'static str)> = objects.into_iter().chain(subresources).collect();
    for kind in KINDS.rights() {
        for (subresource, verb) in &asked {
            let least = kind.least_role(verb, subresource).map_or("-", Role::label);
            let what = format!("{}/{subresource}", kind.resource);
            writeln!(table, "{:<31}{verb:<18}{least}", what.trim_end_matches('/')).unwrap();
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/output/rights.txt");
    if std::env::var_os("UPDATE_OUTPUT").is_some() {
        std::fs::write(file, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        table == recorded,
        "the table changed; look at it, then record it with UPDATE_OUTPUT=1:\n{table}"
    );
}

#[test]
fn budget_is_made_by_administrators_and_only_where_it_is_switched_on() {
    let admin = caller("x", Some("t"), &["tenant-admins"]);
    let grant = of(GRANT, PROJECTS, "", "", "");
    assert!(allows(&policy(true), &admin, &grant));
    assert!(!allows(&policy(false), &admin, &grant));
    assert!(!allows(&policy(true), &named("ann"), &grant));
    let of_new = of(GRANT, PROJECTS, "", "", "new");
    assert!(!allows(&policy(true), &named("ann"), &of_new), "not even of what she does not see");
    assert!(allows(&policy(true), &named("boss"), &of_new));
    assert_eq!(verdict(&policy(true), &named("stranger"), &grant), AuthzVerdict::NoOpinion);
}

#[test]
fn each_role_does_its_part_in_its_project_and_below() {
    let policy = policy(true);
    let asks = |name: &str, verb, resource, namespace, object| {
        allows(&policy, &named(name), &of(verb, resource, "", namespace, object))
    };
    for (who, project, [list, create, revise]) in [
        ("ann", "p", [true, true, true]),
        ("ann", "kid", [true, true, true]),
        ("eve", "p", [true, true, false]),
        ("eve", "kid", [true, true, false]),
        ("vic", "p", [true, false, false]),
        ("vic", "kid", [true, true, false]),
        // Neither exists for them: the store says so.
        ("ann", "q", [true, true, true]),
        ("vic", "no-such", [true, true, true]),
    ] {
        assert_eq!(asks(who, "list", NAMESPACES, project, ""), list, "{who} lists {project}");
        assert_eq!(asks(who, "create", NAMESPACES, project, ""), create, "{who} creates in {project}");
        assert_eq!(asks(who, "patch", PROJECTS, "", project), revise, "{who} changes {project}");
    }
    assert!(!asks("ann", "delete", PROJECTS, "", "p"), "a root is for administrators of the tenant");
    assert!(asks("ann", "delete", PROJECTS, "", "kid") && !asks("vic", "delete", PROJECTS, "", "kid"));
    assert!(asks("ann", "create", PROJECTS, "", "") && !asks("eve", "create", PROJECTS, "", ""));
    assert!(!asks("ann", "deletecollection", NAMESPACES, "", ""), "over all projects");
    assert!(asks("ann", "deletecollection", NAMESPACES, "p", ""));
    assert!(!asks("ann", "create", CONFIG_MAPS, "", "") && asks("vic", "list", CONFIG_MAPS, "", ""));
    let status = of("patch", NAMESPACES, "status", "p", "n");
    assert!(!allows(&policy, &caller("x", Some("t"), &["tenant-admins"]), &status));
    let AuthzVerdict::Deny(why) = verdict(&policy, &named("vic"), &of("create", NAMESPACES, "", "p", ""))
    else {
        panic!("allowed")
    };
    assert_eq!(why, "this needs the role edit in project \"p\"");
}

#[test]
fn a_role_is_waited_for_in_every_project_that_a_request_may_name() {
    let policy = policy(true);
    let waits = |name: &str, verb, resource: &str, subresource: &str, project: &str| {
        let (caller, request) = (named(name), of(verb, resource, subresource, project, ""));
        let ruling = policy.judge(&caller, &request, false);
        policy.may_be_stale(&caller, request.resource().unwrap(), &ruling)
    };
    assert!(waits("ann", "create", PROJECTS, "", ""), "its body names the parent");
    assert!(waits("ann", "create", NAMESPACES, TRANSFER, "p"), "its body names where the namespace goes");
    assert!(waits("ann", "create", NS_EMIGRATIONS, "", "p"), "so does this one");
    assert!(waits("ann", "create", NAMESPACES, "", "new"), "it may be there");
    assert!(waits("vic", "create", NAMESPACES, "", "p"), "he may have got another role");
    assert!(!waits("ann", "create", NAMESPACES, "", "p"));
    assert!(!waits("ann", "patch", NS_EMIGRATIONS, "", "p"), "it keeps its spec");
    assert!(!waits("boss", "create", NS_EMIGRATIONS, "", "p"), "all of the tenant is his");
}

#[test]
fn whoever_is_named_sees_the_projects_with_those_below() {
    let policy = policy(true);
    assert_eq!(sight(&policy, &named("ann")), Visibility::tenants([of_tenant("t", &["kid", "p"])]));
    let devs = caller("zoe", None, &["devs", "system:authenticated"]);
    assert_eq!(sight(&policy, &devs), Visibility::tenants([of_tenant("t", &["q"])]));
    assert!(allows(&policy, &devs, &of("create", NAMESPACES, "", "q", "")));
    assert_eq!(sight(&policy, &named("boss")), Visibility::tenant("t"));
    assert_eq!(sight(&policy, &named("stranger")), Visibility::Nothing);
}

#[test]
fn of_several_tenants_each_gives_its_own_and_a_credential_narrows_to_one() {
    let policy = policy(true);
    let both = named("both");
    let whole = TenantSight { tenant: Arc::from("t"), sight: Sight::Whole };
    assert_eq!(sight(&policy, &both), Visibility::tenants([whole, of_tenant("u", &["far"])]));
    assert!(allows(&policy, &both, &of("delete", PROJECTS, "", "", "p")));
    assert!(!allows(&policy, &both, &of("delete", PROJECTS, "", "", "far")));
    assert!(!allows(&policy, &both, &of("create", NAMESPACES, "", "far", "")));
    assert!(
        allows(&policy, &both, &of("create", NAMESPACES, "", "unknown", "")),
        "what is not there is his to miss"
    );
    let narrowed = caller("both", Some("u"), &[]);
    assert_eq!(sight(&policy, &narrowed), Visibility::tenants([of_tenant("u", &["far"])]));
    assert_eq!(sight(&policy, &caller("ann", Some("u"), &[])), Visibility::tenants([of_tenant("u", &[])]));
}

#[test]
fn whom_a_platform_names_rules_the_tenant_of_his_credential() {
    let policy = policy(true);
    let create = of("create", PROJECTS, "", "", "");
    assert!(allows(&policy, &caller("root", Some("t"), &[]), &create));
    assert_eq!(sight(&policy, &caller("root", Some("t"), &[])), Visibility::tenant("t"));
    assert!(!allows(&policy, &caller("root", Some("u"), &[]), &create));
    assert_eq!(verdict(&policy, &named("root"), &create), AuthzVerdict::NoOpinion, "a namesake");
}

#[test]
fn roles_in_kubernetes_count_for_operators_alone() {
    let policy = policy(true);
    let delete = of("delete", NAMESPACES, "", "p", "n");
    let judged = policy.judge(&named("vic"), &delete, true);
    assert_eq!(judged, Ruling { verdict: AuthzVerdict::NoOpinion, visibility: Ok(Visibility::Everything) });
    assert!(matches!(verdict(&policy, &named("vic"), &delete), AuthzVerdict::Deny(_)));
    for (who, project) in [("ann", "p"), ("ann", "far"), ("vic", "far"), ("boss", "far"), ("boss", "")] {
        let delete = of("deletecollection", NAMESPACES, "", project, "");
        let judged = policy.judge(&named(who), &delete, true);
        assert_eq!(judged.verdict, AuthzVerdict::NoOpinion, "{who} sees {project:?} as an operator");
    }
    assert_eq!(verdict(&policy, &named("stranger"), &delete), AuthzVerdict::NoOpinion);
}

#[test]
fn nobody_is_refused_or_shown_a_part_before_it_is_known_who_is_who() {
    let not_synced = RoleBindings::new(|_, _| ObjectBindings::default(), RoleChanges::default());
    let synced = policy(true);
    let policy = BusinessPolicy { roles: Roles { projects: not_synced, ..synced.roles.clone() }, ..synced };
    let list = of("list", PROJECTS, "", "", "");
    let Ruling { verdict, visibility: sight } = policy.judge(&named("ann"), &list, false);
    let AuthzVerdict::NotReady(status) = verdict else { panic!("decided") };
    assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (503, 1));
    assert_eq!(sight.unwrap_err().code, 503, "not an empty list");
    let admin = policy.judge(&caller("x", Some("t"), &["tenant-admins"]), &list, false);
    assert_eq!(admin, Ruling { verdict: AuthzVerdict::Allow, visibility: Ok(Visibility::tenant("t")) });
    let operator = policy.judge(&named("op"), &list, true);
    assert_eq!(operator, Ruling { verdict: AuthzVerdict::NoOpinion, visibility: Ok(Visibility::Everything) });
}

#[test]
fn a_tenants_user_gains_nothing_by_a_name_of_kubernetes() {
    for name in NAMESPACE_CONTROLLERS.into_iter().chain(OTHER_CONTROLLERS) {
        let seen = sight(&policy(true), &caller(name, Some("t"), &[]));
        assert_eq!(seen, Visibility::tenants([of_tenant("t", &[])]), "{name}");
    }
}

#[test]
fn no_part_of_kubernetes_gets_a_certificate() {
    let certificate = of("get", NAMESPACES, "certificate", "p", "n");
    for name in NAMESPACE_CONTROLLERS.into_iter().chain(OTHER_CONTROLLERS) {
        let verdict = verdict(&policy(true), &named(name), &certificate);
        assert!(matches!(verdict, AuthzVerdict::Deny(_)), "{name}");
    }
    let operator = policy(true).judge(&named("op"), &certificate, true).verdict;
    assert_eq!(operator, AuthzVerdict::NoOpinion, "Kubernetes is asked");
}

#[test]
fn the_namespace_controller_empties_nothing_of_ours() {
    for name in NAMESPACE_CONTROLLERS {
        let sees = |verb, namespace: &str, object: &str| {
            let request = of(verb, NAMESPACES, "", namespace, object);
            policy(true).judge(&named(name), &request, true).visibility.unwrap()
        };
        assert_eq!(sees("list", "p", ""), Visibility::Nothing);
        assert_eq!(sees("deletecollection", "p", ""), Visibility::Nothing);
        assert_eq!(sees("list", "", ""), Visibility::Everything);
        assert_eq!(sees("watch", "p", ""), Visibility::Everything);
        assert_eq!(sees("get", "p", "a"), Visibility::Everything);
        assert_eq!(sees("delete", "p", "a"), Visibility::Everything);
    }
}

#[test]
fn the_counter_of_quotas_sees_nothing_of_ours_and_the_garbage_collector_everything() {
    let sees = |name: &str, verb, namespace: &str| {
        policy(true).judge(&named(name), &of(verb, NAMESPACES, "", namespace, ""), true)
    };
    for (verb, namespace) in [("list", ""), ("watch", ""), ("list", "p")] {
        let counter = sees(QUOTA_CONTROLLER, verb, namespace);
        let nothing = Ruling { verdict: AuthzVerdict::NoOpinion, visibility: Ok(Visibility::Nothing) };
        assert_eq!(counter, nothing, "its lists are empty, and not refused");
        let collector = sees("system:serviceaccount:kube-system:generic-garbage-collector", verb, namespace);
        assert_eq!(collector.visibility.unwrap(), Visibility::Everything);
    }
}

#[test]
fn open_streams_of_the_named_are_told_of_changes() {
    let policy = policy(true);
    let ann = policy.changes(&named("ann")).unwrap();
    let devs = policy.changes(&caller("zoe", None, &["devs"])).unwrap();
    policy.roles.projects.set("q", "", "t", &[]);
    assert!(!ann.has_changed().unwrap() && devs.has_changed().unwrap());
    policy.roles.projects.set("new", "kid", "t", &[]);
    assert!(ann.has_changed().unwrap(), "one more below his");
    assert!(policy.changes(&caller("x", Some("t"), &["tenant-admins"])).is_none());
}
