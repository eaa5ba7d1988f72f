use crate::amount;
use crate::api::Api;
use crate::desired::{AmountsByCluster, DesiredObject};
use crate::failure::Failure;
use crate::level::Level;
use crate::objects::{self, MemberCluster, Project, Tenant};
use crate::paths;
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{HardQuantity, UsedQuantity, names};
use meta::quantity::{Quantity, ResourceList};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Limit and usage of a resource at a level.
#[derive(Clone, Debug)]
pub(super) struct LevelUsage {
    pub(super) level: Level,
    pub(super) domain: String,
    pub(super) resource: String,
    /// `None` if it is unlimited.
    pub(super) hard: Option<Quantity>,
    pub(super) allocated: Quantity,
    /// What counts beside `allocated` without an object.
    pub(super) held: Quantity,
}

/// The amounts of a tenant or a project, by cluster.
struct LevelAmounts<'a> {
    level: Level,
    limits: &'a BTreeMap<String, HardQuantity>,
    allocated: &'a BTreeMap<String, UsedQuantity>,
    /// What counts beside `allocated` without an object.
    held: BTreeMap<String, ResourceList>,
}

impl LevelUsage {
    pub(super) fn left(&self) -> Option<Quantity> {
        Some(amount::saturating_sub(self.hard?, amount::saturating_add(self.allocated, self.held)))
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { level, domain, resource, hard, allocated, held } = self;
        json!({
            "level": level.to_json(), "cluster": domain, "resource": resource, "hard": hard, "allocated": allocated,
            "held": held, "left": self.left(),
        })
    }
}

/// The usage of the requested resources at all levels above, the cluster first. Levels that the caller does not see are
/// left out.
pub(super) async fn above(api: &Api, desired: &DesiredObject) -> Result<Vec<LevelUsage>, Failure> {
    let lineage = objects::lineage(api, &desired.payer).await?;
    let tenant = lineage.last().map_or(&desired.tenant, |top| &top.spec.tenant_id);
    let mut shares = Vec::new();
    for domain in desired.requested.keys() {
        if let Some(cluster) = find_if_allowed(api, names::MEMBER_CLUSTERS, domain).await? {
            shares.extend(of_cluster(&cluster, domain, &desired.requested));
        }
    }
    if let Some(Tenant { spec, status, .. }) = find_if_allowed(api, names::TENANTS, tenant).await? {
        let level = Level::Tenant(tenant.clone());
        let (limits, allocated) = (&spec.clusters, &status.clusters);
        let amounts = LevelAmounts { level, limits, allocated, held: BTreeMap::new() };
        shares.extend(amounts.usage(&desired.requested));
    }
    for project in lineage.iter().rev() {
        shares.extend(of_project(project, &desired.requested));
    }
    Ok(shares)
}

/// The usage of a project. It has nothing in a cluster that it does not list.
fn of_project(project: &Project, requested: &AmountsByCluster) -> Vec<LevelUsage> {
    let level = Level::Project(project.name().to_owned());
    let (limits, allocated) = (&project.spec.clusters, &project.status.clusters);
    let held = objects::held_by_cluster(&project.status.ledger.held);
    let mut shares = LevelAmounts { level, limits, allocated, held }.usage(requested);
    for share in &mut shares {
        if share.domain != REGISTRY_DOMAIN && !limits.contains_key(&share.domain) {
            share.hard = Some(Quantity::ZERO);
        }
    }
    shares
}

async fn find_if_allowed<T: serde::de::DeserializeOwned>(
    api: &Api,
    plural: &str,
    name: &str,
) -> Result<Option<T>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    match api.find(&paths::object(plural, name)).await {
        Err(failure) if failure.is_forbidden() => Ok(None),
        other => other,
    }
}

fn of_cluster(cluster: &MemberCluster, domain: &str, requested: &AmountsByCluster) -> Vec<LevelUsage> {
    let hard = cluster.spec.grantable(&cluster.status.capacity);
    let resources = requested.get(domain).into_iter().flat_map(ResourceList::keys);
    resources
        .map(|resource| LevelUsage {
            level: Level::Cluster(domain.to_owned()),
            domain: domain.to_owned(),
            resource: resource.clone(),
            hard: hard.get(resource).copied(),
            allocated: amount::get(&cluster.status.granted, resource),
            held: Quantity::ZERO,
        })
        .collect()
}

impl LevelAmounts<'_> {
    /// The usage of the requested resources.
    fn usage(&self, requested: &AmountsByCluster) -> Vec<LevelUsage> {
        let empty = ResourceList::new();
        let mut usage = Vec::new();
        for (domain, resources) in requested {
            let limits = self.limits.get(domain).map_or(&empty, |limit| &limit.hard);
            let allocated = self.allocated.get(domain).map_or(&empty, |allocated| &allocated.used);
            let held = self.held.get(domain).unwrap_or(&empty);
            usage.extend(resources.keys().map(|resource| LevelUsage {
                level: self.level.clone(),
                domain: domain.clone(),
                resource: resource.clone(),
                hard: limits.get(resource).copied(),
                allocated: amount::get(allocated, resource),
                held: amount::get(held, resource),
            }));
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested() -> AmountsByCluster {
        [("east".to_owned(), [("pods".to_owned(), "8".parse().unwrap())].into())].into()
    }

    #[test]
    fn what_is_held_is_not_left() {
        let held = json!([{"uid": "u", "clusterName": "east", "hard": {"pods": "2"}}]);
        let project = json!({
            "spec": {"clusters": {"east": {"hard": {"pods": "19"}}}},
            "status": {"clusters": {"east": {"used": {"pods": "10"}}}, "ledger": {"held": held}},
        });
        let share = &of_project(&serde_json::from_value(project).unwrap(), &requested())[0];
        assert_eq!((share.held.to_string(), share.left().unwrap().to_string()), ("2".into(), "7".into()));
    }

    #[test]
    fn a_project_has_nothing_where_it_does_not_list_the_cluster() {
        let share = &of_project(&Project::default(), &requested())[0];
        assert_eq!(share.left(), Some(Quantity::ZERO));
    }

    #[test]
    fn what_is_to_be_derived_and_is_not_known_yet_is_no_limitless_amount() {
        let cluster =
            json!({"spec": {"derived": {"resources": {"pods": {"resource": "pods", "factor": "1"}}}}});
        let share = &of_cluster(&serde_json::from_value(cluster).unwrap(), "east", &requested())[0];
        assert_eq!(share.hard, Some(Quantity::ZERO));
    }
}
