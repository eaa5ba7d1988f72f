//! Objects of the API, and how commands get them.

use crate::amount;
use crate::api::Api;
use crate::failure::Failure;
use crate::paths;
use business_types::{
    HeldAmount, MemberClusterSpec, MemberClusterStatus, NamespaceSpec, NamespaceStatus, ProjectSpec,
    ProjectStatus, TenantSpec, TenantStatus, names,
};
use meta::quantity::{Quantity, ResourceList};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// An object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[serde(bound(deserialize = "Spec: Default + Deserialize<'de>, Status: Default + Deserialize<'de>"))]
pub(crate) struct Object<Spec, Status> {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

/// The part of `metadata` that this program reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectMeta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) creation_timestamp: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

pub(crate) type Tenant = Object<TenantSpec, TenantStatus>;
pub(crate) type Project = Object<ProjectSpec, ProjectStatus>;
pub(crate) type Namespace = Object<NamespaceSpec, NamespaceStatus>;
pub(crate) type MemberCluster = Object<MemberClusterSpec, MemberClusterStatus>;

/// A cluster as users of a tenant see it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterOffer {
    pub(crate) metadata: ObjectMeta,
    pub(crate) reachable: bool,
    pub(crate) cordoned: bool,
    pub(crate) tenants: Vec<TenantShare>,
}

/// The part of a cluster that a tenant may be granted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TenantShare {
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    pub(crate) hard: ResourceList,
    pub(crate) left: ResourceList,
}

impl<Spec, Status> Object<Spec, Status> {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// The amounts held against a project without an object, by cluster. No object below it includes them.
pub(crate) fn held_by_cluster(held: &[HeldAmount]) -> BTreeMap<String, ResourceList> {
    let mut sums: BTreeMap<String, ResourceList> = BTreeMap::new();
    for one in held {
        let of_cluster = sums.entry(one.cluster_name.clone()).or_default();
        for (resource, amount) in &one.hard {
            let sum = of_cluster.entry(resource.clone()).or_insert(Quantity::ZERO);
            *sum = amount::saturating_add(*sum, *amount);
        }
    }
    sums
}

/// A project.
pub(crate) async fn get_project(api: &Api, name: &str) -> Result<Project, Failure> {
    api.get(&paths::object(names::PROJECTS, name)).await
}

/// A namespace of a project.
pub(crate) async fn get_namespace(api: &Api, project: &str, name: &str) -> Result<Namespace, Failure> {
    api.get(&paths::namespace(project, name)).await
}

/// Advice if the caller may not list a kind that every role may list.
const NO_ROLE: &str = "you have no role here: an administrator gives one by `kubectl business access add`; through \
                       kube-apiserver it takes the ClusterRole business-door, too; or --context is another cluster's";

/// Lists a kind as far as the caller sees it. A 404 means that the server is not ours.
pub(crate) async fn list<T>(api: &Api, plural: &str) -> Result<Vec<T>, Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    match api.list(&paths::collection(plural)).await {
        Err(failure) if failure.is_not_found() => Err(Failure::Other(format!(
            "{} does not serve {}: look whether --context and --kubeconfig are those that you mean",
            api.server(),
            names::API_VERSION
        ))),
        other => other,
    }
}

/// Lists a kind that every role may list; a 403 gets advice.
pub(crate) async fn list_with_role_advice<T>(api: &Api, plural: &str) -> Result<Vec<T>, Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    list(api, plural).await.map_err(|failure| failure.with_advice_on(403, NO_ROLE))
}

/// Lists a kind; empty if the caller may not list it. Not for callers that conclude from an empty list that something
/// is free or gone.
pub(crate) async fn list_or_empty<T>(api: &Api, plural: &str) -> Result<Vec<T>, Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    match list(api, plural).await {
        Err(failure) if failure.is_forbidden() && !failure.is_unauthenticated() => Ok(Vec::new()),
        other => other,
    }
}

/// A project and its ancestors, the nearest first, as far as the caller sees them.
pub(crate) async fn lineage(api: &Api, name: &str) -> Result<Vec<Project>, Failure> {
    let mut lineage: Vec<Project> = Vec::new();
    let mut next = name.to_owned();
    while !next.is_empty() && !lineage.iter().any(|project| project.name() == next) {
        let Some(project) = api.find::<Project>(&paths::object(names::PROJECTS, &next)).await? else { break };
        next.clone_from(&project.spec.parent_project_name);
        lineage.push(project);
    }
    Ok(lineage)
}
