//! The controller of tenants: shows what their root projects are granted, beside their ceilings.

/// The kind of tenants.
pub mod kind;
/// Computes the status; pure.
pub mod status;

use crate::context::Context;
use crate::controller::Controller;
use crate::error::Error;
use crate::kinds::{ObjectKey as _, RootKey, ViewChange};
use crate::member_cluster::enqueue_cluster;
use crate::namespace::enqueue::enqueue_access_of_tenant;
use crate::namespace_template::tenant_template_changed;
use crate::objects::RegisteredKind as _;
use crate::outcome::PassOutcome;
use crate::queue::{FlowKey, Lane};
use crate::status::write_status;
use crate::throttle::Pace;
use kind::{BusinessTenant, TenantView};
use std::time::Duration;

/// The group of tenants in the queue: no member cluster has an empty name.
const GROUP: &str = "";
/// How often the figures of a tenant are written.
const PACE: Pace = Pace {
    floor: Duration::from_millis(500),
    each: Duration::from_millis(1),
    ceiling: Duration::from_secs(10),
};

impl Controller for BusinessTenant {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        if let Some(view) = change.new.as_deref().or(change.old.as_deref()) {
            enqueue_tenant(cx, view.key.name(), Lane::Urgent);
        }
        let administrators = |view: &TenantView| view.spec.administrators.clone();
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(view) = new.or(old)
            && old.map(administrators).unwrap_or_default() != new.map(administrators).unwrap_or_default()
        {
            enqueue_access_of_tenant(cx, view.key.name());
        }
        let ceilings = |view: &TenantView| view.spec.clusters.clone();
        if old.map(ceilings) != new.map(ceilings) {
            for cluster in old.into_iter().chain(new).flat_map(|view| view.spec.clusters.keys()) {
                enqueue_cluster(cx, cluster, Lane::Later);
            }
        }
        let template = |view: &TenantView| view.spec.template.clone();
        if let Some(view) = new.or(old)
            && old.map(template).unwrap_or_default() != new.map(template).unwrap_or_default()
        {
            tenant_template_changed(cx, view.key.name());
        }
    }

    async fn reconcile(cx: &Context, key: &RootKey) -> Result<PassOutcome, Error> {
        let figures = &cx.objects.tenants.memory;
        let Some(object) = cx.objects.tenants.get(key) else {
            figures.forget(key);
            return Ok(PassOutcome::Skipped);
        };
        let projects = cx.objects.projects.of_tenant(key.name());
        let namespaces =
            projects.iter().map(|project| cx.objects.namespaces.count_in(project.key.name())).sum();
        let next = status::next(&object, &projects, namespaces, &cx.now());
        if next == object.status {
            return Ok(PassOutcome::Unchanged);
        }
        if let Some(wait) =
            figures.wait(key).filter(|_| object.status.observed_generation == next.observed_generation)
        {
            return Ok(PassOutcome::WaitingFor(wait));
        }
        if write_status(cx, &object, &object.status, &next).await?.is_none() {
            return Ok(PassOutcome::Unchanged);
        }
        figures.written(key, PACE.period(projects.len()));
        Ok(PassOutcome::Applied)
    }

    fn resync(cx: &Context) {
        for tenant in cx.objects.tenants.all() {
            enqueue_tenant(cx, tenant.key.name(), Lane::Later);
        }
    }
}

/// Enqueues a tenant, if it has an object. A change that only affects its figures waits until they may be written.
pub fn enqueue_tenant(cx: &Context, name: &str, lane: Lane) {
    let key = RootKey::new(None, name);
    if name.is_empty() || lane == Lane::Later && cx.objects.tenants.get(&key).is_none() {
        return;
    }
    let wait = if lane == Lane::Later { cx.objects.tenants.memory.wait(&key) } else { None };
    let place = FlowKey { group: GROUP, owner: name };
    cx.enqueue(&BusinessTenant::object_ref(key), place, lane, wait.unwrap_or_default());
}
