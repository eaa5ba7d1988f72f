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

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::MEMBER_CLUSTER_KIND)
}

/// Its group and plural name.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::MEMBER_CLUSTERS)
}

/// The spec of a member cluster. Its `metadata.name` is the cluster's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterSpec {
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its type, such as `Imported`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub cluster_type: String,
    /// The tenants that may use it; [`crate::cluster::EVERY_TENANT`] stands for all tenants. If it is empty, only
    /// operators may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// The amounts that may be granted of it in total. A resource that is not listed is unlimited.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// Further amounts that may be granted, which are derived from its nodes.
    #[serde(skip_serializing_if = "DerivedCapacity::is_empty")]
    pub derived: DerivedCapacity,
    /// Which names of users and groups its API server accepts.
    pub identity: ClusterIdentity,
    /// Whether it is cordoned: it accepts no new objects and no growth.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// The endpoint for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ClusterEndpoint>,
    /// The source of the controller's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ClusterCredentials>,
    /// Tokens of controllers that still have to clean up before it can be removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// The endpoint of a member cluster for users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterEndpoint {
    /// The URL, such as `https://acme.example:6443`.
    pub server: String,
    /// Its CA certificates, PEM; empty if it has a certificate of a public CA.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
}

/// The source of the controller's credentials for a member cluster. It does not contain a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCredentials {
    /// A Secret in the namespace for Secrets of member clusters.
    pub secret_name: String,
}

/// Which names of users and groups the API server of a member cluster accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClusterIdentity {
    /// The names in the certificates that we issue ([`crate::access`]).
    #[default]
    Certificates,
    /// Also the names of the host cluster, because it trusts the same issuers.
    Shared,
}

impl ClusterIdentity {
    /// The names of all variants.
    pub const NAMES: [&'static str; 2] = ["Certificates", "Shared"];
}

/// The status of a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterStatus {
    /// The identity of the cluster: the uid of its namespace `kube-system`. It does not change once it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Its Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The allocatable resources of its ready, schedulable nodes; empty if nothing is derived from them.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// The derived amounts by resource of a quota, which the ledger uses as limits.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    /// What is granted of it to tenants: their ceilings, or the quota of their root projects where there is no ceiling.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub granted: ResourceList,
    /// What namespaces in it use.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub consumed: ResourceList,
    /// The number of namespaces in it.
    pub namespaces: i64,
    /// The Lease whose holder reconciles it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lease: String,
    /// The result of its last comparison with the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ClusterComparison>,
    /// The credential that the controller uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialInUse>,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The credential that the controller uses in a member cluster, without the secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialInUse {
    /// `sha256:` and the digest of the token, or of the certificate.
    pub fingerprint: String,
    /// When it expires, RFC 3339; empty if it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expires: String,
    /// Since when it is in use, RFC 3339.
    pub since: String,
}

impl MemberClusterSpec {
    /// Decodes the spec of an object. An absent spec is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}

impl MemberClusterStatus {
    /// Decodes the status of an object. An absent status is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
