//! Lists the namespaces of a cluster that nobody manages, as a mapping file.

use super::mapping::MappingEntry;
use super::{each, member, source};
use crate::business::Business;
use crate::config::{self, Discover};
use crate::error::Error;
use crate::kinds::ObjectKey as _;
use crate::member::ClusterQuota;
use crate::namespace::confirm::most;
use crate::namespace::kind::BusinessNamespace;
use crate::project::kind::BusinessProject;
use business_types::names;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use meta::quantity::ResourceList;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What a cluster has, and what is known of it here. The file is a pure function of it.
#[derive(Debug, Default)]
pub struct SeenCluster {
    /// The cluster's name.
    pub cluster: String,
    /// Labels of its namespaces, by name.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Its quotas, by namespace.
    pub quotas: BTreeMap<String, Vec<ClusterQuota>>,
    /// Namespaces of it that an object manages.
    pub managed: BTreeSet<String>,
    /// The resources that projects limit in it, by project.
    pub projects: BTreeMap<String, ResourceList>,
}

/// Runs `discover`: the text of the file.
pub async fn run(settings: &Discover) -> Result<String, Error> {
    let client = config::client(settings.members.kubeconfig.as_deref()).await?;
    let source = source(&settings.members, &client).await?;
    let mut seen = SeenCluster { cluster: settings.cluster.clone(), ..SeenCluster::default() };
    let there = member(&*source, &settings.cluster).await?;
    each(&there, |namespace: Namespace| {
        let labels = namespace.metadata.labels.unwrap_or_default();
        seen.namespaces.insert(namespace.metadata.name.unwrap_or_default(), labels);
    })
    .await?;
    each(&there, |quota: ResourceQuota| {
        let namespace = quota.metadata.namespace.clone().unwrap_or_default();
        seen.quotas.entry(namespace).or_default().push(quota.into());
    })
    .await?;
    let business = Business::new(client);
    business
        .each::<BusinessNamespace>(|object| {
            if object.spec.cluster_name == settings.cluster {
                seen.managed.insert(object.spec.namespace);
            }
        })
        .await
        .map_err(Error::Api)?;
    business
        .each::<BusinessProject>(|project| {
            let here = project.spec.clusters.get(&settings.cluster).map(|quota| quota.hard.clone());
            seen.projects.insert(project.key.name().to_owned(), here.unwrap_or_default());
        })
        .await
        .map_err(Error::Api)?;
    Ok(file(&seen, &settings.project_label, &settings.members.forbidden_namespaces))
}

/// The file. Whose project is not known stands behind a `#`.
pub fn file(seen: &SeenCluster, project_label: &str, forbidden: &[String]) -> String {
    let mut out = format!(
        "# Namespaces of cluster {} that nobody manages. One a line; what stands behind a # is passed over.\n\
         # Taken with: business-controller adopt -f FILE\n",
        seen.cluster
    );
    for (namespace, labels) in &seen.namespaces {
        if seen.managed.contains(namespace) || names::is_forbidden(namespace, forbidden) {
            continue;
        }
        let quotas = seen.quotas.get(namespace).map(Vec::as_slice).unwrap_or_default();
        let project = labels.get(project_label).filter(|project| seen.projects.contains_key(*project));
        let entry = MappingEntry {
            line: 0,
            cluster: seen.cluster.clone(),
            namespace: namespace.clone(),
            project: project.cloned().unwrap_or_default(),
            name: names::derived_name(&seen.cluster, namespace).unwrap_or_default(),
            hard: most(quotas.iter().flat_map(|quota| [&quota.spec_hard, &quota.status_used])),
        };
        let behind = if project.is_some() { "" } else { "# " };
        let _always = writeln!(out, "{behind}{}  # {}", entry.to_line(), known(seen, &entry, quotas, labels));
    }
    out
}

/// What a person wants to know before he decides.
fn known(
    seen: &SeenCluster,
    entry: &MappingEntry,
    quotas: &[ClusterQuota],
    labels: &BTreeMap<String, String>,
) -> String {
    let used = most(quotas.iter().map(|quota| &quota.status_used));
    let amounts = |list: &ResourceList| {
        let amounts: Vec<String> = list.iter().map(|(key, amount)| format!("{key}={amount}")).collect();
        amounts.join(" ")
    };
    let mut known = vec![match (quotas.len(), used.is_empty()) {
        (0, _) => "no quota, so its use is not known".to_owned(),
        (_, true) => "nothing counted in its quota".to_owned(),
        (_, false) => format!("uses {}", amounts(&used)),
    }];
    let limits = seen.projects.get(&entry.project);
    let lacks: Vec<&str> = limits
        .into_iter()
        .flat_map(ResourceList::keys)
        .filter(|key| !entry.hard.contains_key(*key))
        .map(String::as_str)
        .collect();
    if !lacks.is_empty() {
        known.push(format!("its project also limits {}", lacks.join(" ")));
    }
    let labels: Vec<String> = labels
        .iter()
        .filter(|(key, _)| *key != "kubernetes.io/metadata.name")
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !labels.is_empty() {
        known.push(format!("labels {}", labels.join(" ")));
    }
    known.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adoption::mapping;
    use crate::fixtures::amounts;

    #[test]
    fn what_nobody_manages_is_proposed_to_the_project_of_its_label() {
        let labels = |project: &str| BTreeMap::from([("team".to_owned(), project.to_owned())]);
        let quota = ClusterQuota {
            spec_hard: amounts(&[("pods", "5")]),
            status_used: amounts(&[("pods", "7")]),
            ..ClusterQuota::default()
        };
        let seen = SeenCluster {
            cluster: "c1".into(),
            namespaces: ["web", "mine", "kube-system", "lost"]
                .map(|name| (name.to_owned(), labels(if name == "lost" { "nobody" } else { "shop" })))
                .into(),
            quotas: [("web".to_owned(), vec![quota])].into(),
            managed: ["mine".to_owned()].into(),
            projects: [("shop".to_owned(), amounts(&[("pods", "9"), ("services", "1")]))].into(),
        };
        let text = file(&seen, "team", &["kube-*".to_owned()]);
        let entries = mapping::parse(&text, &[]).unwrap();
        assert_eq!(entries.len(), 1, "{text}");
        assert_eq!((entries[0].namespace.as_str(), entries[0].project.as_str()), ("web", "shop"));
        assert_eq!(entries[0].hard, amounts(&[("pods", "7")]), "what is in use is granted");
        assert!(text.contains("uses pods=7; its project also limits services"), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("# - {cluster: \"c1\", namespace: \"lost\"")),
            "{text}"
        );
        assert!(!text.contains("kube-system") && !text.contains("mine"), "{text}");
    }
}
