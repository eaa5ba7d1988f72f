//! The controller of projects: Pending → Active, the accounting of what the children hold, and children first at the
//! end.

/// The kind, its index and its cache look-ups.
pub mod kind;
/// The projects above a project, and those below it.
pub mod ancestors;
/// The ancestor chain of a project, from the cache and the API.
pub mod ancestor_lookup;
/// Computes what the children hold; pure.
pub mod accounting;
/// Computes the status (pure) and writes it.
pub mod status;
/// Adds projects to the work queue.
pub mod enqueue;
/// Finalizes a project that is being deleted.
pub mod cleanup;

use crate::context::Context;
use crate::controller::Controller;
use crate::error::Error;
use crate::events::Topic;
use crate::kinds::{ChangeSource, ObjectKey as _, RootKey, ViewChange};
use crate::member_cluster::enqueue_cluster;
use crate::namespace::enqueue::enqueue_access_in_subtree;
use crate::namespace_template::project_changed;
use crate::outcome::PassOutcome;
use crate::queue::Lane;
use crate::tenant::enqueue_tenant;
use crate::throttle::Pace;
use business_types::condition::{self, FALSE, QUOTA_CONSISTENT};
use business_types::{ProjectPhase, ProjectSpec, ProjectStatus};
use cleanup::Children;
use enqueue::enqueue_project;
use kind::{BusinessProject, ProjectView};
use std::time::Duration;

/// How often the figures of a project are written.
const PACE: Pace = Pace {
    floor: Duration::from_millis(250),
    each: Duration::from_millis(1),
    ceiling: Duration::from_secs(10),
};

const ACTIVATED: Topic = Topic::normal("Activated", "Activate");
const INCONSISTENT: Topic = Topic::warning("QuotaInconsistent", "Audit");

impl Controller for BusinessProject {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(view) = new.or(old) {
            enqueue_project(cx, view.key.name(), Lane::Urgent);
        }
        let charge = |view: &ProjectView| (view.spec.parent_project_name.clone(), view.spec.clusters.clone());
        if old.map(charge) != new.map(charge) {
            for view in [old, new].into_iter().flatten() {
                enqueue_project(cx, &view.spec.parent_project_name, Lane::Urgent);
            }
        }
        let granted = |view: &ProjectView| (view.spec.tenant_id.clone(), charge(view));
        if old.map(granted) != new.map(granted)
            && let Some(view) = new.or(old)
        {
            enqueue_tenant(cx, &view.spec.tenant_id, Lane::Later);
            for cluster in old.into_iter().chain(new).flat_map(|view| view.spec.clusters.keys()) {
                enqueue_cluster(cx, cluster, Lane::Later);
            }
        }
        project_changed(cx, old, new);
        let access = |view: &ProjectView| {
            let ProjectSpec { tenant_id, members, access, parent_project_name, .. } = &view.spec;
            (tenant_id.clone(), parent_project_name.clone(), members.clone(), access.clone())
        };
        // A project that is listed for the first time comes before its namespaces, and before those of the projects below it.
        let is_new = old.is_none() && change.source == ChangeSource::List;
        if let Some(view) = new.or(old)
            && !is_new
            && old.map(access) != new.map(access)
        {
            enqueue_access_in_subtree(cx, view.key.name());
        }
    }

    async fn reconcile(cx: &Context, key: &RootKey) -> Result<PassOutcome, Error> {
        reconcile(cx, key).await
    }

    fn resync(cx: &Context) {
        for project in cx.objects.projects.all() {
            enqueue_project(cx, project.key.name(), Lane::Later);
        }
    }
}

async fn reconcile(cx: &Context, key: &RootKey) -> Result<PassOutcome, Error> {
    let figures = &cx.objects.projects.memory;
    let Some(object) = cx.objects.projects.get(key) else {
        figures.forget(key);
        return Ok(PassOutcome::Skipped);
    };
    let children = Children {
        namespaces: cx.objects.namespaces.of_project(key.name()),
        image_namespaces: cx.objects.image_namespaces.of_project(key.name()),
        chart_groups: cx.objects.chart_groups.of_project(key.name()),
        projects: cx.objects.projects.children_of(key.name()),
    };
    let account = accounting::account(&children);
    let next = status::next(&object, account, &cx.now());
    let mut outcome = PassOutcome::Unchanged;
    let mut current = None;
    if next != object.status {
        if let Some(wait) = figures.wait(key)
            && status::differs_in_figures_only(&object.status, &next)
        {
            // Coalesced: changes until then go into the same write.
            if !object.is_deleting() {
                return Ok(PassOutcome::WaitingFor(wait));
            }
            outcome = PassOutcome::WaitingFor(wait);
        } else {
            current = status::write(cx, &object, &next).await?;
            figures.written(key, PACE.period(children.count()));
            outcome = PassOutcome::Applied;
        }
    }
    if object.status.phase == ProjectPhase::Pending && next.phase == ProjectPhase::Active {
        cx.events.report(&*object, ACTIVATED, "the project is active".to_owned());
    }
    if let Some(found) = newly_inconsistent(&object.status, &next) {
        cx.events.report(&*object, INCONSISTENT, found.to_owned());
    }
    if object.is_deleting() {
        return cleanup::run(cx, current.as_ref().unwrap_or(&object), &children).await;
    }
    Ok(outcome)
}

/// The message about the project's quota, if it is a new one.
fn newly_inconsistent<'a>(old: &ProjectStatus, new: &'a ProjectStatus) -> Option<&'a str> {
    let of = |status: &'a ProjectStatus| condition::find(&status.conditions, QUOTA_CONSISTENT);
    let before = condition::find(&old.conditions, QUOTA_CONSISTENT).map(|was| was.message.as_str());
    of(new).filter(|now| now.status == FALSE && before != Some(&now.message)).map(|now| now.message.as_str())
}
