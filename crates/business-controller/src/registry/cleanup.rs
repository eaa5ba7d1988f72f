//! The end of an image namespace or chart group: removes the recorded content, and then frees the name.

use super::backend::{Backend, RegistryPlace, RemovalProgress, WORK_DEADLINE, with_deadline};
use super::content::{HasContent, place};
use super::kind::{Registered, RegisteredView};
use super::status;
use crate::context::Context;
use crate::error::Error;
use crate::events::Topic;
use crate::kinds::without_finalizer;
use crate::objects::RegisteredKind as _;
use crate::outcome::PassOutcome;
use business_types::condition::reason;
use business_types::registry::{RegistryKind, RegistryRecord};
use business_types::{RegistryStatus, names};
use std::time::Duration;

/// The requeue after something was removed.
const RECHECK_SOON: Duration = Duration::from_secs(2);
/// The requeue for what waits for an operator.
const RECHECK: Duration = Duration::from_mins(1);
/// How often a running removal checks whether the object was locked.
const LOCK_PERIOD: Duration = Duration::from_secs(1);

const DELETED: Topic = Topic::normal("Deleted", "Delete");
const ABANDONED: Topic = Topic::warning("Abandoned", "Delete");

/// Why an object is not finalized yet.
struct CleanupWait {
    reason: &'static str,
    message: String,
    retry_after: Duration,
}

impl CleanupWait {
    fn locked() -> Self {
        let message = "an operator has locked it: its content stays until it is unlocked".to_owned();
        Self { reason: reason::LOCKED, message, retry_after: RECHECK }
    }
}

/// The content that is removed with an object.
#[derive(Clone, Copy)]
struct OwnedContent<'a> {
    place: &'a RegistryPlace,
    record: &'a RegistryRecord,
}

/// Removes the recorded content. Finalizes the object when nothing was found after the last possible push.
pub async fn run<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>) -> Result<PassOutcome, Error>
where
    Registered<K>: HasContent,
{
    let Some(tokens) = without_finalizer(&object.spec.finalizers, K::FINALIZER) else {
        return Ok(PassOutcome::Skipped);
    };
    cx.fleet().permit()?;
    if object.annotations.get(names::ABANDON_ANNOTATION).is_some_and(|reason| !reason.is_empty()) {
        cx.business.finalize(object, &tokens).await?;
        cx.events.report(object, ABANDONED, "its content in the registry was given up".to_owned());
        return Ok(PassOutcome::Applied);
    }
    let place = place(object);
    // Determined before the look: that nothing is found counts only if no write can arrive after it.
    let ended = cx.registry.backend.as_deref().map_or(Ok(()), Backend::writes_have_ended);
    let record = recorded(cx, object, &place).await;
    let record = report_failure(cx, object, None, record).await?;
    let mut waits = match (&record, cx.registry.backend.as_deref()) {
        (None, Some(_)) => None,
        (None, None) if !is_unseen_import(object) => None,
        (Some(record), Some(backend)) => {
            let stepped = step(cx, backend, object, OwnedContent { place: &place, record }).await;
            report_failure(cx, object, Some(record), stepped).await?
        }
        (_, None) => Some(CleanupWait {
            reason: reason::NO_REGISTRY,
            message: "the controller has no registry, and cannot tell whether content is left".to_owned(),
            retry_after: RECHECK,
        }),
    };
    if let Err(retry_after) = ended {
        waits.get_or_insert_with(|| CleanupWait {
            reason: reason::DELETING,
            message: "what was sent to the registry before may still arrive there".to_owned(),
            retry_after,
        });
    }
    if let Some(CleanupWait { reason, message, retry_after }) = waits {
        let next = waiting_status(cx, object, record.as_ref(), reason, &message);
        status::write(cx, object, &next).await?;
        return Ok(PassOutcome::WaitingFor(retry_after));
    }
    let mut next = status::deleting_status(object, reason::DELETING, "", &cx.now());
    next.registry = None;
    let written = status::write(cx, object, &next).await?;
    cx.business.finalize(written.as_ref().unwrap_or(object), &tokens).await?;
    cx.events.report(object, DELETED, format!("{} is empty and free", place.prefix()));
    Ok(PassOutcome::Applied)
}

/// Shows failed calls of the registry in the status, and passes the result on.
async fn report_failure<K: RegistryKind, T>(
    cx: &Context,
    object: &RegisteredView<K>,
    record: Option<&RegistryRecord>,
    result: Result<T, Error>,
) -> Result<T, Error>
where
    Registered<K>: HasContent,
{
    if let Err(error @ Error::Registry(_)) = &result {
        let next = waiting_status(cx, object, record, reason::UNREACHABLE, &error.text());
        status::write(cx, object, &next).await?;
    }
    result
}

/// The status of an object that is not finalized yet.
fn waiting_status<K: RegistryKind>(
    cx: &Context,
    object: &RegisteredView<K>,
    record: Option<&RegistryRecord>,
    reason: &str,
    message: &str,
) -> RegistryStatus {
    let mut next = status::deleting_status(object, reason, message, &cx.now());
    if record.is_none() {
        // Otherwise an imported object would seem to have been handled by this controller.
        next.observed_generation = object.status.observed_generation;
    }
    next.registry = record.cloned();
    next
}

/// Whether the object was imported with its status, and no registry was looked at for it yet.
fn is_unseen_import<K: RegistryKind>(object: &RegisteredView<K>) -> bool {
    object.status.registry.is_none() && object.status.observed_generation.is_none()
}

/// One step of the removal; `None` if it is complete.
async fn step<K: RegistryKind>(
    cx: &Context,
    backend: &dyn Backend,
    object: &RegisteredView<K>,
    owned: OwnedContent<'_>,
) -> Result<Option<CleanupWait>, Error>
where
    Registered<K>: HasContent,
{
    let OwnedContent { place, record } = owned;
    if record.backend != backend.backend_type() {
        let message = "its content is in another sort of registry than the controller has".to_owned();
        return Ok(Some(CleanupWait { reason: reason::NO_REGISTRY, message, retry_after: RECHECK }));
    }
    if object.status.is_locked() {
        return Ok(Some(CleanupWait::locked()));
    }
    let now = cx.clock.unix_seconds();
    if let Some(retry_after) = time_left(object, cx.registry.grace, now) {
        let message = "its content is removed when the grace period has passed".to_owned();
        return Ok(Some(CleanupWait { reason: reason::GRACE_PERIOD, message, retry_after }));
    }
    // Only when nothing more can be pushed does it count that nothing was found.
    let late = time_left(object, backend.late_push_window(), now);
    let removal = tokio::time::timeout(WORK_DEADLINE, backend.remove(place, record, late.is_none()));
    let ended = tokio::select! {
        ended = removal => ended,
        () = becomes_locked(cx, object) => return Ok(Some(CleanupWait::locked())),
    };
    let Ok(removed) = ended else {
        let _was_late = Registered::<K>::cache(&cx.objects).memory.record_timeout(&object.key);
        let message = format!("its removal takes longer than {} s, and goes on", WORK_DEADLINE.as_secs());
        return Ok(Some(CleanupWait {
            reason: reason::CONTENT_REMAINING,
            message,
            retry_after: RECHECK_SOON,
        }));
    };
    match (removed?, late) {
        (RemovalProgress::InProgress(what), _) => Ok(Some(CleanupWait {
            reason: reason::CONTENT_REMAINING,
            message: what,
            retry_after: RECHECK_SOON,
        })),
        (RemovalProgress::Done, Some(retry_after)) => {
            let message = "what was allowed before it was deleted may still be pushed".to_owned();
            Ok(Some(CleanupWait { reason: reason::TOKENS_EXPIRE, message, retry_after }))
        }
        (RemovalProgress::Done, None) => Ok(None),
    }
}

/// Waits until an operator locks the object: then the rest of its content stays.
async fn becomes_locked<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>)
where
    Registered<K>: HasContent,
{
    let cache = Registered::<K>::cache(&cx.objects);
    while cache.get(&object.key).is_none_or(|newest| !newest.status.is_locked()) {
        tokio::time::sleep(LOCK_PERIOD).await;
    }
}

async fn recorded<K: RegistryKind>(
    cx: &Context,
    object: &RegisteredView<K>,
    place: &RegistryPlace,
) -> Result<Option<RegistryRecord>, Error> {
    match (&object.status.registry, cx.registry.backend.as_deref()) {
        (Some(record), _) => Ok(Some(record.clone())),
        (None, Some(backend)) => with_deadline(backend.recover(place, is_unseen_import(object))).await,
        (None, None) => Ok(None),
    }
}

/// The rest of a time that began with the object's deletion.
fn time_left<K: RegistryKind>(object: &RegisteredView<K>, time: Duration, now: i64) -> Option<Duration> {
    let passed = now.saturating_sub(object.deleting_since.unwrap_or(now));
    let time = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let left = time.saturating_sub(passed);
    // In whole seconds, like deletionTimestamp.
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_secs)
}
