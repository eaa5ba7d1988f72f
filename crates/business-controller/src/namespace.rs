//! The controller of namespaces: dereference → validate → build → apply → status, and cleanup at the end.

/// What a namespace is to the controller.
pub mod kind;
/// What a pass comes to.
pub mod verdict;
/// What there is in the member cluster.
pub mod dereference;
/// What has to be done there; pure.
pub mod validate;
/// The bodies of the writes; pure.
pub mod build;
/// The writes.
pub mod apply;
/// When less may be charged; pure.
pub mod confirm;
/// The status to show; pure but for its write.
pub mod status;
/// The end of a namespace.
pub mod cleanup;

use crate::context::Context;
use crate::controller::{Controller, PlaceChange};
use crate::error::{Error, Failure};
use crate::events::Topic;
use crate::kinds::{Change, ProjectKey};
use crate::objects::Tabled as _;
use crate::outcome::{Drift, DriftLabels, Outcome};
use crate::project;
use crate::queue::Lane;
use apply::Applied;
use business_types::NamespacePhase;
use dereference::Place;
use kind::{BusinessNamespace, NamespaceView};
use std::time::Duration;
use verdict::{NamespaceStep, Plan, QuotaStep, Refusal, Situation, Verdict};

/// Times that a pass begins anew when the member cluster was changed under it.
const ROUNDS_MAX: usize = 4;
/// Latest time to look again at something that should tell of itself.
pub const RECHECK: Duration = Duration::from_secs(30);

const UNREACHABLE: Topic = Topic::warning("ClusterUnreachable", "Provision");
const TERMINATING: Topic = Topic::warning("NamespaceTerminating", "Provision");
const PROVISIONED: Topic = Topic::normal("Provisioned", "Provision");
const FAILED: Topic = Topic::warning("Failed", "Provision");
const RECREATED: Topic = Topic::warning("NamespaceRecreated", "Repair");
const REPAIRED: Topic = Topic::warning("DriftRepaired", "Repair");

impl Controller for BusinessNamespace {
    fn changed(cx: &Context, change: &Change<Self>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(new) = new {
            wake(cx, new, Lane::Urgent, Duration::ZERO);
        }
        let charge = |view: &NamespaceView| (view.uid.clone(), view.status.cached_spec_hard.clone());
        if old.map(charge) != new.map(charge)
            && let Some(view) = new.or(old)
        {
            project::wake(cx, &view.key.project, Lane::Later);
        }
    }

    async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<Outcome, Error> {
        reconcile(cx, key).await
    }

    fn look_at_all(cx: &Context) {
        for object in cx.objects.namespaces.all() {
            wake(cx, &object, Lane::Later, Duration::ZERO);
        }
    }

    /// Those first that somebody waits for.
    fn cluster_changed(cx: &Context, cluster: &str) {
        for object in cx.objects.namespaces.in_cluster(cluster) {
            let settled = object.status.phase == NamespacePhase::Available && !object.is_deleting();
            wake(cx, &object, if settled { Lane::Later } else { Lane::Urgent }, Duration::ZERO);
        }
    }

    fn place_changed(cx: &Context, place: &PlaceChange<'_>) {
        if let Some(object) = cx.objects.namespaces.at_place(place.cluster, place.namespace) {
            wake(cx, &object, place.lane, place.delay);
        }
    }
}

/// Looks at a namespace again. Its group in the queue is its member cluster.
fn wake(cx: &Context, object: &NamespaceView, lane: Lane, delay: Duration) {
    let key = BusinessNamespace::queued(object.key.clone());
    cx.queue.add_after(&key, &object.spec.cluster_name, lane, delay);
}

async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<Outcome, Error> {
    let Some(object) = cx.objects.namespaces.get(key) else { return Ok(Outcome::Skipped) };
    let place = match dereference::place(cx, &object) {
        Ok(place) => place,
        Err(situation) => return not_there(cx, &object, situation).await,
    };
    let result = if object.is_deleting() {
        cleanup::run(cx, &object, &place).await
    } else {
        converge(cx, &object, &place).await
    };
    if let Err(Error::Member(Failure::Unavailable(_))) = &result {
        place.member.suspect.notify_one();
    }
    result
}

/// The cluster does not answer, or is not known: said once, and nothing is tried.
async fn not_there(
    cx: &Context,
    object: &NamespaceView,
    situation: Option<Situation>,
) -> Result<Outcome, Error> {
    let Some(situation) = situation else { return Ok(Outcome::Waiting) };
    if object.is_deleting() && cleanup::is_abandoned(object) {
        return cleanup::abandon(cx, object).await;
    }
    let known = object.status.clone();
    let written = status::write(cx, object, &situation).await?;
    if let (true, Situation::Unreachable { message, .. }) = (written.is_some(), &situation)
        && business_types::condition::find(&known.conditions, business_types::condition::CLUSTER_REACHABLE)
            .is_none_or(business_types::Condition::is_true)
    {
        cx.events.report(object, UNREACHABLE, message.clone());
    }
    Ok(Outcome::Waiting)
}

/// Brings the member cluster to what the spec asks for, and the status to what there is.
async fn converge(cx: &Context, object: &NamespaceView, place: &Place) -> Result<Outcome, Error> {
    let mut found = place.found.clone();
    for _ in 0..ROUNDS_MAX {
        match validate::validate(object, &found, &cx.forbidden) {
            Verdict::Wait(situation) => {
                let written = status::write(cx, object, &situation).await?;
                if let (Some(_), Situation::NotActive { message }) = (written, &situation) {
                    cx.events.report(object, TERMINATING, message.clone());
                }
                return Ok(Outcome::WaitingFor(RECHECK));
            }
            Verdict::Refuse(refusal) => return refuse(cx, object, refusal).await,
            Verdict::Recheck => {
                if object_is_behind(cx, object).await? {
                    return Ok(Outcome::WaitingFor(Duration::from_secs(1)));
                }
                found.generation_is_false = true;
            }
            Verdict::Proceed(plan) => {
                let prepared = build::build(object, &plan);
                match apply::apply(&place.member, object, prepared).await {
                    Ok(applied) => return settle(cx, object, place, &plan, applied).await,
                    Err(Error::Member(Failure::Refused { code, message })) => {
                        found = dereference::live(&place.member, object, &found).await?;
                        if found.namespace.as_ref().is_some_and(|there| there.deleting) {
                            continue;
                        }
                        let refusal = Refusal::by_cluster(&place.member.name, code, &message);
                        return refuse(cx, object, refusal).await;
                    }
                    Err(Error::Member(Failure::Conflict(_) | Failure::Exists | Failure::NotFound)) => {
                        found = dereference::live(&place.member, object, &found).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Err(Error::Unsettled)
}

/// Whether the object that we decide from is not the newest: the quota was written from a later generation.
async fn object_is_behind(cx: &Context, object: &NamespaceView) -> Result<bool, Error> {
    let newest = cx.business.get::<BusinessNamespace>(&object.key).await?;
    Ok(newest.is_none_or(|newest| newest.uid != object.uid || newest.generation != object.generation))
}

/// Writes the status of a namespace that is in place, and confirms what can be confirmed.
async fn settle(
    cx: &Context,
    object: &NamespaceView,
    place: &Place,
    plan: &Plan,
    applied: Applied,
) -> Result<Outcome, Error> {
    tell(cx, object, plan);
    let lower = confirm::charge(object, &applied.quota);
    let wait = lower.as_ref().and_then(|_| place.member.api.may_confirm().err());
    let situation =
        Situation::InPlace { quota: applied.quota, charge: if wait.is_some() { None } else { lower } };
    let written = status::write(cx, object, &situation).await?;
    Ok(match wait {
        Some(wait) => Outcome::WaitingFor(wait),
        None if written.is_some() || !plan.is_empty() => Outcome::Applied,
        None => Outcome::Unchanged,
    })
}

/// Events and metrics for what a plan has done.
fn tell(cx: &Context, object: &NamespaceView, plan: &Plan) {
    let place = format!("namespace {} of cluster {}", object.spec.namespace, object.spec.cluster_name);
    let was_deleted = object.status.reason == business_types::condition::reason::NAMESPACE_TERMINATING;
    if object.status.phase != NamespacePhase::Available && !was_deleted {
        if !plan.is_empty() {
            let note = match plan.namespace {
                NamespaceStep::Adopt { .. } => format!("adopted {place}"),
                _ => format!("{place} is in place"),
            };
            cx.events.report(object, PROVISIONED, note);
        }
        return;
    }
    let drifted = |what: Drift, topic: Topic, note: String| {
        cx.metrics.drift.get_or_create(&DriftLabels { what }).inc();
        cx.events.report(object, topic, note);
    };
    match plan.namespace {
        NamespaceStep::Create => {
            drifted(Drift::Namespace, RECREATED, format!("{place} was gone; it was created anew"));
        }
        NamespaceStep::Restore { .. } => {
            drifted(Drift::Marks, REPAIRED, format!("labels of {place} were restored"));
        }
        NamespaceStep::Keep | NamespaceStep::Adopt { .. } => {}
    }
    if plan.namespace != NamespaceStep::Create
        && let QuotaStep::Create | QuotaStep::Update { drift: true, .. } = plan.quota
    {
        drifted(Drift::Quota, REPAIRED, format!("the ResourceQuota of {place} was repaired"));
    }
}

/// Shows why it cannot be; tried again with a growing wait.
async fn refuse(cx: &Context, object: &NamespaceView, refusal: Refusal) -> Result<Outcome, Error> {
    let note = refusal.message.clone();
    let written = status::write(cx, object, &Situation::Refused(refusal)).await?;
    if written.is_some() {
        cx.events.report(object, FAILED, note);
    }
    Ok(Outcome::Refused)
}
