//! The end of a namespace: deletes the cluster's namespace if we have made it, waits until it is gone, confirms that
//! nothing is charged any more, and finalizes the object.

use super::access;
use super::apply::{self, AppliedObjects, ApplyOutcome};
use super::kind::NamespaceView;
use super::pauses::{RECHECK, SOON};
use super::removal::{self, DeletionRefusal, Removal};
use super::report::{DELETION_REFUSED, place};
use super::status;
use super::target::{ObservedState, Target};
use super::template;
use super::template::state::Withdrawal;
use super::validate::{self, WantedNamespace};
use super::verdict::{
    MarkCause, NamespaceRefusal, NamespaceState, NamespaceStep, NamespaceVerdict, PlaceOwner, StatusInput,
    record_of,
};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::without_finalizer;
use crate::member::ClusterNamespace;
use crate::member::template_metadata::TemplateMetadata;
use crate::outcome::PassOutcome;
use crate::seal::Origin;
use business_types::condition::reason;
use business_types::names;
use std::sync::Arc;
use std::time::Duration;

/// A deletion that takes longer is shown in the status, with what the cluster says is holding it up.
const OVERDUE_AFTER: Duration = Duration::from_secs(OVERDUE_SECONDS.unsigned_abs());
const OVERDUE_SECONDS: i64 = 30;

const BLOCKED: Topic = Topic::warning("DeletionBlocked", "Delete");
const RELEASED: Topic = Topic::normal("Released", "Delete");
const DELETED: Topic = Topic::normal("Deleted", "Delete");
const ABANDONED: Topic = Topic::warning("Abandoned", "Delete");

/// What to do with what is left in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanupStep {
    /// Delete exactly this namespace. `origin` says how it came to be there.
    Delete { there: Arc<ClusterNamespace>, origin: Origin },
    /// It is being deleted: wait.
    Wait { remaining: Vec<String> },
    /// It existed before us and stays. The charge is held until the namespace is unused.
    Release,
    /// A namespace that may not be deleted keeps the charge: an operator has to decide.
    Blocked { reason: &'static str, message: String },
    /// Nothing of ours is there.
    Gone,
}

/// Why an adopted namespace was not released.
#[derive(Debug)]
enum ReleaseError {
    /// A write is under way, or something was not listed yet: retry after this time.
    RetryAfter {
        wait: Duration,
        message: String,
    },
    /// The cluster refuses, or somebody has to do something first.
    Refused {
        reason: &'static str,
        message: String,
    },
    Failed(Error),
}

impl ReleaseError {
    /// Whether the cluster is the cause. That may last for ever.
    fn is_caused_by_cluster(&self) -> bool {
        match self {
            Self::RetryAfter { .. } | Self::Refused { .. } => true,
            Self::Failed(error) => matches!(error, Error::Member(_)),
        }
    }
}

impl From<Error> for ReleaseError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Decides what to do with what is left in the cluster.
pub fn decide(object: &NamespaceView, found: &ObservedState) -> CleanupStep {
    let Some(there) = &found.namespace else { return CleanupStep::Gone };
    let owner = validate::place_owner(object, there, found);
    match owner {
        PlaceOwner::Foreign => CleanupStep::Gone,
        _ if there.deleting => CleanupStep::Wait { remaining: there.remaining.clone() },
        PlaceOwner::Ours(Origin::Made) => {
            CleanupStep::Delete { there: Arc::clone(there), origin: Origin::Made }
        }
        PlaceOwner::Ours(_) => CleanupStep::Release,
        PlaceOwner::Replaced | PlaceOwner::Unclear if validate::may_be_deleted(object, &there.uid) => {
            CleanupStep::Delete { there: Arc::clone(there), origin: Origin::Replaced }
        }
        PlaceOwner::Replaced => {
            let what = "is not the one that was made for this object: somebody has made another";
            CleanupStep::Blocked {
                reason: reason::REPLACED,
                message: blocked_message(object, &there.uid, what),
            }
        }
        PlaceOwner::Unclear => {
            let what = "may have been made for this object: a write whose answer was lost";
            CleanupStep::Blocked {
                reason: reason::UNCLEAR,
                message: blocked_message(object, &there.uid, what),
            }
        }
    }
}

/// The message about a namespace that may not be deleted.
fn blocked_message(object: &NamespaceView, uid: &str, what: &str) -> String {
    format!(
        "{} (uid {uid}) {what}. What is charged stays so until it is gone; an operator may have it deleted with \
         {}={uid}, or give the charge up with {}",
        place(object),
        names::DELETE_REPLACED_ANNOTATION,
        names::ABANDON_ANNOTATION,
    )
}

/// One pass over a namespace that is being deleted.
pub async fn run(cx: &Context, object: &NamespaceView, target: &Target) -> Result<PassOutcome, Error> {
    if without_finalizer(&object.spec.finalizers, names::NAMESPACE_FINALIZER).is_none() {
        return Ok(PassOutcome::Skipped);
    }
    if is_confirmed(object) || is_released(object) {
        return finalize(cx, object).await;
    }
    // While the namespace is there, the watch saves a read. The cluster itself is asked whether it is gone, and also
    // when the deletion is overdue, or when a delete call did not find it: the watch may be behind.
    let seen = target.observe_cached(cx, object);
    if seen.namespace.is_some() {
        match decide(object, &seen) {
            CleanupStep::Delete { there, origin } => {
                if let Some(outcome) = delete(cx, object, target, &there, origin).await? {
                    return Ok(outcome);
                }
            }
            CleanupStep::Wait { remaining } if !is_overdue(cx, object) => {
                return wait(cx, object, target, &remaining).await;
            }
            CleanupStep::Wait { .. }
            | CleanupStep::Release
            | CleanupStep::Blocked { .. }
            | CleanupStep::Gone => {}
        }
    }
    let found = target.observe_live(cx, object).await?;
    match decide(object, &found) {
        CleanupStep::Delete { there, origin } => {
            let outcome = delete(cx, object, target, &there, origin).await?;
            Ok(outcome.unwrap_or(PassOutcome::WaitingFor(SOON)))
        }
        CleanupStep::Wait { remaining } => wait(cx, object, target, &remaining).await,
        CleanupStep::Release => match release(cx, object, target, found).await {
            Ok(outcome) => Ok(outcome),
            Err(error) if error.is_caused_by_cluster() && is_abandoned(object) => {
                abandon_in_cluster(cx, object, target).await
            }
            Err(error) => handle_release_error(cx, object, error).await,
        },
        CleanupStep::Blocked { .. } if is_abandoned(object) => abandon_in_cluster(cx, object, target).await,
        CleanupStep::Blocked { reason, message } => {
            let state = NamespaceState::Deleting { reason, message: message.clone() };
            if status::write(cx, object, &state.into()).await?.is_some() {
                cx.events.report(object, BLOCKED, message);
            }
            Ok(PassOutcome::Refused)
        }
        // This was observed after every write that may have been under way had ended; otherwise it is observed again
        // then.
        CleanupStep::Gone => {
            if let Err(wait) = target.writes_ended {
                return wait_for_writes(cx, object, wait).await;
            }
            // Another cluster behind the same address does not have the namespace either.
            target.member.verify_identity().await.map_err(Error::Member)?;
            let written = status::write(cx, object, &NamespaceState::Gone.into()).await?;
            finalize(cx, written.as_ref().unwrap_or(object)).await
        }
    }
}

/// Whether the charge is {} because we have confirmed it, and not because nothing was ever asked for.
fn is_confirmed(object: &NamespaceView) -> bool {
    let charged = object.status.cached_spec_hard.as_ref();
    let conditions = &object.status.conditions;
    charged.is_some_and(meta::quantity::ResourceList::is_empty)
        && business_types::condition::find(conditions, business_types::condition::PROVISIONED)
            .is_some_and(|condition| condition.reason == reason::DELETING)
}

/// Whether the object was released: the server holds its charge when the object goes.
fn is_released(object: &NamespaceView) -> bool {
    let record = object.status.cluster_namespace.as_ref();
    record.is_some_and(|record| record.provenance == business_types::Provenance::Released)
}

/// Deletes the namespace. `None` if what is there has changed since it was observed.
async fn delete(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    there: &ClusterNamespace,
    origin: Origin,
) -> Result<Option<PassOutcome>, Error> {
    match removal::remove(object, target, there, origin).await {
        Ok(Removal::Begun) => Ok(Some(PassOutcome::WaitingFor(OVERDUE_AFTER))),
        Ok(Removal::Outdated) => Ok(None),
        // If an admission webhook is dead, the cluster neither refuses the deletion nor carries it out.
        Err(Error::Member(_)) if is_abandoned(object) => {
            abandon_in_cluster(cx, object, target).await.map(Some)
        }
        Err(Error::Member(CallFailure::Refused { code, message })) => {
            let (cluster, message) = (&*target.member.name, &*message);
            let message = DeletionRefusal { cluster, there, origin, code, message }.text();
            let state = NamespaceState::Deleting { reason: reason::REFUSED, message: message.clone() };
            if status::write(cx, object, &state.into()).await?.is_some() {
                cx.events.report(object, DELETION_REFUSED, message);
            }
            Ok(Some(PassOutcome::Refused))
        }
        Err(error) => Err(error),
    }
}

/// Whether the deletion takes longer than it should.
fn is_overdue(cx: &Context, object: &NamespaceView) -> bool {
    object.has_been_going(OVERDUE_SECONDS, cx.clock.unix_seconds())
}

async fn wait(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    remaining: &[String],
) -> Result<PassOutcome, Error> {
    if is_abandoned(object) {
        return abandon_in_cluster(cx, object, target).await;
    }
    let mut message = format!("{} is not gone yet", place(object));
    if !remaining.is_empty() {
        message.push_str(": ");
        message.push_str(&remaining.join("; "));
    } else if !is_overdue(cx, object) {
        return Ok(PassOutcome::WaitingFor(OVERDUE_AFTER));
    }
    let state = NamespaceState::Deleting { reason: reason::CONTENT_REMAINING, message };
    status::write(cx, object, &state.into()).await?;
    Ok(PassOutcome::WaitingFor(RECHECK))
}

/// The namespace is gone, but a write that is under way may bring it back.
async fn wait_for_writes(cx: &Context, object: &NamespaceView, wait: Duration) -> Result<PassOutcome, Error> {
    if is_overdue(cx, object) {
        let message =
            format!("{} is gone; a write to it that may still be under way has to end first", place(object));
        let state = NamespaceState::Deleting { reason: reason::DELETING, message };
        status::write(cx, object, &state.into()).await?;
    }
    Ok(PassOutcome::WaitingFor(wait))
}

/// Releases an adopted namespace: leaves it in the cluster with our quota, and says in its seal that it is released.
/// Then the object can go: the same write turns its charge into a hold.
async fn release(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
    found: ObservedState,
) -> Result<PassOutcome, ReleaseError> {
    let Some(there) = found.namespace.clone() else { return Err(Error::Unsettled.into()) };
    // A write that is under way could bring a binding back.
    target.writes_ended.map_err(|wait| {
        let why = "a write to it that may still be under way has to end first";
        ReleaseError::RetryAfter { wait, message: release_message(object, why) }
    })?;
    match withdraw(cx, object, target).await? {
        Withdrawal::Done => {}
        Withdrawal::NotListed(why) => {
            let why = match why {
                Some(why) => format!("the cluster does not list {why}"),
                None => "it is not known yet what of ours is there".to_owned(),
            };
            return Err(ReleaseError::RetryAfter { wait: SOON, message: release_message(object, &why) });
        }
        Withdrawal::Refused(message) => {
            return Err(ReleaseError::Refused { reason: reason::REFUSED, message });
        }
    }
    let project_uid = &target.project.uid;
    let wanted =
        WantedNamespace { object, project_uid, is_newest: true, forbidden: &[], template_metadata: None };
    let namespace = NamespaceStep::Mark { from: Arc::clone(&there), cause: MarkCause::Release };
    let plan = match validate::plan_quota(wanted, &found, namespace, Origin::Released) {
        NamespaceVerdict::Proceed(plan) => plan,
        NamespaceVerdict::Ahead { message } => {
            let state = NamespaceState::Deleting { reason: reason::AHEAD, message };
            if status::write(cx, object, &state.into()).await?.is_some() {
                cx.audit_wanted.notify_one();
            }
            return Ok(PassOutcome::WaitingFor(OVERDUE_AFTER));
        }
        NamespaceVerdict::Refuse(NamespaceRefusal { reason, message, record: _ }) => {
            return Err(ReleaseError::Refused { reason, message });
        }
        NamespaceVerdict::Wait(_)
        | NamespaceVerdict::Recheck
        | NamespaceVerdict::Adopt { .. }
        | NamespaceVerdict::TakeOver { .. }
        | NamespaceVerdict::DeleteReplaced { .. } => return Err(Error::Unsettled.into()),
    };
    let applied = apply::apply(cx, target, object, &plan, Some(&TemplateMetadata::default())).await?;
    let ApplyOutcome::Applied(AppliedObjects { namespace_uid, .. }) = applied else {
        return Ok(PassOutcome::Skipped);
    };
    let message =
        format!("{} was adopted and stays; what is charged is held until it is unused", place(object));
    let state = NamespaceState::Deleting { reason: reason::RELEASED, message: message.clone() };
    let record = record_of(&namespace_uid, Origin::Released);
    let input = StatusInput { record, ..state.into() };
    let written = status::write(cx, object, &input).await?;
    cx.events.report(object, RELEASED, message);
    Ok(finalize(cx, written.as_ref().unwrap_or(object)).await?)
}

/// Why an adopted namespace is not released yet.
fn release_message(object: &NamespaceView, why: &str) -> String {
    format!("{} was adopted and stays, but is not given back yet: {why}", place(object))
}

/// Handles the failed release of a namespace that nobody has abandoned.
async fn handle_release_error(
    cx: &Context,
    object: &NamespaceView,
    error: ReleaseError,
) -> Result<PassOutcome, Error> {
    match error {
        ReleaseError::RetryAfter { wait, message } => {
            if is_overdue(cx, object) {
                let state = NamespaceState::Deleting { reason: reason::DELETING, message };
                status::write(cx, object, &state.into()).await?;
            }
            Ok(PassOutcome::WaitingFor(wait))
        }
        ReleaseError::Refused { reason, message } => {
            status::write(cx, object, &NamespaceState::Deleting { reason, message }.into()).await?;
            Ok(PassOutcome::Refused)
        }
        ReleaseError::Failed(error) => Err(error),
    }
}

/// Removes the bindings and the template's objects.
async fn withdraw(cx: &Context, object: &NamespaceView, target: &Target) -> Result<Withdrawal, Error> {
    let withdrawn = match access::withdraw(&target.member, &object.spec.namespace, None).await {
        Ok(()) => template::withdraw(cx, object, target).await,
        Err(error) => Err(error),
    };
    match withdrawn {
        Err(Error::Member(CallFailure::Refused { code, message })) => {
            let cluster = &target.member.name;
            Ok(Withdrawal::Refused(format!("cluster {cluster} keeps what is ours with {code}: {message}")))
        }
        withdrawn => withdrawn,
    }
}

/// Abandons a namespace that stays in a cluster that answers. Bindings would otherwise give their people access for
/// ever, so they are removed as far as the cluster allows it. A failure does not hold the object up.
async fn abandon_in_cluster(
    cx: &Context,
    object: &NamespaceView,
    target: &Target,
) -> Result<PassOutcome, Error> {
    let (member, namespace) = (&target.member, &object.spec.namespace);
    // The namespace may belong to another object.
    let access = access::withdraw(member, namespace, Some(&object.uid)).await.map_err(|error| error.text());
    let template = match template::withdraw(cx, object, target).await {
        Ok(Withdrawal::Done) => Ok(()),
        Ok(Withdrawal::NotListed(why)) => {
            Err(why.unwrap_or_else(|| "it is not known yet what templates have put there".to_owned()))
        }
        Ok(Withdrawal::Refused(why)) => Err(why),
        Err(error) => Err(error.text()),
    };
    for error in [access, template].into_iter().filter_map(Result::err) {
        tracing::warn!(
            cluster = member.name,
            namespace,
            error,
            "something of ours may stay in an abandoned namespace"
        );
    }
    abandon(cx, object).await
}

async fn finalize(cx: &Context, object: &NamespaceView) -> Result<PassOutcome, Error> {
    cx.fence_of(&object.spec.cluster_name).permit()?;
    let Some(left) = without_finalizer(&object.spec.finalizers, names::NAMESPACE_FINALIZER) else {
        return Ok(PassOutcome::Skipped);
    };
    cx.business.finalize(object, &left).await?;
    let place = place(object);
    let note = if is_confirmed(object) {
        format!("nothing of ours is left in {place}")
    } else {
        format!("what is charged for {place} is held")
    };
    cx.events.report(object, DELETED, note);
    Ok(PassOutcome::Applied)
}

/// Whether an operator has given up what may be left in the cluster.
pub fn is_abandoned(object: &NamespaceView) -> bool {
    object.annotations.get(names::ABANDON_ANNOTATION).is_some_and(|why| !why.is_empty())
}

/// Finalizes an object whose charge was not confirmed as gone: the server keeps counting it as abandoned.
pub async fn abandon(cx: &Context, object: &NamespaceView) -> Result<PassOutcome, Error> {
    let note = format!("{} is abandoned", place(object));
    cx.events.report(object, ABANDONED, note);
    finalize(cx, object).await
}

#[cfg(test)]
mod tests;
