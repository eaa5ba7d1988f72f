use super::*;
use meta::field::Cause;
use serde_json::Value;

fn spec<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn causes(errors: &FieldErrors) -> Vec<(&'static str, &str)> {
    errors.iter().map(|e| (e.cause.reason(), e.field.as_str())).collect()
}

fn project_with(hard: &Value) -> ProjectSpec {
    spec(json!({"displayName": "x", "clusters": {"c1": {"hard": hard}}}))
}

#[test]
fn a_list_has_as_many_resources_as_anybody_needs_and_no_more() {
    let list = |count: usize| (0..count).map(|n| (format!("count/r{n:03}.x"), json!("1"))).collect::<Value>();
    let errors = |count| project("me", &project_with(&list(count)));
    assert_eq!(causes(&errors(256)), []);
    assert_eq!(causes(&errors(257)), [("FieldValueTooMany", "spec.clusters[c1count/r256.x]")]);
}

#[test]
fn a_project_reports_all_that_its_children_name() {
    let mut used = (0..300).map(|n| (format!("count/r{n:03}.x"), json!("1"))).collect::<Value>();
    let check = |used: &Value| {
        let object = json!({"status": {"phase": "Active", "clusters": {"c1": {"used": used}}}});
        let object = Object::new(object).unwrap();
        project_status(&object, &ProjectStatus::of(&object).unwrap())
    };
    assert_eq!(causes(&check(&used)), []);
    used["pods"] = json!("-1");
    assert_eq!(causes(&check(&used)), [("FieldValueInvalid", "status.used[c1.pods]")]);
}

#[test]
fn project_refusals_name_the_fields_that_clients_know() {
    let table = [
        (project_with(&json!({"pods": "-1"})), vec![("FieldValueInvalid", "spec.clusters[c1pods]")]),
        (project_with(&json!({"pods": "1.5"})), vec![("FieldValueInvalid", "spec.clusters[c1pods]")]),
        (
            project_with(&json!({"foo": "1"})),
            vec![
                ("FieldValueInvalid", "spec.clusters[c1foo]"),
                ("FieldValueInvalid", "spec.clusters[c1foo]"),
            ],
        ),
        (project_with(&json!({"requests.nvidia.com/gpu": "4"})), vec![]),
        (spec(json!({})), vec![("FieldValueRequired", "spec.displayName")]),
        (
            spec(json!({"displayName": "x", "parentProjectName": "me"})),
            vec![("FieldValueInvalid", "spec.parentProjectName")],
        ),
        (spec(json!({"displayName": "x", "parentProjectName": "other"})), vec![]),
        (
            spec(json!({"displayName": "x", "members": ["a", ""]})),
            vec![("FieldValueRequired", "spec.members[1]")],
        ),
        (spec(json!({"displayName": "x".repeat(64)})), vec![]),
        (spec(json!({"displayName": "x", "clusters": {"Prod_1.eu": {}}})), vec![]),
        (
            spec(json!({"displayName": "x", "clusters": {"": {}}})),
            vec![("FieldValueInvalid", "spec.clusters[]")],
        ),
        (
            spec(json!({"displayName": "x", "clusters": {"a/b": {}}})),
            vec![("FieldValueInvalid", "spec.clusters[a/b]")],
        ),
        (
            spec(json!({"displayName": "x", "clusters": {"..a": {}}})),
            vec![("FieldValueInvalid", "spec.clusters[..a]")],
        ),
        (
            spec(
                json!({"displayName": "x", "members": ["a\u{0}", "Åsa <asa@example.com>", "b\n", " carol", "carol\u{3000}"]}),
            ),
            vec![
                ("FieldValueInvalid", "spec.members[0]"),
                ("FieldValueInvalid", "spec.members[2]"),
                ("FieldValueInvalid", "spec.members[3]"),
                ("FieldValueInvalid", "spec.members[4]"),
            ],
        ),
        (
            spec(json!({"displayName": "x", "parentProjectName": "-p"})),
            vec![("FieldValueInvalid", "spec.parentProjectName")],
        ),
        (
            spec(json!({"displayName": "x", "tenantID": "a\u{0}"})),
            vec![("FieldValueInvalid", "spec.tenantID")],
        ),
        (spec(json!({"displayName": "x", "tenantID": "t".repeat(TENANT_ID_BYTES_MAX)})), vec![]),
        (
            spec(json!({"displayName": "x", "tenantID": "t".repeat(TENANT_ID_BYTES_MAX + 1)})),
            vec![("FieldValueTooLong", "spec.tenantID")],
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(causes(&project("me", &spec)), expected, "{spec:?}");
    }
}

#[test]
fn namespace_refusals_name_the_fields_that_clients_know() {
    let forbidden = names::FORBIDDEN_NAMESPACES.map(str::to_owned);
    let in_c1 = |namespace: &str| json!({"clusterName": "c1", "namespace": namespace});
    let invalid = |field: &'static str| vec![("FieldValueInvalid", field)];
    let table = [
        (json!({"clusterName": "c1", "namespace": "a", "hard": {"pods": "-1"}}), invalid("spec.hard[pods]")),
        (in_c1("kube-system"), invalid("spec.namespace")),
        (in_c1("Kube-System"), invalid("spec.namespace")),
        (json!({"clusterName": "", "namespace": "a"}), vec![("FieldValueRequired", "spec.clusterName")]),
        (json!({"clusterName": "c1"}), vec![("FieldValueRequired", "spec.namespace")]),
        (in_c1("Bad_Name"), invalid("spec.namespace")),
        (in_c1("-foo"), invalid("spec.namespace")),
        (in_c1("foo-"), invalid("spec.namespace")),
        (in_c1("a.b"), invalid("spec.namespace")),
        (in_c1("a\u{0}"), invalid("spec.namespace")),
        (json!({"clusterName": "c/1", "namespace": "a"}), invalid("spec.clusterName")),
        (json!({"clusterName": "c\u{0}", "namespace": "a"}), invalid("spec.clusterName")),
        (json!({"clusterName": "c1", "namespace": "a", "tenantID": "t\u{7f}"}), invalid("spec.tenantID")),
        (
            json!({"clusterName": "c1", "namespace": "a", "tenantID": "t".repeat(TENANT_ID_BYTES_MAX + 1)}),
            vec![("FieldValueTooLong", "spec.tenantID")],
        ),
        (in_c1("a"), vec![]),
        (json!({"clusterName": "Prod_1.eu", "namespace": "a"}), vec![]),
    ];
    for (value, expected) in table {
        assert_eq!(causes(&namespace(&spec(value.clone()), &forbidden)), expected, "{value}");
    }
}

#[test]
fn what_a_namespace_is_in_the_cluster_never_changes() {
    let old: NamespaceSpec = spec(json!({"clusterName": "c1", "namespace": "a", "tenantID": "t"}));
    assert!(namespace_update(&old, &old).is_empty());
    let new = spec(json!({"clusterName": "c2", "namespace": "b", "tenantID": "u"}));
    let fields = ["spec.clusterName", "spec.namespace", "spec.tenantID"].map(|f| ("FieldValueInvalid", f));
    assert_eq!(causes(&namespace_update(&old, &new)), fields);
    let lowered =
        spec(json!({"clusterName": "c1", "namespace": "a", "tenantID": "t", "hard": {"pods": "-1"}}));
    assert_eq!(causes(&namespace_update(&old, &lowered)), [("FieldValueInvalid", "spec.hard[pods]")]);
    let (ours, theirs) = (spec(json!({"tenantID": "t"})), spec(json!({"tenantID": "u"})));
    assert_eq!(causes(&project_immutable_fields(&ours, &theirs)), [("FieldValueInvalid", "spec.tenantID")]);
}

#[test]
fn what_no_cluster_takes_is_refused_where_it_is_new() {
    let with =
        |hard: Value| -> NamespaceSpec { spec(json!({"clusterName": "c1", "namespace": "a", "hard": hard})) };
    let none: [(&str, &str); 0] = [];
    let pods = [("FieldValueInvalid", "spec.hard[pods]")];
    let large = with(json!({"pods": "16Pi", "memory": "16Pi"}));
    assert_eq!(causes(&namespace(&large, &[])), pods);
    assert_eq!(causes(&namespace(&with(json!({"pods": "10P", "memory": "16Pi"})), &[])), none);
    assert_eq!(causes(&project("me", &project_with(&json!({"pods": "16Pi"})))), none, "it may be a sum");

    assert_eq!(causes(&namespace_update(&large, &large)), none, "it hinders nothing else");
    let more = with(json!({"pods": "16Pi", "memory": "17Pi", "count/x.y": "9Pi"}));
    assert_eq!(causes(&namespace_update(&large, &more)), [("FieldValueInvalid", "spec.hard[count/x.y]")]);
    assert_eq!(causes(&namespace_update(&large, &with(json!({"pods": "9Pi"})))), pods);
    assert_eq!(causes(&namespace_update(&large, &with(json!({"pods": "8Pi"})))), none);
    let in_decimals = with(json!({"pods": "10P"}));
    let in_binaries = with(json!({"pods": "9765625000000Ki"}));
    assert_eq!(in_decimals.hard, in_binaries.hard);
    assert_eq!(causes(&namespace_update(&in_decimals, &in_binaries)), pods, "it is written otherwise");
}

#[test]
fn a_namespace_asks_for_whole_thousandths_where_it_is_new() {
    let with =
        |hard: Value| -> NamespaceSpec { spec(json!({"clusterName": "c1", "namespace": "a", "hard": hard})) };
    let cpu = [("FieldValueInvalid", "spec.hard[requests.cpu]")];
    let none: [(&str, &str); 0] = [];
    let small = with(json!({"requests.cpu": "100u"}));
    assert_eq!(causes(&namespace(&small, &[])), cpu);
    assert_eq!(causes(&namespace(&with(json!({"requests.cpu": "1m"})), &[])), none);
    assert_eq!(causes(&namespace_update(&with(json!({"requests.cpu": "1"})), &small)), cpu);
    assert_eq!(causes(&namespace_update(&small, &small)), none, "it was taken once");
    let more = with(json!({"requests.cpu": "100u", "pods": "1"}));
    assert_eq!(causes(&namespace_update(&small, &more)), none);
    assert_eq!(
        causes(&project("me", &project_with(&json!({"requests.cpu": "100u"})))),
        none,
        "no cluster has it"
    );
}

#[test]
fn a_status_has_a_known_phase_and_true_conditions() {
    let check = |status: Value| {
        let object = Object::new(json!({"status": status})).unwrap();
        let typed = NamespaceStatus::of(&object).unwrap_or_default();
        let old = NamespaceStatus { phase: NamespacePhase::Pending, ..NamespaceStatus::default() };
        namespace_status(&object, &old, &typed).iter().map(|e| (e.cause, e.field.clone())).collect::<Vec<_>>()
    };
    assert_eq!(check(json!({"phase": "Available"})), []);
    assert_eq!(check(json!({"phase": ""})), [(Cause::Required, "status.phase".to_owned())]);
    assert_eq!(check(json!({"phase": "Odd"})), [(Cause::NotSupported, "status.phase".to_owned())]);
    assert_eq!(check(json!({"phase": "Locked"})), [(Cause::Invalid, "status.phase".to_owned())]);
    assert_eq!(
        check(json!({"phase": "Failed", "used": {"pods": "-1"}})),
        [(Cause::Invalid, "status.used[pods]".to_owned())]
    );
    let record = json!({"phase": "Failed", "clusterNamespace": {"uid": "", "provenance": "Made"}});
    assert_eq!(check(record), [(Cause::Required, "status.clusterNamespace.uid".to_owned())]);
    let strange = json!({"phase": "Failed", "clusterNamespace": {"uid": "u", "provenance": "Found"}});
    let object = Object::new(json!({"status": strange})).unwrap();
    assert!(NamespaceStatus::of(&object).is_err());
    assert_eq!(
        causes(&unreadable_namespace_status(&object)),
        [("FieldValueNotSupported", "status.clusterNamespace.provenance")]
    );
    let condition = json!({"phase": "Failed", "conditions": [{"type": "Ready", "status": "Maybe"}]});
    assert_eq!(check(condition), [(Cause::NotSupported, "status.conditions[0].status".to_owned())]);
}

#[test]
fn every_field_is_described() {
    fn walk(path: &str, schema: &meta::schema::Schema) {
        use meta::schema::Type;
        if path.contains(".metadata") || path.contains(".conditions") {
            return;
        }
        match &schema.ty {
            Type::Struct { fields, .. } => {
                for (name, field) in fields {
                    assert!(field.schema.description.len() > 20, "{path}.{name}");
                    walk(&format!("{path}.{name}"), &field.schema);
                }
            }
            Type::Map { values, .. } => walk(path, values),
            _ => {}
        }
    }
    walk("project", &crate::project::schema());
    walk("namespace", &crate::namespace::schema());
}

#[test]
fn a_name_that_an_older_rule_let_in_stands_in_the_way_of_no_other_change() {
    let project_with = |label: &str, members: &[&str], access: &[&str]| -> ProjectSpec {
        let access = access.iter().map(|name| json!({"kind": "User", "name": name, "role": "view"}));
        spec(json!({"displayName": label, "members": members, "access": access.collect::<Value>()}))
    };
    let before = project_with("x", &["carol "], &["ca\u{202e}rol"]);
    assert_eq!(project("me", &before).len(), 2, "they are not newly named");
    for after in [&before, &project_with("y", &["carol ", "ann"], &["bob", "ca\u{202e}rol"])] {
        assert_eq!(causes(&project_changed(&before, "me", after)), []);
    }
    let after = project_with("x", &["carol ", "dan "], &[" eve"]);
    let wrong = [("FieldValueInvalid", "spec.members[1]"), ("FieldValueInvalid", "spec.access[0].name")];
    assert_eq!(causes(&project_changed(&before, "me", &after)), wrong);
    let after = project_with("", &["carol "], &[]);
    assert_eq!(causes(&project_changed(&before, "me", &after)), [("FieldValueRequired", "spec.displayName")]);
}

#[test]
fn what_other_kinds_have_let_in_stands_in_the_way_of_nothing_there_either() {
    use crate::namespace_template::namespace_template_changed;
    use crate::platform::platform_update;
    use crate::tenant::tenant_changed;
    let user = |name: &str| json!({"kind": "User", "name": name});
    let tenant = |names: [&str; 2]| spec(json!({"administrators": names.map(user)}));
    let platform = |names: [&str; 2]| spec(json!({"administrators": names}));
    let template = |names: [&str; 2]| {
        let binding = json!({"name": "b", "role": "business:offered:view", "subjects": names.map(user)});
        spec(json!({"roleBindings": [binding]}))
    };
    let before = ["carol ", "ann"];
    for (after, wrong) in [(before, false), (["bob", "carol "], false), (["carol ", "bob "], true)] {
        let errors = [
            tenant_changed(&tenant(before), &tenant(after)),
            platform_update(&platform(before), &platform(after)),
            namespace_template_changed(&template(before), &template(after)),
        ];
        assert_eq!(errors.map(|errors| errors.len()), [usize::from(wrong); 3], "{after:?}");
    }
}
