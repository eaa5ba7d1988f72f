//! The bodies of the writes to a member cluster. Pure.

use super::kind::NamespaceView;
use super::target::Target;
use crate::member::binding::{Grantee, RBAC};
use crate::member::template_metadata::TemplateMetadata;
use crate::member::{ClusterBinding, ClusterNamespace, ClusterQuota};
use crate::seal::{Origin, Sealed};
use business_types::access::AccessRole;
use business_types::names;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The body of a new namespace. Its uid is not known yet, so its seal lacks it; the seal names the uid that is on
/// record.
pub fn new_namespace(
    target: &Target,
    object: &NamespaceView,
    template_metadata: Option<&TemplateMetadata>,
) -> Value {
    let after = object.status.cluster_namespace.as_ref().map(|record| record.uid.clone());
    let seal = target.keyring.seal(&Sealed { after, ..target.sealed(object, None, Origin::Made) });
    let mut metadata = json!({ "name": object.spec.namespace });
    if let Some(template_metadata) = template_metadata {
        set_template_metadata(&mut metadata, template_metadata);
    }
    let mut metadata = marked(object, metadata);
    set(&mut metadata, "annotations", names::SEAL_ANNOTATION, json!(seal));
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

/// The patch that puts our marks and the template's labels and annotations on a namespace. `None` leaves the latter as
/// they are.
pub fn mark_patch(
    target: &Target,
    object: &NamespaceView,
    from: &ClusterNamespace,
    origin: Origin,
    template_metadata: Option<&TemplateMetadata>,
) -> Value {
    let mut metadata = json!({ "resourceVersion": from.resource_version, "uid": from.uid });
    if let Some(template_metadata) = template_metadata {
        clear_template_metadata(&mut metadata, &from.template_metadata);
        set_template_metadata(&mut metadata, template_metadata);
    }
    let mut metadata = marked(object, metadata);
    let seal = target.keyring.seal(&target.sealed(object, Some(&from.uid), origin));
    set(&mut metadata, "annotations", names::SEAL_ANNOTATION, json!(seal));
    let adopted = if origin.is_adopted() { json!("true") } else { Value::Null };
    set(&mut metadata, "annotations", names::ADOPTED_ANNOTATION, adopted);
    json!({ "metadata": metadata })
}

/// The body of a new quota in the namespace with this uid.
pub fn new_quota(target: &Target, object: &NamespaceView, namespace_uid: &str, origin: Origin) -> Value {
    let metadata = json!({ "name": object.spec.namespace, "namespace": object.spec.namespace });
    json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": sealed(target, object, metadata, namespace_uid, origin),
        "spec": { "hard": object.spec.hard },
    })
}

/// The patch that brings a quota to what the object asks for.
pub fn quota_patch(
    target: &Target,
    object: &NamespaceView,
    from: &ClusterQuota,
    namespace_uid: &str,
    origin: Origin,
) -> Value {
    let mut hard: Map<String, Value> =
        from.spec_hard.keys().map(|resource| (resource.clone(), Value::Null)).collect();
    for (resource, amount) in &object.spec.hard {
        hard.insert(resource.clone(), json!(amount));
    }
    let metadata = json!({ "resourceVersion": from.resource_version, "uid": from.uid });
    json!({
        "metadata": sealed(target, object, metadata, namespace_uid, origin),
        "spec": { "hard": hard },
    })
}

/// The body of a new binding of a role.
pub fn new_binding(object: &NamespaceView, role: AccessRole, grantees: &BTreeSet<Grantee>) -> Value {
    let metadata = json!({ "name": role.name(), "namespace": object.spec.namespace });
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": marked(object, metadata),
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role.name() },
        "subjects": subjects(grantees),
    })
}

/// The patch that makes a binding name exactly these grantees.
pub fn binding_patch(object: &NamespaceView, from: &ClusterBinding, grantees: &BTreeSet<Grantee>) -> Value {
    let metadata = json!({ "resourceVersion": from.resource_version, "uid": from.uid });
    json!({ "metadata": marked(object, metadata), "subjects": subjects(grantees) })
}

fn subjects(grantees: &BTreeSet<Grantee>) -> Vec<Value> {
    let person = |kind: &str, name: &str| json!({ "apiGroup": RBAC, "kind": kind, "name": name });
    let named = grantees.iter().filter_map(|grantee| match grantee {
        Grantee::User(name) => Some(person("User", name)),
        Grantee::Group(name) => Some(person("Group", name)),
        Grantee::ServiceAccount { namespace, name } => {
            Some(json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name }))
        }
        Grantee::Other => None,
    });
    named.collect()
}

/// The patch that removes our marks from a namespace, and leaves the rest.
pub fn unmark_patch(there: &ClusterNamespace) -> Value {
    let mut metadata = json!({ "resourceVersion": there.resource_version, "uid": there.uid });
    clear_template_metadata(&mut metadata, &there.template_metadata);
    for label in [names::PROJECT_LABEL, names::NAMESPACE_LABEL] {
        set(&mut metadata, "labels", label, Value::Null);
    }
    for annotation in
        [names::UID_ANNOTATION, names::SEAL_ANNOTATION, names::ADOPTED_ANNOTATION, names::ADOPT_ANNOTATION]
    {
        set(&mut metadata, "annotations", annotation, Value::Null);
    }
    json!({ "metadata": metadata })
}

/// Sets the labels and annotations of a template, and records their keys in an annotation.
fn set_template_metadata(metadata: &mut Value, template_metadata: &TemplateMetadata) {
    for (key, value) in &template_metadata.labels {
        set(metadata, "labels", key, json!(value));
    }
    for (key, value) in &template_metadata.annotations {
        set(metadata, "annotations", key, json!(value));
    }
    if let Some(told) = template_metadata.keys_annotation() {
        set(metadata, "annotations", names::TEMPLATE_KEYS_ANNOTATION, json!(told));
    }
}

/// Removes the labels and annotations that a template has set.
fn clear_template_metadata(metadata: &mut Value, there: &TemplateMetadata) {
    for key in there.labels.keys() {
        set(metadata, "labels", key, Value::Null);
    }
    for key in there.annotations.keys() {
        set(metadata, "annotations", key, Value::Null);
    }
    set(metadata, "annotations", names::TEMPLATE_KEYS_ANNOTATION, Value::Null);
}

fn sealed(
    target: &Target,
    object: &NamespaceView,
    metadata: Value,
    namespace_uid: &str,
    origin: Origin,
) -> Value {
    let seal = target.keyring.seal(&target.sealed(object, Some(namespace_uid), origin));
    let mut metadata = marked(object, metadata);
    set(&mut metadata, "annotations", names::SEAL_ANNOTATION, json!(seal));
    metadata
}

fn marked(object: &NamespaceView, mut metadata: Value) -> Value {
    set(&mut metadata, "labels", names::PROJECT_LABEL, json!(&*object.key.project));
    set(&mut metadata, "labels", names::NAMESPACE_LABEL, json!(&*object.key.name));
    set(&mut metadata, "annotations", names::UID_ANNOTATION, json!(object.uid));
    metadata
}

fn set(metadata: &mut Value, map: &str, key: &str, value: Value) {
    if let Value::Object(fields) = metadata
        && let Value::Object(entries) = fields.entry(map).or_insert_with(|| json!({}))
    {
        entries.insert(key.to_owned(), value);
    }
}
