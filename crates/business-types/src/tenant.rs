use crate::condition::Condition;
use crate::project::{AccessEntry, HardQuantity, UsedQuantity};
use crate::subject::Subject;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod account;
mod schema;
mod validation;

pub use account::ChargedTenant;
pub use schema::schema;
pub use validation::{foreign_identity, tenant, tenant_changed, tenant_status};

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::TENANT_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::TENANTS)
}

/// The spec of a tenant. Its `metadata.name` is the tenant's ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantSpec {
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its administrators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub administrators: Vec<Subject>,
    /// Ceilings by member cluster: the amounts that its root projects may be granted in total.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, HardQuantity>,
    /// Contacts, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contacts: Vec<String>,
    /// The template of its namespaces whose projects do not name one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// The valid prefixes of the names of its users and groups; empty if all names are valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identity_prefixes: Vec<String>,
    /// The defaults for its new root projects.
    #[serde(skip_serializing_if = "ProjectDefaults::is_empty")]
    pub defaults: ProjectDefaults,
}

/// The defaults for new root projects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectDefaults {
    /// The quota by member cluster of projects that do not set any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, HardQuantity>,
    /// The access of projects that do not set any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessEntry>,
}

impl ProjectDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The status of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantStatus {
    /// What its root projects are granted, by cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, UsedQuantity>,
    /// The number of its projects at all levels.
    pub projects: i64,
    /// The number of namespaces of these projects.
    pub namespaces: i64,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl TenantSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl TenantStatus {
    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
