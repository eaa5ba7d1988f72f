//! The controller of emigrations: the older API for the subresource `transfer`, which moves a namespace in one write.
//! The phases before and after the move are shown for clients that follow them.

/// The kind of emigrations.
pub mod kind;
/// The state machine; pure.
pub mod step;

use crate::context::Context;
use crate::controller::Controller;
use crate::error::{CallFailure, Error};
use crate::events::Topic;
use crate::kinds::{ChangeSource, ObjectKey as _, ProjectKey, RootKey, ViewChange};
use crate::namespace::kind::BusinessNamespace;
use crate::objects::RegisteredKind as _;
use crate::outcome::PassOutcome;
use crate::project::kind::BusinessProject;
use crate::queue::Lane;
use business_types::condition::{self, FALSE, READY, TRUE};
use business_types::{Condition, EmigrationPhase, NamespaceTransfer, names};
use kind::{EmigrationView, NsEmigration};
use serde_json::{Value, json};
use std::time::Duration;
use step::{EmigrationStep, NamespaceLocation};

/// The interval between two phases, so that clients that poll see most of them.
const PHASE_INTERVAL: Duration = Duration::from_secs(1);
/// After this time, an emigration waits for something and is checked less often.
const SLOW_AFTER_SECONDS: i64 = 30;
const SLOW_INTERVAL: Duration = Duration::from_secs(15);
/// How long a finished emigration is kept.
const FINISHED_SECONDS: i64 = 10;
/// How often to check whether the project of a failed emigration still exists.
const FAILED_RECHECK: Duration = Duration::from_mins(5);
/// The group of emigrations in the queue.
const GROUP: &str = "emigrations";

const MOVED: Topic = Topic::normal("Moved", "Transfer");
const FAILED: Topic = Topic::warning("EmigrationFailed", "Transfer");

impl Controller for NsEmigration {
    fn changed(cx: &Context, change: &ViewChange<Self>) {
        if let Some(new) = &change.new {
            enqueue(cx, new, Lane::Urgent);
        }
    }

    async fn reconcile(cx: &Context, key: &ProjectKey) -> Result<PassOutcome, Error> {
        match cx.objects.nsemigrations.get(key).filter(|object| !object.is_deleting()) {
            Some(object) => reconcile(cx, &object).await,
            None => Ok(PassOutcome::Skipped),
        }
    }

    fn resync(cx: &Context) {
        for object in cx.objects.nsemigrations.all() {
            enqueue(cx, &object, Lane::Later);
        }
    }
}

fn enqueue(cx: &Context, object: &EmigrationView, lane: Lane) {
    cx.enqueue(&NsEmigration::object_ref(object.key.clone()), GROUP, lane, Duration::ZERO);
}

async fn reconcile(cx: &Context, object: &EmigrationView) -> Result<PassOutcome, Error> {
    match object.status.phase {
        EmigrationPhase::Finished => return delete_when_expired(cx, object).await,
        EmigrationPhase::Failed => return delete_with_project(cx, object).await,
        _ => {}
    }
    let namespace = locate(cx, object).await?;
    match step::next(object.status.phase, &namespace) {
        EmigrationStep::Show(phase) => show(cx, object, phase).await,
        EmigrationStep::DryRun(phase) => match transfer(cx, object, TransferMode::DryRun).await? {
            TransferAnswer::Accepted => show(cx, object, phase).await,
            TransferAnswer::Refused(message) => fail(cx, object, "Refused", &message).await,
        },
        EmigrationStep::Move => match transfer(cx, object, TransferMode::Move).await? {
            TransferAnswer::Accepted => {
                let note = format!(
                    "namespace {} lies in project {}",
                    object.spec.namespace, object.spec.destination
                );
                cx.events.report(object, MOVED, note);
                show(cx, object, EmigrationPhase::NewOneCreated).await
            }
            TransferAnswer::Refused(message) => fail(cx, object, "Refused", &message).await,
        },
        EmigrationStep::AwaitMarks => {
            let is_slow = seconds_in_phase(cx, object) >= SLOW_AFTER_SECONDS;
            Ok(PassOutcome::WaitingFor(if is_slow { SLOW_INTERVAL } else { PHASE_INTERVAL }))
        }
        EmigrationStep::Fail { reason, message } => fail(cx, object, reason, message).await,
        EmigrationStep::Done => Ok(PassOutcome::Skipped),
    }
}

/// Locates the namespace by the API. The source is asked first: the namespace leaves it and arrives in one write, so it
/// cannot be missed.
async fn locate(cx: &Context, object: &EmigrationView) -> Result<NamespaceLocation, Error> {
    let at = |project: &str| ProjectKey::new(Some(project), &object.spec.namespace);
    let source = cx.business.get::<BusinessNamespace>(&at(&object.key.project)).await?;
    let destination = cx.business.get::<BusinessNamespace>(&at(&object.spec.destination)).await?;
    Ok(step::locate(&object.status.namespace_uid, source.as_ref(), destination.as_ref()))
}

/// Whether the namespace is moved, or that is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferMode {
    DryRun,
    Move,
}

/// What the API answers to a transfer.
#[derive(Debug)]
enum TransferAnswer {
    Accepted,
    /// With this message; the same call would be refused again.
    Refused(String),
}

async fn transfer(
    cx: &Context,
    object: &EmigrationView,
    mode: TransferMode,
) -> Result<TransferAnswer, Error> {
    let to = NamespaceTransfer {
        project: object.spec.destination.clone(),
        reason: format!("emigration {}", object.key.name),
        uid: object.status.namespace_uid.clone(),
    };
    let namespace = ProjectKey::new(Some(&object.key.project), &object.spec.namespace);
    cx.fleet().permit()?;
    let project = &object.spec.destination;
    let dry_run = mode == TransferMode::DryRun;
    match cx.business.call_subresource::<BusinessNamespace>(&namespace, names::TRANSFER, &to, dry_run).await {
        Ok(()) => Ok(TransferAnswer::Accepted),
        Err(CallFailure::Refused { message, .. }) => Ok(TransferAnswer::Refused(message)),
        Err(CallFailure::Exists) => {
            let name = &object.spec.namespace;
            Ok(TransferAnswer::Refused(format!(
                "project {project} already has a namespace with the name {name}"
            )))
        }
        Err(CallFailure::NotFound) => {
            // Otherwise the namespace was not found, which existed a moment ago: the next pass locates it again.
            let gone = !project_exists(cx, project).await?;
            if gone {
                Ok(TransferAnswer::Refused(format!("project {project} not found")))
            } else {
                Err(CallFailure::NotFound.into())
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

async fn project_exists(cx: &Context, project: &str) -> Result<bool, Error> {
    Ok(cx.business.get::<BusinessProject>(&RootKey::new(None, project)).await?.is_some())
}

async fn show(cx: &Context, object: &EmigrationView, phase: EmigrationPhase) -> Result<PassOutcome, Error> {
    let shown = json!({
        "phase": phase, "lastTransitionTime": cx.now(), "observedGeneration": object.generation,
        "conditions": conditions(cx, object, phase, phase.as_str(), ""),
    });
    write(cx, object, shown).await?;
    Ok(PassOutcome::WaitingFor(PHASE_INTERVAL))
}

/// The conditions in this phase.
fn conditions(
    cx: &Context,
    object: &EmigrationView,
    phase: EmigrationPhase,
    reason: &str,
    message: &str,
) -> Vec<Condition> {
    let status = if phase == EmigrationPhase::Finished { TRUE } else { FALSE };
    let mut conditions = object.status.conditions.clone();
    let ready = Condition::new(READY, status, reason, message).at(object.generation);
    condition::set(&mut conditions, ready, &cx.now());
    conditions
}

async fn fail(
    cx: &Context,
    object: &EmigrationView,
    reason: &str,
    message: &str,
) -> Result<PassOutcome, Error> {
    let phase = EmigrationPhase::Failed;
    let failed = json!({
        "phase": phase, "reason": reason, "message": message, "lastTransitionTime": cx.now(),
        "observedGeneration": object.generation, "conditions": conditions(cx, object, phase, reason, message),
    });
    write(cx, object, failed).await?;
    cx.events.report(object, FAILED, message.to_owned());
    Ok(PassOutcome::Applied)
}

async fn write(cx: &Context, object: &EmigrationView, status: Value) -> Result<(), Error> {
    cx.fleet().permit()?;
    let written = cx.business.patch_status(object, status).await?;
    cx.objects.nsemigrations.upsert(written, ChangeSource::OwnWrite);
    Ok(())
}

fn seconds_in_phase(cx: &Context, object: &EmigrationView) -> i64 {
    let since = object.status.last_transition_time.as_deref();
    let since = since.and_then(|since| meta::time::parse(since).ok()).unwrap_or_default();
    cx.clock.unix_seconds().saturating_sub(since)
}

/// Deletes a finished emigration after a while.
async fn delete_when_expired(cx: &Context, object: &EmigrationView) -> Result<PassOutcome, Error> {
    let left = FINISHED_SECONDS.saturating_sub(seconds_in_phase(cx, object));
    if left > 0 {
        return Ok(PassOutcome::WaitingFor(Duration::from_secs(left.unsigned_abs())));
    }
    cx.fleet().permit()?;
    cx.business.delete(object).await?;
    Ok(PassOutcome::Applied)
}

/// Keeps a failed emigration for people to read, until its project is gone.
async fn delete_with_project(cx: &Context, object: &EmigrationView) -> Result<PassOutcome, Error> {
    if project_exists(cx, &object.key.project).await? {
        // An imported one came without.
        if object.status.conditions.is_empty() {
            let EmigrationView { status, generation, .. } = object;
            let (reason, message) = imported_failure(&status.reason, &status.message);
            let conditions = conditions(cx, object, status.phase, reason, &message);
            write(cx, object, json!({ "observedGeneration": generation, "conditions": conditions })).await?;
        }
        return Ok(PassOutcome::WaitingFor(FAILED_RECHECK));
    }
    cx.fleet().permit()?;
    cx.business.delete(object).await?;
    Ok(PassOutcome::Applied)
}

/// Reason and message of the condition of an imported emigration. TKE has sentences as reasons; that of a condition is
/// one word.
fn imported_failure<'a>(reason: &'a str, message: &str) -> (&'a str, String) {
    let failed = EmigrationPhase::Failed.as_str();
    if reason.is_empty() {
        (failed, message.to_owned())
    } else if reason.chars().all(|character| character.is_ascii_alphanumeric()) {
        (reason, message.to_owned())
    } else {
        (failed, format!("{message}: {reason}"))
    }
}
