//! Tests of the rules, one by one.

use super::apply::{self, ImportProgress};
use super::candidate::ConvertSettings;
use super::finding::{Effect, Rule};
use super::plan::{Plan, plan};
use super::record::{ObjectRef, SourceRecord, UnreadableRecord};
use super::report::{Stage, text};
use super::source;
use crate::config::ImportSource;
use crate::kinds::KINDS;
use business_types::account;
use serde_json::{Value, json};
use store::hold::Hold;
use store::import::{ExistingObject, Imported};
use store::quota::{Amounts, Claim, HoldState, Scope};
use uuid::Uuid;

const API_VERSION: &str = "business.tkestack.io/v1";

fn uid_of(text: &str) -> Uuid {
    let mut bytes = [7; 16];
    bytes.iter_mut().zip(text.bytes()).for_each(|(slot, byte)| *slot = byte);
    Uuid::from_bytes(bytes)
}

fn record(resource: &str, project: &str, name: &str, value: Value) -> SourceRecord {
    let object_ref = ObjectRef { resource: resource.into(), project: project.into(), name: name.into() };
    SourceRecord { object_ref, value }
}

/// A project as TKE keeps it, changed by a merge patch.
fn project(name: &str, parent: &str, pods: u32, change: Value) -> SourceRecord {
    let mut value = json!({
        "apiVersion": API_VERSION, "kind": "Project",
        "metadata": {"name": name, "uid": uid_of(name), "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {
            "finalizers": ["project"], "tenantID": "acme", "displayName": name, "members": ["ann"],
            "clusters": {"c1": {"hard": {"pods": pods.to_string()}}},
        },
        "status": {"phase": "Active", "lastTransitionTime": null, "calculatedNamespaces": ["x"]},
    });
    if !parent.is_empty() {
        value["spec"]["parentProjectName"] = json!(parent);
    }
    merge(&mut value, change);
    record("projects", "", name, value)
}

/// A namespace of cluster c1 as TKE keeps it.
fn namespace(project: &str, name: &str, pods: u32, change: Value) -> SourceRecord {
    let mut value = json!({
        "apiVersion": API_VERSION, "kind": "Namespace",
        "metadata": {"name": format!("c1-{name}"), "namespace": project, "uid": uid_of(&format!("{project}/{name}")),
            "creationTimestamp": "2025-01-02T00:00:00Z"},
        "spec": {"finalizers": ["namespace"], "tenantID": "acme", "clusterName": "c1", "namespace": name,
            "hard": {"pods": pods.to_string()}},
        "status": {"phase": "Available", "lastTransitionTime": "2025-01-02T00:00:05Z", "used": {"pods": "0"},
            "cachedSpecHard": {"pods": pods.to_string()}},
    });
    merge(&mut value, change);
    record("namespaces", project, &format!("c1-{name}"), value)
}

fn merge(value: &mut Value, change: Value) {
    let Value::Object(changes) = change else {
        *value = change;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let map = value.as_object_mut().unwrap();
    for (key, change) in changes {
        if change.is_null() {
            map.remove(&key);
        } else {
            merge(map.entry(key).or_insert(json!({})), change);
        }
    }
}

fn planned(records: impl IntoIterator<Item = SourceRecord>) -> Plan {
    beside(records, &[])
}

fn beside(records: impl IntoIterator<Item = SourceRecord>, present: &[ExistingObject]) -> Plan {
    beside_holds(records, present, &[])
}

fn beside_holds(
    records: impl IntoIterator<Item = SourceRecord>,
    present: &[ExistingObject],
    holds: &[Hold],
) -> Plan {
    let settings = ConvertSettings { forbidden: vec!["default".into(), "kube-*".into()] };
    plan(KINDS, &settings, records.into_iter().map(Ok::<_, UnreadableRecord>), present, holds)
}

fn rules(plan: &Plan) -> Vec<(Rule, String)> {
    plan.findings.iter().map(|finding| (finding.rule, finding.object_ref.to_string())).collect()
}

#[track_caller]
fn only(plan: &Plan, rule: Rule, named: &str) -> String {
    assert_eq!(rules(plan), [(rule, named.to_owned())], "{:#?}", plan.findings);
    plan.findings[0].why.clone()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.objects.iter().map(|object| &*object.key.name).collect()
}

#[track_caller]
fn body(plan: &Plan, name: &str) -> Value {
    let object = plan.objects.iter().find(|object| &*object.key.name == name);
    serde_json::from_str(&object.unwrap().state.body).unwrap()
}

/// The one object of a kind.
#[track_caller]
fn plan_body(plan: &Plan, plural: &str) -> Value {
    let id = KINDS.0.iter().find(|row| row.plural == plural).and_then(|row| row.stored.as_ref()).unwrap().id;
    let mut of_kind = plan.objects.iter().filter(|object| object.key.kind == id);
    let object = of_kind.next().unwrap();
    assert!(of_kind.next().is_none());
    serde_json::from_str(&object.state.body).unwrap()
}

fn none() -> Value {
    json!({})
}

#[test]
fn what_is_sound_comes_as_it_is_scopes_first() {
    let labels =
        json!({"metadata": {"labels": {"env": "dev"}, "annotations": {"a": "b"}, "finalizers": ["x.y/z"]}});
    let plan = planned([
        namespace("sub", "web", 3, labels),
        project("sub", "top", 5, none()),
        project("top", "", 9, none()),
    ]);
    assert_eq!(rules(&plan), []);
    assert!(!plan.needs_decision());
    assert_eq!(names(&plan), ["top", "sub", "c1-web"]);
    let web = body(&plan, "c1-web");
    assert_eq!(web["metadata"]["uid"], json!(uid_of("sub/web")));
    assert_eq!(web["metadata"]["creationTimestamp"], "2025-01-02T00:00:00Z");
    assert_eq!(web["metadata"]["finalizers"], json!(["x.y/z"]));
    assert_eq!(
        (&web["metadata"]["labels"]["env"], &web["metadata"]["generation"]),
        (&json!("dev"), &json!(1))
    );
    assert_eq!(web["status"]["clusterNamespace"], json!({"uid": "", "provenance": "Imported"}));
    assert_eq!(web["status"]["cachedSpecHard"], json!({"pods": "3"}));
    assert_eq!(
        body(&plan, "top")["status"],
        json!({"phase": "Active"}),
        "what is computed is not taken over"
    );
    assert_eq!((plan.clusters.len(), plan.tenants.len()), (1, 1));
}

#[test]
fn what_is_no_object_of_a_served_kind_is_left_out() {
    let of = |resource: &str| record(resource, "", "x", json!({"apiVersion": API_VERSION, "kind": "X"}));
    assert!(only(&planned([of("emigrates")]), Rule::NotServed, "emigrates x").contains("no kind"));
    let wrong = project("p", "", 1, json!({"kind": "Namespace"}));
    assert!(only(&planned([wrong]), Rule::Unreadable, "projects p").contains("not a Project"));
    let wrong = project("p", "", 1, json!({"spec": {"clusters": {"c1": {"hard": {"pods": "many"}}}}}));
    assert!(only(&planned([wrong]), Rule::Unreadable, "projects p").contains("pods"));
    let wrong = project("p", "", 1, json!({"metadata": {"annotations": {"a": "\0"}}}));
    only(&planned([wrong]), Rule::Unreadable, "projects p");
}

#[test]
fn what_our_validation_refuses_is_left_out_and_says_where() {
    for (change, field) in [
        (json!({"metadata": {"name": "other"}}), "another object"),
        (json!({"metadata": {"uid": "7"}}), "metadata.uid"),
        (json!({"metadata": {"labels": {"a b": "c"}}}), "metadata.labels"),
        (json!({"spec": {"clusters": {"c1": {"hard": {"storage": "1"}}}}}), "storage"),
        (json!({"spec": {"clusters": {"c1": {"hard": {"pods": "-1"}}}}}), "pods"),
    ] {
        let why = only(&planned([project("p", "", 1, change)]), Rule::Invalid, "projects p");
        assert!(why.contains(field), "{why}");
    }
    let plan = planned([project("p", "", 9, none()), namespace("p", "kube-x", 1, none())]);
    assert!(only(&plan, Rule::Invalid, "namespaces p/c1-kube-x").contains("forbidden"));
    assert_eq!(names(&plan), ["p"]);
}

#[test]
fn a_project_comes_without_the_members_whom_nobody_can_list_here() {
    let members = json!({"spec": {"members": ["ann", " bob", "", "eve\u{202e}", "c\n"]}});
    let plan = planned([project("p", "", 9, members), namespace("p", "web", 3, none())]);
    assert!(only(&plan, Rule::Mended, "projects p").contains("\" bob\""));
    assert_eq!(names(&plan), ["p", "c1-web"]);
    assert_eq!(body(&plan, "p")["spec"]["members"], json!(["ann"]));
}

#[test]
fn metadata_that_would_mean_something_else_here_is_dropped() {
    let consent = json!({"metadata": {"annotations": {"business.tkestack.io/adopt": "true"}}});
    let plan = planned([project("p", "", 9, consent)]);
    only(&plan, Rule::Metadata, "projects p");
    assert_eq!(body(&plan, "p")["metadata"]["annotations"], none());
    let orphan = json!({"metadata": {"finalizers": ["orphan", "x.y/z"]}});
    let plan = planned([project("p", "", 9, orphan)]);
    only(&plan, Rule::Metadata, "projects p");
    assert_eq!(body(&plan, "p")["metadata"]["finalizers"], json!(["x.y/z"]));
}

#[test]
fn a_lost_finalizer_comes_back() {
    let plan = planned([project("p", "", 9, json!({"spec": {"finalizers": null}}))]);
    only(&plan, Rule::Finalizer, "projects p");
    assert_eq!(body(&plan, "p")["spec"]["finalizers"], json!(["project"]));
}

#[test]
fn a_status_says_only_what_can_be() {
    let plan = planned([project("p", "", 9, json!({"status": {"phase": "Failed", "locked": true}}))]);
    only(&plan, Rule::Status, "projects p");
    assert_eq!(body(&plan, "p")["status"], json!({"phase": "Failed"}), "the lock was TKE's own");
    let locked = planned([project("p", "", 9, json!({"status": {"locked": true}}))]);
    assert_eq!((rules(&locked).len(), &body(&locked, "p")["status"]["locked"]), (0, &json!(true)));
    let strange = json!({"status": {"phase": "Sleeping", "used": {"pods": "-4"}}});
    let plan = planned([project("p", "", 9, none()), namespace("p", "web", 3, strange)]);
    assert_eq!(rules(&plan).len(), 2, "{:?}", plan.findings);
    let web = body(&plan, "c1-web");
    assert_eq!((&web["status"]["phase"], &web["status"]["used"]), (&json!("Pending"), &none()));
}

#[test]
fn what_was_never_measured_has_no_use() {
    let unmeasured = json!({"status": {"used": null}});
    let plan = planned([project("p", "", 9, none()), namespace("p", "web", 3, unmeasured)]);
    assert_eq!(body(&plan, "c1-web")["status"].get("used"), None);
}

#[test]
fn what_is_being_deleted_goes_on_being_deleted_and_is_charged() {
    let going = json!({"metadata": {"deletionTimestamp": "2025-02-01T00:00:00Z"}, "status": {"phase": "Terminating"}});
    let plan = planned([project("p", "", 9, none()), namespace("p", "web", 3, going)]);
    assert_eq!(rules(&plan), []);
    assert!(plan.objects[1].state.account.deleting);
    assert_eq!(plan.objects[1].state.account.costs["c1"]["pods"], "3".parse().unwrap());
}

#[test]
fn the_charge_is_the_most_that_tke_has_accounted_or_granted() {
    let cached = json!({"status": {"cachedSpecHard": {"pods": "8", "services": "2"}}});
    let plan = planned([project("p", "", 9, none()), namespace("p", "web", 3, cached)]);
    only(&plan, Rule::Charge, "namespaces p/c1-web");
    assert!(!plan.needs_decision());
    assert_eq!(body(&plan, "c1-web")["status"]["cachedSpecHard"], json!({"pods": "8", "services": "2"}));
    let lower = json!({"status": {"cachedSpecHard": {"pods": "1"}}});
    let plan = planned([project("p", "", 9, none()), namespace("p", "web", 3, lower)]);
    assert_eq!(body(&plan, "c1-web")["status"]["cachedSpecHard"], json!({"pods": "3"}));
}

#[test]
fn a_project_without_its_parent_becomes_a_locked_root() {
    let foreign = project("other", "", 9, json!({"spec": {"tenantID": "globex"}}));
    for records in [vec![], vec![foreign]] {
        let parent = if records.is_empty() { "gone" } else { "other" };
        let plan = planned(records.into_iter().chain([project("p", parent, 4, none())]));
        only(&plan, Rule::Parent, "projects p");
        let p = body(&plan, "p");
        assert_eq!((&p["status"]["locked"], &p["spec"]["parentProjectName"]), (&json!(true), &Value::Null));
    }
}

#[test]
fn a_circle_of_parents_is_cut_at_each_of_its_projects_and_what_hangs_below_stays_there() {
    let plan = planned([
        project("a", "b", 9, none()),
        project("b", "a", 9, none()),
        project("self", "self", 9, none()),
        project("leaf", "a", 1, none()),
    ]);
    let cut: Vec<String> = rules(&plan).into_iter().map(|(_, named)| named).collect();
    assert_eq!(cut, ["projects a", "projects b", "projects self"], "{:?}", plan.findings);
    assert_eq!(body(&plan, "leaf")["spec"]["parentProjectName"], "a");
}

#[test]
fn a_namespace_whose_project_does_not_come_is_left_out() {
    let plan = planned([namespace("gone", "web", 3, none())]);
    assert!(only(&plan, Rule::ProjectGone, "namespaces gone/c1-web").contains("discover"));
}

#[test]
fn a_namespace_is_its_projects_tenants() {
    let other = json!({"spec": {"tenantID": ""}});
    let plan = planned([project("p", "", 9, none()), namespace("p", "web", 3, other)]);
    only(&plan, Rule::Tenant, "namespaces p/c1-web");
    assert_eq!(plan.objects[1].state.account.tenant, "acme");
}

#[test]
fn of_two_on_one_place_the_one_in_use_comes_then_the_older() {
    let failed =
        json!({"status": {"phase": "Failed"}, "metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}});
    let projects = || [project("p", "", 9, none()), project("q", "", 9, none())];
    let plan = planned(
        projects().into_iter().chain([namespace("p", "web", 1, failed), namespace("q", "web", 1, none())]),
    );
    assert!(only(&plan, Rule::PlaceTaken, "namespaces p/c1-web").contains("namespaces q/c1-web"));
    let older = json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}});
    let plan = planned(
        projects().into_iter().chain([namespace("p", "web", 1, none()), namespace("q", "web", 1, older)]),
    );
    only(&plan, Rule::PlaceTaken, "namespaces p/c1-web");
}

fn emigration(phase: &str) -> SourceRecord {
    let value = json!({
        "apiVersion": API_VERSION, "kind": "NsEmigration",
        "metadata": {"name": "c1-web", "namespace": "p", "uid": uid_of("emigration"),
            "creationTimestamp": "2025-01-03T00:00:00Z"},
        "spec": {"tenantID": "acme", "namespace": "c1-web", "nsShowName": "web", "destination": "q"},
        "status": {"phase": phase, "lastTransitionTime": "2025-01-03T00:00:05Z"},
    });
    record("nsemigrations", "p", "c1-web", value)
}

/// A platform as TKE keeps it.
fn platform(name: &str, tenant: &str, administrators: &[&str]) -> SourceRecord {
    let value = json!({
        "apiVersion": API_VERSION, "kind": "Platform",
        "metadata": {"name": name, "uid": uid_of(name), "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"tenantID": tenant, "administrators": administrators},
    });
    record("platforms", "", name, value)
}

/// An image namespace as TKE keeps it, changed by a merge patch.
fn image_namespace(project: &str, name: &str, change: Value) -> SourceRecord {
    of_registry("ImageNamespace", project, name, change)
}

fn of_registry(kind: &str, project: &str, name: &str, change: Value) -> SourceRecord {
    let plural = format!("{}s", kind.to_lowercase());
    let mut value = json!({
        "apiVersion": API_VERSION, "kind": kind,
        "metadata": {"name": name, "namespace": project, "uid": uid_of(&format!("{name}/{kind}")),
            "creationTimestamp": "2025-01-02T00:00:00Z"},
        "spec": {"finalizers": [kind.to_lowercase()], "name": name, "tenantID": "acme", "displayName": "Images"},
        "status": {"phase": "Available", "lastTransitionTime": "2025-01-02T00:00:05Z"},
    });
    merge(&mut value, change);
    record(&plural, project, name, value)
}

fn config_map(name: &str, change: Value) -> SourceRecord {
    let mut value = json!({
        "apiVersion": API_VERSION, "kind": "ConfigMap",
        "metadata": {"name": name, "uid": uid_of(name), "creationTimestamp": "2025-01-01T00:00:00Z"},
        "data": {"a": "b"}, "binaryData": {"blob": "AAECAw=="},
    });
    merge(&mut value, change);
    record("configmaps", "", name, value)
}

#[test]
fn a_move_that_stopped_is_undone_before_its_new_object_is_there_and_ended_after() {
    let locked = || namespace("p", "web", 3, json!({"status": {"phase": "Locked", "reason": "moving"}}));
    let both = || [project("p", "", 9, none()), project("q", "", 9, none())];
    let of = |plan: &Plan| {
        let moved = plan.findings.iter().filter(|finding| finding.rule == Rule::Emigration);
        moved.map(|finding| finding.object_ref.to_string()).collect::<Vec<_>>()
    };
    let undone = planned(both().into_iter().chain([locked(), emigration("OldOneDetached")]));
    assert_eq!(of(&undone), ["namespaces p/c1-web", "nsemigrations p/c1-web"]);
    let failed = plan_body(&undone, "nsemigrations");
    assert_eq!(
        (&failed["status"]["phase"], &failed["status"]["reason"]),
        (&json!("Failed"), &json!("Imported"))
    );
    assert!(failed["status"]["message"].as_str().unwrap().contains("OldOneDetached"));
    let web = body(&undone, "c1-web");
    assert_eq!((&web["status"]["phase"], &web["status"]["reason"]), (&json!("Pending"), &Value::Null));
    assert_eq!(web["metadata"]["annotations"]["business.tkestack.io/adopt"], "true");

    let new = namespace("q", "web", 3, json!({"status": {"phase": "Pending"}}));
    let ended = planned(both().into_iter().chain([locked(), new, emigration("NewOneCreated")]));
    assert_eq!(of(&ended), ["namespaces q/c1-web"]);
    assert_eq!(ended.objects.len(), 3);
    assert!(rules(&ended).contains(&(Rule::Ended, "nsemigrations p/c1-web".to_owned())));

    for (phase, comes) in [("Failed", true), ("Finished", false)] {
        let plan = planned(both().into_iter().chain([namespace("p", "web", 3, none()), emigration(phase)]));
        assert_eq!((plan.needs_decision(), plan.objects.len()), (false, 3 + usize::from(comes)), "{phase}");
    }
    let by_hand = planned([project("p", "", 9, none()), locked()]);
    assert!(only(&by_hand, Rule::Status, "namespaces p/c1-web").contains("no move of it is on record"));
    assert_eq!(body(&by_hand, "c1-web")["status"]["phase"], "Locked");
    let consent = &body(&by_hand, "c1-web")["metadata"]["annotations"]["business.tkestack.io/adopt"];
    assert_eq!(consent, &Value::Null, "nobody has given it");
}

#[test]
fn a_cluster_that_only_children_name_is_listed_with_nothing_to_give_all_the_way_up() {
    let elsewhere = json!({"spec": {"clusters": {"c1": null, "c2": {"hard": {"pods": "5"}}}}});
    let plan = planned([
        project("top", "", 9, none()),
        project("sub", "top", 0, elsewhere),
        namespace("sub", "web", 3, none()),
    ]);
    let listed: Vec<_> =
        rules(&plan).into_iter().filter(|(rule, _)| *rule == Rule::ClusterNotListed).collect();
    assert_eq!(listed.len(), 2, "{:?}", plan.findings);
    assert_eq!(body(&plan, "sub")["spec"]["clusters"]["c1"]["hard"], json!({"pods": "0"}));
    assert_eq!(body(&plan, "top")["spec"]["clusters"]["c2"]["hard"], json!({"pods": "0"}));
    let above = plan.findings.iter().filter(|finding| finding.rule == Rule::AboveLimit).count();
    assert_eq!(above, 2, "sub in c1, top in c2: {:?}", plan.findings);
}

#[test]
fn what_is_given_away_beyond_a_limit_is_listed_upwards() {
    let plan = planned([
        project("top", "", 5, none()),
        project("sub", "top", 4, none()),
        namespace("sub", "a", 3, none()),
        namespace("sub", "b", 4, none()),
    ]);
    let above: Vec<_> = plan.findings.iter().map(|finding| (finding.effect, finding.why.as_str())).collect();
    assert_eq!(
        above,
        [
            (Effect::Overcommitted, "7 of 4 pods in cluster c1 are given away, 3 above its limit"),
            (Effect::Overcommitted, "7 of 5 pods in cluster c1 are given away, 2 above its limit"),
        ]
    );
    assert!(plan.needs_decision());
}

#[test]
fn what_lacks_a_limited_resource_is_listed() {
    let more = json!({"spec": {"clusters": {"c1": {"hard": {"requests.cpu": "4"}}}}});
    let plan = planned([project("p", "", 9, more), namespace("p", "web", 3, none())]);
    assert!(only(&plan, Rule::KeyMissing, "namespaces p/c1-web").contains("requests.cpu"));
}

#[test]
fn a_sum_of_tkes_that_is_another_is_told() {
    let sums = json!({"status": {"clusters": {"c1": {"used": {"pods": "-2"}}}}});
    let plan = planned([project("p", "", 9, sums), namespace("p", "web", 3, none())]);
    assert!(only(&plan, Rule::Figures, "projects p").contains("pods -2 instead of 3"));
    assert!(!plan.needs_decision());
}

fn present(object: &Imported) -> ExistingObject {
    ExistingObject { key: object.key.clone(), uid: object.uid, body: object.state.body.clone() }
}

#[test]
fn what_is_in_the_database_already_is_passed_over_and_what_is_taken_is_left_out() {
    let records = || [project("p", "", 9, none()), namespace("p", "web", 3, none())];
    let first = planned(records());
    let all: Vec<ExistingObject> = first.objects.iter().map(present).collect();
    let again = beside(records(), &all);
    assert_eq!((again.objects.len(), again.others, rules(&again).len()), (0, 0, 0));
    let rest = beside(records(), &all[..1]);
    assert_eq!((names(&rest), rest.others), (vec!["c1-web"], 0));
    let mut other = all;
    other[0].uid = uid_of("other");
    other[1].uid = uid_of("somebody");
    let taken = beside(records(), &other);
    assert_eq!((taken.objects.len(), taken.others), (0, 2));
    assert_eq!(taken.findings.iter().filter(|finding| finding.rule == Rule::Taken).count(), 2);
    other[1].key = store::Key::new(other[1].key.kind, "q", "c1-web");
    let place = beside([project("p2", "", 9, none()), namespace("p2", "web", 3, none())], &other);
    assert!(only(&place, Rule::PlaceTaken, "namespaces p2/c1-web").contains("in this database"));
    let twins = planned([
        project("p", "", 9, none()),
        project("q", "", 9, json!({"metadata": {"uid": uid_of("p")}})),
    ]);
    only(&twins, Rule::Taken, "projects q");
}

#[test]
fn what_is_held_is_taken_by_its_place_and_by_its_uid() {
    let records = || [project("p", "", 9, none()), namespace("p", "web", 3, none())];
    let all: Vec<ExistingObject> = planned(records()).objects.iter().map(present).collect();
    let hold = |uid: &str, place: &str| Hold {
        uid: uid_of(uid),
        scope: Scope::new(account::PROJECT, "q"),
        claim: Some(Claim { domain: "c1".to_owned(), place: place.to_owned() }),
        amounts: Amounts::new(),
        state: HoldState::Released,
        reason: "it counts until it is unused".to_owned(),
    };
    let place = beside_holds(records(), &[], &[hold("lost", "web"), hold("other", "shop")]);
    let why = only(&place, Rule::PlaceTaken, "namespaces p/c1-web");
    let told =
        "namespace web of cluster c1 is held for project q in this database: it counts until it is unused";
    assert!(why.starts_with(told) && why.contains(&uid_of("lost").to_string()), "{why}");
    assert_eq!(names(&place), ["p"]);
    // The same object, which was imported once and has gone since.
    let again = beside_holds(records(), &all[..1], &[hold("p/web", "web")]);
    let why = only(&again, Rule::Taken, "namespaces p/c1-web");
    assert!(why.contains("held for project q") && why.contains("--write-off"), "{why}");
    assert_eq!((again.objects.len(), again.others), (0, 0));
    // What is there has its place, whatever is held for it, too.
    let there = beside_holds(records(), &all, &[hold("lost", "web")]);
    assert_eq!((there.objects.len(), rules(&there).len()), (0, 0));
}

#[tokio::test]
async fn a_source_without_anything_that_comes_is_an_error() {
    let nothing = ImportSource {
        dump: Some("/dev/null".into()),
        etcd_servers: Vec::new(),
        etcd_cafile: None,
        etcd_certfile: None,
        etcd_keyfile: None,
        prefix: "/tke/other/".to_owned(),
    };
    let refused = source::read(&nothing).await.unwrap_err().to_string();
    assert_eq!(refused, "nothing lies below /tke/other/");
    let lost = planned([namespace("gone", "web", 3, none())]);
    for progress in [ImportProgress::None, ImportProgress::Begun, ImportProgress::Ended] {
        let refused = apply::ensure_applicable(&lost, progress, true).unwrap_err().to_string();
        assert!(refused.starts_with("none of the 1 records"), "{refused}");
    }
}

#[test]
fn what_wrote_nothing_does_not_say_that_growth_is_held() {
    let records = || [project("p", "", 9, none())];
    let all: Vec<ExistingObject> = planned(records()).objects.iter().map(present).collect();
    let again = beside(records(), &all);
    apply::ensure_applicable(&again, ImportProgress::None, false).unwrap();
    let told = text(&again, Stage::Unchanged);
    assert!(told.contains("nothing was written") && !told.contains("Growth"), "{told}");
    assert!(text(&again, Stage::Applied).contains("Growth is held"));
}

#[test]
fn platforms_come_with_whom_they_make_administrators() {
    let plan = planned([platform("plf", "acme", &["root", "", "ann"]), platform("none", "", &["eve"])]);
    assert_eq!(
        rules(&plan),
        [(Rule::Mended, "platforms plf".into()), (Rule::Administrators, "platforms plf".into())]
    );
    assert!(plan.findings[1].why.starts_with("root, ann will rule tenant acme"));
    assert_eq!(body(&plan, "plf")["spec"], json!({"tenantID": "acme", "administrators": ["root", "ann"]}));
    assert_eq!(plan.tenants.iter().collect::<Vec<_>>(), ["acme"]);
    let two = planned([platform("b", "acme", &[]), platform("a", "acme", &[])]);
    assert!(only(&two, Rule::PlaceTaken, "platforms b").contains("the one platform of tenant acme"));
}

#[test]
fn the_programs_own_platform_gives_way_while_nothing_else_is_in_the_database() {
    let records = || [platform("platform-default", "default", &["admin"]), project("p", "", 9, none())];
    let all: Vec<ExistingObject> = planned(records()).objects.iter().map(present).collect();
    let own = |administrators: &[&str]| {
        let SourceRecord { object_ref, value } = platform("platform-default", "default", administrators);
        let mut object = all.iter().find(|there| *there.key.name == object_ref.name).unwrap().clone();
        (object.uid, object.body) = (uid_of("own"), value.to_string());
        object
    };
    let plan = beside(records(), &[own(&["admin"])]);
    assert_eq!(
        (plan.others, plan.objects.len(), plan.needs_decision()),
        (0, 2, false),
        "{:?}",
        plan.findings
    );
    assert_eq!(plan.replaced.as_ref().map(|own| own.uid), Some(uid_of("own")));
    assert!(rules(&plan).contains(&(Rule::Replaces, "platforms platform-default".into())));

    let lost = beside(records(), &[own(&["admin", "bob"])]);
    let lost: Vec<_> = lost.findings.iter().filter(|found| found.rule == Rule::AdministratorsLost).collect();
    assert!(lost.len() == 1 && lost[0].why.starts_with("bob will not rule tenant default"), "{lost:?}");

    let begun = beside(records(), &[own(&["admin"]), all[0].clone()]);
    assert_eq!((begun.others, begun.replaced.is_some(), names(&begun)), (0, true, vec!["platform-default"]));
    let mut others = all[0].clone();
    (others.uid, others.key) = (uid_of("mine"), store::Key::new(others.key.kind, "", "mine"));
    let used = beside(records(), &[own(&["admin"]), others]);
    assert_eq!((used.others, &used.replaced), (1, &None));
    assert!(rules(&used).contains(&(Rule::Taken, "platforms platform-default".into())));

    let without = beside([project("p", "", 9, none())], &[own(&["admin"])]);
    assert_eq!((without.others, without.replaced), (0, None), "it stays");
}

#[test]
fn config_maps_come_as_the_platforms_or_by_their_label_as_a_tenants() {
    let plan = planned([config_map("notes", none()), config_map("tke-business-controller", none())]);
    assert_eq!((names(&plan), plan.needs_decision()), (vec!["notes"], false));
    assert_eq!(body(&plan, "notes")["binaryData"], json!({"blob": "AAECAw=="}));
    assert!(plan.tenants.is_empty() && plan.objects[0].state.account.tenant.is_empty());
    let label = json!({"metadata": {"labels": {"business.tkestack.io/tenant": "acme"}}});
    let plan = planned([config_map("notes", label)]);
    assert!(only(&plan, Rule::Owner, "configmaps notes").contains("tenant acme"));
    assert_eq!(plan.objects[0].state.account.tenant, "acme");
    let plan = planned([config_map("notes", json!({"data": {"a b": "c"}}))]);
    assert!(plan.findings.iter().any(|found| found.rule == Rule::Invalid && found.why.contains("data[a b]")));
}

#[test]
fn what_is_of_the_registry_comes_with_its_account_and_without_a_record_of_ours() {
    let ours = json!({"status": {"registry": {"backend": "OCI", "provenance": "Made"}, "locked": true,
        "observedGeneration": 7, "used": {"requests.storage": "1Gi"}, "phase": "Locked"}});
    let plan = planned([
        image_namespace("p", "img", ours),
        of_registry("ChartGroup", "p", "charts", json!({"spec": {"finalizers": []}})),
        project("p", "", 9, none()),
    ]);
    only(&plan, Rule::Finalizer, "chartgroups p/charts");
    assert_eq!(names(&plan), ["p", "img", "charts"]);
    assert_eq!(
        body(&plan, "img")["status"],
        json!({"phase": "Locked", "lastTransitionTime": "2025-01-02T00:00:05Z"})
    );
    assert_eq!(body(&plan, "charts")["spec"]["finalizers"], json!(["chartgroup"]));
    let account = &plan.objects[1].state.account;
    assert_eq!(account.costs["registry"]["imagenamespaces"], "1".parse().unwrap());
    assert_eq!(account.claims[0].place, "acme/img");
    assert!(!plan.clusters.contains("registry"));
}

#[test]
fn what_is_of_the_registry_and_cannot_be_sure_of_its_content_does_not_take_it() {
    let of = |change: Value| planned([project("p", "", 9, none()), image_namespace("p", "img", change)]);
    let renamed = of(json!({"spec": {"name": "other"}}));
    only(&renamed, Rule::Mended, "imagenamespaces p/img");
    let img = body(&renamed, "img");
    assert_eq!((&img["spec"]["name"], &img["status"]["phase"]), (&json!("img"), &json!("Pending")));
    let failed = of(json!({"status": {"phase": "Failed", "message": "createChartGroup failed"}}));
    only(&failed, Rule::Retried, "imagenamespaces p/img");
    assert!(!failed.needs_decision());
    let deleted =
        json!({"spec": {"name": "other"}, "metadata": {"deletionTimestamp": "2025-01-03T00:00:00Z"}});
    for unsure in [&renamed, &failed, &of(deleted)] {
        assert_eq!(
            body(unsure, "img")["status"]["observedGeneration"],
            0,
            "its deletion takes nothing along"
        );
    }
    let foreign = of(json!({"spec": {"tenantID": "globex"}}));
    assert!(only(&foreign, Rule::OtherTenant, "imagenamespaces p/img").contains("globex"));
    assert!(
        only(&of(json!({"spec": {"tenantID": ""}})), Rule::Invalid, "imagenamespaces p/img")
            .contains("tenantID")
    );
    let gone = planned([image_namespace("p", "img", none())]);
    assert!(only(&gone, Rule::ProjectGone, "imagenamespaces p/img").contains("registry"));
}

#[test]
fn a_prefix_of_the_registry_is_one_objects_of_either_kind() {
    let failed =
        json!({"status": {"phase": "Failed"}, "metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}});
    let plan = planned([
        project("p", "", 9, none()),
        image_namespace("p", "web", failed),
        of_registry("ChartGroup", "p", "web", none()),
    ]);
    let taken = plan.findings.iter().find(|found| found.rule == Rule::PlaceTaken).unwrap();
    assert_eq!(taken.object_ref.to_string(), "imagenamespaces p/web");
    assert!(
        taken.why.contains("prefix acme/web of the registry is that of chartgroups p/web"),
        "{}",
        taken.why
    );
    assert_eq!(names(&plan), ["p", "web"]);
    // A lock of the registry is put on what is in use.
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let plan = planned([
        project("p", "", 9, none()),
        image_namespace("p", "web", phase("Locked")),
        of_registry("ChartGroup", "p", "web", phase("Pending")),
    ]);
    only(&plan, Rule::PlaceTaken, "chartgroups p/web");
}

#[test]
fn what_the_registry_has_beyond_a_limit_is_listed() {
    let limit = json!({"spec": {"clusters": {"registry": {"hard": {"imagenamespaces": "1"}}}}});
    let plan = planned([
        project("p", "", 9, limit),
        image_namespace("p", "a", none()),
        image_namespace("p", "b", none()),
    ]);
    let why = only(&plan, Rule::AboveLimit, "projects p");
    assert_eq!(why, "2 of 1 imagenamespaces in the registry are given away, 1 above its limit");
}
