use crate::condition::Condition;
use crate::subject::Subject;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

mod limits;
mod network;
mod project_field;
mod schema;
mod validation;

pub use limits::{LimitRangeItem, LimitRangeTemplate};
pub use project_field::ProjectField;
pub use schema::schema;
pub use validation::{
    is_reserved, namespace_template, namespace_template_changed, namespace_template_status,
};

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::NAMESPACE_TEMPLATE_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::NAMESPACE_TEMPLATES)
}

/// What is put into namespaces of member clusters beside their quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTemplateSpec {
    /// Who still has to clean up before it can go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Every namespace for which nobody names a template has this one.
    pub default: bool,
    /// Labels of the namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Labels whose values are fields of the project, as a [`ProjectField`] is written.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_from_project: BTreeMap<String, String>,
    /// Annotations of the namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Annotations whose values are fields of the project.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_from_project: BTreeMap<String, String>,
    /// The `spec` of a `LimitRange`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_range: Option<LimitRangeTemplate>,
    /// `NetworkPolicies`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_policies: Vec<NetworkPolicyTemplate>,
    /// `RoleBindings`, beside those of the project's people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub role_bindings: Vec<RoleBindingTemplate>,
    /// A credential to pull from the platform's registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<PullSecretTemplate>,
    /// How a change goes through the namespaces.
    pub rollout: Rollout,
}

/// A `NetworkPolicy` of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyTemplate {
    /// Its name in the template.
    pub name: String,
    /// Its `spec`.
    pub spec: Value,
}

/// A `RoleBinding` of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleBindingTemplate {
    /// Its name in the template.
    pub name: String,
    /// The `ClusterRole` that it gives.
    pub role: String,
    /// Those who get it.
    pub subjects: Vec<Subject>,
}

/// The pull secret of each namespace: a credential of its own, which can pull and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullSecretTemplate {
    /// The `ServiceAccounts` of the namespace whose pods pull with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// The image namespaces and chart groups that it opens; empty for all of the project and of those below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How long a password is good for; it is replaced before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_days: Option<i64>,
}

/// How a change goes through the namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Namespaces in a wave.
    pub batch: i64,
    /// While it is set, no wave begins.
    pub paused: bool,
}

/// Namespaces in a wave, unless somebody says how many.
pub const ROLLOUT_BATCH: i64 = 20;

impl Default for Rollout {
    fn default() -> Self {
        Self { batch: ROLLOUT_BATCH, paused: false }
    }
}

/// How far a template is. Every tenant reads it: it has numbers, and no name of anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTemplateStatus {
    /// Namespaces whose template it is.
    pub namespaces: i64,
    /// Those in which its newest state is in place.
    pub updated: i64,
    /// Those that have not taken its newest state.
    pub failed: i64,
    /// Member clusters that those lie in.
    pub clusters: i64,
    /// Whose turn it is to get its newest state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<TemplateWave>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Namespaces whose turn it is to get a state of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateWave {
    /// The digest of the state.
    pub digest: String,
    /// Their uids.
    pub namespaces: Vec<String>,
}

impl NamespaceTemplateSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }

    /// The part of it that goes into namespaces.
    #[must_use]
    pub fn content(&self) -> Self {
        Self {
            finalizers: Vec::new(),
            display_name: String::new(),
            default: false,
            rollout: Rollout::default(),
            ..self.clone()
        }
    }
}

impl NamespaceTemplateStatus {
    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
