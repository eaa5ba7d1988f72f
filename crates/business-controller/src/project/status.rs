//! Computes the status of a project (pure), and writes it if it differs.

use super::accounting::ProjectAccounting;
use super::cleanup;
use super::kind::ProjectView;
use crate::context::Context;
use crate::error::Error;
use crate::status::write_status;
use business_types::condition::{self, FALSE, QUOTA_CONSISTENT, READY, TERMINATING, TRUE, reason};
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{Condition, Orphan, ProjectPhase, ProjectStatus};

/// Writes the status. Returns the object as it is after the write.
pub async fn write(
    cx: &Context,
    object: &ProjectView,
    next: &ProjectStatus,
) -> Result<Option<ProjectView>, Error> {
    let (old, new) = without_common_figures(&object.status, next);
    write_status(cx, object, &old, &new).await
}

/// Both statuses without the figures that they have in common.
fn without_common_figures(old: &ProjectStatus, new: &ProjectStatus) -> (ProjectStatus, ProjectStatus) {
    let (mut left, mut right) = (old.without_figures(), new.without_figures());
    if old.clusters != new.clusters {
        left.clusters.clone_from(&old.clusters);
        right.clusters.clone_from(&new.clusters);
    }
    if old.calculated_namespaces != new.calculated_namespaces {
        left.calculated_namespaces.clone_from(&old.calculated_namespaces);
        right.calculated_namespaces.clone_from(&new.calculated_namespaces);
    }
    if old.calculated_child_projects != new.calculated_child_projects {
        left.calculated_child_projects.clone_from(&old.calculated_child_projects);
        right.calculated_child_projects.clone_from(&new.calculated_child_projects);
    }
    (left, right)
}

/// The next status, from what the children hold. `now` is RFC 3339.
pub fn next(object: &ProjectView, account: ProjectAccounting, now: &str) -> ProjectStatus {
    let mut status = object.status.without_figures();
    status.observed_generation = Some(object.generation);
    status.cached_spec_clusters = object.spec.clusters.clone();
    status.cached_parent = Some(object.spec.parent_project_name.clone());
    let mut conditions = vec![consistent(object, &account)];
    if object.is_deleting() {
        conditions.push(terminating(object, &account));
        conditions.push(Condition::new(READY, FALSE, reason::DELETING, ""));
    } else {
        activate(&mut status, now);
        conditions.push(Condition::new(READY, TRUE, reason::READY, ""));
    }
    for condition in conditions {
        condition::set(&mut status.conditions, condition.at(object.generation), now);
    }
    let ProjectAccounting { mut clusters, namespaces, children, registered: _ } = account;
    // A registry budget that is not in the spec is not shown: clients know only the clusters of the spec.
    clusters.retain(|name, _| *name != REGISTRY_DOMAIN || object.spec.clusters.contains_key(REGISTRY_DOMAIN));
    status.clusters = clusters;
    status.calculated_namespaces = namespaces;
    status.calculated_child_projects = children;
    status
}

/// What keeps a project that is being deleted.
fn terminating(object: &ProjectView, account: &ProjectAccounting) -> Condition {
    let (namespaces, children) = (account.namespaces.len(), account.children.len());
    let registered = account.registered;
    if namespaces > 0 || children > 0 || registered > 0 {
        let message = format!(
            "{namespaces} namespaces, {registered} image namespaces and chart groups, and {children} child \
             projects remain"
        );
        return Condition::new(TERMINATING, TRUE, reason::WAITING_FOR_CHILDREN, message);
    }
    match cleanup::finalize_blocker(&object.status) {
        Some(what) => Condition::new(TERMINATING, TRUE, reason::AMOUNTS_HELD, what),
        None => Condition::new(TERMINATING, TRUE, reason::DELETING, ""),
    }
}

/// Whether ledger, objects and member clusters agree, as far as audits have found.
fn consistent(object: &ProjectView, account: &ProjectAccounting) -> Condition {
    let differs = |reason, message| Condition::new(QUOTA_CONSISTENT, FALSE, reason, message);
    if let Some((cluster, resource)) = account.excess(&object.spec) {
        let place =
            if cluster == REGISTRY_DOMAIN { "the registry".to_owned() } else { format!("cluster {cluster}") };
        let message = format!("more {resource} of {place} is given away than the project holds");
        return differs(reason::INCONSISTENT, message);
    }
    if let Some(first) = object.status.ledger.differences.first() {
        let message = format!("business-api audit --repair sets right what differs: {first}");
        return differs(reason::LEDGER_DIFFERS, message);
    }
    let ledger = &object.status.ledger;
    let orphans: Vec<&Orphan> =
        object.status.orphans.iter().filter(|orphan| !ledger.has_written_off(orphan)).collect();
    if let Some(first) = orphans.first() {
        let message = format!(
            "{} namespaces of member clusters belong to no object and are held against the project: {} of cluster {}",
            orphans.len(),
            first.namespace,
            first.cluster_name
        );
        return differs(reason::ORPHANED, message);
    }
    Condition::new(QUOTA_CONSISTENT, TRUE, reason::CONSISTENT, "")
}

/// Makes a project Active. An operator's lock on an active project stays.
fn activate(status: &mut ProjectStatus, now: &str) {
    if status.phase == ProjectPhase::Active {
        return;
    }
    status.phase = ProjectPhase::Active;
    status.last_transition_time = Some(now.to_owned());
    status.reason.clear();
    status.message.clear();
}

/// Whether only figures differ. They can be written together with the next ones.
pub fn differs_in_figures_only(old: &ProjectStatus, new: &ProjectStatus) -> bool {
    let without = |status: &ProjectStatus| {
        let mut status = status.without_figures();
        for condition in &mut status.conditions {
            if condition.type_ == TERMINATING {
                condition.message.clear();
            }
        }
        status
    };
    without(old) == without(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::OrphanState;

    #[test]
    fn a_new_project_becomes_active_and_ready() {
        let object = ProjectView { generation: 3, ..ProjectView::default() };
        let status = next(&object, ProjectAccounting::default(), "2026-01-02T03:04:05Z");
        assert_eq!(status.phase, ProjectPhase::Active);
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(status.cached_parent.as_deref(), Some(""));
        assert!(condition::find(&status.conditions, READY).is_some_and(Condition::is_true));
        let again = ProjectView { status: status.clone(), ..object };
        assert_eq!(
            next(&again, ProjectAccounting::default(), "2027-01-01T00:00:00Z"),
            status,
            "nothing new is nothing to write"
        );
    }

    #[test]
    fn an_operators_lock_survives() {
        let mut object = ProjectView::default();
        object.status.phase = ProjectPhase::Active;
        object.status.locked = Some(true);
        assert_eq!(next(&object, ProjectAccounting::default(), "now").locked, Some(true));
    }

    #[test]
    fn what_the_audits_found_is_a_condition() {
        let mut object = ProjectView::default();
        let reason = |object: &ProjectView| {
            let status = next(object, ProjectAccounting::default(), "now");
            condition::find(&status.conditions, QUOTA_CONSISTENT).unwrap().reason.clone()
        };
        assert_eq!(reason(&object), reason::CONSISTENT);
        let orphan = |uid: &str, state| Orphan { uid: uid.into(), state, ..Orphan::default() };
        object.status.orphans.push(orphan("w", OrphanState::Unused));
        assert_eq!(reason(&object), reason::ORPHANED);
        object.status.ledger.written_off.push("w".into());
        assert_eq!(reason(&object), reason::CONSISTENT, "an ordinary release is no finding");
        object.status.orphans.push(orphan("l", OrphanState::Lost));
        object.status.ledger.written_off.push("l".into());
        assert_eq!(reason(&object), reason::ORPHANED);
        object.status.ledger.differences.push("ledger p/c1/pods".into());
        assert_eq!(reason(&object), reason::LEDGER_DIFFERS);
        let status = next(&object, ProjectAccounting::default(), "now");
        assert_eq!((status.orphans, status.ledger), (object.status.orphans, object.status.ledger));
    }

    #[test]
    fn what_both_have_is_not_compared_and_what_one_has_is() {
        let mut old = ProjectStatus { calculated_namespaces: vec!["n".into()], ..ProjectStatus::default() };
        old.clusters.insert("c1".into(), business_types::UsedQuantity::default());
        let mut new = ProjectStatus { observed_generation: Some(2), ..old.clone() };
        assert_eq!(without_common_figures(&old, &new), (old.without_figures(), new.without_figures()));
        new.calculated_namespaces.clear();
        new.calculated_child_projects.push("p".into());
        let (left, right) = without_common_figures(&old, &new);
        assert_eq!((left.calculated_namespaces.len(), left.calculated_child_projects.len()), (1, 0));
        assert_eq!((right.calculated_namespaces.len(), right.calculated_child_projects.len()), (0, 1));
        assert!(left.clusters.is_empty() && right.clusters.is_empty());
    }

    #[test]
    fn figures_alone_can_wait() {
        let object = ProjectView::default();
        let old = next(&object, ProjectAccounting::default(), "now");
        let mut new = old.clone();
        new.calculated_namespaces.push("n".into());
        assert!(differs_in_figures_only(&old, &new));
        assert!(!differs_in_figures_only(&object.status, &old), "the phase is more than a figure");
    }
}
