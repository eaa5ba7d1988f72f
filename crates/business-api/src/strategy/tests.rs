use super::people_limit::PEOPLE_MAX;
use super::registry_credential::RegistryCredentialStrategy;
use super::{
    MemberClusterStrategy, NamespaceStrategy, NamespaceTemplateStrategy, PlatformStrategy, ProjectStrategy,
    RegistryStrategy, TenantStrategy,
};
use crate::allocations::Allocations;
use crate::clusters::Clusters;
use crate::finalizers::TenantFinalizers;
use crate::host_cluster::HostCluster;
use crate::rights::Role;
use crate::role_bindings::RoleBindings;
use crate::roles::Roles;
use apiserver::Caller;
use apiserver::ObjectEndpoint;
use apiserver::strategy::{Strategy, WriteContext};
use business_types::ImageNamespace;
use meta::field::FieldErrors;
use meta::object::Object;
use meta::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::quota::HoldState;
use store::{Sight, TenantSight, Visibility};

const RECORD: &[&str] = &["status", "clusterNamespace"];

fn object(value: Value) -> Object {
    Object::new(value).unwrap()
}

fn clusters() -> Clusters {
    let of = |tenant: &str| {
        json!({
            "spec": {"tenants": [tenant], "displayName": "Cluster one", "type": "Imported"},
            "status": {"version": "v1.36.3"},
        })
    };
    Clusters::of([("c1", of("*")), ("theirs", of("other"))])
}

fn roles() -> Roles {
    let projects = RoleBindings::empty();
    projects.set("top", "", "t", &[("u", Role::View)]);
    projects.set("ca", "top", "t", &[("u", Role::Admin)]);
    Roles {
        tenant_admin_group: "tenant-admins".to_owned(),
        projects,
        administrators: Vec::new(),
        tenant_grant: true,
    }
}

fn projects() -> ProjectStrategy {
    ProjectStrategy::new(
        clusters(),
        Allocations::default(),
        roles(),
        TenantFinalizers::new(["mine".to_owned()]),
    )
}

fn namespaces() -> NamespaceStrategy {
    let forbidden = vec!["default".to_owned(), "kube-*".to_owned()];
    NamespaceStrategy::new(
        clusters(),
        Allocations::default(),
        roles(),
        forbidden,
        TenantFinalizers::new(["mine".to_owned()]),
    )
}

fn caller(tenant: Option<&str>, groups: &[&str]) -> Caller {
    Caller {
        name: "u".to_owned(),
        tenant: tenant.map(str::to_owned),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        ..Caller::default()
    }
}

/// Of the projects top and ca, or of all of his tenant, or of everything.
fn sight(caller: &Caller) -> Visibility {
    let Some(tenant) = &caller.tenant else { return Visibility::Everything };
    if caller.in_group("tenant-admins") {
        return Visibility::tenant(tenant);
    }
    let projects = ["top", "ca"].map(str::to_owned).into();
    let sight = Sight::Namespaces(Arc::new(projects));
    Visibility::tenants([TenantSight { tenant: Arc::from(tenant.as_str()), sight }])
}

fn context(caller: &Caller) -> WriteContext<'_> {
    WriteContext {
        visibility: Box::leak(Box::new(sight(caller))),
        endpoint: ObjectEndpoint::Main,
        caller,
        dry_run: false,
        versioned: true,
        now: "2026-01-01T00:00:00Z",
        warnings: Vec::new(),
    }
}

fn create(strategy: &dyn Strategy, caller: &Caller, value: Value) -> Result<(Object, FieldErrors), Status> {
    let (mut cx, mut object) = (context(caller), object(value));
    strategy.prepare_create(&mut cx, &mut object)?;
    let errors = strategy.validate_create(&mut cx, &object);
    Ok((object, errors))
}

fn update(
    strategy: &dyn Strategy,
    caller: &Caller,
    endpoint: ObjectEndpoint,
    old: &Object,
    change: impl FnOnce(&mut Object),
) -> Result<(Object, FieldErrors), Status> {
    let (mut cx, mut object) = (WriteContext { endpoint, ..context(caller) }, old.clone());
    change(&mut object);
    strategy.prepare_update(&mut cx, old, &mut object)?;
    let errors = strategy.validate_update(&mut cx, old, &object);
    Ok((object, errors))
}

fn fields(errors: &FieldErrors) -> Vec<(&'static str, &str)> {
    errors.iter().map(|e| (e.cause.reason(), e.field.as_str())).collect()
}

fn project() -> Object {
    object(json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Project",
        "metadata": {"name": "ca", "generation": 1},
        "spec": {"displayName": "ca", "tenantID": "t", "members": ["alice"], "finalizers": ["project"],
            "clusters": {"c1": {"hard": {"pods": "100", "requests.cpu": "10"}}}},
        "status": {"phase": "Active"}
    }))
}

fn namespace() -> Object {
    object(json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Namespace",
        "metadata": {"name": "c1-web", "namespace": "ca", "generation": 3},
        "spec": {"clusterName": "c1", "namespace": "web", "tenantID": "t", "finalizers": ["namespace"],
            "clusterType": "", "clusterVersion": "", "clusterDisplayName": "", "hard": {"pods": "10"}},
        "status": {"phase": "Available", "cachedSpecHard": {"pods": "20"}, "used": {"pods": "3"}}
    }))
}

fn deleting(mut object: Object) -> Object {
    object.set(&["metadata", "deletionTimestamp"], json!("2026-01-01T00:00:00Z"));
    object.set(&["status", "phase"], json!("Terminating"));
    object
}

const ADMIN: &[&str] = &["tenant-admins"];

#[test]
fn a_platform_is_changed_by_whoever_rules_its_tenant() {
    let platform = |administrators: Value| {
        object(
            json!({"metadata": {"name": "p"}, "spec": {"tenantID": "t", "administrators": administrators}}),
        )
    };
    let tries = |caller: &Caller| {
        let changed = &mut platform(json!(["u"]));
        let strategy = PlatformStrategy::new(roles());
        strategy.prepare_update(&mut context(caller), &platform(json!(["root"])), changed)
    };
    assert_eq!(tries(&caller(Some("t"), &[])).unwrap_err().code, 403);
    assert_eq!(tries(&caller(Some("other"), ADMIN)).unwrap_err().code, 403);
    assert!(tries(&caller(Some("t"), ADMIN)).is_ok() && tries(&caller(None, &[])).is_ok());
}

#[test]
fn a_new_project_is_the_callers_tenants_and_pending() {
    let admin = caller(Some("t"), ADMIN);
    let given =
        json!({"metadata": {}, "spec": {"displayName": "x", "tenantID": "other", "finalizers": ["mine"]}});
    let (made, errors) = create(&projects(), &admin, given).unwrap();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(made.text(&["spec", "tenantID"]), "t");
    assert_eq!(made.text(&["metadata", "generateName"]), "prj-");
    assert_eq!(made.strings(&["spec", "finalizers"]).collect::<Vec<_>>(), ["mine", "project"]);
    assert_eq!(made.get(&["status"]), Some(&json!({"phase": "Pending", "observedGeneration": 0})));
}

#[test]
fn a_new_namespace_is_charged_what_it_asks_for() {
    let member = caller(Some("t"), &[]);
    let given = json!({"metadata": {"namespace": "ca"}, "spec": {"clusterName": "c1", "namespace": "web",
        "clusterVersion": "mine", "hard": {"pods": "10"}}});
    let (made, errors) = create(&namespaces(), &member, given.clone()).unwrap();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(made.name(), "c1-web");
    assert_eq!(made.text(&["spec", "clusterVersion"]), "v1.36.3", "whatever was sent");
    let status = json!({"phase": "Pending", "observedGeneration": 0, "cachedSpecHard": {"pods": "10"}});
    assert_eq!(made.get(&["status"]), Some(&status));
    let mut named = object(given);
    named.set(&["metadata", "name"], json!("own-name"));
    let (made, _) = create(&namespaces(), &member, named.into_value()).unwrap();
    assert_eq!(made.name(), "own-name", "a given name is kept");
}

#[test]
fn an_unknown_cluster_and_another_tenants_are_refused_alike() {
    let admin = caller(Some("t"), ADMIN);
    for cluster in ["nowhere", "theirs"] {
        let given =
            json!({"metadata": {"namespace": "ca"}, "spec": {"clusterName": cluster, "namespace": "a"}});
        let (_, errors) = create(&namespaces(), &admin, given).unwrap();
        assert_eq!(fields(&errors), [("FieldValueNotFound", "spec.clusterName")]);
        let given = json!({"spec": {"displayName": "x", "clusters": {cluster: {}}}});
        let (_, errors) = create(&projects(), &admin, given).unwrap();
        assert_eq!(errors[0].cause.reason(), "FieldValueNotFound");
        let add = |o: &mut Object| o.set(&["spec", "clusters", cluster], json!({}));
        let (_, errors) = update(&projects(), &admin, ObjectEndpoint::Main, &project(), add).unwrap();
        assert_eq!(errors[0].cause.reason(), "FieldValueNotFound", "newly named on update");
    }
}

#[test]
fn without_a_directory_new_cluster_names_wait() {
    let strategy = NamespaceStrategy::new(
        Clusters::registered(),
        Allocations::default(),
        roles(),
        Vec::new(),
        TenantFinalizers::default(),
    );
    let given = json!({"metadata": {"namespace": "ca"}, "spec": {"clusterName": "c1", "namespace": "a"}});
    assert_eq!(create(&strategy, &caller(None, &[]), given).unwrap_err().code, 503);
}

#[test]
fn a_project_with_a_name_of_an_older_rule_is_labelled_locked_and_released() {
    let admin = caller(Some("t"), ADMIN);
    let mut old = project();
    old.set(&["spec", "members"], json!(["carol "]));
    old.set(&["metadata", "finalizers"], json!(["mine"]));
    let write = |endpoint: ObjectEndpoint, old: &Object, path: &[&str], value: Value| {
        let (_, errors) = update(&projects(), &admin, endpoint, old, |o| o.set(path, value)).unwrap();
        errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
    };
    assert_eq!(write(ObjectEndpoint::Main, &old, &["metadata", "labels"], json!({"a": "b"})), [""; 0]);
    let more = json!({"c1": {"hard": {"pods": "90", "requests.cpu": "10"}}});
    assert_eq!(write(ObjectEndpoint::Main, &old, &["spec", "clusters"], more), [""; 0]);
    assert_eq!(write(ObjectEndpoint::Subresource("lock"), &old, &["status", "locked"], json!(true)), [""; 0]);
    assert_eq!(
        write(ObjectEndpoint::Main, &deleting(old.clone()), &["metadata", "finalizers"], json!([])),
        [""; 0]
    );
    let members = json!(["carol ", "dan "]);
    assert_eq!(write(ObjectEndpoint::Main, &old, &["spec", "members"], members), ["spec.members[1]"]);
}

#[test]
fn a_list_of_who_may_not_use_a_cluster_keeps_nobody_from_a_namespace_there() {
    let claim = |lists: &[(&str, &str, bool)], groups: &[&str]| {
        let roles = roles();
        for (object, tenant, uses_cluster) in lists {
            roles.projects.list_account(object, tenant, ("theirs", "ci"), *uses_cluster);
        }
        let finalizers = TenantFinalizers::default();
        let strategy =
            NamespaceStrategy::new(clusters(), Allocations::default(), roles, Vec::new(), finalizers);
        let who = caller((!groups.is_empty()).then_some("other"), groups);
        let (mut cx, mut object) = (
            context(&who),
            object(json!({
                "metadata": {"namespace": "web"},
                "spec": {"clusterName": "theirs", "namespace": "ci", "tenantID": "other", "hard": {"pods": "1"}},
            })),
        );
        strategy.prepare_create(&mut cx, &mut object).unwrap();
        let errors = strategy.validate_create(&mut cx, &object);
        let errors: Vec<String> = errors.into_iter().map(|error| error.field).collect();
        (errors, cx.warnings.join("; "))
    };
    assert_eq!(claim(&[("top", "t", false)], ADMIN).0, [""; 0], "it gives nobody a role there");
    assert_eq!(claim(&[("web", "other", true)], ADMIN).0, [""; 0], "it is his own");
    let lists = [("top", "t", false), ("ca", "t", true)];
    assert_eq!(claim(&lists, ADMIN).0, ["spec.namespace"], "it uses the cluster from before");
    let (errors, told) = claim(&lists, &[]);
    assert_eq!(errors, [""; 0], "an operator may");
    assert!(told.contains("that of ca in tenant t"), "{told}");
}

#[test]
fn that_nobody_knows_the_host_cluster_is_told_to_whom_it_refuses() {
    let claim = |host: HostCluster, groups: &[&str]| {
        let roles = roles();
        roles.projects.list_account("ca", "t", ("", "ci"), false);
        let (clusters, finalizers) = (clusters().with_host(host), TenantFinalizers::default());
        let strategy =
            NamespaceStrategy::new(clusters, Allocations::default(), roles, Vec::new(), finalizers);
        let who = caller((!groups.is_empty()).then_some("other"), groups);
        let mut cx = context(&who);
        let mut object = object(json!({
            "metadata": {"namespace": "web"},
            "spec": {"clusterName": "theirs", "namespace": "ci", "tenantID": "other", "hard": {"pods": "1"}},
        }));
        strategy.prepare_create(&mut cx, &mut object).unwrap();
        let errors = strategy.validate_create(&mut cx, &object);
        (errors.into_iter().map(|error| error.message).collect::<Vec<_>>().join("; "), cx.warnings.join("; "))
    };
    assert_eq!(claim(HostCluster::resolved("another"), ADMIN).0, "");
    let (refused, _) = claim(HostCluster::pending(), ADMIN);
    let unknown = "it is not known whether cluster theirs is that";
    assert!(refused.contains(unknown) && refused.contains("business.tkestack.io/host-cluster"), "{refused}");
    let (refused, warned) = claim(HostCluster::pending(), &[]);
    assert_eq!(refused, "", "an operator may");
    assert!(warned.contains(unknown) && warned.contains("that of ca in tenant t"), "{warned}");
}

#[test]
fn a_main_write_raises_the_charge_and_never_lowers_it() {
    let admin = caller(Some("t"), ADMIN);
    let to = |pods: &str| json!({"pods": pods, "services": "2"});
    let charged = |pods: &str| {
        let set = |o: &mut Object| o.set(&["spec", "hard"], to(pods));
        let (written, errors) =
            update(&namespaces(), &admin, ObjectEndpoint::Main, &namespace(), set).unwrap();
        assert!(errors.is_empty(), "{errors:?}");
        written.get(&["status", "cachedSpecHard"]).cloned().unwrap()
    };
    assert_eq!(charged("5"), json!({"pods": "20", "services": "2"}));
    assert_eq!(charged("30"), json!({"pods": "30", "services": "2"}));
}

#[test]
fn what_no_cluster_counts_is_told_when_it_is_granted() {
    let who = caller(Some("t"), ADMIN);
    let told = |old: &Object, hard: Value| {
        let (mut cx, mut new) = (context(&who), old.clone());
        new.set(&["spec", "hard"], hard);
        namespaces().prepare_update(&mut cx, old, &mut new).unwrap();
        (cx.warnings, new)
    };
    let gpu = json!({"nvidia.com/gpu": "2", "requests.nvidia.com/gpu": "2", "pods": "10"});
    let mut made = namespace();
    made.set(&["spec", "hard"], gpu.clone());
    let mut cx = context(&who);
    namespaces().prepare_create(&mut cx, &mut made).unwrap();
    let text = "no cluster counts nvidia.com/gpu: write requests.nvidia.com/gpu";
    assert_eq!(cx.warnings, [text]);
    let (warnings, granted) = told(&namespace(), gpu.clone());
    assert_eq!(warnings, [text]);
    assert_eq!(told(&granted, gpu).0, [""; 0], "it was told");
}

#[test]
fn new_names_with_each_write_do_not_add_up_in_the_charge() {
    let (strategy, who) = (namespaces(), caller(Some("t"), ADMIN));
    let list = |from: usize| -> Value {
        (from..from + 256).map(|n| (format!("count/r{n}.x"), json!("1"))).collect()
    };
    let ask = |old: &Object, from: usize| {
        let set = |o: &mut Object| o.set(&["spec", "hard"], list(from));
        let (new, errors) = update(&strategy, &who, ObjectEndpoint::Main, old, set).unwrap();
        assert!(errors.is_empty(), "{errors:?}");
        strategy.check_update(&context(&who), old, &new).map(|()| new)
    };
    let mut first = namespace();
    first.set(&["spec", "hard"], list(0));
    first.set(&["status", "cachedSpecHard"], list(0));
    let second = ask(&first, 256).unwrap();
    let refused = ask(&second, 512).unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("wait until the cluster has confirmed"), "{}", refused.message);
    assert!(ask(&second, 0).is_ok() && ask(&second, 128).is_ok(), "what is charged already");
    let mut confirmed = second;
    confirmed.set(&["status", "cachedSpecHard"], list(256));
    assert!(ask(&confirmed, 512).is_ok());
}

#[test]
fn a_namespace_is_not_lowered_below_what_is_in_use() {
    let (strategy, old, who) = (namespaces(), namespace(), caller(Some("t"), ADMIN));
    let mut new = old.clone();
    new.set(&["spec", "hard"], json!({"pods": "2"}));
    let refused = strategy.check_update(&context(&who), &old, &new).unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.ends_with("the smallest that fits is 3"), "{}", refused.message);
    assert_eq!(refused.details.unwrap().causes[0].field, "spec.hard[pods]");
    assert!(
        strategy
            .check_update(&WriteContext { endpoint: ObjectEndpoint::STATUS, ..context(&who) }, &old, &new)
            .is_ok(),
        "a status is a report"
    );
}

#[test]
fn only_a_confirmation_lowers_the_charge() {
    let controller = caller(None, &[]);
    let confirm = |versioned: bool, observed: i64, mark: Value| {
        let (mut cx, old) = (context(&controller), namespace());
        (cx.versioned, cx.endpoint) = (versioned, ObjectEndpoint::STATUS);
        let mut new = old.clone();
        new.set(
            &["status"],
            json!({"phase": "Available", "observedGeneration": observed, "cachedSpecHard": mark}),
        );
        namespaces().prepare_update(&mut cx, &old, &mut new)?;
        Ok::<_, Status>(new.get(&["status", "cachedSpecHard"]).cloned().unwrap())
    };
    assert_eq!(confirm(true, 3, json!({"pods": "10"})), Ok(json!({"pods": "10"})));
    assert_eq!(confirm(true, 2, json!({"pods": "10"})).unwrap_err().code, 409);
    assert_eq!(confirm(false, 3, json!({"pods": "10"})).unwrap_err().code, 409);
    assert_eq!(confirm(true, 3, json!({"pods": "9"})).unwrap_err().code, 409);
    assert_eq!(confirm(true, 3, json!({})).unwrap_err().code, 409);
    assert_eq!(
        confirm(false, 0, json!({"pods": "99"})),
        Ok(json!({"pods": "20"})),
        "raising is not for status"
    );
    assert_eq!(confirm(false, 0, Value::Null), Ok(json!({"pods": "20"})), "silence keeps it");
}

#[test]
fn the_spec_of_what_is_being_deleted_is_frozen() {
    let admin = caller(Some("t"), ADMIN);
    let set = |o: &mut Object| o.set(&["spec", "hard"], json!({"pods": "1"}));
    let (_, errors) =
        update(&namespaces(), &admin, ObjectEndpoint::Main, &deleting(namespace()), set).unwrap();
    assert_eq!(fields(&errors), [("FieldValueForbidden", "spec")]);
    let set = |o: &mut Object| o.set(&["spec", "displayName"], json!("new"));
    let (_, errors) = update(&projects(), &admin, ObjectEndpoint::Main, &deleting(project()), set).unwrap();
    assert_eq!(fields(&errors), [("FieldValueForbidden", "spec")]);
    let mut released = deleting(namespace());
    released.set(&["status", "cachedSpecHard"], json!({}));
    let label = |o: &mut Object| o.set(&["metadata", "labels"], json!({"a": "b"}));
    let (written, errors) = update(&namespaces(), &admin, ObjectEndpoint::Main, &released, label).unwrap();
    assert!(errors.is_empty());
    assert_eq!(written.get(&["status", "cachedSpecHard"]), Some(&json!({})), "and raises nothing");
}

#[test]
fn the_finalizer_goes_with_the_charge_or_with_an_operators_word() {
    let drop = |o: &mut Object| o.set(&["spec", "finalizers"], json!([]));
    let attempt =
        |old: &Object, caller: &Caller| update(&namespaces(), caller, ObjectEndpoint::FINALIZE, old, drop);
    let operator = caller(None, &[]);
    assert_eq!(attempt(&namespace(), &operator).unwrap_err().code, 409, "not deleted");
    assert_eq!(attempt(&deleting(namespace()), &operator).unwrap_err().code, 409, "still charged");
    let mut released = deleting(namespace());
    released.set(&["status", "cachedSpecHard"], json!({}));
    assert!(attempt(&released, &operator).is_ok());
    let mut abandoned = deleting(namespace());
    abandoned.set(&["metadata", "annotations"], json!({"business.tkestack.io/abandon": "cluster burnt"}));
    assert!(attempt(&abandoned, &operator).is_ok());
    assert_eq!(attempt(&abandoned, &caller(Some("t"), ADMIN)).unwrap_err().code, 409, "not a tenant's word");
    let strategy = namespaces();
    let held = strategy.hold(&context(&operator), &abandoned).unwrap();
    assert_eq!((held.state, held.reason.as_str()), (HoldState::Abandoned, "cluster burnt"));
    let admin = caller(Some("t"), ADMIN);
    assert_eq!(strategy.hold(&context(&admin), &abandoned), Some(held), "whoever removes the last finalizer");
    let silent = strategy.hold(&context(&operator), &deleting(namespace())).unwrap();
    assert_eq!(silent.state, HoldState::Abandoned, "the annotation was removed after the finalizer");
    assert_eq!(strategy.hold(&context(&operator), &released), None);
    let mut stays = deleting(namespace());
    stays.set(RECORD, json!({"uid": "u", "provenance": "Released"}));
    assert!(attempt(&stays, &operator).is_ok());
    assert_eq!(strategy.hold(&context(&operator), &stays).unwrap().state, HoldState::Released);
    stays.set(RECORD, json!({"uid": "u", "provenance": "Adopted"}));
    assert_eq!(attempt(&stays, &operator).unwrap_err().code, 409, "not released yet");
}

#[test]
fn the_record_of_the_clusters_namespace_is_replaced_and_never_forgotten() {
    let controller = caller(None, &[]);
    let mut recorded = namespace();
    recorded.set(RECORD, json!({"uid": "u", "provenance": "Made"}));
    let written = |change: &dyn Fn(&mut Object)| {
        let (written, errors) =
            update(&namespaces(), &controller, ObjectEndpoint::STATUS, &recorded, change).unwrap();
        (
            written.get(RECORD).cloned(),
            fields(&errors).into_iter().map(|(_, field)| field.to_owned()).collect(),
        )
    };
    let same = recorded.get(RECORD).cloned();
    assert_eq!(written(&|o| drop(o.remove(RECORD))), (same, Vec::<String>::new()));
    let other = json!({"uid": "v", "provenance": "Made"});
    assert_eq!(written(&|o| o.set(RECORD, other.clone())), (Some(other.clone()), vec![]));
    let odd = json!({"uid": "v", "provenance": "Found"});
    assert_eq!(written(&|o| o.set(RECORD, odd.clone())).1, ["status.clusterNamespace.provenance"]);
}

#[test]
fn what_grants_something_is_annotated_by_operators_only() {
    let annotate = |o: &mut Object| {
        o.set(&["metadata", "annotations"], json!({"business.tkestack.io/adopt": "true", "mine": "x"}));
    };
    let attempt = |who: &Caller| update(&namespaces(), who, ObjectEndpoint::Main, &namespace(), annotate);
    assert_eq!(attempt(&caller(Some("t"), ADMIN)).unwrap_err().code, 403);
    let consent = |o: &mut Object| {
        o.set(&["metadata", "annotations"], json!({"business.tkestack.io/delete-replaced": "u"}));
    };
    let refused =
        update(&namespaces(), &caller(Some("t"), ADMIN), ObjectEndpoint::Main, &namespace(), consent);
    assert_eq!(refused.unwrap_err().code, 403);
    let (annotated, _) = attempt(&caller(None, &[])).unwrap();
    let echoed = update(&namespaces(), &caller(Some("t"), ADMIN), ObjectEndpoint::Main, &annotated, |_| ());
    assert!(echoed.is_ok(), "what is there already may be sent back");
}

#[test]
fn a_budget_is_changed_by_whoever_has_the_role_admin_above() {
    let mut below_top = project();
    below_top.set(&["spec", "parentProjectName"], json!("top"));
    let more = |o: &mut Object| o.set(&["spec", "clusters", "c1", "hard", "pods"], json!("200"));
    let leave = |o: &mut Object| drop(o.remove(&["spec", "parentProjectName"]));
    let name = |o: &mut Object| o.set(&["spec", "displayName"], json!("new"));
    let attempt = |who: &Caller, change: fn(&mut Object)| {
        update(&projects(), who, ObjectEndpoint::Main, &below_top, change)
            .map(|_| ())
            .map_err(|status| status.message)
    };
    let (admin_of_it, administrator) = (caller(Some("t"), &[]), caller(Some("t"), ADMIN));
    assert!(attempt(&admin_of_it, more).unwrap_err().contains("needs the role admin in project \"top\""));
    assert!(attempt(&admin_of_it, leave).is_err());
    assert_eq!(attempt(&admin_of_it, name), Ok(()));
    for change in [more, leave, name] {
        assert_eq!(attempt(&administrator, change), Ok(()));
    }
    let child =
        |parent: &str| json!({"metadata": {}, "spec": {"displayName": "x", "parentProjectName": parent}});
    assert!(create(&projects(), &admin_of_it, child("ca")).is_ok());
    for elsewhere in ["top", "unknown", ""] {
        assert_eq!(create(&projects(), &admin_of_it, child(elsewhere)).unwrap_err().code, 403, "{elsewhere}");
    }
}

#[test]
fn whoever_rules_several_tenants_says_whose_a_new_root_is() {
    let several = caller(None, &[]);
    let whole = |tenant| TenantSight { tenant: Arc::from(tenant), sight: Sight::Whole };
    let make = |tenants: Vec<TenantSight>, asked: &str| {
        let visibility = Visibility::tenants(tenants);
        let mut cx = WriteContext { visibility: &visibility, ..context(&several) };
        let mut made = object(json!({"metadata": {}, "spec": {"displayName": "x", "tenantID": asked}}));
        let outcome = projects().prepare_create(&mut cx, &mut made);
        outcome.map(|()| made.text(&["spec", "tenantID"]).to_owned()).map_err(|status| status.code)
    };
    let both = || vec![whole("t"), whole("u")];
    assert_eq!(make(both(), "u"), Ok("u".to_owned()));
    assert_eq!(make(both(), ""), Err(422));
    assert_eq!(make(both(), "other"), Err(422));
    let sees = |tenant| TenantSight { tenant: Arc::from(tenant), sight: Sight::Namespaces(Arc::default()) };
    assert_eq!(make(vec![whole("t"), sees("u")], ""), Ok("t".to_owned()));
    assert_eq!(make(vec![whole("t"), sees("u")], "u"), Err(422));
    assert_eq!(make(vec![sees("t"), sees("u")], "u"), Err(403));
}

#[test]
fn a_tenant_is_never_changed_but_may_be_echoed() {
    let to = |tenant: &'static str| move |o: &mut Object| o.set(&["spec", "tenantID"], json!(tenant));
    let operator = caller(None, &[]);
    let (_, errors) = update(&projects(), &operator, ObjectEndpoint::Main, &project(), to("other")).unwrap();
    assert_eq!(fields(&errors), [("FieldValueInvalid", "spec.tenantID")]);
    for silent in ["t", ""] {
        let (written, errors) =
            update(&projects(), &operator, ObjectEndpoint::Main, &project(), to(silent)).unwrap();
        assert!(errors.is_empty() && written.text(&["spec", "tenantID"]) == "t");
    }
    let (written, errors) =
        update(&projects(), &caller(Some("t"), ADMIN), ObjectEndpoint::Main, &project(), to("other"))
            .unwrap();
    assert!(errors.is_empty() && written.text(&["spec", "tenantID"]) == "t", "forced to the caller's own");
}

#[test]
fn budget_out_of_nothing_needs_the_right_to_grant() {
    let (strategy, who) = (projects(), caller(Some("t"), ADMIN));
    let needs = |old: Option<&Object>, new: &Object| {
        strategy.extra_right(&context(&who), old, new).map(|right| right.verb)
    };
    let with = |path: &[&str], value: Value| {
        let mut changed = project();
        changed.set(path, value);
        changed
    };
    let root = project();
    let child = with(&["spec", "parentProjectName"], json!("top"));
    assert_eq!(needs(None, &root), Some("grant"), "a new root");
    assert_eq!(needs(None, &child), None, "a child is carved out");
    assert_eq!(needs(Some(&child), &root), Some("grant"), "detached");
    assert_eq!(needs(Some(&root), &child), None);
    let hard = &["spec", "clusters", "c1", "hard"];
    assert_eq!(needs(Some(&root), &with(hard, json!({"pods": "101", "requests.cpu": "10"}))), Some("grant"));
    assert_eq!(
        needs(Some(&root), &with(hard, json!({"pods": "100"}))),
        Some("grant"),
        "a key less is unlimited"
    );
    assert_eq!(
        needs(Some(&root), &with(&["spec", "clusters", "c2"], json!({}))),
        Some("grant"),
        "a cluster more"
    );
    assert_eq!(
        needs(Some(&root), &with(hard, json!({"pods": "99", "requests.cpu": "10", "services": "1"}))),
        None
    );
    assert_eq!(needs(Some(&root), &with(&["spec", "displayName"], json!("new"))), None);
}

#[test]
fn what_is_said_of_a_cluster_is_the_servers() {
    let described = |object: &Object| {
        ["clusterType", "clusterVersion", "clusterDisplayName"]
            .map(|field| object.text(&["spec", field]).to_owned())
    };
    let known = ["Imported", "v1.36.3", "Cluster one"].map(str::to_owned);
    let (admin, controller) = (caller(Some("t"), ADMIN), caller(None, &[]));
    let given = json!({"metadata": {"namespace": "ca"},
        "spec": {"clusterName": "c1", "namespace": "a", "clusterType": "mine"}});
    assert_eq!(described(&create(&namespaces(), &admin, given).unwrap().0), known);
    let mut stored = namespace();
    for field in ["clusterType", "clusterVersion", "clusterDisplayName"] {
        stored.set(&["spec", field], json!("before"));
    }
    let before = ["before"; 3].map(str::to_owned);
    for endpoint in [ObjectEndpoint::Main, ObjectEndpoint::FINALIZE] {
        let (written, _) = update(&namespaces(), &admin, endpoint, &stored, |_| ()).unwrap();
        assert_eq!(described(&written), before, "{endpoint:?}: only what it is for changes");
    }
    let (written, _) = update(&namespaces(), &controller, ObjectEndpoint::STATUS, &stored, |_| ()).unwrap();
    assert_eq!(described(&written), known);
    stored.set(&["spec", "clusterName"], json!("delisted"));
    let (written, _) = update(&namespaces(), &controller, ObjectEndpoint::STATUS, &stored, |_| ()).unwrap();
    assert_eq!(described(&written), before, "nobody knows better");
}

#[test]
fn columns_show_what_is_used_and_what_is_allocated() {
    let cells = namespaces().cells(&namespace(), 0);
    assert_eq!(cells.len(), super::namespace::COLUMNS.len());
    assert_eq!(
        cells[..5],
        [json!("c1"), json!("web"), json!("Available"), json!("Unknown"), json!("pods: 3/10")]
    );
    let mut read = project();
    read.set(&["status", "clusters"], json!({"c1": {"used": {"pods": "41", "requests.cpu": "500m"}}}));
    let cells = projects().cells(&read, 0);
    assert_eq!(cells.len(), super::project::COLUMNS.len());
    assert_eq!(cells[5], json!("pods: 41/100, requests.cpu: 500m/10"));
}

#[test]
fn no_kind_takes_what_it_cannot_read() {
    let (allocations, finalizers) = (Allocations::default(), TenantFinalizers::default());
    let registry = RegistryStrategy::<ImageNamespace>::new(allocations.clone(), finalizers);
    let with_status: [&dyn Strategy; 6] = [
        &projects(),
        &namespaces(),
        &registry,
        &TenantStrategy::new(clusters(), allocations.clone(), roles()),
        &MemberClusterStrategy::new(allocations),
        &NamespaceTemplateStrategy,
    ];
    let credentials = RegistryCredentialStrategy::new(roles(), 365);
    let without: [&dyn Strategy; 2] = [&PlatformStrategy::new(roles()), &credentials];
    let unread = object(json!({"metadata": {"name": "x", "namespace": "ca"}, "spec": 7, "status": 7}));
    let operator = caller(None, &[]);
    for strategy in with_status.iter().chain(&without) {
        let errors = strategy.validate_create(&mut context(&operator), &unread);
        assert_eq!(fields(&errors), [("FieldValueInvalid", "spec")]);
        let errors = strategy.validate_update(&mut context(&operator), &unread, &unread);
        assert_eq!(fields(&errors), [("FieldValueInvalid", "spec")]);
    }
    for strategy in with_status {
        let mut cx = WriteContext { endpoint: ObjectEndpoint::STATUS, ..context(&operator) };
        assert!(!strategy.validate_update(&mut cx, &unread, &unread).is_empty());
    }
}

#[test]
fn an_administrator_gets_rid_of_a_credential_that_nobody_reads() {
    let (strategy, he) = (RegistryCredentialStrategy::new(roles(), 365), caller(Some("t"), &[]));
    let stored = |project: &str| {
        let spec = json!({"tenantID": "t", "access": "Delete"});
        object(json!({"metadata": {"name": "x", "namespace": project}, "spec": spec}))
    };
    let delete = |project| strategy.check_delete(&context(&he), &stored(project)).map_err(|told| told.code);
    assert_eq!(delete("ca"), Ok(()));
    assert_eq!(delete("top"), Err(403), "he only looks there");
    let wrong = |old: &Object, field: &[&str]| {
        let set = |object: &mut Object| object.set(field, json!("a"));
        let (_, errors) = update(&strategy, &he, ObjectEndpoint::Main, old, set).unwrap();
        errors.len()
    };
    let note = ["metadata", "annotations", "a"];
    assert_eq!(wrong(&stored("ca"), &note), 1);
    assert_eq!(wrong(&deleting(stored("ca")), &note), 0);
    assert_eq!(wrong(&deleting(stored("top")), &note), 1);
    assert_eq!(wrong(&deleting(stored("ca")), &["spec", "user"]), 1);
}

#[test]
fn only_a_write_that_nothing_but_the_store_can_refuse_reserves_room_for_people() {
    let listed = roles();
    listed.projects.set("full", "", "t", &vec![("u", Role::Edit); PEOPLE_MAX - 4]);
    let finalizers = TenantFinalizers::new(["mine".to_owned()]);
    let strategy = ProjectStrategy::new(clusters(), Allocations::default(), listed, finalizers);
    let operator = caller(None, &[]);
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"displayName": "new", "tenantID": "t", "members": ["a", "b"]}});
    let reserve = |cx: &WriteContext<'_>, name: &str| {
        strategy.reserve(cx, None, &object(named(name))).map_err(|refused| refused.code)
    };
    let (_, errors) = create(&strategy, &operator, named("a")).unwrap();
    assert_eq!(errors, []);
    assert_eq!(reserve(&WriteContext { dry_run: true, ..context(&operator) }, "b"), Ok(()));
    let status = WriteContext { endpoint: ObjectEndpoint::STATUS, ..context(&operator) };
    assert_eq!(reserve(&status, "c"), Ok(()));
    assert_eq!(reserve(&context(&operator), "d"), Ok(()), "nobody else has reserved anything");
    assert_eq!(reserve(&context(&operator), "e"), Err(429));
}
