//! The clusters that something of ours may lie in, listed or not.

use crate::objects::Objects;
use business_types::registry::REGISTRY_DOMAIN;
use std::collections::BTreeSet;

/// Those that namespaces live in, that projects have a budget for, and that something is held for.
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
