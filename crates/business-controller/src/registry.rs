//! The controller of image namespaces and chart groups: provide → inspect → measure → status, and cleanup at the end.

/// Both kinds, and their cache look-ups.
pub mod kind;
/// What both kinds have in common, and what a backend is told of an object.
pub mod content;
/// When content is measured next.
pub mod schedule;
/// The trait of registry backends.
pub mod backend;
/// Limits the passes that run for one tenant.
pub mod tenant_limiter;
/// Sends writes to a registry within the fence.
pub mod writes;
/// The backend for TKE's registry API.
pub mod tke;
/// The backend for registries of the OCI distribution specification.
pub mod oci;
/// Computes the status (pure) and writes it.
pub mod status;
/// Finalizes an object that is being deleted.
pub mod cleanup;

use crate::context::Context;
use crate::controller::Controller;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, ProjectKey, View, ViewChange};
use crate::objects::RegisteredKind as _;
use crate::outcome::PassOutcome;
use crate::project::enqueue::enqueue_project;
use crate::queue::{FlowKey, Lane};
use backend::{Backend, ProvideResult, RecordedState, RegistryPlace, TOO_MUCH, WORK_DEADLINE, with_deadline};
use business_types::condition::{self, REGISTRY_REACHABLE, reason};
use business_types::registry::{RegistryKind, RegistryRecord};
use business_types::{Condition, RegistryPhase, RegistryStatus, names};
use content::{HasContent, place};
use kind::{Registered, RegisteredView};
use schedule::MeasureSchedule;
use status::{Measurement, RegistryObservation};
use std::time::Duration;
use tokio::time::Instant;

/// The group of the registry in the queue: no member cluster has this name.
const GROUP: &str = business_types::registry::REGISTRY_DOMAIN;

/// How often to check an object whose content the registry does not measure.
const UNMEASURED_PERIOD: Duration = Duration::from_mins(1);

/// How often to try again what cannot be measured. That costs the registry most.
const UNMEASURABLE_PERIOD: Duration = Duration::from_mins(5);
/// When to retry an object whose tenant has too many passes running, or whose content is measured after other content.
const LIMIT_RETRY: Duration = Duration::from_secs(5);
/// How often a write of the status is tried again after a conflict.
const WRITE_ATTEMPTS_MAX: usize = 5;

const PROVIDED: Topic = Topic::normal("Provisioned", "Provision");
const FAILED: Topic = Topic::warning("Failed", "Provision");
const UNREACHABLE: Topic = Topic::warning("RegistryUnreachable", "Provision");
const LOST: Topic = Topic::warning("RegistryContentLost", "Repair");
const OVERSHOT: Topic = Topic::warning("StorageAboveHard", "Measure");

impl<K: RegistryKind> Controller for Registered<K>
where
    Self: HasContent,
{
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(view) = new.or(old) else { return };
        if old.map(|view| &view.uid) != new.map(|view| &view.uid) {
            Self::cache(&cx.objects).memory.forget(&view.key);
        }
        if new.is_some() {
            enqueue::<K>(cx, view, Lane::Urgent);
        }
        let charge = |view: &RegisteredView<K>| (view.uid.clone(), view.spec.hard.clone());
        if old.map(charge) != new.map(charge) {
            enqueue_project(cx, &view.key.project, Lane::Later);
        }
        if new.is_none_or(View::is_deleting) {
            enqueue_project(cx, &view.key.project, Lane::Urgent);
        }
    }

    async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<PassOutcome, Error> {
        let Some(object) = Self::cache(&cx.objects).get(key) else {
            Self::cache(&cx.objects).memory.forget(key);
            return Ok(PassOutcome::Skipped);
        };
        let is_slow = Self::cache(&cx.objects).memory.is_slow(key);
        let Some(_permit) = cx.registry.limiter.try_acquire(&object.spec.tenant_id, is_slow) else {
            return Ok(PassOutcome::NotBegun(LIMIT_RETRY));
        };
        if object.is_deleting() { cleanup::run(cx, &object).await } else { reconcile(cx, &object).await }
    }

    fn resync(cx: &Context) {
        for object in Self::cache(&cx.objects).all() {
            enqueue::<K>(cx, &object, Lane::Later);
        }
    }
}

fn enqueue<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>, lane: Lane)
where
    Registered<K>: HasContent,
{
    let place = FlowKey { group: GROUP, owner: &object.spec.tenant_id };
    cx.enqueue(&Registered::<K>::object_ref(object.key.clone()), place, lane, Duration::ZERO);
}

async fn reconcile<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>) -> Result<PassOutcome, Error>
where
    Registered<K>: HasContent,
{
    let Some(backend) = cx.registry.backend.as_deref() else {
        let next = status::next(object, RegistryObservation::NoRegistry, &cx.now());
        let written = status::write(cx, object, &next).await?;
        return Ok(if written.is_some() { PassOutcome::Applied } else { PassOutcome::Unchanged });
    };
    let schedule = &Registered::<K>::cache(&cx.objects).memory;
    let place = place(object);
    let begun = Instant::now();
    let observation = match observe(cx, backend, object, &place).await {
        Ok(observation) => observation,
        Err(error) if is_not_leading(&error) => return Err(error),
        Err(error) => {
            let text = error.text();
            report_unreachable(cx, object, &text);
            let next = status::next(object, RegistryObservation::Unreachable(text), &cx.now());
            status::write(cx, object, &next).await?;
            return Err(error);
        }
    };
    let took = begun.elapsed();
    write_observation(cx, object, &observation).await?;
    // A measurement counts only when it was written.
    match &observation {
        RegistryObservation::Present { measured: Measurement::Measured(_), .. } => {
            schedule.record_measured(&object.key, took, cx.registry.scan_period);
        }
        // Without a measurement, a pass costs little.
        RegistryObservation::Present { measured: Measurement::Unsupported, .. } => {
            schedule.record_measured(&object.key, took, cx.registry.scan_period.min(UNMEASURED_PERIOD));
        }
        RegistryObservation::Present { measured: Measurement::Unmeasurable(_), .. } => {
            schedule.put_off(&object.key, UNMEASURABLE_PERIOD);
        }
        _ => {}
    }
    Ok(match observation {
        RegistryObservation::Refused(_) => PassOutcome::Refused,
        // The schedule may have changed meanwhile.
        RegistryObservation::Present { measured: Measurement::NotDue, .. } => {
            let wait = schedule.cooldown(&object.key).or_else(|| schedule.wait(&object.key));
            PassOutcome::WaitingFor(wait.unwrap_or_default())
        }
        // The next pass is due when the content is to be measured, which may be at once.
        _ => PassOutcome::WaitingFor(schedule.wait(&object.key).unwrap_or_default()),
    })
}

/// Writes the status. Frequent pushes change the object all the time, so the write may conflict. The observation is
/// true of what was there when it began, so it is written to the newest object.
async fn write_observation<K: RegistryKind>(
    cx: &Context,
    object: &RegisteredView<K>,
    observation: &RegistryObservation,
) -> Result<(), Error>
where
    Registered<K>: HasContent,
{
    let mut newer: Option<RegisteredView<K>> = None;
    let mut again = 1..WRITE_ATTEMPTS_MAX;
    loop {
        let held = newer.as_ref().unwrap_or(object);
        let next = status::next(held, observation.clone(), &cx.now());
        let Err(error) = status::write(cx, held, &next).await else {
            report_events(cx, held, &next);
            return Ok(());
        };
        if !error.is_conflict()
            || !matches!(observation, RegistryObservation::Present { .. })
            || again.next().is_none()
        {
            return Err(error);
        }
        // The observation says nothing about another object, or another place.
        let read = cx.business.get::<Registered<K>>(&object.key).await?;
        let is_same = |read: &RegisteredView<K>| {
            read.uid == object.uid && !read.is_deleting() && read.status.registry == object.status.registry
        };
        newer = Some(read.filter(is_same).ok_or(error)?);
    }
}

/// Whether this process may not write any more. That says nothing about the registry.
fn is_not_leading(error: &Error) -> bool {
    matches!(error, Error::NotLeading)
}

/// Provides the place in the registry, and measures its content when that is due.
async fn observe<K: RegistryKind>(
    cx: &Context,
    backend: &dyn Backend,
    object: &RegisteredView<K>,
    place: &RegistryPlace,
) -> Result<RegistryObservation, Error>
where
    Registered<K>: HasContent,
{
    let schedule = &Registered::<K>::cache(&cx.objects).memory;
    let recorded = object.status.registry.clone().filter(|record| record.backend == backend.backend_type());
    if let Some(record) = recorded {
        match backend.inspect(place, &record).await? {
            RecordedState::Present { locked } => {
                let mark = object.annotations.get(names::REGISTRY_CHANGED_ANNOTATION).cloned();
                let measured = if is_measurement_due(schedule, object, mark.as_ref()) {
                    measure(backend, place, schedule, &object.key).await?
                } else {
                    Measurement::NotDue
                };
                return Ok(RegistryObservation::Present { record, locked, measured, mark });
            }
            RecordedState::Lost => {
                let note = format!("{} was not in the registry any more", place.prefix());
                cx.events.report(object, LOST, note);
            }
        }
    }
    cx.fleet().permit()?;
    match with_deadline(backend.provide(place, has_consent(object))).await? {
        // It is measured in the next pass, when it is on record as ours.
        ProvideResult::Provided(record) => Ok(RegistryObservation::provided(record, object)),
        ProvideResult::Refused(why) => Ok(RegistryObservation::Refused(why)),
    }
}

/// Whether the content is to be measured now. `mark` is that of the last change that the registry has reported.
fn is_measurement_due<K: RegistryKind>(
    schedule: &MeasureSchedule,
    object: &RegisteredView<K>,
    mark: Option<&String>,
) -> bool {
    // The registry has reported a change, and no measurement has followed. If the content cannot be measured, that
    // changes nothing.
    let has_changed =
        object.status.unmeasurable_reason().is_none() && mark != object.status.measured_change.as_ref();
    let is_due = has_changed || schedule.wait(&object.key).is_none();
    is_due && schedule.cooldown(&object.key).is_none()
}

/// Measures the content within the deadline. A measurement that takes longer goes on in the next pass, from what is
/// cached. If that one does not end in time either, the content counts as unmeasurable.
async fn measure(
    backend: &dyn Backend,
    place: &RegistryPlace,
    schedule: &MeasureSchedule,
    key: &ProjectKey,
) -> Result<Measurement, Error> {
    match tokio::time::timeout(WORK_DEADLINE, backend.measure(place)).await {
        Ok(Ok(measured)) => Ok(measured.map_or(Measurement::Unsupported, Measurement::Measured)),
        Ok(Err(Error::Registry(CallFailure::Refused { code: TOO_MUCH, message }))) => {
            Ok(Measurement::Unmeasurable(format!("what is kept cannot be measured: {message}")))
        }
        Ok(Err(Error::MeasurementBusy)) => {
            schedule.put_off(key, LIMIT_RETRY);
            Ok(Measurement::NotDue)
        }
        Ok(Err(error)) => Err(error),
        Err(_elapsed) if schedule.record_timeout(key) => {
            let seconds = WORK_DEADLINE.as_secs();
            Ok(Measurement::Unmeasurable(format!("what is kept cannot be measured within {seconds} s")))
        }
        Err(_elapsed) => Ok(Measurement::NotDue),
    }
}

/// Whether the existing content may be taken over: an operator has consented, or the object was imported with its
/// status and had the content before.
fn has_consent<K: RegistryKind>(object: &RegisteredView<K>) -> bool {
    let annotated = object.annotations.get(names::ADOPT_ANNOTATION).is_some_and(|value| value == "true");
    let was_there = matches!(object.status.phase, RegistryPhase::Available | RegistryPhase::Locked);
    annotated || was_there && object.status.registry.is_none()
}

fn report_unreachable<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>, why: &str) {
    let known = condition::find(&object.status.conditions, REGISTRY_REACHABLE);
    if known.is_none_or(Condition::is_true) {
        cx.events.report(object, UNREACHABLE, why.to_owned());
    }
}

fn report_events<K: RegistryKind>(cx: &Context, object: &RegisteredView<K>, next: &RegistryStatus) {
    let old = &object.status;
    if next.phase == RegistryPhase::Failed && (old.phase, &old.message) != (next.phase, &next.message) {
        cx.events.report(object, FAILED, next.message.clone());
    }
    if next.registry.is_some() && old.registry.is_none() {
        let note = format!("{}/{} is in the registry", object.spec.tenant_id, object.key.name());
        cx.events.report(object, PROVIDED, note);
    }
    let overshoot = |status: &RegistryStatus| {
        condition::find(&status.conditions, condition::WITHIN_QUOTA)
            .filter(|within| within.reason == reason::USED_ABOVE_HARD)
            .map(|within| within.message.clone())
    };
    if let Some(message) = overshoot(next).filter(|_| overshoot(old).is_none()) {
        cx.events.report(object, OVERSHOT, message);
    }
}

impl RegistryObservation {
    /// The place has just become the object's. If the object was imported as locked, and no registry says so, it stays
    /// locked.
    fn provided<K: RegistryKind>(record: RegistryRecord, object: &RegisteredView<K>) -> Self {
        let locked = object.status.phase == RegistryPhase::Locked && object.status.registry.is_none();
        Self::Provided { record, came_locked: locked }
    }
}
