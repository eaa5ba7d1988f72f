use super::{
    NamespaceTemplateSpec, NamespaceTemplateStatus, NetworkPolicyTemplate, ProjectField, PullSecretTemplate,
    RoleBindingTemplate, limits, network,
};
use crate::names::OFFERED_ROLE_PREFIX;
use crate::namespace::pull_credential;
use crate::subject::{Subject, check_subjects};
use crate::text::by_rule;
use crate::validation::{self, StoredNames, conditions, display_name};
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use serde_json::json;
use std::collections::BTreeMap;

/// The maximum number of labels, and of annotations, in each of the four maps.
const KEYS_MAX: usize = 64;
/// The maximum number of bytes of the values of all annotations.
const ANNOTATION_BYTES_MAX: usize = 64 * 1024;
const NETWORK_POLICIES_MAX: usize = 32;
/// The maximum number of bytes of a policy's spec as JSON.
const NETWORK_POLICY_BYTES_MAX: usize = 32 * 1024;
const ROLE_BINDINGS_MAX: usize = 32;
const SUBJECTS_MAX: usize = 128;
/// The maximum number of bytes of the name of a policy or binding. Its name in the cluster also has our prefix.
const NAME_BYTES_MAX: usize = 40;
/// The maximum number of service accounts of a pull secret.
const SERVICE_ACCOUNTS_MAX: usize = 32;
const BATCH_MAX: i64 = 1_000;

/// The prefix of the labels of Pod Security Admission.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";
const POD_SECURITY_LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
/// Prefixes of keys that templates must not use: we, Kubernetes or other tools identify their own objects by them.
const RESERVED_PREFIXES: [&str; 10] = [
    "business.tkestack.io/",
    "tkestack.io/",
    "kubernetes.io/",
    "k8s.io/",
    "kubectl.kubernetes.io/",
    "app.kubernetes.io/managed-by",
    "meta.helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
];

/// Whether a label or annotation key is reserved for identifying the owner of an object.
pub fn is_reserved(key: &str) -> bool {
    let key = key.to_lowercase();
    RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Validates a new template.
pub fn namespace_template(spec: &NamespaceTemplateSpec) -> FieldErrors {
    validate_template(&StoredNames::default(), spec)
}

/// Validates a changed template. Names of subjects that are stored already are not validated again.
pub fn namespace_template_changed(
    before: &NamespaceTemplateSpec,
    spec: &NamespaceTemplateSpec,
) -> FieldErrors {
    if spec == before {
        return FieldErrors::new();
    }
    let listed = before.role_bindings.iter().flat_map(|binding| &binding.subjects);
    validate_template(&listed.flat_map(Subject::names).collect(), spec)
}

fn validate_template(stored: &StoredNames<'_>, spec: &NamespaceTemplateSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = FieldErrors::new();
    errors.extend(display_name(&spec.display_name, &path.child("displayName")));
    errors.extend(labels(spec, &path));
    errors.extend(annotations(spec, &path));
    if let Some(limit_range) = &spec.limit_range {
        errors.extend(limits::check(limit_range, &path.child("limitRange")));
    }
    errors.extend(network_policies(&spec.network_policies, &path.child("networkPolicies")));
    errors.extend(role_bindings(stored, &spec.role_bindings, &path.child("roleBindings")));
    if let Some(pull_secret) = &spec.pull_secret {
        errors.extend(check_pull_secret(pull_secret, &path.child("pullSecret")));
    }
    if !(1..=BATCH_MAX).contains(&spec.rollout.batch) {
        let at = path.child("rollout").child("batch");
        let why = format!("must be from 1 to {BATCH_MAX}");
        errors.push(FieldError::invalid(&at, &json!(spec.rollout.batch), &why));
    }
    errors
}

fn labels(spec: &NamespaceTemplateSpec, path: &Path) -> FieldErrors {
    let mut errors = keys(&spec.labels, &path.child("labels"), name::qualified_name);
    for (key, value) in &spec.labels {
        let at = path.child("labels").key(key);
        errors.extend(by_rule(value, name::label_value, &at));
        let is_level = key.strip_prefix(POD_SECURITY).is_some_and(|mode| !mode.ends_with("-version"));
        if is_level && !POD_SECURITY_LEVELS.contains(&value.as_str()) {
            errors.push(FieldError::not_supported(&at, &json!(value), &POD_SECURITY_LEVELS));
        }
    }
    let at = path.child("labelsFromProject");
    errors.extend(keys(&spec.labels_from_project, &at, name::qualified_name));
    errors.extend(from_project(&spec.labels_from_project, &spec.labels, &at));
    // Otherwise whoever can write the project could choose the level.
    let chosen = spec.labels_from_project.keys().filter(|key| key.starts_with(POD_SECURITY));
    let why = "the level of pod security is not the project's to choose";
    errors.extend(chosen.map(|key| FieldError::forbidden(&at.key(key), why)));
    errors
}

fn annotations(spec: &NamespaceTemplateSpec, path: &Path) -> FieldErrors {
    let mut errors = keys(&spec.annotations, &path.child("annotations"), name::annotation_key);
    let bytes: usize = spec.annotations.values().map(String::len).sum();
    if bytes > ANNOTATION_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("annotations"), ANNOTATION_BYTES_MAX));
    }
    let at = path.child("annotationsFromProject");
    errors.extend(keys(&spec.annotations_from_project, &at, name::annotation_key));
    errors.extend(from_project(&spec.annotations_from_project, &spec.annotations, &at));
    errors
}

fn keys(map: &BTreeMap<String, String>, path: &Path, rule: fn(&str) -> Vec<String>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if map.len() > KEYS_MAX {
        errors.push(FieldError::too_many(path, map.len(), KEYS_MAX));
    }
    for key in map.keys() {
        let at = path.key(key);
        errors.extend(by_rule(key, rule, &at));
        if is_reserved(key) {
            let why = "this key says whose a namespace is: templates do not write it";
            errors.push(FieldError::forbidden(&at, why));
        }
    }
    errors
}

fn from_project(
    map: &BTreeMap<String, String>,
    plain: &BTreeMap<String, String>,
    path: &Path,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, field) in map {
        let at = path.key(key);
        if ProjectField::parse(field).is_none() {
            let why = format!("must be {}", ProjectField::FORMS);
            errors.push(FieldError::invalid(&at, &json!(field), &why));
        }
        if plain.contains_key(key) {
            errors.push(FieldError::duplicate(&at, &json!(key)));
        }
    }
    errors
}

fn network_policies(policies: &[NetworkPolicyTemplate], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if policies.len() > NETWORK_POLICIES_MAX {
        errors.push(FieldError::too_many(path, policies.len(), NETWORK_POLICIES_MAX));
    }
    let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
    errors.extend(check_names(&names, path));
    for (index, policy) in policies.iter().enumerate() {
        let at = path.index(index).child("spec");
        if policy.spec.to_string().len() > NETWORK_POLICY_BYTES_MAX {
            errors.push(FieldError::too_long(&at, NETWORK_POLICY_BYTES_MAX));
        }
        errors.extend(network::check(&policy.spec, &at));
    }
    errors
}

fn role_bindings(stored: &StoredNames<'_>, bindings: &[RoleBindingTemplate], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if bindings.len() > ROLE_BINDINGS_MAX {
        errors.push(FieldError::too_many(path, bindings.len(), ROLE_BINDINGS_MAX));
    }
    let names: Vec<&str> = bindings.iter().map(|binding| binding.name.as_str()).collect();
    errors.extend(check_names(&names, path));
    for (index, binding) in bindings.iter().enumerate() {
        let at = path.index(index);
        let offered = binding.role.strip_prefix(OFFERED_ROLE_PREFIX);
        if offered.is_none_or(|name| !name::dns1123_subdomain(name).is_empty()) {
            let why = format!("must be a ClusterRole that is offered: {OFFERED_ROLE_PREFIX}NAME");
            errors.push(FieldError::invalid(&at.child("role"), &json!(binding.role), &why));
        }
        let at = at.child("subjects");
        if binding.subjects.is_empty() {
            errors.push(FieldError::required(&at, "a binding without anybody gives nothing"));
        }
        if binding.subjects.len() > SUBJECTS_MAX {
            errors.push(FieldError::too_many(&at, binding.subjects.len(), SUBJECTS_MAX));
        }
        errors.extend(check_subjects(stored, &binding.subjects, &at));
    }
    errors
}

fn check_pull_secret(pull_secret: &PullSecretTemplate, path: &Path) -> FieldErrors {
    let PullSecretTemplate { service_accounts, names, valid_days } = pull_secret;
    let mut errors = FieldErrors::new();
    let at = path.child("serviceAccounts");
    if service_accounts.len() > SERVICE_ACCOUNTS_MAX {
        errors.push(FieldError::too_many(&at, service_accounts.len(), SERVICE_ACCOUNTS_MAX));
    }
    for (index, account) in service_accounts.iter().enumerate() {
        errors.extend(by_rule(account, name::dns1123_subdomain, &at.index(index)));
        if service_accounts.iter().take(index).any(|other| other == account) {
            errors.push(FieldError::duplicate(&at.index(index), &json!(account)));
        }
    }
    errors.extend(validation::registry_names(names, &path.child("names")));
    let days_max = pull_credential::VALID_DAYS_MAX;
    errors.extend(validation::valid_days(*valid_days, days_max, &path.child("validDays")));
    errors
}

fn check_names(names: &[&str], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (index, name) in names.iter().enumerate() {
        let at = path.index(index).child("name");
        errors.extend(by_rule(name, name::dns1123_label, &at));
        if name.len() > NAME_BYTES_MAX {
            errors.push(FieldError::too_long(&at, NAME_BYTES_MAX));
        }
        if names.iter().take(index).any(|other| other == name) {
            errors.push(FieldError::duplicate(&at, &json!(name)));
        }
    }
    errors
}

/// Validates a new status.
pub fn namespace_template_status(status: &NamespaceTemplateStatus) -> FieldErrors {
    conditions(&status.conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn fields(spec: Value) -> Vec<String> {
        let spec: NamespaceTemplateSpec = serde_json::from_value(spec).unwrap();
        namespace_template(&spec).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn keys_that_say_whose_something_is_are_not_a_templates() {
        let labels = |key: &str| fields(json!({"labels": {key: "a"}, "annotations": {key: "a"}}));
        for key in ["cost-centre", "acme.org/team", "scheduler.alpha.kubernetes.io/node-selector"] {
            assert_eq!(labels(key), [""; 0], "{key}");
        }
        for key in [
            "tkestack.io/projectName",
            "business.tkestack.io/uid",
            "kubernetes.io/metadata.name",
            "app.kubernetes.io/managed-by",
        ] {
            assert_eq!(labels(key), [format!("spec.labels[{key}]"), format!("spec.annotations[{key}]")]);
        }
    }

    #[test]
    fn pod_security_is_one_of_its_levels_and_not_the_projects() {
        let enforce = "pod-security.kubernetes.io/enforce";
        let at = |level: &str| fields(json!({"labels": {enforce: level}}));
        assert_eq!(at("baseline"), [""; 0]);
        assert_eq!(at("strict"), [format!("spec.labels[{enforce}]")]);
        let version = json!({"labels": {"pod-security.kubernetes.io/enforce-version": "v1.36"}});
        assert_eq!(fields(version), [""; 0]);
        let chosen = json!({"labelsFromProject": {enforce: "metadata.labels['level']"}});
        assert_eq!(fields(chosen), [format!("spec.labelsFromProject[{enforce}]")]);
    }

    #[test]
    fn values_from_the_project_name_its_fields() {
        let from = |field: &str| fields(json!({"annotationsFromProject": {"a": field}}));
        assert_eq!(from("spec.displayName"), [""; 0]);
        assert_eq!(from("spec.clusters"), ["spec.annotationsFromProject[a]"]);
        let twice = json!({"labels": {"a": "b"}, "labelsFromProject": {"a": "metadata.name"}});
        assert_eq!(fields(twice), ["spec.labelsFromProject[a]"]);
    }

    #[test]
    fn bindings_give_what_is_offered() {
        let binding = |role: &str, subjects: Value| {
            fields(json!({"roleBindings": [{"name": "a", "role": role, "subjects": subjects}]}))
        };
        let somebody = || json!([{"kind": "Group", "name": "sre"}]);
        assert_eq!(binding("business:offered:view", somebody()), [""; 0]);
        for role in ["cluster-admin", "business:offered:", "business:admin"] {
            assert_eq!(binding(role, somebody()), ["spec.roleBindings[0].role"], "{role}");
        }
        assert_eq!(binding("business:offered:view", json!([])), ["spec.roleBindings[0].subjects"]);
        let everybody = json!([{"kind": "Group", "name": "system:authenticated"}]);
        assert_eq!(binding("business:offered:view", everybody), ["spec.roleBindings[0].subjects[0].name"]);
    }

    #[test]
    fn a_pull_secret_names_accounts_and_images_and_ends() {
        let wrong = |pull_secret: Value| fields(json!({ "pullSecret": pull_secret }));
        assert_eq!(wrong(json!({})), [""; 0]);
        let full = json!({"serviceAccounts": ["default", "ci.build"], "names": ["web"], "validDays": 365});
        assert_eq!(wrong(full), [""; 0]);
        assert_eq!(wrong(json!({"serviceAccounts": ["Default"]})), ["spec.pullSecret.serviceAccounts[0]"]);
        assert_eq!(wrong(json!({"serviceAccounts": ["a", "a"]})), ["spec.pullSecret.serviceAccounts[1]"]);
        let many: Vec<String> = (0..33).map(|number| format!("a{number}")).collect();
        assert_eq!(wrong(json!({ "serviceAccounts": many })), ["spec.pullSecret.serviceAccounts"]);
        assert_eq!(wrong(json!({"names": ["tenant/web"]})), ["spec.pullSecret.names[0]"]);
        for days in [0, 366] {
            assert_eq!(wrong(json!({ "validDays": days })), ["spec.pullSecret.validDays"], "{days}");
        }
    }

    #[test]
    fn names_are_labels_and_told_apart_and_waves_have_a_size() {
        let policies = |names: &[&str]| {
            let policies: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "spec": {"podSelector": {}}})).collect();
            fields(json!({ "networkPolicies": policies }))
        };
        assert_eq!(policies(&["a", "b"]), [""; 0]);
        assert_eq!(
            policies(&["a", "A", "a"]),
            ["spec.networkPolicies[1].name", "spec.networkPolicies[2].name"]
        );
        assert_eq!(fields(json!({"rollout": {"batch": 0}})), ["spec.rollout.batch"]);
    }
}
