use crate::amount;
use crate::api::Api;
use crate::failure::Failure;
use crate::level::Level;
use crate::objects::{self, MemberCluster, Tenant};
use crate::paths;
use crate::wanted::{Asked, Wanted};
use business_types::{HardQuantity, UsedQuantity, names};
use meta::quantity::{Quantity, ResourceList};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a level has of a resource, and what it has given away.
#[derive(Clone, Debug)]
pub(super) struct LevelShare {
    pub(super) level: Level,
    pub(super) domain: String,
    pub(super) resource: String,
    /// `None` where nothing limits it.
    pub(super) hard: Option<Quantity>,
    pub(super) allocated: Quantity,
}

/// Limits by cluster.
type Limits = BTreeMap<String, HardQuantity>;
/// What is given away, by cluster.
type Given = BTreeMap<String, UsedQuantity>;

impl LevelShare {
    pub(super) fn left(&self) -> Option<Quantity> {
        Some(amount::less(self.hard?, self.allocated))
    }

    pub(super) fn told(&self) -> Value {
        let Self { level, domain, resource, hard, allocated } = self;
        json!({
            "level": level.told(), "cluster": domain, "resource": resource, "hard": hard, "allocated": allocated,
            "left": self.left(),
        })
    }
}

/// What every level above has of the resources that are asked for, the cluster first. Levels that the caller does not
/// see are left out.
pub(super) async fn above(api: &Api, wanted: &Wanted) -> Result<Vec<LevelShare>, Failure> {
    let line = objects::line_of(api, &wanted.payer).await?;
    let tenant = line.last().map_or(&wanted.tenant, |top| &top.spec.tenant_id);
    let mut shares = Vec::new();
    for domain in wanted.asked.keys() {
        if let Some(cluster) = quietly(api, names::MEMBER_CLUSTERS, domain).await? {
            shares.extend(of_cluster(&cluster, domain, &wanted.asked));
        }
    }
    if let Some(Tenant { spec, status, .. }) = quietly(api, names::TENANTS, tenant).await? {
        let level = Level::Tenant(tenant.clone());
        shares.extend(of_level(&level, &spec.clusters, &status.clusters, &wanted.asked));
    }
    for project in line.iter().rev() {
        let level = Level::Project(project.name().to_owned());
        shares.extend(of_level(&level, &project.spec.clusters, &project.status.clusters, &wanted.asked));
    }
    Ok(shares)
}

async fn quietly<T: serde::de::DeserializeOwned>(
    api: &Api,
    plural: &str,
    name: &str,
) -> Result<Option<T>, Failure> {
    if name.is_empty() {
        return Ok(None);
    }
    match api.find(&paths::named(plural, name)).await {
        Err(failure) if failure.is_forbidden() => Ok(None),
        other => other,
    }
}

fn of_cluster(cluster: &MemberCluster, domain: &str, asked: &Asked) -> Vec<LevelShare> {
    let mut hard = cluster.spec.hard.clone();
    hard.extend(cluster.status.capacity.clone());
    let limits: Limits = [(domain.to_owned(), HardQuantity { hard })].into();
    let given: Given = [(domain.to_owned(), UsedQuantity { used: cluster.status.granted.clone() })].into();
    let here: Asked =
        asked.iter().filter(|(name, _)| *name == domain).map(|(k, v)| (k.clone(), v.clone())).collect();
    of_level(&Level::Cluster(domain.to_owned()), &limits, &given, &here)
}

fn of_level(level: &Level, limits: &Limits, given: &Given, asked: &Asked) -> Vec<LevelShare> {
    let empty = ResourceList::new();
    let of = |domain: &str, resource: &str| {
        let hard = limits.get(domain).and_then(|limit| limit.hard.get(resource)).copied();
        let used = given.get(domain).map_or(&empty, |given| &given.used);
        LevelShare {
            level: level.clone(),
            domain: domain.to_owned(),
            resource: resource.to_owned(),
            hard,
            allocated: amount::of(used, resource),
        }
    };
    asked
        .iter()
        .flat_map(|(domain, list)| list.keys().map(|resource| of(domain, resource)).collect::<Vec<_>>())
        .collect()
}
