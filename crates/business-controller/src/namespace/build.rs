//! The bodies of the writes to a member cluster. Pure.

use super::kind::NamespaceView;
use super::verdict::{NamespaceStep, Plan, QuotaStep};
use crate::member::ClusterQuota;
use business_types::names;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Writes that are ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// To the namespace.
    pub namespace: Write,
    /// To the quota.
    pub quota: Write,
    /// The quota when nothing is written to it.
    pub seen: Option<Arc<ClusterQuota>>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// None.
    Nothing,
    /// POST.
    Create(Value),
    /// Merge patch that carries the resourceVersion read.
    Patch(Value),
}

/// The bodies of a plan's writes.
pub fn build(object: &NamespaceView, plan: &Plan) -> Prepared {
    let namespace = match &plan.namespace {
        NamespaceStep::Keep => Write::Nothing,
        NamespaceStep::Create => Write::Create(namespace(object)),
        NamespaceStep::Restore { from } => Write::Patch(
            json!({ "metadata": marked(object, json!({ "resourceVersion": from.resource_version })) }),
        ),
        NamespaceStep::Adopt { from } => {
            let mut metadata = marked(object, json!({ "resourceVersion": from.resource_version }));
            set(&mut metadata, "annotations", names::ADOPTED_ANNOTATION, json!("true"));
            Write::Patch(json!({ "metadata": metadata }))
        }
    };
    let (quota, seen) = match &plan.quota {
        QuotaStep::Keep { seen } => (Write::Nothing, Some(Arc::clone(seen))),
        QuotaStep::Create => (Write::Create(quota(object)), None),
        QuotaStep::Update { from, .. } => (Write::Patch(quota_patch(object, from)), None),
    };
    Prepared { namespace, quota, seen }
}

fn namespace(object: &NamespaceView) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": marked(object, json!({ "name": object.spec.namespace })),
    })
}

fn quota(object: &NamespaceView) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": written(object, json!({ "name": object.spec.namespace, "namespace": object.spec.namespace })),
        "spec": { "hard": object.spec.hard },
    })
}

fn quota_patch(object: &NamespaceView, from: &ClusterQuota) -> Value {
    let mut hard = Map::new();
    for key in from.spec_hard.keys() {
        hard.insert(key.clone(), Value::Null);
    }
    for (key, amount) in &object.spec.hard {
        hard.insert(key.clone(), json!(amount));
    }
    json!({
        "metadata": written(object, json!({ "resourceVersion": from.resource_version, "uid": from.uid })),
        "spec": { "hard": hard },
    })
}

/// Metadata with the marks of ours.
fn marked(object: &NamespaceView, mut metadata: Value) -> Value {
    set(&mut metadata, "labels", names::PROJECT_LABEL, json!(&*object.key.project));
    set(&mut metadata, "labels", names::NAMESPACE_LABEL, json!(&*object.key.name));
    set(&mut metadata, "annotations", names::UID_ANNOTATION, json!(object.uid));
    metadata
}

/// Marked metadata that says which generation it was written from.
fn written(object: &NamespaceView, metadata: Value) -> Value {
    let mut metadata = marked(object, metadata);
    set(&mut metadata, "annotations", names::GENERATION_ANNOTATION, json!(object.generation.to_string()));
    metadata
}

fn set(metadata: &mut Value, map: &str, key: &str, value: Value) {
    if let Value::Object(fields) = metadata
        && let Value::Object(entries) = fields.entry(map).or_insert_with(|| json!({}))
    {
        entries.insert(key.to_owned(), value);
    }
}

/// The patch that gives an adopted namespace back: our marks go, the rest stays.
pub fn release(resource_version: &str) -> Value {
    json!({ "metadata": {
        "resourceVersion": resource_version,
        "labels": { (names::PROJECT_LABEL): null, (names::NAMESPACE_LABEL): null },
        "annotations": {
            (names::UID_ANNOTATION): null,
            (names::ADOPTED_ANNOTATION): null,
            (names::ADOPT_ANNOTATION): null,
        },
    } })
}
