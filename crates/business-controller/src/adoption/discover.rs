//! Finds the namespaces of a cluster that nobody manages, and proposes a line of the mapping file for each.

use super::mapping::MappingEntry;
use super::{for_each_object, member_client, source};
use crate::business::Business;
use crate::config::{self, Discover};
use crate::error::Error;
use crate::kinds::ObjectKey as _;
use crate::member::ClusterQuota;
use crate::namespace::confirm::max_per_resource;
use crate::namespace::kind::BusinessNamespace;
use crate::project::kind::BusinessProject;
use business_types::names;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use meta::quantity::ResourceList;
use std::collections::{BTreeMap, BTreeSet};

/// The label of every namespace with its own name, which is no use here.
const OWN_NAME: &str = "kubernetes.io/metadata.name";

/// What a cluster has, and what our API knows of it. The proposals are a pure function of this.
#[derive(Debug, Default)]
pub struct SeenCluster {
    /// The cluster's name.
    pub cluster: String,
    /// Labels of its namespaces, by name.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Its quotas, by namespace.
    pub quotas: BTreeMap<String, Vec<ClusterQuota>>,
    /// Namespaces of it that an object already manages.
    pub managed: BTreeSet<String>,
    /// The limits of projects in it, by project.
    pub projects: BTreeMap<String, ResourceList>,
}

/// The namespaces of a cluster that nobody manages.
#[derive(Debug)]
pub struct Discovered {
    /// The cluster's name.
    pub cluster: String,
    /// By the namespaces' names.
    pub proposals: Vec<Proposal>,
}

/// The proposal for a namespace, and what a person wants to know before deciding.
#[derive(Debug)]
pub struct Proposal {
    /// The line of the file. Its project is empty if no label names an existing one.
    pub entry: MappingEntry,
    /// How many quotas it has.
    pub quotas: usize,
    /// The usage that they show.
    pub used: ResourceList,
    /// Resources that its project limits, and none of its quotas does.
    pub lacks: Vec<String>,
    /// The namespace's labels.
    pub labels: BTreeMap<String, String>,
}

/// Runs `discover`.
pub async fn run(settings: &Discover) -> Result<Discovered, Error> {
    let client = config::client(settings.members.kubeconfig.as_deref()).await?;
    let source = source(&settings.members, &client).await?;
    let mut seen = SeenCluster { cluster: settings.cluster.clone(), ..SeenCluster::default() };
    let there = member_client(&*source, &settings.cluster).await?;
    for_each_object(&there, |namespace: Namespace| {
        let labels = namespace.metadata.labels.unwrap_or_default();
        seen.namespaces.insert(namespace.metadata.name.unwrap_or_default(), labels);
    })
    .await?;
    for_each_object(&there, |quota: ResourceQuota| {
        let namespace = quota.metadata.namespace.clone().unwrap_or_default();
        seen.quotas.entry(namespace).or_default().push(quota.into());
    })
    .await?;
    let business = Business::new(client);
    business
        .for_each::<BusinessNamespace>(|object| {
            if object.spec.cluster_name == settings.cluster {
                seen.managed.insert(object.spec.namespace);
            }
        })
        .await
        .map_err(Error::Api)?;
    business
        .for_each::<BusinessProject>(|project| {
            let here = project.spec.clusters.get(&settings.cluster).map(|quota| quota.hard.clone());
            seen.projects.insert(project.key.name().to_owned(), here.unwrap_or_default());
        })
        .await
        .map_err(Error::Api)?;
    Ok(propose(seen, &settings.project_label, &settings.members.forbidden()))
}

/// Proposes all namespaces that nobody manages and that are neither forbidden nor off limits.
pub fn propose(mut seen: SeenCluster, project_label: &str, forbidden: &[String]) -> Discovered {
    let namespaces = std::mem::take(&mut seen.namespaces);
    let proposals = namespaces
        .into_iter()
        .filter(|(name, labels)| {
            !seen.managed.contains(name)
                && !names::is_forbidden(name, forbidden)
                && !labels.contains_key(names::OFF_LIMITS_LABEL)
        })
        .map(|(name, labels)| proposal(&seen, name, labels, project_label))
        .collect();
    Discovered { cluster: seen.cluster, proposals }
}

fn proposal(
    seen: &SeenCluster,
    namespace: String,
    mut labels: BTreeMap<String, String>,
    project_label: &str,
) -> Proposal {
    let quotas = seen.quotas.get(&namespace).map(Vec::as_slice).unwrap_or_default();
    let project = labels.get(project_label).filter(|project| seen.projects.contains_key(*project));
    let hard = max_per_resource(quotas.iter().flat_map(|quota| [&quota.spec_hard, &quota.status_used]));
    let limits = project.and_then(|project| seen.projects.get(project));
    let lacks = limits.into_iter().flat_map(ResourceList::keys).filter(|key| !hard.contains_key(*key));
    let (lacks, project) = (lacks.cloned().collect(), project.cloned().unwrap_or_default());
    labels.remove(OWN_NAME);
    Proposal {
        quotas: quotas.len(),
        used: max_per_resource(quotas.iter().map(|quota| &quota.status_used)),
        lacks,
        labels,
        entry: MappingEntry {
            line: 0,
            cluster: seen.cluster.clone(),
            name: names::derived_name(&seen.cluster, &namespace).unwrap_or_default(),
            namespace,
            project,
            hard,
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::unmanaged::discovered;

    #[test]
    fn what_nobody_manages_is_proposed_to_the_project_of_its_label() {
        let discovered = discovered();
        let names: Vec<(&str, &str)> = discovered
            .proposals
            .iter()
            .map(|proposal| (proposal.entry.namespace.as_str(), proposal.entry.project.as_str()))
            .collect();
        assert_eq!(names, [("bare", "shop"), ("lost", ""), ("web", "shop")]);
        let web = &discovered.proposals[2];
        assert_eq!(web.entry.hard, web.used, "what is in use is granted");
        assert_eq!(web.lacks, ["services"]);
    }
}
