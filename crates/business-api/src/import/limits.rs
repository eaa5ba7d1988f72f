//! Sums and limits: what has no limit, what is above its limit, and where TKE's own sums differ. Pure.

use super::candidate::Candidate;
use super::draft::Draft;
use super::finding::Rule;
use business_types::account::PROJECT;
use business_types::names::PROJECTS;
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{ProjectSpec, UsedQuantity};
use meta::quantity::{Format, Quantity, ResourceList};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use store::ledger::{self, RowKey};
use store::quota::Account;

/// The resource that is limited in a cluster for which no child names a resource.
const PODS: &str = "pods";

/// Adds clusters to projects that do not list them although their children live there. The limits are 0: otherwise
/// nothing would bound the children there.
pub fn add_missing_clusters(draft: &mut Draft) {
    let (projects, depths) = (draft.projects(), draft.depths());
    let depth = |candidate: &Candidate| {
        if candidate.is(PROJECTS) {
            depths.get(&candidate.object_ref.name).copied().unwrap_or_default()
        } else {
            usize::MAX
        }
    };
    let mut order: Vec<usize> = (0..draft.candidates.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(draft.candidates.get(*at).map(depth)));
    let mut given: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    for at in order {
        let Some(child) = draft.candidates.get(at) else { continue };
        let (keys, Some(scope)) = (child.keys(), projects.get(child.scope()).copied()) else { continue };
        let Some(project) = draft.candidates.get_mut(scope) else { continue };
        let Ok(mut spec) = ProjectSpec::of(&project.object) else { continue };
        for (cluster, mut keys) in keys {
            let entry = (scope, cluster.clone());
            if spec.clusters.contains_key(&cluster) && !given.contains_key(&entry) {
                continue;
            }
            if keys.is_empty() {
                keys.push(PODS.to_owned());
            }
            let hard = &mut spec.clusters.entry(cluster).or_default().hard;
            hard.extend(keys.iter().map(|key| (key.clone(), Quantity::ZERO)));
            given.entry(entry).or_default().extend(keys);
            project.object.set(&["spec", "clusters"], json!(spec.clusters));
        }
    }
    for ((at, cluster), keys) in given {
        let Some(object_ref) = draft.candidates.get(at).map(|project| project.object_ref.clone()) else {
            continue;
        };
        let keys: Vec<String> = keys.into_iter().collect();
        let why = format!(
            "it does not list cluster {cluster}, in which its children live: it gets it with a limit of 0 for {}",
            keys.join(", ")
        );
        draft.add_finding(Rule::ClusterNotListed, &object_ref, why);
    }
}

/// Reports the children that set no amount for a resource that their project or parent limits.
pub fn report_missing_resources(draft: &mut Draft) {
    let projects = draft.projects();
    let mut missing = Vec::new();
    for child in &draft.candidates {
        let scope = projects.get(child.scope()).and_then(|at| draft.candidates.get(*at));
        let Some(limits) = scope.map(Candidate::keys) else { continue };
        for (cluster, keys) in child.keys() {
            let lacks = limits.get(&cluster).into_iter().flatten().filter(|key| !keys.contains(key));
            let lacks: Vec<&str> = lacks.map(String::as_str).collect();
            if !lacks.is_empty() {
                let why = format!(
                    "it asks for no {} in cluster {cluster}, which is limited above it: nothing bounds what it uses of it, \
                     and nothing of it grows until it asks for some",
                    lacks.join(", ")
                );
                missing.push((child.object_ref.clone(), why));
            }
        }
    }
    for (object_ref, why) in missing {
        draft.add_finding(Rule::KeyMissing, &object_ref, why);
    }
}

/// Reports the limits that the sums of all accounts exceed, and where TKE's own sums differ.
pub fn report_sums(draft: &mut Draft, accounts: &[Account]) {
    let rows = ledger::of_accounts(accounts);
    let mut found = Vec::new();
    for (key, row) in rows.iter().filter(|(_, row)| row.excess > 0) {
        let RowKey { scope, domain, key } = key;
        let shown = |nanos: i128| display_amount(key, nanos);
        let place =
            if domain == REGISTRY_DOMAIN { "the registry".to_owned() } else { format!("cluster {domain}") };
        let why = format!(
            "{} of {} {key} in {place} are given away, {} above its limit",
            shown(row.allocated),
            shown(row.hard.unwrap_or_default()),
            shown(row.excess),
        );
        found.push((scope.name.clone(), Rule::AboveLimit, why));
    }
    let mut sums: BTreeMap<(&str, &str), &ResourceList> = BTreeMap::new();
    let direct = direct_sums(accounts);
    for ((project, cluster), sum) in &direct {
        sums.insert((project, cluster), sum);
    }
    for project in draft.candidates.iter().filter(|candidate| candidate.is(PROJECTS)) {
        let Ok(Some(reported)) = project.computed.decode::<BTreeMap<String, UsedQuantity>>(&["clusters"])
        else {
            continue;
        };
        for (cluster, UsedQuantity { used }) in reported {
            let none = ResourceList::new();
            let is =
                sums.get(&(project.object_ref.name.as_str(), cluster.as_str())).copied().unwrap_or(&none);
            let other: Vec<String> = used
                .iter()
                .filter(|(key, reported)| is.get(*key).copied().unwrap_or(Quantity::ZERO) != **reported)
                .map(|(key, reported)| {
                    format!("{key} {reported} instead of {}", is.get(key).copied().unwrap_or(Quantity::ZERO))
                })
                .collect();
            if !other.is_empty() {
                let why = format!(
                    "TKE's sum of what is given away in cluster {cluster} is not what the objects add up to: {}",
                    other.join(", ")
                );
                found.push((project.object_ref.name.clone(), Rule::Figures, why));
            }
        }
    }
    let projects = draft.projects();
    for (project, rule, why) in found {
        let Some(candidate) = projects.get(&project).and_then(|at| draft.candidates.get(*at)) else {
            continue;
        };
        let object_ref = candidate.object_ref.clone();
        draft.add_finding(rule, &object_ref, why);
    }
}

/// The sums of what the direct children of projects cost, by project and cluster.
fn direct_sums(accounts: &[Account]) -> BTreeMap<(String, String), ResourceList> {
    let mut sums: BTreeMap<(String, String), ResourceList> = BTreeMap::new();
    for account in accounts {
        let Some(scope) = account.pays.as_ref().filter(|scope| scope.kind == PROJECT) else { continue };
        for (cluster, list) in &account.costs {
            let sum = sums.entry((scope.name.clone(), cluster.clone())).or_default();
            for (key, amount) in list {
                let slot = sum.entry(key.clone()).or_insert(Quantity::ZERO);
                let nanos = slot.nanos().saturating_add(amount.nanos());
                *slot = Quantity::from_nanos(nanos, amount.format());
            }
        }
    }
    sums
}

/// An amount of the ledger for people.
fn display_amount(key: &str, nanos: i128) -> Quantity {
    let is_bytes = key.ends_with("memory") || key.ends_with("storage");
    Quantity::from_nanos(nanos, if is_bytes { Format::BinarySi } else { Format::DecimalSi })
}
