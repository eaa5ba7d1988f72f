use super::wanted::wanted;
use super::*;
use crate::fixtures::pending;
use crate::project::kind::ProjectView;
use business_types::NamespaceTemplateSpec;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn spec(spec: Value) -> NamespaceTemplateSpec {
    serde_json::from_value(spec).unwrap()
}

fn full() -> NamespaceTemplateSpec {
    spec(json!({
        "limitRange": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
        "networkPolicies": [{"name": "deny", "spec": {"policyTypes": ["Ingress"], "ingress": []}}],
        "roleBindings": [{
            "name": "sre", "role": "business:offered:view", "subjects": [{"kind": "Group", "name": "sre"}],
        }],
    }))
}

fn there(object: &NamespaceView, wanted: &WantedObject) -> TemplateObject {
    let held: &[&str] = match wanted.kind {
        TemplateObjectKind::LimitRange => &["limits"],
        TemplateObjectKind::NetworkPolicy => &["podSelector", "policyTypes"],
        TemplateObjectKind::RoleBinding => &["roleRef", "subjects"],
    };
    TemplateObject {
        kind: wanted.kind,
        name: wanted.name.clone(),
        uid: format!("uid-{}", wanted.name),
        resource_version: "1".into(),
        template: "standard".into(),
        digest: wanted.digest.clone(),
        object: object.uid.clone(),
        held: held.iter().map(|part| (*part).to_owned()).collect(),
        role: wanted.role.clone(),
        deleting: false,
    }
}

#[test]
fn what_is_right_is_left_alone_and_what_is_not_is_made_so() {
    let object = pending(&[]);
    let wanted = wanted("standard", &full(), &ProjectView::default()).objects;
    let names: Vec<&str> = wanted.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["business-template", "business-template-deny", "business:template:sre"]);
    assert_eq!(
        steps(&object, &wanted, &[]),
        wanted.iter().map(|one| TemplateStep::Apply(one.clone(), None)).collect::<Vec<_>>()
    );
    let right: Vec<Arc<TemplateObject>> = wanted.iter().map(|one| Arc::new(there(&object, one))).collect();
    assert_eq!(steps(&object, &wanted, &right), []);

    let changed = |at: usize, change: fn(&mut TemplateObject)| {
        let mut seen = right.clone();
        change(Arc::make_mut(&mut seen[at]));
        steps(&object, &wanted, &seen)
    };
    let is_applied = |steps: &[TemplateStep], at: usize| matches!(steps, [TemplateStep::Apply(one, Some(there))] if *one == wanted[at] && there.uid == right[at].uid);
    assert!(is_applied(&changed(0, |one| one.digest.clear()), 0));
    let taken = changed(1, |one| one.held.retain(|part| part != "policyTypes"));
    assert!(is_applied(&taken, 1), "somebody has written it: {taken:?}");
    let other_role = changed(2, |one| one.role = Some("cluster-admin".into()));
    assert!(matches!(&other_role[..], [TemplateStep::Replace(..)]), "{other_role:?}");

    let gone = steps(&object, &wanted[..1], &right);
    assert!(matches!(&gone[..], [TemplateStep::Delete(_), TemplateStep::Delete(_)]), "{gone:?}");
    let mut foreign = right.clone();
    Arc::make_mut(&mut foreign[1]).object = "somebody".into();
    assert_eq!(steps(&object, &wanted[..1], &foreign).len(), 1, "what does not carry our mark is not ours");
}

#[test]
fn values_come_from_the_project_if_they_fit() {
    let mut project =
        ProjectView { key: crate::kinds::RootKey { name: "shop".into() }, ..ProjectView::default() };
    project.spec.display_name = "The Shop".into();
    project.labels.insert("cost".into(), "4711".into());
    let spec = spec(json!({
        "labels": {"plain": "a"},
        "labelsFromProject": {
            "cost-centre": "metadata.labels['cost']", "people": "spec.displayName", "none": "metadata.labels['x']",
        },
        "annotationsFromProject": {"people": "spec.displayName", "project": "metadata.name"},
    }));
    let wanted = wanted("standard", &spec, &project);
    let labels: Vec<(&str, &str)> =
        wanted.template_metadata.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, [("cost-centre", "4711"), ("plain", "a")]);
    assert_eq!(wanted.template_metadata.annotations["people"], "The Shop");
    assert_eq!(wanted.template_metadata.annotations["project"], "shop");
    assert!(wanted.invalid[0].contains("people is left out"), "{:?}", wanted.invalid);
}

#[test]
fn a_policy_without_rules_denies_and_what_is_empty_is_not_asked_for() {
    let wanted = wanted("standard", &full(), &ProjectView::default()).objects;
    let body = wanted[1].body(&pending(&[]), "standard");
    assert_eq!(body["spec"], json!({"podSelector": {}, "policyTypes": ["Ingress"]}));
    assert_eq!(body["metadata"]["labels"], json!({"business.tkestack.io/template": "standard"}));
    let held: BTreeSet<String> = ["podSelector", "policyTypes"].map(str::to_owned).into();
    assert!(
        wanted[1].is_in_place(&pending(&[]), &TemplateObject { held, ..there(&pending(&[]), &wanted[1]) })
    );
}
