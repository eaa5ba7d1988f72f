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

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::NAMESPACE_TEMPLATE_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::NAMESPACE_TEMPLATES)
}

/// The spec of a template: what namespaces of member clusters get in addition to their quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTemplateSpec {
    /// Tokens of controllers that still have to clean up before it can be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Whether it is the template of all namespaces for which no other template is referenced.
    pub default: bool,
    /// Labels of the namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Labels whose values are taken from fields of the project, each a [`ProjectField`] as text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_from_project: BTreeMap<String, String>,
    /// Annotations of the namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Annotations whose values are taken from fields of the project.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_from_project: BTreeMap<String, String>,
    /// The `spec` of a `LimitRange`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_range: Option<LimitRangeTemplate>,
    /// `NetworkPolicies`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_policies: Vec<NetworkPolicyTemplate>,
    /// `RoleBindings`, in addition to those for the project's access.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub role_bindings: Vec<RoleBindingTemplate>,
    /// A Secret with a credential to pull from the platform's registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<PullSecretTemplate>,
    /// How a change is rolled out.
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
    /// The `ClusterRole` that it binds.
    pub role: String,
    /// The subjects that get the role.
    pub subjects: Vec<Subject>,
}

/// The pull secret of a template. Each namespace gets its own credential, which can only pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullSecretTemplate {
    /// The `ServiceAccounts` of the namespace whose `imagePullSecrets` get it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// The image namespaces and chart groups that it may read; empty for all of the project and its descendants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The validity of a password in days; it is replaced before it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_days: Option<i64>,
}

/// How a change of a template is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// The number of namespaces in a wave.
    pub batch: i64,
    /// Whether the rollout is paused: no further wave begins.
    pub paused: bool,
}

/// The default number of namespaces in a wave.
pub const ROLLOUT_BATCH: i64 = 20;

impl Default for Rollout {
    fn default() -> Self {
        Self { batch: ROLLOUT_BATCH, paused: false }
    }
}

/// The status of a template. All tenants can read it, so it has numbers but no names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTemplateStatus {
    /// The number of namespaces with this template.
    pub namespaces: i64,
    /// The number of those to which its newest version is applied.
    pub updated: i64,
    /// The number of those for which its newest version has failed.
    pub failed: i64,
    /// The number of member clusters of the template's namespaces.
    pub clusters: i64,
    /// The current wave of the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<TemplateWave>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A wave of a rollout: the namespaces that get a version of a template next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateWave {
    /// The digest of the version.
    pub digest: String,
    /// The uids of the namespaces.
    pub namespaces: Vec<String>,
}

impl NamespaceTemplateSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }

    /// The part of the spec that is applied to namespaces.
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
    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
