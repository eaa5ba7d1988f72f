//! The controller of member clusters: it writes the status of each, and finalizes it.

/// The kind, and what is remembered of each cluster.
pub mod kind;
/// How much of a cluster is granted and used.
pub mod usage;
/// Reads the capacity of the nodes.
pub mod nodes;
/// Derives the capacity of a cluster from its nodes.
pub mod capacity;
/// Computes the status; pure.
pub mod status;

use crate::context::Context;
use crate::controller::Controller;
use crate::dispatch;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, RootKey, ViewChange, without_finalizer};
use crate::members::Lookup;
use crate::namespace::enqueue::enqueue_access_in_cluster;
use crate::namespace::kind::BusinessNamespace;
use crate::namespace_template::enqueue::enqueue_all_templates;
use crate::objects::RegisteredKind as _;
use crate::outcome::PassOutcome;
use crate::project::kind::BusinessProject;
use crate::queue::{FlowKey, Lane};
use crate::status::write_status;
use crate::tenant::kind::BusinessTenant;
use crate::throttle::Pace;
use business_types::condition::{self, Condition};
use business_types::{MemberClusterStatus, names};
use kind::{BusinessMemberCluster, MemberClusterView};
use status::ClusterObservation;
use std::time::Duration;
use usage::ClusterUsage;

/// How often the usage figures of a cluster are written.
const PACE: Pace = Pace {
    floor: Duration::from_secs(1),
    each: Duration::from_micros(200),
    ceiling: Duration::from_secs(10),
};
/// How soon a deletion that waits is checked again.
const RECHECK: Duration = Duration::from_secs(30);
/// How soon to check again while the API and the cache differ.
const SOON: Duration = Duration::from_secs(1);
/// The group of `MemberCluster` objects in the queue: no member cluster has an empty name.
const GROUP: &str = "";

const DELETED: Topic = Topic::normal("Deleted", "Delete");

impl Controller for BusinessMemberCluster {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        if let Some(view) = change.new.as_deref().or(change.old.as_deref()) {
            enqueue_cluster(cx, view.key.name(), Lane::Urgent);
            let identity = |view: &MemberClusterView| view.spec.identity;
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            if old.map(identity).unwrap_or_default() != new.map(identity).unwrap_or_default() {
                enqueue_access_in_cluster(cx, view.key.name());
            }
            let uid = |view: &MemberClusterView| view.status.uid.clone();
            if old.map(uid).unwrap_or_default() != new.map(uid).unwrap_or_default() {
                // The cluster belongs to another share from now on.
                cx.shares.notify_changed();
                dispatch::cluster_changed(cx, view.key.name());
            }
            if old.is_some_and(answers) != new.is_some_and(answers) {
                enqueue_all_templates(cx);
            }
        }
    }

    async fn reconcile(cx: &Context, key: &RootKey) -> Result<PassOutcome, Error> {
        let memory = &cx.objects.member_clusters.memory;
        let Some(object) = cx.objects.member_clusters.get(key) else {
            memory.figures.forget(key);
            return Ok(PassOutcome::Skipped);
        };
        let observation = observe(cx, key.name());
        let next = status::next(&object, &observation, &cx.now());
        match show(cx, &object, &next).await? {
            PassOutcome::Unchanged if object.is_deleting() => end(cx, &object, &observation.usage).await,
            // The deletion goes on from the status that was just written.
            PassOutcome::Applied if object.is_deleting() => Ok(PassOutcome::WaitingFor(SOON)),
            shown => Ok(shown),
        }
    }

    fn resync(cx: &Context) {
        for cluster in cx.objects.member_clusters.all() {
            enqueue_cluster(cx, cluster.key.name(), Lane::Later);
        }
    }

    fn cluster_changed(cx: &Context, cluster: &str) {
        enqueue_cluster(cx, cluster, Lane::Urgent);
    }
}

/// Enqueues a cluster, if it has an object. A change of figures waits until they may be written.
pub fn enqueue_cluster(cx: &Context, name: &str, lane: Lane) {
    let key = RootKey::new(None, name);
    if lane == Lane::Later && cx.objects.member_clusters.get(&key).is_none() {
        return;
    }
    let wait = if lane == Lane::Later { cx.objects.member_clusters.memory.figures.wait(&key) } else { None };
    let place = FlowKey { group: GROUP, owner: name };
    cx.enqueue(&BusinessMemberCluster::object_ref(key), place, lane, wait.unwrap_or_default());
}

/// Whether a cluster answers, as its status says.
pub fn answers(object: &MemberClusterView) -> bool {
    condition::find(&object.status.conditions, condition::REACHABLE).is_some_and(Condition::is_true)
}

fn observe(cx: &Context, name: &str) -> ClusterObservation {
    let memory = &cx.objects.member_clusters.memory;
    let reach = match cx.member(name) {
        Lookup::Found(member) => Some(member.reach()),
        Lookup::NotLoaded | Lookup::Unknown => None,
    };
    ClusterObservation {
        reach,
        directory: memory.directory_entry(name),
        audit: memory.audit(name),
        nodes: memory.nodes(name),
        usage: ClusterUsage::of(name, &cx.objects),
        share: cx.share_of(name),
    }
}

async fn show(
    cx: &Context,
    object: &MemberClusterView,
    next: &MemberClusterStatus,
) -> Result<PassOutcome, Error> {
    let figures = &cx.objects.member_clusters.memory.figures;
    if *next == object.status {
        return Ok(PassOutcome::Unchanged);
    }
    if let Some(wait) =
        figures.wait(&object.key).filter(|_| status::differ_in_figures_only(&object.status, next))
    {
        return Ok(PassOutcome::WaitingFor(wait));
    }
    let Some(written) = write_status(cx, object, &object.status, next).await? else {
        return Ok(PassOutcome::Unchanged);
    };
    // The watch will not report our own write as a change.
    if answers(object) != answers(&written) {
        enqueue_all_templates(cx);
    }
    let objects = usize::try_from(next.namespaces).unwrap_or_default();
    figures.written(&object.key, PACE.period(objects));
    Ok(PassOutcome::Applied)
}

/// Finalizes a cluster of which nothing is granted, used or held.
async fn end(cx: &Context, object: &MemberClusterView, usage: &ClusterUsage) -> Result<PassOutcome, Error> {
    let Some(left) = without_finalizer(&object.spec.finalizers, names::MEMBER_CLUSTER_FINALIZER) else {
        return Ok(PassOutcome::Skipped);
    };
    if usage.in_use().is_some() {
        return Ok(PassOutcome::WaitingFor(RECHECK));
    }
    // The caches may be behind, so the API is asked last.
    if is_used(cx, object.key.name()).await? {
        return Ok(PassOutcome::WaitingFor(SOON));
    }
    cx.fence_of(object.key.name()).permit()?;
    cx.business.finalize(object, &left).await?;
    cx.events.report(object, DELETED, "nothing of the cluster is granted or used any more".to_owned());
    Ok(PassOutcome::Applied)
}

async fn is_used(cx: &Context, cluster: &str) -> Result<bool, CallFailure> {
    let living =
        cx.business.list_by_field::<BusinessNamespace>(&format!("spec.clusterName={cluster}"), 1).await?;
    let mut used = !living.is_empty();
    cx.business
        .for_each::<BusinessProject>(|project| {
            let held = project.status.ledger.held.iter().any(|held| held.cluster_name == cluster);
            let orphaned = project.status.orphans.iter().any(|orphan| orphan.cluster_name == cluster);
            used |= held || orphaned || project.spec.clusters.contains_key(cluster);
        })
        .await?;
    cx.business
        .for_each::<BusinessTenant>(|tenant| used |= tenant.spec.clusters.contains_key(cluster))
        .await?;
    Ok(used)
}
