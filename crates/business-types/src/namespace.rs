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

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::NAMESPACE_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::NAMESPACES)
}

/// The spec of a namespace. `metadata.namespace` is its project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceSpec {
    /// Tokens of controllers that still have to clean up before it can be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The tenant that owns it.
    #[serde(rename = "tenantID")]
    pub tenant_id: String,
    /// Its member cluster.
    pub cluster_name: String,
    /// The type of that cluster; kept by the server.
    pub cluster_type: String,
    /// The Kubernetes version of that cluster; kept by the server.
    pub cluster_version: String,
    /// The name of that cluster for people; kept by the server.
    pub cluster_display_name: String,
    /// Its name in the member cluster.
    pub namespace: String,
    /// Its hard quota: amounts by resource, as in `spec.hard` of the `ResourceQuota` in the member cluster.
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
    /// The reason of its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Name of the `ResourceQuota` in the member cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_quota_name: String,
    /// The namespace of the member cluster that belongs to this object or conflicts with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<ClusterNamespaceRecord>,
    /// The template version that was last applied, or tried to be applied, in the member cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<AppliedTemplate>,
    /// The credential with which its pods pull from the registry. The subresource `pullcredential` issues it; a write
    /// of the status can only remove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_credential: Option<PullCredential>,
    /// The usage in the member cluster: a copy of the quota's `status.used`.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub used: ResourceList,
    /// The high-water mark, which is charged to the project. The server sets it. If it is `Some` and empty, nothing is
    /// charged any more; if it is `None`, `spec.hard` is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_spec_hard: Option<ResourceList>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A version of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedTemplate {
    /// Its `metadata.name`.
    pub name: String,
    /// The digest of its content.
    pub digest: String,
}

/// The record of a namespace of the member cluster. Only this record decides whose that namespace is: others can write
/// the marks in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNamespaceRecord {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its origin.
    pub provenance: Provenance,
}

/// The origin of a namespace of a member cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Provenance {
    /// The controller has created it for the object, and deletes it with the object.
    Made,
    /// It existed before the object and was adopted with consent. It is not deleted with the object.
    Adopted,
    /// It was adopted, and the object is being deleted. Its charge becomes a hold until it is unused.
    Released,
    /// It belongs to somebody else. Nothing was created for the object.
    Foreign,
    /// The object was imported, and the controller has not seen its namespace yet. It will take over, once, the
    /// namespace with the object's labels as `Made`. The record has no uid. Only an import writes it.
    Imported,
}

impl Provenance {
    /// The names of all variants.
    pub const NAMES: [&'static str; 5] = ["Made", "Adopted", "Released", "Foreign", "Imported"];
}

/// The phase of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NamespacePhase {
    /// It does not exist in the member cluster yet.
    #[default]
    Pending,
    /// It exists in the member cluster and can be used.
    Available,
    /// It is being moved to another project.
    Locked,
    /// There is an error; the controller retries.
    Failed,
    /// It is being deleted in the member cluster.
    Terminating,
}

impl NamespacePhase {
    /// The names of all phases.
    pub const NAMES: [&'static str; 5] = ["Pending", "Available", "Locked", "Failed", "Terminating"];

    /// Its name.
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
    /// The record of an imported object whose namespace the controller has not seen yet.
    pub fn imported() -> Self {
        Self { uid: String::new(), provenance: Provenance::Imported }
    }
}

impl NamespaceSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl NamespaceStatus {
    /// Whether the object was imported and the controller has not taken over its namespace yet.
    pub fn is_imported(&self) -> bool {
        self.cluster_namespace.as_ref().is_some_and(|record| record.provenance == Provenance::Imported)
    }

    /// The amounts that are charged: the high-water mark, or `spec.hard` as long as there is none.
    pub fn charged<'a>(&'a self, spec: &'a NamespaceSpec) -> &'a ResourceList {
        self.cached_spec_hard.as_ref().unwrap_or(&spec.hard)
    }

    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
