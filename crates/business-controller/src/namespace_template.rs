//! The controller of templates: rolls out changes in waves, shows the progress, and keeps a template while it is in
//! use.

/// The kind, its index and its cache look-ups.
pub mod kind;
/// Which template a namespace has.
pub mod resolve;
/// Which namespaces get the newest state next; pure.
pub mod rollout;
/// Computes the status; pure.
pub mod status;
/// The fields that templates take from projects.
pub mod project_fields;
/// Adds templates to the work queue.
pub mod enqueue;

use crate::context::Context;
use crate::controller::Controller;
use crate::error::Error;
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, RootKey, ViewChange, without_finalizer};
use crate::member_cluster;
use crate::namespace::enqueue::enqueue_namespace;
use crate::namespace::kind::NamespaceView;
use crate::outcome::PassOutcome;
use crate::project::kind::ProjectView;
use crate::queue::Lane;
use crate::status::write_status;
use crate::throttle::Pace;
use business_types::condition::{self, ROLLED_OUT, reason};
use business_types::{NamespaceTemplateStatus, names};
use enqueue::{enqueue_all_templates, enqueue_template};
use kind::{CurrentTemplate, NamespaceTemplate, TemplateView};
use resolve::ResolvedTemplate;
use rollout::RolloutProgress;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

const FAILING: Topic = Topic::warning("RolloutFailing", "RollOut");
/// How many failed namespaces an event names.
const NAMED_MAX: usize = 10;
/// How often the figures of a template are written.
const PACE: Pace = Pace {
    floor: Duration::from_millis(500),
    each: Duration::from_micros(50),
    ceiling: Duration::from_secs(10),
};

impl Controller for NamespaceTemplate {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(view) = new.or(old) {
            enqueue_template(cx, &view.key, Lane::Urgent);
        }
        // Other namespaces may have this template now, or none.
        let standing = |view: &TemplateView| (view.uid.clone(), view.spec.default, view.is_deleting());
        if old.map(standing) != new.map(standing) {
            for object in cx.objects.namespaces.all() {
                enqueue_namespace(cx, &object, Lane::Later, Duration::ZERO);
            }
            enqueue_all_templates(cx);
        }
        enqueue_wave(cx, old, new);
    }

    async fn reconcile(cx: &Context, key: &RootKey) -> Result<PassOutcome, Error> {
        let Some(current) = cx.objects.namespace_templates.current(key) else {
            cx.objects.namespace_templates.memory.forget(key);
            return Ok(PassOutcome::Skipped);
        };
        let progress = rollout_progress(cx, &current);
        let object = &current.view;
        let usage = if object.is_deleting() { usage(cx, object, &progress) } else { None };
        if object.is_deleting() && usage.is_none() {
            return finalize(cx, object).await;
        }
        let wave = rollout::next_wave(&current, &progress);
        let next = status::next(object, &progress, usage, wave, &cx.now());
        let failed = next.failed;
        let outcome = write(cx, &current, next).await?;
        if outcome == PassOutcome::Applied && failed > 0 && failed != object.status.failed {
            cx.events.report(object, FAILING, failure_message(&progress.failed));
        }
        Ok(outcome)
    }

    fn resync(cx: &Context) {
        enqueue_all_templates(cx);
    }

    /// Namespaces in a cluster that answers again take part in rollouts again. The holder of the fleet's share learns
    /// that from the `MemberCluster`.
    fn cluster_changed(cx: &Context, _cluster: &str) {
        enqueue_all_templates(cx);
    }
}

/// Counts the namespaces of a template.
fn rollout_progress(cx: &Context, current: &CurrentTemplate) -> RolloutProgress {
    let mut progress = RolloutProgress::default();
    let mut reachable: HashMap<String, bool> = HashMap::new();
    for project in cx.objects.projects.all() {
        if !resolve::of_project(cx, &project).is_template(&current.view.key) {
            continue;
        }
        for object in cx.objects.namespaces.of_project(project.key.name()) {
            if object.is_deleting() {
                continue;
            }
            let cluster = &object.spec.cluster_name;
            let answers = *reachable.entry(cluster.clone()).or_insert_with(|| {
                let object = cx.objects.member_clusters.get(&RootKey::new(None, cluster));
                object.is_some_and(|object| member_cluster::answers(&object))
            });
            progress.count(current, &object, answers);
        }
    }
    progress
}

/// Names the namespaces that have not taken the state. This goes into an event, which operators read, and not into the
/// template, which every tenant reads.
fn failure_message(failed: &[Arc<NamespaceView>]) -> String {
    let told: Vec<String> = failed.iter().take(NAMED_MAX).map(|object| object.key.to_string()).collect();
    let more = failed.len().saturating_sub(NAMED_MAX);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("not taken, as TemplateApplied says, by {}{rest}", told.join(", "))
}

/// Enqueues the namespaces of a new wave.
fn enqueue_wave(cx: &Context, old: Option<&TemplateView>, new: Option<&TemplateView>) {
    let wave =
        |view: Option<&TemplateView>| view.and_then(|view| view.status.wave.clone()).unwrap_or_default();
    let (before, now) = (wave(old), wave(new));
    if before == now {
        return;
    }
    let uids: HashSet<&str> = now.namespaces.iter().map(String::as_str).collect();
    if uids.is_empty() {
        return;
    }
    let is_its_turn = |object: &&Arc<NamespaceView>| uids.contains(object.uid.as_str());
    let admitted: Vec<_> =
        cx.objects.namespaces.with_index(|views, _| views.values().filter(is_its_turn).cloned().collect());
    for object in admitted {
        enqueue_namespace(cx, &object, Lane::Later, Duration::ZERO);
    }
}

/// How many projects, tenants and namespaces still use the template; `None` if nobody does. It names nobody, because
/// every tenant reads it.
fn usage(cx: &Context, object: &TemplateView, progress: &RolloutProgress) -> Option<String> {
    let name = object.key.name();
    let projects = cx.objects.projects.all().iter().filter(|project| project.spec.template == name).count();
    let tenants = cx.objects.tenants.all().iter().filter(|tenant| tenant.spec.template == name).count();
    let mut told = Vec::new();
    if progress.namespaces > 0 {
        told.push(format!("{} namespaces have it", progress.namespaces));
    }
    for (number, who) in [(projects, "projects"), (tenants, "tenants")] {
        if number > 0 {
            told.push(format!("{number} {who} name it"));
        }
    }
    (!told.is_empty())
        .then(|| format!("it goes when nobody has it or names it any more: {}", told.join(", ")))
}

async fn finalize(cx: &Context, object: &TemplateView) -> Result<PassOutcome, Error> {
    let token = names::NAMESPACE_TEMPLATE_FINALIZER;
    let Some(left) = without_finalizer(&object.spec.finalizers, token) else {
        return Ok(PassOutcome::Skipped);
    };
    cx.fleet().permit()?;
    cx.business.finalize(object, &left).await?;
    Ok(PassOutcome::Applied)
}

async fn write(
    cx: &Context,
    current: &CurrentTemplate,
    next: NamespaceTemplateStatus,
) -> Result<PassOutcome, Error> {
    let (object, figures) = (&current.view, &cx.objects.namespace_templates.memory);
    if next == object.status {
        return Ok(PassOutcome::Unchanged);
    }
    // Progress can wait for the next write. A failure or the end of a rollout is written at once.
    let is_on_its_way = |status: &NamespaceTemplateStatus| {
        condition::find(&status.conditions, ROLLED_OUT).is_some_and(|told| told.reason == reason::ROLLING_OUT)
    };
    if let Some(wait) =
        figures.wait(&object.key).filter(|_| is_on_its_way(&object.status) && is_on_its_way(&next))
        && object.status.wave == next.wave
        && object.status.failed == next.failed
    {
        return Ok(PassOutcome::WaitingFor(wait));
    }
    let Some(written) = write_status(cx, object, &object.status, &next).await? else {
        return Ok(PassOutcome::Unchanged);
    };
    // A write of our own is no event.
    enqueue_wave(cx, Some(object), Some(&written));
    let namespaces = usize::try_from(next.namespaces).unwrap_or_default();
    figures.written(&object.key, PACE.period(namespaces));
    Ok(PassOutcome::Applied)
}

/// Enqueues the namespaces whose template may have changed with their project, and those below. Also those whose
/// template copies a value from the project that has changed.
pub fn project_changed(cx: &Context, old: Option<&ProjectView>, new: Option<&ProjectView>) {
    let (Some(old), Some(new)) = (old, new) else {
        // A template that is being deleted waits until no project names it any more.
        if let Some(gone) = old.filter(|gone| !gone.spec.template.is_empty()) {
            enqueue_template(cx, &RootKey::new(None, &gone.spec.template), Lane::Later);
        }
        return;
    };
    let named = |view: &ProjectView| {
        let spec = &view.spec;
        (spec.template.clone(), spec.parent_project_name.clone(), spec.tenant_id.clone())
    };
    if named(old) != named(new) {
        cx.objects
            .projects
            .subtree(new.key.name())
            .iter()
            .for_each(|project| enqueue_namespaces_in(cx, project));
        enqueue_all_templates(cx);
    } else if let ResolvedTemplate::Template(current) = resolve::of_project(cx, new)
        && project_fields::differs(&current.view.spec, old, new)
    {
        enqueue_namespaces_in(cx, new.key.name());
    }
}

fn enqueue_namespaces_in(cx: &Context, project: &str) {
    for object in cx.objects.namespaces.of_project(project) {
        enqueue_namespace(cx, &object, Lane::Later, Duration::ZERO);
    }
}

/// Enqueues the namespaces of a tenant whose template has changed.
pub fn tenant_template_changed(cx: &Context, tenant: &str) {
    for project in cx.objects.projects.of_tenant(tenant) {
        enqueue_namespaces_in(cx, project.key.name());
    }
    enqueue_all_templates(cx);
}
