//! An emigration moves a namespace to another project of its tenant. It is the older form of the subresource
//! `transfer`.

use crate::Condition;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use serde::{Deserialize, Serialize};

mod schema;

pub use schema::schema;

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::NS_EMIGRATION_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::NS_EMIGRATIONS)
}

/// The spec of an emigration: which namespace moves to which project. `metadata.namespace` is the former project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NsEmigrationSpec {
    /// The tenant that owns both projects.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Name of the business namespace.
    pub namespace: String,
    /// The namespace's display name.
    pub ns_show_name: String,
    /// The destination project.
    pub destination: String,
}

/// The status of an emigration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NsEmigrationStatus {
    /// Its phase.
    pub phase: EmigrationPhase,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The reason of its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `metadata.uid` of the business namespace when the emigration was created.
    #[serde(rename = "namespaceUID", skip_serializing_if = "String::is_empty")]
    pub namespace_uid: String,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The phase of an emigration. The namespace is moved in one write, between `OldOneDetached` and `NewOneCreated`. The
/// other phases are set one after the other because clients follow them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EmigrationPhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// The destination can accept the namespace.
    OldOneLocked,
    /// The namespace will be moved next.
    OldOneDetached,
    /// The namespace is in the destination project.
    NewOneCreated,
    /// The namespace's marks in the member cluster are being updated.
    OldOneTerminating,
    /// The move is complete; the emigration will be deleted.
    Finished,
    /// The move was refused; nothing was changed.
    Failed,
}

impl EmigrationPhase {
    /// The names of all phases.
    pub const NAMES: [&'static str; 7] = [
        "Pending",
        "OldOneLocked",
        "OldOneDetached",
        "NewOneCreated",
        "OldOneTerminating",
        "Finished",
        "Failed",
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::OldOneLocked => "OldOneLocked",
            Self::OldOneDetached => "OldOneDetached",
            Self::NewOneCreated => "NewOneCreated",
            Self::OldOneTerminating => "OldOneTerminating",
            Self::Finished => "Finished",
            Self::Failed => "Failed",
        }
    }
}

impl NsEmigrationSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}
