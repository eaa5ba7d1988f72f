//! The initial objects and their limits. The limits are close to the requested amounts, so that each level
//! refuses now and then.

use crate::world::{HardUnits, RESOURCES, StoredBody, TestKind, Units, units};
use anyhow::Result;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::ops::Range;
use store::import::Imported;
use uuid::Uuid;

/// Member clusters: of the first everything is explicit, of the second everything follows from nodes, of the third one
/// resource each.
pub(crate) const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];

/// What follows from a cluster's nodes.
pub(crate) fn derived(cluster: &str) -> &'static [&'static str] {
    match cluster {
        "c2" => &RESOURCES,
        "c3" => &["cpu"],
        _ => &[],
    }
}

/// Tenants of the tree; the last one never has an object.
pub(crate) const TENANTS: [&str; 4] = ["t0", "t1", "t2", "free"];
/// Those with ceilings.
pub(crate) const BOUNDED: [&str; 3] = ["t0", "t1", "t2"];
/// Tenants that come and go.
pub(crate) const GUESTS: [&str; 2] = ["guest-0", "guest-1"];
/// Middle projects of a tenant.
pub(crate) const MIDDLES: usize = 2;
/// Projects that come and go.
pub(crate) const EXTRAS: usize = 6;

/// What a cluster may have.
pub(crate) const CAPACITY: Range<u64> = 1_300..2_500;
/// What a tenant may have of one cluster.
pub(crate) const CEILING: Range<u64> = 400..800;
/// What a root project may have of one cluster.
pub(crate) const ROOT: Range<u64> = 380..750;
/// What a middle project may have of one cluster.
pub(crate) const MIDDLE: Range<u64> = 140..260;
/// What a project at the end of the tree may have of one cluster.
pub(crate) const LEAF: Range<u64> = 30..90;
/// By how much a project is raised when more was found in it than it may have.
pub(crate) const RAISE: Range<u64> = 1..80;
/// What a tenant that comes and goes may have of one cluster.
pub(crate) const GUEST: Range<u64> = 20..80;
/// What a project that comes and goes may have of one cluster.
pub(crate) const EXTRA: Range<u64> = 5..40;

/// The root project of a tenant.
pub(crate) fn root(tenant: usize) -> String {
    format!("root-{tenant}")
}

/// A middle project of a tenant.
pub(crate) fn middle(tenant: usize, number: usize) -> String {
    format!("mid-{tenant}-{number}")
}

/// A project at the end of the tree.
pub(crate) fn leaf(number: usize) -> String {
    format!("leaf-{number}")
}

/// The number of the tenant of a leaf.
pub(crate) fn tenant_of_leaf(number: usize) -> usize {
    number % TENANTS.len()
}

/// A project that comes and goes.
pub(crate) fn extra(number: usize) -> String {
    format!("extra-{number}")
}

/// Whose a project is that comes and goes.
pub(crate) fn tenant_of_extra(number: usize) -> &'static str {
    TENANTS.into_iter().chain(GUESTS).cycle().nth(number).unwrap_or_default()
}

/// A cluster that a project has namespaces in: of leaves, one is hardly used, so that it can be given up.
pub(crate) fn cluster_of(random: &mut StdRng, leaf: usize) -> &'static str {
    let at = random.random_range(0..CLUSTERS.len());
    let at = if at == leaf % CLUSTERS.len() && random.random_range(0..50) > 0 { at + 1 } else { at };
    CLUSTERS.into_iter().cycle().nth(at).unwrap_or_default()
}

/// The same amount in every cluster.
pub(crate) fn everywhere(amount: u64) -> BTreeMap<String, HardUnits> {
    CLUSTERS.iter().map(|cluster| ((*cluster).to_owned(), HardUnits { hard: units(amount) })).collect()
}

/// An amount of each resource.
pub(crate) fn some(random: &mut StdRng, range: &Range<u64>) -> Units {
    RESOURCES.iter().map(|resource| ((*resource).to_owned(), random.random_range(range.clone()))).collect()
}

/// The tree, with amounts above limits as an import leaves them: of a leaf, and of a tenant.
pub(crate) fn tree(leaves: usize) -> Result<Vec<Imported>> {
    let mut bodies = Vec::new();
    for cluster in CLUSTERS {
        bodies.push((TestKind::Cluster, StoredBody::cluster(cluster, units(2_100), derived(cluster))));
    }
    for (number, tenant) in TENANTS.into_iter().enumerate() {
        if BOUNDED.contains(&tenant) {
            let ceiling = if number == 0 { 450 } else { 600 };
            bodies.push((TestKind::Tenant, StoredBody::of_tenant(tenant, everywhere(ceiling))));
        }
        bodies.push((TestKind::Project, StoredBody::project(&root(number), tenant, "", everywhere(500))));
        for middle in (0..MIDDLES).map(|middle| self::middle(number, middle)) {
            let body = StoredBody::project(&middle, tenant, &root(number), everywhere(210));
            bodies.push((TestKind::Project, body));
        }
    }
    for number in 0..leaves {
        let tenant = tenant_of_leaf(number);
        let parent = middle(tenant, number / TENANTS.len() % MIDDLES);
        let owner = TENANTS.get(tenant).copied().unwrap_or_default();
        let body = StoredBody::project(&leaf(number), owner, &parent, everywhere(65));
        bodies.push((TestKind::Project, body));
    }
    let large = StoredBody::namespace(&leaf(0), "imported", "c1", units(80)).owned_by("t0");
    bodies.push((TestKind::Namespace, large));
    let imported = bodies.into_iter().map(|(kind, body)| {
        Ok(Imported { key: body.key(kind), uid: Uuid::new_v4(), state: body.state(kind)? })
    });
    imported.collect()
}
