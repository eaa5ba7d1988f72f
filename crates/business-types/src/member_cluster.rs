use crate::audit::ClusterComparison;
use crate::condition::Condition;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};

mod account;
mod derived;
mod schema;
mod validation;

pub use account::ChargedMemberCluster;
pub use derived::{DerivedAmount, DerivedCapacity};
pub use schema::schema;
pub use validation::{capacity, member_cluster, member_cluster_status};

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::MEMBER_CLUSTER_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::MEMBER_CLUSTERS)
}

/// A member cluster; its name is the cluster's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterSpec {
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its type, such as `Imported`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub cluster_type: String,
    /// Tenants that may use it; [`crate::cluster::EVERY_TENANT`] stands for every tenant. Where it is empty, only
    /// operators may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// What may be granted of it in all. A resource that is not named is unlimited.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// What may be granted as it is derived from its nodes; limits in the same way.
    #[serde(skip_serializing_if = "DerivedCapacity::is_empty")]
    pub derived: DerivedCapacity,
    /// The names by which its API server knows people.
    pub identity: ClusterIdentity,
    /// Nothing new comes to it, and nothing in it grows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// Where people reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ClusterEndpoint>,
    /// Where the controller gets its credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ClusterCredentials>,
    /// Who waits for its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// Where people reach a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterEndpoint {
    /// Such as `https://acme.example:6443`.
    pub server: String,
    /// The authorities that vouch for it, PEM; empty where those of the system do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
}

/// Where the controller gets the credentials of a member cluster. It contains no credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCredentials {
    /// A Secret in the namespace of member clusters' Secrets.
    pub secret_name: String,
}

/// The names by which the API server of a member cluster knows people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClusterIdentity {
    /// Only the names in the certificates that we issue.
    #[default]
    Certificates,
    /// Also the names by which the host cluster knows them: it trusts the same issuers.
    Shared,
}

impl ClusterIdentity {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 2] = ["Certificates", "Shared"];
}

/// What is seen of a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterStatus {
    /// The cluster that the name stands for: the uid of its `kube-system`. Once it is known it stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Its Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What its ready, schedulable nodes have for pods, by the nodes' resources; empty where nothing is derived from
    /// it.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// What was derived, by resource of a quota. The ledger counts with it.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    /// What tenants hold of it: their ceilings, or what their root projects have where there is none.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub granted: ResourceList,
    /// What namespaces use in it.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub consumed: ResourceList,
    /// How many namespaces live in it.
    pub namespaces: i64,
    /// The Lease whose holder works on it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lease: String,
    /// How far it was compared with the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ClusterComparison>,
    /// Which credential the controller uses there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialInUse>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The credential that the controller uses in a member cluster. It contains no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialInUse {
    /// `sha256:` and the digest of the token, or of the certificate.
    pub fingerprint: String,
    /// When it ends, RFC 3339; empty where it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expires: String,
    /// Since when it is used, RFC 3339.
    pub since: String,
}

impl MemberClusterSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl MemberClusterStatus {
    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
