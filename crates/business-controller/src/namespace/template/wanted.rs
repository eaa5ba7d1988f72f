//! What a template puts into a namespace. Pure.

use super::fingerprint::TemplateFingerprint;
use crate::digest;
use crate::member::binding::RBAC;
use crate::member::template_metadata::TemplateMetadata;
use crate::member::template_objects::{TemplateObject, TemplateObjectKind};
use crate::namespace::kind::NamespaceView;
use crate::namespace_template::project_fields;
use crate::project::kind::ProjectView;
use business_types::names::{TEMPLATE_DIGEST_ANNOTATION, TEMPLATE_LABEL, UID_ANNOTATION};
use business_types::{
    LimitRangeTemplate, NamespaceTemplateSpec, NetworkPolicyTemplate, ProjectField, RoleBindingTemplate,
    Subject, SubjectKind,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximal bytes of an annotation whose value comes from the project.
const VALUE_BYTES_MAX: usize = 4096;

/// Everything that a template puts into a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedTemplate {
    pub template_metadata: TemplateMetadata,
    pub objects: Vec<WantedObject>,
    pub pull_secret: Option<WantedPullSecret>,
    /// Labels and annotations that were left out, and why.
    pub invalid: Vec<String>,
}

/// The pull secret of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedPullSecret {
    /// The name of the template.
    pub template: String,
    /// The service accounts that get it in `imagePullSecrets`.
    pub accounts: Vec<String>,
    /// The names in the registry that it opens; empty for all of the project and of those below it.
    pub names: Vec<String>,
    /// How many days a password is valid.
    pub valid_days: Option<i64>,
}

/// An object of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedObject {
    pub kind: TemplateObjectKind,
    /// The name in the cluster.
    pub name: String,
    /// The body without metadata.
    pub content: Map<String, Value>,
    /// The role of a binding.
    pub role: Option<String>,
    /// The digest of the content and the template's name.
    pub digest: String,
}

/// What this template puts into a namespace of this project.
pub fn wanted(template: &str, spec: &NamespaceTemplateSpec, project: &ProjectView) -> WantedTemplate {
    let mut wanted = WantedTemplate::default();
    let TemplateMetadata { labels, annotations } = &mut wanted.template_metadata;
    labels.clone_from(&spec.labels);
    annotations.clone_from(&spec.annotations);
    let is_label = |value: &str| meta::name::label_value(value).is_empty();
    let is_annotation = |value: &str| value.len() <= VALUE_BYTES_MAX;
    let mut invalid = from_project(&spec.labels_from_project, project, is_label, labels);
    invalid.extend(from_project(&spec.annotations_from_project, project, is_annotation, annotations));
    wanted.invalid = invalid;
    let limits = spec.limit_range.iter().filter(|limits| !limits.limits.is_empty());
    wanted.objects.extend(limits.map(|limits| WantedObject::limit_range(template, limits)));
    let policies = spec.network_policies.iter();
    wanted.objects.extend(policies.map(|policy| WantedObject::network_policy(template, policy)));
    let bindings = spec.role_bindings.iter();
    wanted.objects.extend(bindings.map(|binding| WantedObject::role_binding(template, binding)));
    wanted.pull_secret = spec.pull_secret.as_ref().map(|pull_secret| WantedPullSecret {
        template: template.to_owned(),
        accounts: pull_secret.service_accounts.clone(),
        names: pull_secret.names.clone(),
        valid_days: pull_secret.valid_days,
    });
    wanted
}

/// Copies values from the project. Returns the messages for those that are invalid.
fn from_project(
    fields: &BTreeMap<String, String>,
    project: &ProjectView,
    fits: impl Fn(&str) -> bool,
    into: &mut BTreeMap<String, String>,
) -> Vec<String> {
    let mut invalid = Vec::new();
    for (key, field) in fields {
        let value = ProjectField::parse(field).and_then(|field| project_fields::value(&field, project));
        match value.filter(|value| !value.is_empty()) {
            None => {}
            Some(value) if fits(value) => drop(into.insert(key.clone(), value.to_owned())),
            Some(value) => {
                let start: String = value.chars().take(80).collect();
                invalid.push(format!(
                    "{key} is left out: {field} of the project cannot be its value: {start:?}"
                ));
            }
        }
    }
    invalid
}

impl WantedTemplate {
    pub fn has_limits(&self) -> bool {
        self.objects.iter().any(|one| one.kind == TemplateObjectKind::LimitRange)
    }

    /// Identifies what was applied, to distinguish drift from a change.
    pub fn fingerprint(&self) -> TemplateFingerprint {
        let digests = self.objects.iter().map(|one| one.digest.clone()).collect();
        TemplateFingerprint { template_metadata: self.template_metadata.clone(), digests }
    }
}

impl WantedObject {
    fn new(kind: TemplateObjectKind, template: &str, name: &str, content: Value) -> Self {
        let content = match content {
            Value::Object(content) => content,
            _ => Map::new(),
        };
        let role = content.get("roleRef").and_then(|role| role.get("name")).and_then(Value::as_str);
        Self {
            kind,
            name: kind.name(name),
            role: role.map(str::to_owned),
            digest: digest::of(&json!([template, content])),
            content,
        }
    }

    fn limit_range(template: &str, limits: &LimitRangeTemplate) -> Self {
        let content = json!({ "spec": { "limits": limits.limits } });
        Self::new(TemplateObjectKind::LimitRange, template, "", content)
    }

    /// Kubernetes drops empty fields, so nobody would own them: they are left out.
    fn network_policy(template: &str, policy: &NetworkPolicyTemplate) -> Self {
        let mut spec = policy.spec.clone();
        if let Value::Object(fields) = &mut spec {
            fields
                .retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
            fields.entry("podSelector").or_insert_with(|| json!({}));
        }
        Self::new(TemplateObjectKind::NetworkPolicy, template, &policy.name, json!({ "spec": spec }))
    }

    fn role_binding(template: &str, binding: &RoleBindingTemplate) -> Self {
        let subjects: Vec<Value> = binding.subjects.iter().map(subject).collect();
        let content = json!({
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": binding.role },
            "subjects": subjects,
        });
        Self::new(TemplateObjectKind::RoleBinding, template, &binding.name, content)
    }

    /// Whether the object in the cluster is as we have applied it.
    pub fn is_in_place(&self, object: &NamespaceView, there: &TemplateObject) -> bool {
        let parts = self.content.iter().flat_map(|(key, value)| match value {
            Value::Object(fields) if key == "spec" => fields.keys().collect::<Vec<_>>(),
            _ => vec![key],
        });
        there.digest == self.digest
            && there.role == self.role
            && there.object == object.uid
            && !there.deleting
            && parts.into_iter().all(|part| there.held.contains(part))
    }

    /// The body for server-side apply.
    pub fn body(&self, object: &NamespaceView, template: &str) -> Value {
        let mut body = self.content.clone();
        body.insert("apiVersion".to_owned(), json!(self.kind.api_version()));
        body.insert("kind".to_owned(), json!(self.kind.as_str()));
        let metadata = json!({
            "name": self.name,
            "namespace": object.spec.namespace,
            "labels": { TEMPLATE_LABEL: template },
            "annotations": { UID_ANNOTATION: object.uid, TEMPLATE_DIGEST_ANNOTATION: self.digest },
        });
        body.insert("metadata".to_owned(), metadata);
        Value::Object(body)
    }
}

fn subject(subject: &Subject) -> Value {
    let Subject { kind, name, namespace } = subject;
    match kind {
        SubjectKind::User => json!({ "apiGroup": RBAC, "kind": "User", "name": name }),
        SubjectKind::Group => json!({ "apiGroup": RBAC, "kind": "Group", "name": name }),
        SubjectKind::ServiceAccount => {
            json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace })
        }
    }
}
