//! Computes what the direct children of a project hold. Pure: it can be computed again at any time.

use super::cleanup::Children;
use crate::kinds::ObjectKey as _;
use business_types::registry::{self, REGISTRY_DOMAIN};
use business_types::{ChartGroup, ImageNamespace, ProjectSpec, UsedQuantity};
use meta::quantity::ResourceList;
use std::collections::BTreeMap;

/// What the direct children of a project hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectAccounting {
    /// Amounts by cluster.
    pub clusters: BTreeMap<String, UsedQuantity>,
    /// Names of the counted namespaces, sorted.
    pub namespaces: Vec<String>,
    /// Names of the counted child projects, sorted.
    pub children: Vec<String>,
    /// The number of image namespaces and chart groups.
    pub registered: usize,
}

/// Adds up all existing direct children, including those that are being deleted.
pub fn account(children: &Children) -> ProjectAccounting {
    let mut account = ProjectAccounting::default();
    for namespace in &children.namespaces {
        account.namespaces.push(namespace.key.name().to_owned());
        // A namespace that the server has not charged yet holds nothing.
        if let Some(charge) = &namespace.status.cached_spec_hard {
            account.add(&namespace.spec.cluster_name, charge);
        }
    }
    for object in &children.image_namespaces {
        account.add(REGISTRY_DOMAIN, &registry::costs::<ImageNamespace>(&object.spec));
    }
    for object in &children.chart_groups {
        account.add(REGISTRY_DOMAIN, &registry::costs::<ChartGroup>(&object.spec));
    }
    account.registered = children.image_namespaces.len().saturating_add(children.chart_groups.len());
    for child in &children.projects {
        account.children.push(child.key.name().to_owned());
        for (cluster, quantity) in &child.spec.clusters {
            account.add(cluster, &quantity.hard);
        }
    }
    account.namespaces.sort_unstable();
    account.children.sort_unstable();
    account
}

impl ProjectAccounting {
    fn add(&mut self, cluster: &str, amounts: &ResourceList) {
        if amounts.is_empty() {
            return;
        }
        if !self.clusters.contains_key(cluster) {
            self.clusters.insert(cluster.to_owned(), UsedQuantity::default());
        }
        let Some(UsedQuantity { used }) = self.clusters.get_mut(cluster) else { return };
        for (resource, amount) in amounts {
            if let Some(sum) = used.get_mut(resource) {
                // The server refuses amounts that are out of range. If accepted amounts overflow, the sum stays at the
                // last value in range; the audit of the ledger reports it.
                *sum = sum.checked_add(*amount).unwrap_or(*sum);
            } else {
                used.insert(resource.clone(), *amount);
            }
        }
    }

    /// The first cluster and resource of which the children hold more than the spec grants.
    pub fn excess(&self, spec: &ProjectSpec) -> Option<(String, String)> {
        self.clusters.iter().find_map(|(cluster, quantity)| {
            let hard = &spec.clusters.get(cluster)?.hard;
            let (resource, _) =
                quantity.used.iter().find(|(key, used)| hard.get(*key).is_some_and(|hard| *used > hard))?;
            Some((cluster.clone(), resource.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{ProjectKey, RootKey};
    use crate::namespace::kind::NamespaceView;
    use crate::project::kind::ProjectView;
    use crate::registry::kind::{BusinessChartGroup, BusinessImageNamespace};
    use business_types::{HardQuantity, NamespaceSpec, NamespaceStatus, RegistrySpec};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn amounts(pairs: &[(&str, &str)]) -> ResourceList {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), text.parse().unwrap())).collect()
    }

    fn namespace(name: &str, cluster: &str, charge: Option<ResourceList>) -> Arc<NamespaceView> {
        Arc::new(NamespaceView {
            key: ProjectKey::new(Some("p"), name),
            spec: NamespaceSpec { cluster_name: cluster.into(), ..NamespaceSpec::default() },
            status: NamespaceStatus { cached_spec_hard: charge, ..NamespaceStatus::default() },
            ..NamespaceView::default()
        })
    }

    fn child(name: &str, cluster: &str, hard: ResourceList) -> Arc<ProjectView> {
        let clusters = BTreeMap::from([(cluster.to_owned(), HardQuantity { hard })]);
        let spec = ProjectSpec { clusters, ..ProjectSpec::default() };
        Arc::new(ProjectView { key: RootKey::new(None, name), spec, ..ProjectView::default() })
    }

    fn of(namespaces: &[Arc<NamespaceView>], projects: &[Arc<ProjectView>]) -> ProjectAccounting {
        account(&Children {
            namespaces: namespaces.to_vec(),
            projects: projects.to_vec(),
            ..Children::default()
        })
    }

    #[test]
    fn what_is_in_the_registry_counts_by_kind_and_storage() {
        let spec = |storage: &str| RegistrySpec {
            hard: amounts(&[("requests.storage", storage)]),
            ..RegistrySpec::default()
        };
        let image = |storage| crate::kinds::View::<BusinessImageNamespace> {
            spec: spec(storage),
            ..Default::default()
        };
        let chart = crate::kinds::View::<BusinessChartGroup>::default();
        let children = Children {
            image_namespaces: vec![Arc::new(image("5Gi")), Arc::new(image("1Gi"))],
            chart_groups: vec![Arc::new(chart)],
            ..Children::default()
        };
        let account = account(&children);
        let used = amounts(&[("imagenamespaces", "2"), ("chartgroups", "1"), ("requests.storage", "6Gi")]);
        assert_eq!((&account.clusters["registry"].used, account.registered), (&used, 3));
    }

    #[test]
    fn charges_are_added_by_cluster_and_value() {
        let mut ending = NamespaceView::clone(&namespace("b", "c1", Some(amounts(&[("cpu", "500m")]))));
        ending.deleting_since = Some(0);
        let namespaces = [
            namespace("z", "c1", Some(amounts(&[("cpu", "1"), ("memory", "1Gi")]))),
            Arc::new(ending),
            namespace("n", "c2", None),
        ];
        let account = of(&namespaces, &[child("kid", "c1", amounts(&[("cpu", "1500m")]))]);
        assert_eq!(account.clusters.len(), 1);
        assert_eq!(account.clusters["c1"].used, amounts(&[("cpu", "3"), ("memory", "1Gi")]));
        assert_eq!(account.namespaces, ["b", "n", "z"]);
        assert_eq!(account.children, ["kid"]);
    }

    #[test]
    fn what_is_above_the_grant_is_found() {
        let mut spec = ProjectSpec::default();
        spec.clusters.insert("c1".into(), HardQuantity { hard: amounts(&[("cpu", "2")]) });
        let charged =
            |text: &str| of(&[namespace("n", "c1", Some(amounts(&[("cpu", text), ("pods", "9")])))], &[]);
        assert_eq!(charged("2").excess(&spec), None);
        assert_eq!(charged("2001m").excess(&spec), Some(("c1".to_owned(), "cpu".to_owned())));
    }

    proptest! {
        #[test]
        fn the_order_of_the_children_does_not_matter(milli in prop::collection::vec((0_u32..5000, 0_usize..3), 0..20)) {
            let all: Vec<_> = milli
                .iter()
                .enumerate()
                .map(|(n, (m, c))| namespace(&format!("n{n}"), &format!("c{c}"), Some(amounts(&[("cpu", &format!("{m}m"))]))))
                .collect();
            let reversed: Vec<_> = all.iter().rev().cloned().collect();
            prop_assert_eq!(of(&all, &[]), of(&reversed, &[]));
            let total: u64 = milli.iter().map(|(m, _)| u64::from(*m)).sum();
            let sum: i128 = of(&all, &[]).clusters.values().map(|c| c.used["cpu"].nanos()).sum();
            prop_assert_eq!(sum, i128::from(total) * 1_000_000);
        }
    }
}
