//! How much of a cluster is granted and used, computed from the caches.

use crate::namespace::kind::NamespaceView;
use crate::objects::Objects;
use crate::project::kind::ProjectView;
use crate::tenant::kind::TenantView;
use meta::quantity::{Quantity, ResourceList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much of a cluster is granted and used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterUsage {
    /// The sum of what tenants may use.
    pub granted: ResourceList,
    /// The sum of what namespaces use.
    pub consumed: ResourceList,
    /// The number of its namespaces.
    pub namespaces: usize,
    /// The number of projects with a budget in it.
    pub projects: usize,
    /// The number of tenants with a ceiling in it.
    pub ceilings: usize,
    /// The number of amounts that are held or reported in it without an object.
    pub held: usize,
    /// Tenants with root projects in it and no ceiling.
    pub unbounded: BTreeSet<String>,
}

impl ClusterUsage {
    /// Computes the usage of a cluster.
    pub fn of(cluster: &str, objects: &Objects) -> Self {
        Self::sum(
            cluster,
            &objects.namespaces.in_cluster(cluster),
            &objects.projects.all(),
            &objects.tenants.all(),
        )
    }

    fn sum(
        cluster: &str,
        namespaces: &[Arc<NamespaceView>],
        projects: &[Arc<ProjectView>],
        tenants: &[Arc<TenantView>],
    ) -> Self {
        let mut usage = Self { namespaces: namespaces.len(), ..Self::default() };
        for namespace in namespaces {
            add(&mut usage.consumed, &namespace.status.used);
        }
        let mut roots: BTreeMap<&str, ResourceList> = BTreeMap::new();
        for project in projects {
            let named = |name: &String| name == cluster;
            let held = project.status.ledger.held.iter().map(|held| &held.cluster_name);
            let orphans = project.status.orphans.iter().map(|orphan| &orphan.cluster_name);
            usage.held = usage.held.saturating_add(held.chain(orphans).filter(|name| named(name)).count());
            let Some(quota) = project.spec.clusters.get(cluster) else { continue };
            usage.projects = usage.projects.saturating_add(1);
            if project.spec.parent_project_name.is_empty() {
                add(roots.entry(&project.spec.tenant_id).or_default(), &quota.hard);
            }
        }
        for tenant in tenants {
            let Some(ceiling) = tenant.spec.clusters.get(cluster) else { continue };
            usage.ceilings = usage.ceilings.saturating_add(1);
            // Grants above the ceiling count in full.
            let mut holds = roots.remove(&*tenant.key.name).unwrap_or_default();
            for (key, amount) in &ceiling.hard {
                let most = holds.entry(key.clone()).or_insert(*amount);
                *most = (*most).max(*amount);
            }
            add(&mut usage.granted, &holds);
        }
        for (tenant, holds) in roots {
            usage.unbounded.insert(tenant.to_owned());
            add(&mut usage.granted, &holds);
        }
        usage
    }

    /// What prevents the deletion of the cluster; `None` if nothing does.
    pub fn in_use(&self) -> Option<String> {
        let counts = [
            (self.namespaces, "namespaces live in it"),
            (self.projects, "projects have a budget for it"),
            (self.ceilings, "tenants have a ceiling there"),
            (self.held, "amounts are held there without an object"),
        ];
        let told: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

fn add(sums: &mut ResourceList, amounts: &ResourceList) {
    for (key, amount) in amounts {
        let sum = sums.entry(key.clone()).or_insert(Quantity::ZERO);
        *sum = amount.checked_add(*sum).unwrap_or(*sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{ObjectKey as _, RootKey};
    use business_types::{HardQuantity, ProjectSpec, TenantSpec};

    fn clusters(pods: &str) -> BTreeMap<String, HardQuantity> {
        let hard = [("pods".to_owned(), pods.parse().unwrap())].into();
        [("c1".to_owned(), HardQuantity { hard })].into()
    }

    fn root(tenant: &str, pods: &str) -> Arc<ProjectView> {
        let spec =
            ProjectSpec { tenant_id: tenant.to_owned(), clusters: clusters(pods), ..ProjectSpec::default() };
        Arc::new(ProjectView { spec, ..ProjectView::default() })
    }

    #[test]
    fn a_tenant_holds_its_ceiling_or_what_its_roots_have() {
        let spec = TenantSpec { clusters: clusters("10"), ..TenantSpec::default() };
        let tenant = TenantView { key: RootKey::new(None, "t"), spec, ..TenantView::default() };
        let tenants = [Arc::new(tenant)];
        let granted = |projects: &[Arc<ProjectView>]| {
            let usage = ClusterUsage::sum("c1", &[], projects, &tenants);
            (usage.granted["pods"].to_string(), usage.unbounded.len())
        };
        assert_eq!(granted(&[]), ("10".to_owned(), 0));
        assert_eq!(granted(&[root("t", "4"), root("t", "5")]), ("10".to_owned(), 0));
        assert_eq!(granted(&[root("t", "12")]), ("12".to_owned(), 0), "above its ceiling");
        assert_eq!(granted(&[root("u", "3")]), ("13".to_owned(), 1));
        let usage = ClusterUsage::sum("c1", &[], &[root("u", "3")], &tenants);
        assert_eq!(
            usage.in_use().unwrap(),
            "1 projects have a budget for it; 1 tenants have a ceiling there"
        );
        assert_eq!(ClusterUsage::sum("c2", &[], &[root("u", "3")], &tenants).in_use(), None);
    }
}
