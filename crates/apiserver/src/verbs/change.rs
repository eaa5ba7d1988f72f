//! Update, patch and apply are one loop: read, compute, compare and swap, and again if another write was faster.

use crate::resource::{Resource, StoredKind};
use crate::store_status::{MODIFIED, status_of};
use crate::strategy::Strategy;
use crate::verbs::commit::{
    Live, Warnings, always_conflicts, commit, context, growth_warnings, state, taken, written,
};
use crate::verbs::options::{WriteOptions, resource_version};
use crate::verbs::owned::{Resets, Wanted, is_unchanged, is_whole, keep_owned, may_grow, same_spec, writer};
use crate::verbs::tries::Tries;
use crate::verbs::{Call, moves, owners, parent};
use bytes::Bytes;
use meta::field::{FieldError, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::status::Status;
use meta::{decode, validation};
use serde_json::Value;
use store::model::{Change, Growth, Write};
use store::read::At;
use store::{Entry, Error, Revision};

pub(crate) struct Written {
    /// Its revision before.
    pub(crate) old: Revision,
    pub(crate) entry: Entry,
    /// For the audit log.
    pub(crate) note: String,
}

pub(crate) enum ChangeOutcome {
    Written(Written),
    /// Nothing changes: nothing is written.
    Same(Entry),
    /// Another write was faster.
    Conflict,
    /// The store has decided: there is nothing to look at again.
    Refused(Status),
}

/// Changes the object of the request. `compute` sees the live object, with its revision, and may be asked
/// several times.
pub(crate) async fn change<F>(
    call: &mut Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    mut compute: F,
) -> Result<Entry, Status>
where
    F: FnMut(&Object) -> Result<Wanted, Status>,
{
    let mut tries = Tries::new(options.dry_run);
    loop {
        let mut told = Warnings::default();
        let outcome = attempt(call, stored, options, tries.at(), &mut told, &mut compute).await;
        let is_decided = matches!(outcome, Ok(ChangeOutcome::Written(_) | ChangeOutcome::Refused(_)));
        if !is_decided && tries.look_again() {
            continue;
        }
        match outcome {
            Ok(ChangeOutcome::Conflict) if tries.again().await => {}
            Ok(ChangeOutcome::Conflict) => return Err(always_conflicts(&call.resource, &call.asked.name)),
            Ok(ChangeOutcome::Written(Written { old, entry, note })) => {
                call.warnings.extend(told.of_accepted());
                call.audit(Some(old), &entry, options.dry_run, note);
                return Ok(entry);
            }
            Ok(ChangeOutcome::Same(entry)) => {
                call.warnings.extend(told.of_accepted());
                return Ok(entry);
            }
            Ok(ChangeOutcome::Refused(status)) | Err(status) => {
                call.warnings.extend(told.always);
                return Err(status);
            }
        }
    }
}

async fn attempt<F>(
    call: &Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    at: At,
    told: &mut Warnings,
    compute: &mut F,
) -> Result<ChangeOutcome, Status>
where
    F: FnMut(&Object) -> Result<Wanted, Status>,
{
    let live = Live::read(call, &call.key(stored), at).await?;
    let wanted = compute(&live.object)?;
    let may_grow = may_grow(stored, call.part);
    let proposal = Proposal { live, wanted, may_grow, moves: false, note: String::new() };
    settle(call, stored, options, proposal, told).await
}

/// A change of an object that is proposed.
pub(crate) struct Proposal {
    pub(crate) live: Live,
    pub(crate) wanted: Wanted,
    /// Whether the object may grow in what it costs or grants.
    pub(crate) may_grow: bool,
    /// Whether it goes to the namespace that is wanted.
    pub(crate) moves: bool,
    /// For the audit log.
    pub(crate) note: String,
}

/// Turns the proposal into the state to store, and has the store decide.
pub(crate) async fn settle(
    call: &Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    proposal: Proposal,
    told: &mut Warnings,
) -> Result<ChangeOutcome, Status> {
    let Proposal { live, wanted, may_grow, moves, note } = proposal;
    told.always.extend(wanted.warnings.iter().cloned());
    let (versioned, now) = (wanted.versioned, call.now());
    let wish = Wish { live: &live.object, wanted, moves };
    let Some(Prepared { mut object, gone }) = prepare(call, stored, options, wish, told).await? else {
        return Ok(ChangeOutcome::Same(live.unchanged()));
    };
    let cx = context(call, options.dry_run, versioned, &now);
    let strategy = &stored.strategy;
    let extra = strategy.extra_right(&cx, Some(&live.object), &object);
    let free = call.growth(extra, &call.asked.name).await?;
    strategy.check_update(&cx, &live.object, &object)?;
    let hold = if gone { strategy.hold(&cx, &live.object) } else { None };
    let note = hold.as_ref().map_or(note, |held| format!("{}: {}", held.state.as_str(), held.reason));
    let state = state(stored, &mut object)?;
    let body = Bytes::from(state.body.clone());
    let (expected, before) = (live.entry.revision, live.before(stored)?);
    let growth = match (may_grow, object.is_deleting()) {
        (true, false) => free,
        (true, true) => Growth::Ending,
        (false, _) => Growth::Refused,
    };
    let Entry { key, uid, .. } = &*live.entry;
    let at = if moves { moves::to(key, &object) } else { key.clone() };
    let change = if moves {
        let last = moves::last(&live.entry)?;
        Change::Move { to: at.clone(), expected, before, last, state }
    } else if gone {
        Change::Delete { expected, before, last: state }
    } else {
        Change::Update { expected, before, state }
    };
    let warnings = if growth.is_some() { growth_warnings(stored, &change) } else { Vec::new() };
    let write = Write { key: key.clone(), uid: *uid, change, growth, hold };
    match commit(call, write, options.dry_run).await {
        Ok(revision) => {
            told.accepted.extend(warnings);
            let revision = if options.dry_run { expected } else { revision };
            Ok(ChangeOutcome::Written(Written {
                old: expected,
                entry: written(&at, *uid, revision, body),
                note,
            }))
        }
        Err(Error::Conflict) => Ok(ChangeOutcome::Conflict),
        Err(Error::Refused(violations)) => {
            Ok(ChangeOutcome::Refused(strategy.refusal(&cx, &object, &violations)))
        }
        Err(Error::AlreadyExists { deleting }) if moves => {
            Ok(ChangeOutcome::Refused(taken(call, &at, deleting).await))
        }
        Err(error) => {
            Ok(ChangeOutcome::Refused(status_of(&error, &call.resource.group_resource(), &call.asked.name)))
        }
    }
}

/// An object, ready to be stored.
struct Prepared {
    object: Object,
    /// Nobody waits for the object any more: this write removes it.
    gone: bool,
}

/// The wanted state of an object, and the state that was read.
struct Wish<'a> {
    live: &'a Object,
    wanted: Wanted,
    moves: bool,
}

/// Turns the wanted state into the state to store; `None` if that one is stored already.
async fn prepare(
    call: &Call<'_>,
    stored: &StoredKind,
    options: &WriteOptions,
    wish: Wish<'_>,
    told: &mut Warnings,
) -> Result<Option<Prepared>, Status> {
    let Wish { live, wanted, moves } = wish;
    let (resource, strategy) = (&*call.resource, &*stored.strategy);
    check_revision(resource, strategy, live, &wanted.object)?;
    let (track, now) = (wanted.track, call.now());
    let mut cx = context(call, options.dry_run, wanted.versioned, &now);
    let mut new = keep_owned(stored, call.part, live, wanted);
    let is_whole = is_whole(stored, call.part);
    if is_whole {
        parent::check(call, stored, Some(live), &new).await?;
    }
    if moves {
        Box::pin(moves::check(call, live, &new)).await?;
    }
    keep_identity(live, &mut new);
    told.always.extend(validation::dedup_owner_references(&mut new));
    // What an earlier release took can stay.
    if is_whole && !same_spec(stored, live, &new) {
        check_words(resource, live, &new)?;
    }
    strategy.prepare_update(&mut cx, live, &mut new)?;
    if let Some(admission) = strategy.admit(&mut cx, call.view(At::Any), Some(live), &mut new) {
        admission.await?;
    }
    if track {
        let write = writer(call, &options.manager, &now);
        let resets = Resets::of(resource, stored, call.part);
        new = resets.track(resource, |tracker| tracker.update(Some(live), new, write));
    }
    if is_whole && live.generation() > 0 && (moves || !same_spec(stored, live, &new)) {
        new.set(&["metadata", "generation"], Value::from(live.generation().saturating_add(1)));
    }
    let mut errors = if moves {
        validation::object_meta_update(&new, &moves::relocated(live, &new))
    } else {
        validation::object_meta_update(&new, live)
    };
    errors.extend(strategy.validate_update(&mut cx, live, &new));
    told.accepted.append(&mut cx.warnings);
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.gvk, new.name(), &errors));
    }
    owners::check(call, Some(live), &new).await?;
    let gone = new.is_deleting() && new.finalizers().next().is_none() && strategy.waits_for(&new).is_none();
    if !gone && is_unchanged(live, &new) {
        return Ok(None);
    }
    told.always.extend(validation::finalizer_warnings(&new, Some(live)));
    Ok(Some(Prepared { object: new, gone }))
}

/// What a strategy reads as a type of its own has no other texts than those of the schema's fixed sets.
fn check_words(resource: &Resource, live: &Object, new: &Object) -> Result<(), Status> {
    let words = decode::check_words(new, &resource.schema);
    if words.is_empty() {
        return Ok(());
    }
    let mut errors = validation::object_meta_update(new, live);
    errors.extend(words);
    Err(Status::invalid(&resource.gvk, new.name(), &errors))
}

/// Checks the revision in the object, which is the one that the client has seen.
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
