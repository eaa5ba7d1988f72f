//! An emigration moves a namespace to another project of its tenant: the older face of the subresource `transfer`.

use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use serde::{Deserialize, Serialize};

mod schema;

pub use schema::schema;

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::NS_EMIGRATION_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::NS_EMIGRATIONS)
}

/// Which namespace goes to which project. The project that it leaves is `metadata.namespace`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NsEmigrationSpec {
    /// The tenant that owns both projects.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Name of the business namespace.
    pub namespace: String,
    /// Its name for people.
    pub ns_show_name: String,
    /// The project that it goes to.
    pub destination: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NsEmigrationStatus {
    /// Its phase.
    pub phase: EmigrationPhase,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why it is in its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// `metadata.uid` of the business namespace that was meant when the emigration was made.
    #[serde(rename = "namespaceUID", skip_serializing_if = "String::is_empty")]
    pub namespace_uid: String,
}

/// How far an emigration is. The namespace moves in one write, between `OldOneDetached` and `NewOneCreated`; the other
/// phases are told one after the other, since clients follow them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EmigrationPhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// The destination would take the namespace.
    OldOneLocked,
    /// It moves next.
    OldOneDetached,
    /// It lies in the destination.
    NewOneCreated,
    /// Its marks in the member cluster are being rewritten.
    OldOneTerminating,
    /// All is done; the emigration is about to go.
    Finished,
    /// Nothing was done, and nothing will be.
    Failed,
}

impl EmigrationPhase {
    /// All phases, as they are written.
    pub const NAMES: [&'static str; 7] = [
        "Pending",
        "OldOneLocked",
        "OldOneDetached",
        "NewOneCreated",
        "OldOneTerminating",
        "Finished",
        "Failed",
    ];
}

impl NsEmigrationSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}
