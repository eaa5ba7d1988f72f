//! The end of an image namespace or chart group: what is on record of it goes, and then its name is free.

use super::backend::{Backend, RegistryPlace, Removal, WORK_MAX, in_time};
use super::content::{OfContent, place};
use super::kind::{Registered, RegisteredView};
use super::status;
use crate::context::Context;
use crate::error::Error;
use crate::events::Topic;
use crate::objects::RegisteredKind as _;
use crate::outcome::PassOutcome;
use business_types::condition::reason;
use business_types::names;
use business_types::registry::{RegistryKind, RegistryRecord};
use std::time::Duration;

/// How soon to look again after something was removed.
const AGAIN: Duration = Duration::from_secs(2);
/// How soon to look again at what waits for an operator.
const RECHECK: Duration = Duration::from_mins(1);
/// How often a removal that is under way looks whether it has been locked.
const LOCK_PERIOD: Duration = Duration::from_secs(1);

const DELETED: Topic = Topic::normal("Deleted", "Delete");
const ABANDONED: Topic = Topic::warning("Abandoned", "Delete");

/// Why an object is still there.
struct Waits {
    reason: &'static str,
    message: String,
    again: Duration,
}

impl Waits {
    fn locked() -> Self {
        let message = "an operator has locked it: its content stays until it is unlocked".to_owned();
        Self { reason: reason::LOCKED, message, again: RECHECK }
    }
}

/// What of the registry goes with an object.
#[derive(Clone, Copy)]
struct Owned<'a> {
    place: &'a RegistryPlace,
    record: &'a RegistryRecord,
}

/// Removes what is on record, and lets the object go when nothing was found after the last push.
pub async fn run<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>) -> Result<PassOutcome, Error>
where
    Registered<K>: OfContent,
{
    let Some(tokens) = RegisteredView::<K>::without(&object.spec.finalizers, K::FINALIZER) else {
        return Ok(PassOutcome::Skipped);
    };
    cx.fleet().permit()?;
    if object.annotations.get(names::ABANDON_ANNOTATION).is_some_and(|reason| !reason.is_empty()) {
        cx.business.finalize(object, &tokens).await?;
        cx.events.report(object, ABANDONED, "its content in the registry was given up".to_owned());
        return Ok(PassOutcome::Applied);
    }
    let place = place(object);
    // Before the look: what is not found counts only when nothing can come after it.
    let ended = cx.registry.backend.as_deref().map_or(Ok(()), Backend::writes_have_ended);
    let record = recorded(cx, object, &place).await;
    let record = told(cx, object, None, record).await?;
    let mut waits = match (&record, cx.registry.backend.as_deref()) {
        (None, _) => None,
        (Some(record), Some(backend)) => {
            let stepped = step(cx, backend, object, Owned { place: &place, record }).await;
            told(cx, object, Some(record), stepped).await?
        }
        (Some(_), None) => Some(Waits {
            reason: reason::NO_REGISTRY,
            message: "the controller has no registry, and cannot tell whether content is left".to_owned(),
            again: RECHECK,
        }),
    };
    if let Err(again) = ended {
        waits.get_or_insert_with(|| Waits {
            reason: reason::DELETING,
            message: "what was sent to the registry before may still arrive there".to_owned(),
            again,
        });
    }
    if let Some(Waits { reason, message, again }) = waits {
        let mut next = status::ending(object, reason, &message, &cx.now());
        next.registry = record;
        status::write(cx, object, &next).await?;
        return Ok(PassOutcome::WaitingFor(again));
    }
    let mut next = status::ending(object, reason::DELETING, "", &cx.now());
    next.registry = None;
    let written = status::write(cx, object, &next).await?;
    cx.business.finalize(written.as_ref().unwrap_or(object), &tokens).await?;
    cx.events.report(object, DELETED, format!("{} is empty and free", place.prefix()));
    Ok(PassOutcome::Applied)
}

/// What came of calls of the registry, with what is on record. That they have failed the object says.
async fn told<K: RegistryKind, T>(
    cx: &Context,
    object: &RegisteredView<K>,
    record: Option<&RegistryRecord>,
    result: Result<T, Error>,
) -> Result<T, Error>
where
    Registered<K>: OfContent,
{
    if let Err(error @ Error::Registry(_)) = &result {
        let mut next = status::ending(object, reason::UNREACHABLE, &error.text(), &cx.now());
        next.registry = record.cloned();
        if record.is_none() {
            // Else what came from elsewhere would seem to have been looked after here.
            next.observed_generation = object.status.observed_generation;
        }
        status::write(cx, object, &next).await?;
    }
    result
}

/// One step of the removal; `None` when there is nothing more to do.
async fn step<K: RegistryKind>(
    cx: &Context,
    backend: &dyn Backend,
    object: &RegisteredView<K>,
    owned: Owned<'_>,
) -> Result<Option<Waits>, Error>
where
    Registered<K>: OfContent,
{
    let Owned { place, record } = owned;
    if record.backend != backend.sort() {
        let message = "its content is in another sort of registry than the controller has".to_owned();
        return Ok(Some(Waits { reason: reason::NO_REGISTRY, message, again: RECHECK }));
    }
    if object.status.is_locked() {
        return Ok(Some(Waits::locked()));
    }
    let now = cx.clock.unix_seconds();
    if let Some(again) = left(object, cx.registry.grace, now) {
        let message = "its content is removed when the grace period has passed".to_owned();
        return Ok(Some(Waits { reason: reason::GRACE_PERIOD, message, again }));
    }
    // What is not found counts only from the time on when nothing more can come.
    let late = left(object, backend.late_pushes(), now);
    let removal = tokio::time::timeout(WORK_MAX, backend.remove(place, record, late.is_none()));
    let ended = tokio::select! {
        ended = removal => ended,
        () = becomes_locked(cx, object) => return Ok(Some(Waits::locked())),
    };
    let Ok(removed) = ended else {
        let _again = Registered::<K>::cache(&cx.objects).memory.was_late(&object.key);
        let message = format!("its removal takes longer than {} s, and goes on", WORK_MAX.as_secs());
        return Ok(Some(Waits { reason: reason::CONTENT_REMAINING, message, again: AGAIN }));
    };
    match (removed?, late) {
        (Removal::Begun(what), _) => {
            Ok(Some(Waits { reason: reason::CONTENT_REMAINING, message: what, again: AGAIN }))
        }
        (Removal::Gone, Some(again)) => {
            let message = "what was allowed before it was deleted may still be pushed".to_owned();
            Ok(Some(Waits { reason: reason::TOKENS_EXPIRE, message, again }))
        }
        (Removal::Gone, None) => Ok(None),
    }
}

/// Waits until an operator has locked the object: what is left of its content stays.
async fn becomes_locked<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>)
where
    Registered<K>: OfContent,
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
        // It came with its status from elsewhere, and nobody has looked after it here yet.
        (None, Some(backend)) => {
            in_time(backend.recover(place, object.status.observed_generation.is_none())).await
        }
        (None, None) => Ok(None),
    }
}

/// What is left of a time that began with the object's deletion.
fn left<K: RegistryKind>(object: &RegisteredView<K>, time: Duration, now: i64) -> Option<Duration> {
    let passed = now.saturating_sub(object.deleting_since.unwrap_or(now));
    let time = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let left = time.saturating_sub(passed);
    // In whole seconds, as deletionTimestamp has them.
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_secs)
}
