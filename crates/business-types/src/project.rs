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

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::PROJECT_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::PROJECTS)
}

/// The spec of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectSpec {
    /// Tokens of controllers that still have to clean up before it can be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Users with the role edit in it and its descendants.
    pub members: Vec<String>,
    /// The roles of subjects in it and its descendants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessEntry>,
    /// The parent project, from whose quota this project gets its own; empty for a root project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent_project_name: String,
    /// The template of its namespaces, and of those of its descendants that do not name one.
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

/// What is allocated to children on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsedQuantity {
    /// Amounts by resource.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
}

/// The status of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectStatus {
    /// Whether an operator has locked it: it accepts nothing new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<bool>,
    /// Its phase.
    pub phase: ProjectPhase,
    /// What is allocated to its direct children, by cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, UsedQuantity>,
    /// The direct child projects counted in `clusters`, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calculated_child_projects: Vec<String>,
    /// The namespaces counted in `clusters`, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calculated_namespaces: Vec<String>,
    /// The hard quota that was last reconciled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cached_spec_clusters: BTreeMap<String, HardQuantity>,
    /// The parent that was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_parent: Option<String>,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The reason of its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Namespaces of member clusters that have its marks but belong to no object. Written by the controller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<Orphan>,
    /// The result of the ledger's audit. Written by the API server.
    #[serde(skip_serializing_if = "LedgerStatus::is_empty")]
    pub ledger: LedgerStatus,
}

impl ProjectStatus {
    /// The status without the amounts and names of children, of which there may be a thousand.
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

/// The phase of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProjectPhase {
    /// It was created, but not reconciled yet. It can have children already.
    #[default]
    Pending,
    /// It is in use.
    Active,
    /// It is being deleted, after its children.
    Terminating,
    /// There is an error; the controller retries.
    Failed,
}

impl ProjectPhase {
    /// The names of all phases.
    pub const NAMES: [&'static str; 4] = ["Active", "Pending", "Terminating", "Failed"];

    /// Its name.
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
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl ProjectStatus {
    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
