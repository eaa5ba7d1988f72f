use crate::cluster::EVERY_TENANT;
use crate::condition::Condition;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::quantity::ResourceList;
use serde::{Deserialize, Serialize};

mod account;
mod schema;
mod validation;

pub use account::ChargedMemberCluster;
pub use schema::schema;
pub use validation::{member_cluster, member_cluster_status};

/// Its full name.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(crate::names::GROUP, crate::names::VERSION, crate::names::MEMBER_CLUSTER_KIND)
}

/// Its group and plural.
pub fn group_resource() -> GroupResource {
    GroupResource::new(crate::names::GROUP, crate::names::MEMBER_CLUSTERS)
}

/// What a member cluster is meant to be to the tenants; its name is the cluster's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterSpec {
    /// Name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its type, such as `Imported`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Tenants that may use it; `*` is every one.
    pub tenants: Vec<String>,
    /// What may be granted of it in all. A resource that is not named is unlimited.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// It takes nothing new, and what is there does not grow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
}

/// What is seen of a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberClusterStatus {
    /// Its Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The uid of its `kube-system`: which cluster the name stands for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The tenants' ceilings there, in all.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub granted: ResourceList,
    /// Business namespaces there.
    pub namespaces: i64,
    /// `metadata.generation` that the status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl MemberClusterSpec {
    /// The spec of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["spec"])?.unwrap_or_default())
    }

    /// Whether a tenant may use it. What belongs to no tenant may be anywhere.
    pub fn allows(&self, tenant: &str) -> bool {
        tenant.is_empty() || self.tenants.iter().any(|allowed| allowed == EVERY_TENANT || allowed == tenant)
    }
}

impl MemberClusterStatus {
    /// The status of an object; an absent one is empty.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        Ok(object.decode(&["status"])?.unwrap_or_default())
    }
}
