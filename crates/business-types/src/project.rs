use crate::audit::{LedgerStatus, Orphan};
use crate::condition::Condition;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod access;
mod account;
mod effective;
mod schema;

pub use access::AccessEntry;
pub(crate) use access::check_access;
pub use account::ChargedProject;
pub use effective::{AccessHolder, EffectiveAccess, LEVELS_MAX};
pub use schema::schema;
pub(crate) use schema::{access_entry, hard_quantity, used_quantity};

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::PROJECT_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::PROJECTS)
}

/// What a project is meant to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectSpec {
    /// Who still has to clean up before it can go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Users who have the role edit in it, and in the projects below.
    pub members: Vec<String>,
    /// Who may do what in it, and in the projects below.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessEntry>,
    /// The project whose quota this one is carved out of; empty for a root.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent_project_name: String,
    /// The template of its namespaces, and of those of the projects below that name none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// Hard quota by member cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, HardQuantity>,
}

/// The hard quota on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardQuantity {
    /// Amounts by resource.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

/// What is given away on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsedQuantity {
    /// Amounts by resource.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}

/// The state of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectStatus {
    /// An operator has locked it: it takes nothing new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<bool>,
    /// Its phase.
    pub phase: ProjectPhase,
    /// What its direct children hold, by cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, UsedQuantity>,
    /// The direct child projects counted in `clusters`, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calculated_child_projects: Vec<String>,
    /// The namespaces counted in `clusters`, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calculated_namespaces: Vec<String>,
    /// The hard quota last acted on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cached_spec_clusters: BTreeMap<String, HardQuantity>,
    /// The parent last acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_parent: Option<String>,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why it is in its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Namespaces of member clusters that are marked as its own and belong to no object. Written by the controller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<Orphan>,
    /// What the audit of its ledger says. Written by the API server.
    #[serde(skip_serializing_if = "LedgerStatus::is_empty")]
    pub ledger: LedgerStatus,
}

impl ProjectStatus {
    /// The status without what is counted of the children, whose names may be a thousand.
    #[must_use]
    pub fn without_figures(&self) -> Self {
        let Self {
            locked,
            phase,
            clusters: _,
            calculated_child_projects: _,
            calculated_namespaces: _,
            cached_spec_clusters,
            cached_parent,
            last_transition_time,
            reason,
            message,
            observed_generation,
            conditions,
            orphans,
            ledger,
        } = self;
        Self {
            locked: *locked,
            phase: *phase,
            clusters: BTreeMap::new(),
            calculated_child_projects: Vec::new(),
            calculated_namespaces: Vec::new(),
            cached_spec_clusters: cached_spec_clusters.clone(),
            cached_parent: cached_parent.clone(),
            last_transition_time: last_transition_time.clone(),
            reason: reason.clone(),
            message: message.clone(),
            observed_generation: *observed_generation,
            conditions: conditions.clone(),
            orphans: orphans.clone(),
            ledger: ledger.clone(),
        }
    }
}

/// Where in its life a project is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProjectPhase {
    /// Created, not yet seen by the controller. It takes children already.
    #[default]
    Pending,
    /// In use.
    Active,
    /// Being deleted, children first.
    Terminating,
    /// Something is wrong; it is retried.
    Failed,
}

impl ProjectPhase {
    /// All phases, as they are written.
    pub const NAMES: [&'static str; 4] = ["Active", "Pending", "Terminating", "Failed"];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Active => "Active",
            Self::Terminating => "Terminating",
            Self::Failed => "Failed",
        }
    }
}

impl ProjectSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl ProjectStatus {
    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
