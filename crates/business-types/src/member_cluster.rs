use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};

mod account;
mod schema;
mod validation;

pub use account::ChargedMemberCluster;
pub use schema::schema;
pub use validation::member_cluster;

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::MEMBER_CLUSTER_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::MEMBER_CLUSTERS)
}

/// What tenants may have of a member cluster; its name is the cluster's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterSpec {
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// What may be granted of it in all. A resource that is not named is unlimited.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// By which names its API server knows people.
    pub identity: ClusterIdentity,
}

/// By which names the API server of a member cluster knows people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClusterIdentity {
    /// By those of the certificates that we issue, alone.
    #[default]
    Certificates,
    /// By those, too, by which the host cluster knows them: it trusts the same issuers.
    Shared,
}

impl ClusterIdentity {
    /// All of them, as they are written.
    pub const NAMES: [&'static str; 2] = ["Certificates", "Shared"];
}

impl MemberClusterSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }
}
