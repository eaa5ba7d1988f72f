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

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::TENANT_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::TENANTS)
}

/// What a tenant is meant to be; its name is the tenant's ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantSpec {
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its administrators.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub administrators: Vec<Subject>,
    /// Ceilings by member cluster: what its root projects may be granted in all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, HardQuantity>,
    /// Whom to ask about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contacts: Vec<String>,
    /// The template of its namespaces for which no project names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// Prefixes of the names of its users and groups; empty if any name will do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identity_prefixes: Vec<String>,
    /// The defaults of its new root projects.
    #[serde(skip_serializing_if = "ProjectDefaults::is_empty")]
    pub defaults: ProjectDefaults,
}

/// The defaults of new root projects, where these say nothing themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectDefaults {
    /// Their quota by member cluster, where they name none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, HardQuantity>,
    /// Their people, where they name none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessEntry>,
}

impl ProjectDefaults {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a tenant is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantStatus {
    /// What its root projects are granted, by cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, UsedQuantity>,
    /// Its projects, at whatever depth.
    pub projects: i64,
    /// Their namespaces.
    pub namespaces: i64,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl TenantSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl TenantStatus {
    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
