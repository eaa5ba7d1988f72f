use super::kind::TenantView;
use crate::project::kind::ProjectView;
use business_types::condition::{self, FALSE, READY, TRUE, WITHIN_CEILINGS, reason};
use business_types::{Condition, TenantStatus, UsedQuantity};
use meta::quantity::{Quantity, ResourceList};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many amounts a message lists at most.
const LISTED_MAX: usize = 5;

/// The next status, from what the tenant's projects are granted. `now` is RFC 3339.
pub fn next(
    object: &TenantView,
    projects: &[Arc<ProjectView>],
    namespaces: usize,
    now: &str,
) -> TenantStatus {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let mut status = TenantStatus {
        clusters: granted(projects),
        projects: count(projects.len()),
        namespaces: count(namespaces),
        observed_generation: Some(object.generation),
        conditions: object.status.conditions.clone(),
    };
    let exceeded = exceeded(object, &status);
    let within = if exceeded.is_empty() {
        Condition::new(WITHIN_CEILINGS, TRUE, reason::WITHIN_CEILINGS, "")
    } else {
        let more = exceeded.len().saturating_sub(LISTED_MAX);
        let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
        let listed = exceeded.into_iter().take(LISTED_MAX).collect::<Vec<_>>().join(", ");
        let message = format!("granted above the ceiling, so that nothing of it grows: {listed}{rest}");
        Condition::new(WITHIN_CEILINGS, FALSE, reason::ABOVE_CEILING, message)
    };
    for condition in [within, Condition::new(READY, TRUE, reason::READY, "")] {
        condition::set(&mut status.conditions, condition.at(object.generation), now);
    }
    status
}

/// What root projects are granted, by cluster. The projects below them get a part of that.
fn granted(projects: &[Arc<ProjectView>]) -> BTreeMap<String, UsedQuantity> {
    let mut granted: BTreeMap<String, UsedQuantity> = BTreeMap::new();
    for root in projects.iter().filter(|project| project.spec.parent_project_name.is_empty()) {
        for (cluster, quota) in &root.spec.clusters {
            let sums = &mut granted.entry(cluster.clone()).or_default().used;
            for (key, amount) in &quota.hard {
                let sum = sums.entry(key.clone()).or_insert(Quantity::ZERO);
                *sum = amount.checked_add(*sum).unwrap_or(*sum);
            }
        }
    }
    granted
}

/// The exceeded ceilings, such as `requests.cpu on c1: 12 of 10`.
fn exceeded(object: &TenantView, status: &TenantStatus) -> Vec<String> {
    let none = ResourceList::new();
    let mut exceeded = Vec::new();
    for (cluster, ceiling) in &object.spec.clusters {
        let used = status.clusters.get(cluster).map_or(&none, |used| &used.used);
        for (key, hard) in &ceiling.hard {
            if let Some(used) = used.get(key).filter(|used| *used > hard) {
                exceeded.push(format!("{key} on {cluster}: {used} of {hard}"));
            }
        }
    }
    exceeded
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

    fn project(name: &str, parent: &str, pods: &str) -> Arc<ProjectView> {
        let spec = ProjectSpec {
            parent_project_name: parent.to_owned(),
            clusters: clusters(pods),
            ..ProjectSpec::default()
        };
        Arc::new(ProjectView { key: RootKey::new(None, name), spec, ..ProjectView::default() })
    }

    #[test]
    fn roots_add_up_beside_the_ceiling() {
        let spec = TenantSpec { clusters: clusters("10"), ..TenantSpec::default() };
        let tenant = TenantView { generation: 3, spec, ..TenantView::default() };
        let mut projects = vec![project("a", "", "4"), project("b", "", "6"), project("c", "a", "4")];
        let status = next(&tenant, &projects, 7, "2026-01-01T00:00:00Z");
        assert_eq!(status.clusters["c1"].used["pods"], "10".parse().unwrap());
        assert_eq!((status.projects, status.namespaces, status.observed_generation), (3, 7, Some(3)));
        assert!(condition::find(&status.conditions, WITHIN_CEILINGS).unwrap().is_true());
        projects.push(project("d", "", "1"));
        let status = next(&tenant, &projects, 7, "2026-01-01T00:00:00Z");
        let within = condition::find(&status.conditions, WITHIN_CEILINGS).unwrap();
        assert_eq!(within.reason, "AboveCeiling");
        assert!(within.message.ends_with("pods on c1: 11 of 10"), "{}", within.message);
    }
}
