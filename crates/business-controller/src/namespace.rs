//! The controller of namespaces: target → access → validate → build → apply → template → status, and cleanup at the
//! end.

/// The kind, its index and its cache look-ups.
pub mod kind;
/// What is remembered of namespaces from pass to pass.
pub mod memory;
/// The decision of a pass, and its parts.
pub mod verdict;
/// Adds namespaces to the work queue.
pub mod enqueue;
/// The target of a namespace in its member cluster, and what is observed there.
pub mod target;
/// Requeue delays.
mod pauses;
/// Reconciles the RoleBindings of a namespace: who may use it.
pub mod access;
/// Computes whom the RoleBindings name; pure.
pub mod grants;
/// The state of the RoleBindings, and the grants that they should name.
pub mod access_state;
/// Reconciles what the template of a namespace puts into it.
pub mod template;
/// Compares the desired state with the observed state; pure.
pub mod validate;
/// The bodies of the writes; pure.
pub mod build;
/// Sends the writes.
pub mod apply;
/// When the charge may be lowered; pure.
pub mod confirm;
/// Computes the status (pure) and writes it.
pub mod status;
/// Problems that an operator has to look at; pure.
pub mod problem;
/// Events and metrics for what a pass has done.
pub mod report;
/// Deletes the namespace in the cluster.
pub mod removal;
/// Finalizes a namespace that is being deleted.
pub mod cleanup;

use crate::context::Context;
use crate::controller::{Controller, MemberNamespaceChange};
use crate::error::{CallFailure, Error};
use crate::kinds::{ChangeSource, ProjectKey, ViewChange, revision};
use crate::member::recount::UsageRecount;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::member_cluster::enqueue_cluster;
use crate::members::Lookup;
use crate::outcome::PassOutcome;
use crate::project::enqueue::enqueue_project;
use crate::queue::Lane;
use crate::seal::{Origin, Sealed};
use crate::shares::Term;
use crate::tenant::enqueue_tenant;
use access::AccessTarget;
use access_state::AccessState;
use apply::{AppliedObjects, ApplyOutcome};
use business_types::condition::reason;
use business_types::{ClusterNamespaceRecord, NamespacePhase, NamespaceSpec, Provenance};
use enqueue::{enqueue_namespace, enqueue_templates_of};
use kind::{BusinessNamespace, NamespaceView};
use meta::quantity::ResourceList;
use pauses::{RECHECK, SOON};
use removal::{DeletionRefusal, Removal};
use std::time::Duration;
use target::{ObservedState, Target, TargetError, still_owns_place};
use template::pull_secret::{self, PullSecretResult};
use template::state::{TemplateFailure, TemplateState};
use template::{LabelsResult, TemplateSelection};
use validate::WantedNamespace;
use verdict::{
    Enforcement, MarkCause, NamespaceRefusal, NamespaceState, NamespaceStep, NamespaceVerdict, PlaceOwner,
    Plan, Provisioned, StatusInput, record_of,
};

/// How often a pass starts again after the member cluster was changed under it.
const ATTEMPTS_MAX: usize = 4;
/// How far the admission of a member cluster may lag behind its API.
const ADMISSION_LAG: Duration = Duration::from_millis(200);
/// How often to check whether the audit holds an excess.
const EXCESS_RECHECK: Duration = Duration::from_secs(5);
/// An object that is older than this when it is first seen was restored from a backup. Somebody may have written for it
/// before.
const NEW_OBJECT_SECONDS: i64 = 300;
/// How long calls to a cluster that is reachable may remain without an answer before the status says so, in seconds.
const UNANSWERED_SECONDS: i64 = 30;

impl Controller for BusinessNamespace {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        remember_new_object(cx, change);
        if let Some(new) = new {
            enqueue_namespace(cx, new, Lane::Urgent, Duration::ZERO);
        }
        let charge = |view: &NamespaceView| (view.uid.clone(), view.status.cached_spec_hard.clone());
        if old.map(charge) != new.map(charge)
            && let Some(view) = new.or(old)
        {
            enqueue_project(cx, &view.key.project, Lane::Later);
        }
        enqueue_templates_of(cx, old, new);
        if let (Some(view), None) | (None, Some(view)) = (old, new) {
            enqueue_tenant(cx, &view.spec.tenant_id, Lane::Later);
        }
        let use_of = |view: &NamespaceView| view.status.used.clone();
        if old.map(use_of) != new.map(use_of)
            && let Some(view) = new.or(old)
        {
            enqueue_cluster(cx, &view.spec.cluster_name, Lane::Later);
        }
    }

    async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<PassOutcome, Error> {
        reconcile(cx, key).await
    }

    fn resync(cx: &Context) {
        for object in cx.objects.namespaces.all() {
            enqueue_namespace(cx, &object, Lane::Later, Duration::ZERO);
        }
    }

    /// Namespaces that somebody waits for come first.
    fn cluster_changed(cx: &Context, cluster: &str) {
        for object in cx.objects.namespaces.in_cluster(cluster) {
            let lane = if is_settled(&object) { Lane::Later } else { Lane::Urgent };
            enqueue_namespace(cx, &object, lane, Duration::ZERO);
        }
    }

    fn member_namespace_changed(cx: &Context, place: &MemberNamespaceChange<'_>) {
        if let Some(object) = cx.objects.namespaces.at_place(place.cluster, place.namespace) {
            enqueue_namespace(cx, &object, place.lane, place.delay);
        }
    }
}

/// Whether nobody waits for the namespace: it is Available, and its status is of the current generation.
fn is_settled(object: &NamespaceView) -> bool {
    let status = &object.status;
    let is_seen = status.observed_generation == Some(object.generation);
    status.phase == NamespacePhase::Available && is_seen && !object.is_deleting()
}

/// Remembers a new object, for which nothing can have been created yet. This is known only while this process holds the
/// share of its cluster and nobody else can have written for the object.
fn remember_new_object(cx: &Context, change: &ViewChange<BusinessNamespace>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let Some(gone) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
        cx.objects.namespaces.memory.forget(&gone.uid);
    }
    let age = |new: &NamespaceView| cx.clock.unix_seconds().saturating_sub(new.created);
    let is_new = |new: &&NamespaceView| {
        change.source == ChangeSource::WatchEvent
            && old.is_none_or(|old| old.uid != new.uid)
            && age(new) < NEW_OBJECT_SECONDS
            && new.status.cluster_namespace.is_none()
            // In its former project, a write may have been tried for it.
            && !new.was_transferred()
    };
    if let Some(new) = new.filter(is_new)
        && let Some(term) = sole_writers_term(cx, new)
    {
        cx.objects.namespaces.memory.never_created.remember(&new.uid, term);
    }
}

/// The current term of the share of the object's cluster, if this process holds it and nobody else can have written for
/// the object.
fn sole_writers_term(cx: &Context, new: &NamespaceView) -> Option<Term> {
    let term = cx.term_of(&new.spec.cluster_name)?;
    let Lookup::Found(member) = cx.member(&new.spec.cluster_name) else { return None };
    let is_sole = member.term == term.number && member.is_sole_writer_for(revision(&new.resource_version));
    is_sole.then_some(term)
}

async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<PassOutcome, Error> {
    let Some(object) = cx.objects.namespaces.get(key) else { return Ok(PassOutcome::Skipped) };
    // A namespace that was moved has two keys. A pass over its former key may still be running.
    let Some(_guard) = cx.objects.namespaces.memory.running.try_start(&object.uid) else {
        return Ok(PassOutcome::NotBegun(SOON));
    };
    let reached = match target::resolve(cx, &object).await {
        Ok(reached) => reached,
        Err(TargetError::NotReady) => return Ok(PassOutcome::Waiting),
        Err(TargetError::CacheBehind | TargetError::ProjectNotFound) => {
            return Ok(PassOutcome::NotBegun(SOON));
        }
        Err(TargetError::Failed(error)) => return Err(error),
        Err(TargetError::Unavailable(state)) => return report_unavailable(cx, &object, state).await,
    };
    // Access comes first: whatever else is wrong, people who have no role any more must lose access.
    let access = access::reconcile(AccessTarget { cx, object: &object, reached: &reached }).await?;
    let result = match Target::of(cx, &reached, &object.spec.namespace) {
        None => Ok(PassOutcome::Waiting),
        Some(target) if object.is_deleting() => cleanup::run(cx, &object, &target).await,
        Some(target) => converge(cx, &object, &target, access.clone()).await,
    };
    if let Err(Error::Member(CallFailure::Unavailable(why))) = &result {
        reached.member.probe_request.notify_one();
        report_unanswered(cx, &object, why).await;
    }
    match result {
        // Access is retried soon, whatever else the pass waits for.
        Ok(
            PassOutcome::Applied | PassOutcome::Unchanged | PassOutcome::Waiting | PassOutcome::WaitingFor(_),
        ) if access.should_retry() => Ok(PassOutcome::Refused),
        result => result,
    }
}

/// The cluster does not answer, or is not known: reports this once, and tries nothing.
async fn report_unavailable(
    cx: &Context,
    object: &NamespaceView,
    state: NamespaceState,
) -> Result<PassOutcome, Error> {
    if object.is_deleting() && cleanup::is_abandoned(object) {
        return cleanup::abandon(cx, object).await;
    }
    let written = status::write(cx, object, &state.clone().into()).await?;
    if written.is_some() {
        report::unreachable(cx, object, &state);
    }
    Ok(PassOutcome::Waiting)
}

/// The cluster is reachable, and does not answer a call: a webhook there may hang. If somebody has waited long for that
/// call, the status says so.
async fn report_unanswered(cx: &Context, object: &NamespaceView, why: &str) {
    let since = match object.deleting_since {
        None if object.status.phase == NamespacePhase::Pending => object.created,
        None => return,
        Some(since) => since,
    };
    if cx.clock.unix_seconds().saturating_sub(since) < UNANSWERED_SECONDS {
        return;
    }
    let message = format!("cluster {} does not answer: {why}", object.spec.cluster_name);
    let reason = reason::REFUSED;
    let state = if object.is_deleting() {
        NamespaceState::Deleting { reason, message }
    } else {
        NamespaceState::Refused { reason, message }
    };
    if let Err(error) = status::write(cx, object, &state.into()).await {
        tracing::debug!(error = error.text(), "it cannot be shown that a cluster does not answer");
    }
}

/// Brings the member cluster to what the spec asks for, and the status to what there is.
async fn converge(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    access: AccessState,
) -> Result<PassOutcome, Error> {
    let (project_uid, forbidden) = (&target.project.uid, &cx.forbidden);
    let selection = TemplateSelection::of(cx, object, target);
    let template_metadata = selection.template_metadata();
    let wanted = WantedNamespace { object, project_uid, is_newest: false, forbidden, template_metadata };
    let mut attempt = Attempt::new(wanted);
    let mut found = target.observe(cx, object).await?;
    for _ in 0..ATTEMPTS_MAX {
        match attempt.verdict(&found) {
            NamespaceVerdict::Wait(input) => {
                return wait(cx, object, &StatusInput { access, ..input }).await;
            }
            NamespaceVerdict::Refuse(refusal) => return refuse(cx, object, refusal, access).await,
            NamespaceVerdict::Recheck => {
                if is_behind_api(cx, object).await? {
                    return Ok(PassOutcome::WaitingFor(SOON));
                }
                attempt.wanted.is_newest = true;
                found = target.observe_live(cx, object).await?;
            }
            NamespaceVerdict::Ahead { message } => return report_ahead(cx, object, message).await,
            NamespaceVerdict::Adopt { uid } => {
                return put_on_record(cx, object, uid, Provenance::Adopted).await;
            }
            NamespaceVerdict::TakeOver { uid, provenance } => {
                return put_on_record(cx, object, uid, provenance).await;
            }
            // The object may have been moved to another project since the pass began. Passes over its new key write the
            // marks.
            NamespaceVerdict::Proceed(_) | NamespaceVerdict::DeleteReplaced { .. }
                if !still_owns_place(cx, object) =>
            {
                return Ok(PassOutcome::Skipped);
            }
            NamespaceVerdict::DeleteReplaced { there } => {
                attempt.deletion_refusal = delete_replaced(cx, object, target, &there).await?;
                if attempt.deletion_refusal.is_none() {
                    return Ok(PassOutcome::WaitingFor(SOON));
                }
            }
            NamespaceVerdict::Proceed(plan) => {
                let repair_backoff = &cx.objects.namespaces.memory.repair_backoff;
                let only_repairs = plan.only_repairs(selection.was_applied(cx, object));
                if only_repairs && let Some(wait) = repair_backoff.wait(&object.uid) {
                    return Ok(PassOutcome::WaitingFor(wait));
                }
                match apply::apply(cx, target, object, &plan, attempt.wanted.template_metadata).await {
                    Ok(ApplyOutcome::Moved) => return Ok(PassOutcome::Skipped),
                    Ok(ApplyOutcome::Recreated { uid }) => {
                        return record_recreated(cx, object, &plan, uid).await;
                    }
                    Ok(ApplyOutcome::Applied(applied)) => {
                        if only_repairs {
                            repair_backoff.record(&object.uid);
                        }
                        let Attempt { labels, deletion_refusal, .. } = attempt;
                        let prior = PriorResults { plan: &plan, access, selection, labels, deletion_refusal };
                        return finish(cx, object, target, applied, prior).await;
                    }
                    Err(error) => match attempt.handle_failure(cx, target, &plan, error).await? {
                        Ok(now) => found = now,
                        Err(why) => return refuse(cx, object, why, access).await,
                    },
                }
            }
        }
    }
    match attempt.last_refusal {
        Some(why) => refuse(cx, object, why, access).await,
        None => Err(Error::Unsettled),
    }
}

/// The cluster enforces more than the object is charged; the audit holds the difference. An audit is requested only
/// when this is new. If that audit cannot report it, the next periodic one does.
async fn report_ahead(cx: &Context, object: &NamespaceView, message: String) -> Result<PassOutcome, Error> {
    if status::write(cx, object, &NamespaceState::Ahead { message }.into()).await?.is_some() {
        cx.audit_wanted.notify_one();
    }
    Ok(PassOutcome::WaitingFor(EXCESS_RECHECK))
}

/// What a pass wants, and what has gone wrong in it so far.
struct Attempt<'a> {
    wanted: WantedNamespace<'a>,
    labels: LabelsResult,
    /// Why the cluster has just refused our marks.
    last_refusal: Option<NamespaceRefusal>,
    /// Why the cluster did not delete the namespace that replaced ours.
    deletion_refusal: Option<String>,
}

impl<'a> Attempt<'a> {
    fn new(wanted: WantedNamespace<'a>) -> Self {
        Self { wanted, labels: LabelsResult::default(), last_refusal: None, deletion_refusal: None }
    }

    fn verdict(&self, found: &ObservedState) -> NamespaceVerdict {
        match validate::validate(self.wanted, found) {
            // The cluster did not delete it, so it gets our quota.
            NamespaceVerdict::DeleteReplaced { there } if self.deletion_refusal.is_some() => {
                validate::plan_update(self.wanted, found, &there, Origin::Replaced)
            }
            verdict => verdict,
        }
    }

    /// Handles a failed write: returns what is in the cluster now, or why the namespace is refused.
    async fn handle_failure(
        &mut self,
        cx: &Context,
        target: &Target,
        plan: &Plan,
        error: Error,
    ) -> Result<Result<ObservedState, NamespaceRefusal>, Error> {
        let said = match error {
            Error::Member(CallFailure::Refused { code, message }) => Some((code, message)),
            Error::Member(CallFailure::Conflict(_) | CallFailure::Exists | CallFailure::NotFound) => None,
            error => return Err(error),
        };
        self.last_refusal = None;
        let found = target.observe_live(cx, self.wanted.object).await?;
        let Some((code, message)) = said else { return Ok(Ok(found)) };
        match (RefusedWrite { wanted: self.wanted, plan, code, message }).action(target, &found) {
            RefusalAction::RetryNow => {}
            RefusalAction::RetryLater(why) => {
                self.last_refusal = Some(why);
                tokio::time::sleep(ADMISSION_LAG).await;
            }
            RefusalAction::SkipTemplateMetadata(why) => {
                self.labels.refused = Some(why);
                self.wanted.template_metadata = None;
            }
            RefusalAction::Refuse(why) => return Ok(Err(why)),
        }
        Ok(Ok(found))
    }
}

/// A write that the cluster has refused.
struct RefusedWrite<'a> {
    wanted: WantedNamespace<'a>,
    plan: &'a Plan,
    code: u16,
    message: String,
}

/// What to do after the cluster has refused a write.
enum RefusalAction {
    /// The cluster has changed meanwhile.
    RetryNow,
    /// The cluster's admission may not have seen yet that the namespace is marked. If the retries fail, too, this is
    /// the refusal to show.
    RetryLater(NamespaceRefusal),
    /// Continue without labels and annotations: if the cluster refuses them, the namespace still gets its quota.
    SkipTemplateMetadata(TemplateFailure),
    Refuse(NamespaceRefusal),
}

impl RefusedWrite<'_> {
    /// Decides by what is in the cluster after the refusal.
    fn action(self, target: &Target, found: &ObservedState) -> RefusalAction {
        let Self { wanted, plan, code, message } = self;
        let (there, cluster) = (found.namespace.as_ref(), &target.member.name);
        if there.is_some_and(|there| there.deleting) {
            return RefusalAction::RetryNow;
        }
        let has_old_metadata = |there: &ClusterNamespace| {
            wanted
                .template_metadata
                .is_some_and(|template_metadata| there.template_metadata != *template_metadata)
        };
        let refusal = || NamespaceRefusal {
            record: on_record(wanted.object, found),
            ..NamespaceRefusal::by_cluster(cluster, code, &message)
        };
        match plan.namespace {
            NamespaceStep::Mark { .. } if there.is_some_and(|there| has_old_metadata(there)) => {
                let what = format!("cluster {cluster}: labels and annotations");
                RefusalAction::SkipTemplateMetadata(TemplateFailure::refused(&what, code, &message))
            }
            NamespaceStep::Mark { .. } => RefusalAction::RetryLater(refusal()),
            NamespaceStep::Keep { .. } | NamespaceStep::Create => RefusalAction::Refuse(refusal()),
        }
    }
}

/// Deletes the namespace that replaced ours. Returns why the cluster refused the deletion, if it did.
async fn delete_replaced(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    there: &ClusterNamespace,
) -> Result<Option<String>, Error> {
    let origin = Origin::Replaced;
    match removal::remove(object, target, there, origin).await {
        Ok(Removal::Begun) => report::replaced_deleted(cx, object),
        // The next pass sees what is there.
        Ok(Removal::Outdated) => {}
        Err(Error::Member(CallFailure::Refused { code, message })) => {
            let (cluster, message) = (&*target.member.name, &*message);
            return Ok(Some(DeletionRefusal { cluster, there, origin, code, message }.text()));
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

async fn put_on_record(
    cx: &Context,
    object: &NamespaceView,
    uid: String,
    provenance: Provenance,
) -> Result<PassOutcome, Error> {
    status::record(cx, object, &ClusterNamespaceRecord { uid, provenance }).await?;
    Ok(PassOutcome::WaitingFor(Duration::ZERO))
}

/// A namespace was recreated while another uid is on record. The new uid goes on record before anything else that can
/// fail.
async fn record_recreated(
    cx: &Context,
    object: &NamespaceView,
    plan: &Plan,
    uid: String,
) -> Result<PassOutcome, Error> {
    report::done(cx, object, plan);
    let NamespaceSpec { cluster_name, namespace, .. } = &object.spec;
    // The object may have been moved to another project since the pass began.
    let now = cx.objects.namespaces.at_place(cluster_name, namespace).filter(|now| now.uid == object.uid);
    put_on_record(cx, now.as_deref().unwrap_or(object), uid, Provenance::Made).await
}

/// The record of the observed namespace, if it is the object's.
fn on_record(object: &NamespaceView, found: &ObservedState) -> Option<ClusterNamespaceRecord> {
    let there = found.namespace.as_ref()?;
    match validate::place_owner(object, there, found) {
        PlaceOwner::Ours(origin) => record_of(&there.uid, origin),
        PlaceOwner::Replaced | PlaceOwner::Foreign | PlaceOwner::Unclear => None,
    }
}

async fn wait(cx: &Context, object: &NamespaceView, input: &StatusInput) -> Result<PassOutcome, Error> {
    if status::write(cx, object, input).await?.is_some() {
        report::terminating(cx, object, &input.state);
    }
    Ok(PassOutcome::WaitingFor(RECHECK))
}

/// Whether the API has a newer object than the one that this pass decides from: another generation, or another record.
async fn is_behind_api(cx: &Context, object: &NamespaceView) -> Result<bool, Error> {
    let newest = cx.business.get::<BusinessNamespace>(&object.key).await?;
    let decides =
        |view: &NamespaceView| (view.uid.clone(), view.generation, view.status.cluster_namespace.clone());
    Ok(newest.is_none_or(|newest| decides(&newest) != decides(object)))
}

/// Results of the steps before the write of the namespace, for the steps after it.
struct PriorResults<'a> {
    plan: &'a Plan,
    access: AccessState,
    selection: TemplateSelection,
    labels: LabelsResult,
    /// Why the cluster did not delete the namespace that replaced ours.
    deletion_refusal: Option<String>,
}

/// The state of what is in a namespace beside its quota.
struct ContentsResult {
    access: AccessState,
    template: TemplateState,
    pull: PullSecretResult,
}

/// Reconciles the template's objects, then the `RoleBindings`, then the pull secret.
async fn reconcile_contents(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    prior: PriorResults<'_>,
) -> Result<ContentsResult, Error> {
    let PriorResults { access, selection, labels, plan: _, deletion_refusal: _ } = prior;
    let template = template::reconcile(cx, object, target, &selection, labels).await?;
    let access = match access {
        AccessState::Unknown | AccessState::Pending => {
            access::ensure_bindings(AccessTarget { cx, object, reached: &target.reached() }, true).await?
        }
        known => known,
    };
    let mut pull = pull_secret::reconcile(cx, object, target, selection.pull_secret()).await?;
    let template = template.with_pull_secret(std::mem::take(&mut pull.problem), object);
    Ok(ContentsResult { access, template, pull })
}

/// How far the quota's usage can be relied on.
fn counted(
    object: &NamespaceView,
    target: &Target,
    quota: &ClusterQuota,
    sealed: Option<&Sealed>,
) -> UsageRecount {
    let (observed, namespace) = (&target.member.observed, &object.spec.namespace);
    let counted = observed.usage_recount(namespace, quota);
    match confirm::time_to_recount(object, quota, sealed, &counted) {
        Some(_) => observed.usage_recount_awaited(namespace, quota),
        None => counted,
    }
}

/// What the quota in the cluster means for the charge of the object.
struct QuotaConfirmation {
    /// The lower charge that can be confirmed.
    charge: Option<ResourceList>,
    /// How long the charge stays higher only because the cluster has not counted usage again.
    recount: Option<Duration>,
    enforced: Enforcement,
}

impl QuotaConfirmation {
    /// The charge for a namespace that replaced ours stays as it is.
    fn of(object: &NamespaceView, target: &Target, origin: Origin, applied: &AppliedObjects) -> Self {
        let AppliedObjects { namespace_uid, quota } = applied;
        let seal = quota.marks.seal.as_deref();
        let sealed = seal.and_then(|seal| target.open(&object.spec.namespace, namespace_uid, seal));
        let sealed = sealed.map(|opened| opened.sealed).filter(|sealed| sealed.namespace_uid.is_some());
        let sealed = sealed.as_ref();
        let counted = counted(object, target, quota, sealed);
        let (charge, recount) = if origin == Origin::Replaced {
            (None, None)
        } else {
            let charge = confirm::charge(object, quota, sealed, &counted);
            (charge, confirm::time_to_recount(object, quota, sealed, &counted))
        };
        let enforced = match recount {
            Some(_) => Enforcement::AwaitingRecount,
            None if confirm::is_enforced(object, quota, sealed) => Enforcement::Enforced,
            None => Enforcement::Pending,
        };
        Self { charge, recount, enforced }
    }
}

/// Writes the status of a provisioned namespace, and confirms a lower charge where possible.
async fn finish(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    applied: AppliedObjects,
    mut prior: PriorResults<'_>,
) -> Result<PassOutcome, Error> {
    let plan = prior.plan;
    report::done(cx, object, plan);
    prior.labels.written = matches!(plan.namespace, NamespaceStep::Mark { cause: MarkCause::Template, .. });
    let is_replaced = plan.origin == Origin::Replaced;
    let QuotaConfirmation { charge, recount, enforced } =
        QuotaConfirmation::of(object, target, plan.origin, &applied);
    let AppliedObjects { namespace_uid, quota } = applied;
    let record = record_of(&namespace_uid, plan.origin);
    let confirms = charge.is_some() || object.is_being_transferred();
    let wait = target.writes_ended.err().filter(|_| confirms);
    let charge = charge.filter(|_| wait.is_none());
    let deletion_refusal = prior.deletion_refusal.take().filter(|_| is_replaced);
    let ContentsResult { access, template, pull } = if is_replaced {
        ContentsResult {
            access: prior.access,
            template: TemplateState::Unknown,
            pull: PullSecretResult::default(),
        }
    } else {
        reconcile_contents(cx, object, target, prior).await?
    };
    let object = pull.issued_for.as_ref().unwrap_or(object);
    let retry =
        deletion_refusal.is_some() || !is_replaced && (access.should_retry() || template.should_retry());
    let others = target.member.observed.other_access_at(&object.spec.namespace, &object.uid);
    let (marked, revokes_pull) = (wait.is_none(), pull.revokes);
    let provisioned = Provisioned { quota, enforced, charge, marked, others, template, revokes_pull };
    let state = if is_replaced {
        let message = report::replaced(object, &namespace_uid, deletion_refusal.as_deref());
        NamespaceState::Replaced { message, quota: provisioned }
    } else {
        NamespaceState::Provisioned(provisioned)
    };
    let written = status::write(cx, object, &StatusInput { state, record, access }).await?;
    let wrote = written.is_some();
    if wrote && is_replaced {
        report::is_replaced(cx, object, &namespace_uid, deletion_refusal.as_deref());
    }
    if object.is_being_transferred() && written.is_some_and(|now| !now.is_being_transferred()) {
        report::transferred(cx, object);
    }
    Ok(match wait.into_iter().chain(recount).min() {
        _ if retry => PassOutcome::Refused,
        Some(wait) => PassOutcome::WaitingFor(wait),
        None if wrote || !plan.is_empty() => PassOutcome::Applied,
        None => PassOutcome::Unchanged,
    })
}

/// Shows in the status why the namespace is refused. The queue retries with a growing backoff.
async fn refuse(
    cx: &Context,
    object: &NamespaceView,
    refusal: NamespaceRefusal,
    access: AccessState,
) -> Result<PassOutcome, Error> {
    let NamespaceRefusal { reason, message, record } = refusal;
    let state = NamespaceState::Refused { reason, message: message.clone() };
    let input = StatusInput { state, record, access };
    if status::write(cx, object, &input).await?.is_some() {
        report::failed(cx, object, message);
    }
    Ok(PassOutcome::Refused)
}
