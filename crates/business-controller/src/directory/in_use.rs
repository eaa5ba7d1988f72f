//! The clusters that are in use, listed or not.

use crate::objects::Objects;
use business_types::registry::REGISTRY_DOMAIN;
use std::collections::BTreeSet;

/// The clusters with namespaces, with a budget of a project, or with amounts that are held.
pub fn clusters(objects: &Objects) -> BTreeSet<String> {
    let mut clusters: BTreeSet<String> = objects.namespaces.clusters().into_iter().collect();
    for project in objects.projects.all() {
        clusters.extend(project.spec.clusters.keys().filter(|name| *name != REGISTRY_DOMAIN).cloned());
        let held = project.status.ledger.held.iter().map(|held| &held.cluster_name);
        let orphans = project.status.orphans.iter().map(|orphan| &orphan.cluster_name);
        clusters.extend(held.chain(orphans).filter(|name| !name.is_empty()).cloned());
    }
    clusters
}
