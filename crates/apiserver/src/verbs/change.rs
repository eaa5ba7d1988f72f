//! The loop of update, patch and apply: read the object, compute its new state, write it if the object is unchanged
//! since, and retry after a conflict.

use crate::resource::{Resource, StoredKind};
use crate::store_status::{MODIFIED, status_of};
use crate::strategy::{Strategy, WriteContext};
use crate::verbs::commit::{
    LiveObject, Warnings, changed_bytes_max, commit, growth_warnings, name_taken, new_state, read_entry,
    retries_exhausted, write_context, written_entry,
};
use crate::verbs::options::{WriteOptions, resource_version};
use crate::verbs::owned_fields::{
    DesiredState, ResetFields, field_writer, has_same_spec, is_unchanged, is_whole_object, keep_owned_fields,
    may_grow,
};
use crate::verbs::retry::Retries;
use crate::verbs::{Call, moves, owner_references, parent};
use bytes::Bytes;
use meta::field::{FieldError, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::status::Status;
use meta::{decode, validation};
use serde_json::Value;
use std::sync::Arc;
use store::model::{Change, Growth, Write};
use store::read::At;
use store::{Entry, Error, Revision};

pub(crate) struct StoredChange {
    /// The revision before.
    pub(crate) old: Revision,
    pub(crate) entry: Entry,
    /// For the audit log.
    pub(crate) note: String,
}

pub(crate) enum ChangeOutcome {
    Stored(StoredChange),
    /// The object has this state already: nothing is written.
    Unchanged(Entry),
    /// Another write was faster.
    Conflict,
    /// The store refused it, so a newer state need not be read before the answer.
    Refused(Status),
}

/// Changes the object of the request. `compute` gets the live object, with its revision, and may be called several
/// times.
pub(crate) async fn change<F>(
    call: &mut Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    mut compute: F,
) -> Result<Entry, Status>
where
    F: FnMut(&Object) -> Result<DesiredState, Status>,
{
    let mut retries = Retries::new(options.dry_run);
    let key = call.key(stored);
    // The cached object, if nothing of it would change, with the warnings about that.
    let mut unchanged: Option<(Entry, Warnings)> = None;
    loop {
        let mut warnings = Warnings::default();
        let read = read_entry(call, &key, retries.at()).await;
        // If the cached object is the newest one, the same would come out again.
        if let (Some((entry, about_it)), Ok(newest)) = (unchanged.take(), &read)
            && (entry.uid, entry.revision) == (newest.uid, newest.revision)
        {
            call.warnings.extend(about_it.into_all());
            return Ok(entry);
        }
        let outcome = match read {
            Ok(entry) => attempt(call, stored, options, entry, &mut warnings, &mut compute).await,
            Err(status) => Err(status),
        };
        let is_decided = matches!(outcome, Ok(ChangeOutcome::Stored(_) | ChangeOutcome::Refused(_)));
        if !is_decided && retries.retry_with_latest() {
            if let Ok(ChangeOutcome::Unchanged(entry)) = outcome {
                unchanged = Some((entry, warnings));
            }
            continue;
        }
        match outcome {
            Ok(ChangeOutcome::Conflict) if retries.wait().await => {}
            Ok(ChangeOutcome::Conflict) => return Err(retries_exhausted(&call.resource, &call.request.name)),
            Ok(ChangeOutcome::Stored(StoredChange { old, entry, note })) => {
                call.warnings.extend(warnings.into_all());
                call.record_change(Some(old), &entry, options.dry_run, note);
                return Ok(entry);
            }
            Ok(ChangeOutcome::Unchanged(entry)) => {
                call.warnings.extend(warnings.into_all());
                return Ok(entry);
            }
            Ok(ChangeOutcome::Refused(status)) | Err(status) => {
                call.warnings.extend(warnings.always);
                return Err(status);
            }
        }
    }
}

async fn attempt<F>(
    call: &Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    entry: Arc<Entry>,
    warnings: &mut Warnings,
    compute: &mut F,
) -> Result<ChangeOutcome, Status>
where
    F: FnMut(&Object) -> Result<DesiredState, Status>,
{
    let live = LiveObject::parse(call, entry)?;
    let desired = compute(&live.object)?;
    let may_grow = may_grow(stored, call.endpoint);
    let proposal = ProposedChange { live, desired, may_grow, moves: false, note: String::new() };
    store_change(call, stored, options, proposal, warnings).await
}

/// A change of an object that the request asks for.
pub(crate) struct ProposedChange {
    pub(crate) live: LiveObject,
    pub(crate) desired: DesiredState,
    /// Whether the change may raise what the object costs or grants.
    pub(crate) may_grow: bool,
    /// Whether it moves the object to the namespace of the desired state.
    pub(crate) moves: bool,
    /// For the audit log.
    pub(crate) note: String,
}

/// Turns the proposal into the state to store, and hands it to the store.
pub(crate) async fn store_change(
    call: &Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    proposal: ProposedChange,
    warnings: &mut Warnings,
) -> Result<ChangeOutcome, Status> {
    let ProposedChange { live, mut desired, may_grow, moves, note } = proposal;
    warnings.always.append(&mut desired.warnings);
    let now = call.now();
    let mut cx = WriteContext { versioned: desired.versioned, ..write_context(call, options.dry_run, &now) };
    let transition = Transition { live: &live.object, desired, manager: &options.manager, moves };
    let prepared = prepare(call, stored, transition, &mut cx, &mut warnings.always).await?;
    warnings.accepted.append(&mut cx.warnings);
    let Some(Prepared { mut object, effect }) = prepared else {
        return Ok(ChangeOutcome::Unchanged(live.unchanged()));
    };
    let strategy = &stored.strategy;
    let extra = strategy.extra_right(&cx, Some(&live.object), &object);
    let free = call.growth(extra, &call.request.name).await?;
    strategy.check_update(&cx, &live.object, &object)?;
    let hold = if effect == WriteEffect::Delete { strategy.hold(&cx, &live.object) } else { None };
    let note = hold.as_ref().map_or(note, |held| format!("{}: {}", held.state.as_str(), held.reason));
    let bytes_max = changed_bytes_max(call, &live.entry, &object);
    let state = new_state(stored, &mut object, bytes_max)?;
    let body = Bytes::from(state.body.clone());
    let (expected, before) = (live.entry.revision, live.before(stored)?);
    let growth = match (may_grow, object.is_deleting()) {
        (true, false) => free,
        (true, true) => Growth::Deleting,
        (false, _) => Growth::Refused,
    };
    let (key, uid) = (&live.entry.key, live.entry.uid);
    let at = if effect == WriteEffect::Move { moves::target_key(key, &object) } else { key.clone() };
    let change = match effect {
        WriteEffect::Update => Change::Update { expected, before, state },
        WriteEffect::Delete => Change::Delete { expected, before, last: state },
        WriteEffect::Move => {
            let last = moves::last_body(&live.entry)?;
            Change::Move { to: at.clone(), expected, before, last, state }
        }
    };
    let about_growth = if growth.is_allowed() { growth_warnings(stored, &change) } else { Vec::new() };
    let write = Write { key: key.clone(), uid, change, growth, hold };
    strategy.reserve(&cx, Some(&live.object), &object)?;
    // While their memory is in the processor's cache. A refusal, which is rare, reads the object again from its body.
    drop((live, object));
    match commit(call, write, options.dry_run).await {
        Ok(revision) => {
            warnings.accepted.extend(about_growth);
            let revision = if options.dry_run { expected } else { revision };
            Ok(ChangeOutcome::Stored(StoredChange {
                old: expected,
                entry: written_entry(&at, uid, revision, body),
                note,
            }))
        }
        Err(Error::Conflict) => Ok(ChangeOutcome::Conflict),
        Err(Error::Refused(violations)) => {
            let object = Object::from_body(&body).map_err(|error| Status::internal(error.to_string()))?;
            Ok(ChangeOutcome::Refused(strategy.refusal(&cx, &object, &violations)))
        }
        Err(Error::AlreadyExists { deleting }) if effect == WriteEffect::Move => {
            Ok(ChangeOutcome::Refused(name_taken(call, &at, deleting).await))
        }
        Err(error) => {
            Ok(ChangeOutcome::Refused(status_of(&error, &call.resource.group_resource(), &call.request.name)))
        }
    }
}

/// An object, ready to be stored.
struct Prepared {
    object: Object,
    effect: WriteEffect,
}

/// What a write does to its object in the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteEffect {
    Update,
    /// The object is being deleted and has no finalizers left.
    Delete,
    /// It goes to another namespace.
    Move,
}

/// The desired state of an object, and the state that was read.
struct Transition<'a> {
    live: &'a Object,
    desired: DesiredState,
    /// The field manager of the write.
    manager: &'a str,
    moves: bool,
}

/// Turns the desired state into the state to store; `None` if nothing changes. `sent_warnings` gets those about what the
/// client has sent, even if the write is refused.
async fn prepare(
    call: &Call<'_>,
    stored: &StoredKind,
    transition: Transition<'_>,
    cx: &mut WriteContext<'_>,
    sent_warnings: &mut Vec<String>,
) -> Result<Option<Prepared>, Status> {
    let Transition { live, desired, manager, moves } = transition;
    let (resource, strategy) = (&*call.resource, &*stored.strategy);
    check_revision(resource, strategy, live, &desired.object)?;
    let track = desired.track;
    let mut new = keep_owned_fields(stored, call.endpoint, live, desired);
    let is_whole_object = is_whole_object(stored, call.endpoint);
    if is_whole_object {
        parent::check(call, stored, Some(live), &new).await?;
    }
    if moves {
        Box::pin(moves::check(call, live, &new)).await?;
    }
    keep_identity(live, &mut new);
    sent_warnings.extend(validation::dedup_owner_references(&mut new));
    // A spec that an earlier release accepted, and that does not change, stays valid.
    if is_whole_object && !has_same_spec(stored, live, &new) {
        check_enum_values(resource, live, &new)?;
    }
    strategy.prepare_update(cx, live, &mut new)?;
    if let Some(admission) = strategy.admit(cx, call.view(At::Any), Some(live), &mut new) {
        admission.await?;
    }
    if track {
        let write = field_writer(call, manager, cx.now);
        let reset_fields = ResetFields::of(resource, stored, call.endpoint);
        new = reset_fields.track(resource, |field_manager| field_manager.update(Some(live), new, write));
    }
    if is_whole_object && live.generation() > 0 && (moves || !has_same_spec(stored, live, &new)) {
        new.set(&["metadata", "generation"], Value::from(live.generation().saturating_add(1)));
    }
    let mut errors = if moves {
        validation::object_meta_update(&new, &moves::relocated(live, &new))
    } else {
        validation::object_meta_update(&new, live)
    };
    errors.extend(strategy.validate_update(cx, live, &new));
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.gvk, new.name(), &errors));
    }
    owner_references::check(call, Some(live), &new).await?;
    let is_gone =
        new.is_deleting() && new.finalizers().next().is_none() && strategy.waits_for(&new).is_none();
    let effect = match (moves, is_gone) {
        (true, _) => WriteEffect::Move,
        (false, true) => WriteEffect::Delete,
        (false, false) if is_unchanged(live, &new) => return Ok(None),
        (false, false) => WriteEffect::Update,
    };
    sent_warnings.extend(validation::finalizer_warnings(&new, Some(live)));
    Ok(Some(Prepared { object: new, effect }))
}

/// Refuses values that are not in the enums of the schema. Later steps of a strategy read them as Rust enums.
fn check_enum_values(resource: &Resource, live: &Object, new: &Object) -> Result<(), Status> {
    let enum_errors = decode::check_enums(new, &resource.schema);
    if enum_errors.is_empty() {
        return Ok(());
    }
    let mut errors = validation::object_meta_update(new, live);
    errors.extend(enum_errors);
    Err(Status::invalid(&resource.gvk, new.name(), &errors))
}

/// Checks the revision in the written object: the client has made it from that one.
fn check_revision(
    resource: &Resource,
    strategy: &dyn Strategy,
    live: &Object,
    new: &Object,
) -> Result<(), Status> {
    match resource_version(new.resource_version())? {
        Some(0) if strategy.allows_unconditional_update() => Ok(()),
        Some(0) => Err(needs_revision(resource, live)),
        Some(seen) if seen.to_string() != live.resource_version() => {
            Err(Status::conflict(&resource.group_resource(), live.name(), MODIFIED))
        }
        _ => Ok(()),
    }
}

/// The refusal of a write that does not name the revision that it overwrites.
pub(crate) fn needs_revision(resource: &Resource, live: &Object) -> Status {
    let path = Path::new("metadata").child("resourceVersion");
    let error = FieldError::invalid(&path, &Value::from(0), "must be specified for an update");
    // A Go server shows the plural here, and the kind in every other 422.
    let shown = GroupVersionKind::new(resource.gvk.group.as_str(), "", resource.plural);
    Status::invalid(&shown, live.name(), &vec![error])
}

/// Takes the fields that no request can change from the live object.
fn keep_identity(live: &Object, new: &mut Object) {
    for field in ["generation", "creationTimestamp", "resourceVersion", "selfLink"] {
        new.copy_from(live, &["metadata", field]);
    }
    if live.is_deleting() {
        new.copy_from(live, &["metadata", "deletionTimestamp"]);
        if new.get(&["metadata", "deletionGracePeriodSeconds"]).is_none() {
            new.copy_from(live, &["metadata", "deletionGracePeriodSeconds"]);
        }
    }
    if new.uid().is_empty() {
        new.copy_from(live, &["metadata", "uid"]);
    }
}
