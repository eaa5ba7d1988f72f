//! Resource quotas of a member cluster, trimmed to the fields that the controller uses.

use super::marks::Marks;
use super::watch_store::Versioned;
use super::weight;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use meta::quantity::ResourceList;
use std::collections::BTreeMap;

/// A `ResourceQuota` in a member cluster, named like its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterQuota {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    pub marks: Marks,
    /// `spec.hard`
    pub spec_hard: ResourceList,
    /// `status.hard`: the limits that admission uses.
    pub status_hard: ResourceList,
    /// `status.used`
    pub status_used: ResourceList,
    /// It has scopes, so it counts only some objects.
    pub scoped: bool,
    /// It is being deleted.
    pub deleting: bool,
}

impl From<ResourceQuota> for ClusterQuota {
    fn from(quota: ResourceQuota) -> Self {
        let metadata = quota.metadata;
        let spec = quota.spec.unwrap_or_default();
        let status = quota.status.unwrap_or_default();
        Self {
            marks: Marks::of(&metadata),
            spec_hard: amounts(spec.hard),
            status_hard: amounts(status.hard),
            status_used: amounts(status.used),
            scoped: spec.scopes.is_some_and(|all| !all.is_empty()) || spec.scope_selector.is_some(),
            deleting: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl ClusterQuota {
    /// Whether only the usage differs.
    pub(super) fn differs_in_use_only(&self, new: &Self) -> bool {
        let with_new_use = Self {
            status_used: new.status_used.clone(),
            resource_version: new.resource_version.clone(),
            ..self.clone()
        };
        self.status_used.is_empty() == new.status_used.is_empty() && with_new_use == *new
    }
}

/// Parses amounts that a Kubernetes API server has accepted. One that cannot be parsed is left out, so that the list
/// differs from everything that we write.
fn amounts(texts: Option<BTreeMap<String, Text>>) -> ResourceList {
    let texts = texts.unwrap_or_default();
    texts.into_iter().filter_map(|(key, Text(text))| Some((key, text.parse().ok()?))).collect()
}

impl Versioned for ClusterQuota {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        let amounts = [&self.spec_hard, &self.status_hard, &self.status_used];
        weight::of(self)
            .saturating_add(weight::texts([&self.uid, &self.resource_version]))
            .saturating_add(weight::texts(amounts.into_iter().flat_map(BTreeMap::keys)))
            .saturating_add(self.marks.weight())
    }
}
