use crate::condition::Condition;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};

mod account;
mod schema;
/// The credential with which a namespace's pods pull from the registry.
pub mod pull_credential;
/// The body of the subresource transfer.
pub mod transfer;

pub use account::ChargedNamespace;
pub use pull_credential::{PullCredential, PullCredentialRequest, PullPassword};
pub use schema::schema;
pub use transfer::NamespaceTransfer;

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::NAMESPACE_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::NAMESPACES)
}

/// What a namespace is meant to be. Its project is `metadata.namespace`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceSpec {
    /// Who still has to clean up before it can go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// The member cluster that it lives in.
    pub cluster_name: String,
    /// The type of that cluster; kept by the server.
    pub cluster_type: String,
    /// The Kubernetes version of that cluster; kept by the server.
    pub cluster_version: String,
    /// The name of that cluster for people; kept by the server.
    pub cluster_display_name: String,
    /// Its name in the member cluster.
    pub namespace: String,
    /// What it may use.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
}

/// The state of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceStatus {
    /// Its phase.
    pub phase: NamespacePhase,
    /// When `phase` last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why it is in its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for a person.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Name of the `ResourceQuota` in the member cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_quota_name: String,
    /// The namespace of the member cluster that this object was provided with, or that stands in its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<ClusterNamespaceRecord>,
    /// The template whose state was last put, or tried to be put, into the member cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<AppliedTemplate>,
    /// The credential with which its pods pull from the registry: issued by the subresource pullcredential, taken away by
    /// anybody who writes the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_credential: Option<PullCredential>,
    /// What is consumed in the member cluster: a copy of the quota's `status.used`.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
    /// What is charged to the project: the high-water mark, kept by the server. `Some` and empty means that nothing
    /// is charged any more; absent means that it was not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_spec_hard: Option<ResourceList>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A state of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedTemplate {
    /// Its `metadata.name`.
    pub name: String,
    /// What it puts into namespaces, as a digest.
    pub digest: String,
}

/// What is recorded about a namespace of the member cluster. Only this record says whose that namespace is: others can
/// write the marks in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNamespaceRecord {
    /// Its `metadata.uid`.
    pub uid: String,
    /// How it came to be there.
    pub provenance: Provenance,
}

/// How a namespace of a member cluster came to be at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Provenance {
    /// Made for the object, and deleted with it.
    Made,
    /// There before the object, and taken over with consent: at the object's end it stays.
    Adopted,
    /// Adopted, and the object is at its end: what is charged for it is held until it is unused.
    Released,
    /// Somebody else's: nothing was ever made for the object while it stood there.
    Foreign,
    /// The object was imported, and its namespace was not looked at yet: what bears the object's labels is taken over,
    /// once, as made for it. The record has no uid. Only an import writes it.
    Imported,
}

impl Provenance {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 5] = ["Made", "Adopted", "Released", "Foreign", "Imported"];
}

/// Where in its life a namespace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NamespacePhase {
    /// Not yet in the member cluster.
    #[default]
    Pending,
    /// In the member cluster, and usable.
    Available,
    /// Being moved to another project.
    Locked,
    /// Something is wrong; it is retried.
    Failed,
    /// Being deleted in the member cluster.
    Terminating,
}

impl NamespacePhase {
    /// All phases, as they are written.
    pub const NAMES: [&'static str; 5] = ["Pending", "Available", "Locked", "Failed", "Terminating"];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::Locked => "Locked",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
        }
    }
}

impl ClusterNamespaceRecord {
    /// The record of an imported object whose namespace was not looked at yet.
    pub fn imported() -> Self {
        Self { uid: String::new(), provenance: Provenance::Imported }
    }
}

impl NamespaceSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl NamespaceStatus {
    /// Whether the object was imported and its namespace was not taken over yet.
    pub fn is_imported(&self) -> bool {
        self.cluster_namespace.as_ref().is_some_and(|record| record.provenance == Provenance::Imported)
    }

    /// What is charged: the high-water mark, or `spec.hard` until there is one.
    pub fn charged<'a>(&'a self, spec: &'a NamespaceSpec) -> &'a ResourceList {
        self.cached_spec_hard.as_ref().unwrap_or(&spec.hard)
    }

    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
