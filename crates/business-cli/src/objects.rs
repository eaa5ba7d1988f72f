//! Objects as the API answers them.

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
pub(crate) struct Served<Spec, Status> {
    pub(crate) metadata: ServedMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

/// The part of `metadata` that this program reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServedMeta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) creation_timestamp: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

pub(crate) type Tenant = Served<TenantSpec, TenantStatus>;
pub(crate) type Project = Served<ProjectSpec, ProjectStatus>;
pub(crate) type Namespace = Served<NamespaceSpec, NamespaceStatus>;
pub(crate) type MemberCluster = Served<MemberClusterSpec, MemberClusterStatus>;

/// A cluster, as those see it who may use it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterOffer {
    pub(crate) metadata: ServedMeta,
    pub(crate) reachable: bool,
    pub(crate) cordoned: bool,
    pub(crate) tenants: Vec<ClusterShare>,
}

/// What a tenant may be granted of a cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterShare {
    #[serde(rename = "tenantID")]
    pub(crate) tenant_id: String,
    pub(crate) hard: ResourceList,
    pub(crate) left: ResourceList,
}

impl<Spec, Status> Served<Spec, Status> {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// What counts against a project without an object, by cluster. No figure of those below it holds it.
pub(crate) fn held_by_cluster(held: &[HeldAmount]) -> BTreeMap<String, ResourceList> {
    let mut sums: BTreeMap<String, ResourceList> = BTreeMap::new();
    for one in held {
        let of_cluster = sums.entry(one.cluster_name.clone()).or_default();
        for (resource, amount) in &one.hard {
            let sum = of_cluster.entry(resource.clone()).or_insert(Quantity::ZERO);
            *sum = amount::plus(*sum, *amount);
        }
    }
    sums
}

/// A project.
pub(crate) async fn project(api: &Api, name: &str) -> Result<Project, Failure> {
    api.get(&paths::named(names::PROJECTS, name)).await
}

/// A namespace of a project.
pub(crate) async fn namespace(api: &Api, project: &str, name: &str) -> Result<Namespace, Failure> {
    api.get(&paths::namespace(project, name)).await
}

/// What to do if somebody may not look at what every role may look at.
const NO_ROLE: &str = "you have no role here: an administrator gives one by `kubectl business access add`; through \
                       kube-apiserver it takes the ClusterRole business-door, too; or --context is another cluster's";

/// All of a kind that the caller sees. If the collection does not exist, it is not our server.
pub(crate) async fn all<T>(api: &Api, plural: &str) -> Result<Vec<T>, Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    match api.list(&paths::all(plural)).await {
        Err(failure) if failure.is_not_found() => Err(Failure::Stopped(format!(
            "{} does not serve {}: look whether --context and --kubeconfig are those that you mean",
            api.server(),
            names::API_VERSION
        ))),
        other => other,
    }
}

/// The same of a kind that every role lets one look at.
pub(crate) async fn all_by_role<T>(api: &Api, plural: &str) -> Result<Vec<T>, Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    all(api, plural).await.map_err(|failure| failure.advised(403, NO_ROLE))
}

/// The same, but empty if the caller may not list the kind. Not for callers that conclude from an empty list that
/// something is free or gone.
pub(crate) async fn seen<T>(api: &Api, plural: &str) -> Result<Vec<T>, Failure>
where
    T: DeserializeOwned + Send + 'static,
{
    match all(api, plural).await {
        Err(failure) if failure.is_forbidden() && !failure.is_anonymous() => Ok(Vec::new()),
        other => other,
    }
}

/// The project and those above it, the nearest first, as far as the caller sees them.
pub(crate) async fn line_of(api: &Api, name: &str) -> Result<Vec<Project>, Failure> {
    let mut line: Vec<Project> = Vec::new();
    let mut next = name.to_owned();
    while !next.is_empty() && !line.iter().any(|project| project.name() == next) {
        let Some(project) = api.find::<Project>(&paths::named(names::PROJECTS, &next)).await? else { break };
        next.clone_from(&project.spec.parent_project_name);
        line.push(project);
    }
    Ok(line)
}
