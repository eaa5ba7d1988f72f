//! Update, patch and apply are one thing: read, compute, compare and swap, and again when somebody was faster.

use crate::resource::{Part, Resource};
use crate::strategy::WriteContext;
use crate::verbs::Call;
use crate::verbs::commit::{
    before, commit, context, growth_warnings, is_unchanged, keep_part, same_but, state, tracker, writer,
    written,
};
use crate::verbs::errors::{MODIFIED, status_of};
use crate::verbs::options::{WriteOptions, resource_version};
use bytes::Bytes;
use meta::object::Object;
use meta::status::Status;
use meta::validation;
use serde_json::Value;
use store::model::{Change, Write};
use store::read::At;
use store::{Entry, Error, Revision};

/// What a request wants the object to be.
pub(crate) struct Computed {
    /// The whole object as the client means it.
    pub(crate) object: Object,
    /// Whether field owners still have to be found out.
    pub(crate) track: bool,
    /// Whether the request itself names the revision it was made from.
    pub(crate) versioned: bool,
    pub(crate) warnings: Vec<String>,
}

struct Written {
    /// Its revision before.
    old: Revision,
    entry: Entry,
    /// For the audit log.
    note: String,
}

enum Outcome {
    Written(Written),
    /// Nothing changes: nothing is written.
    Same(Entry),
    /// Somebody was faster.
    Conflict,
    /// The store has decided: there is nothing to look at again.
    Refused(Status),
}

/// Changes the object of the request. `compute` sees the live object, with its revision, and may be asked
/// several times.
///
/// The first look is into the cache, which saves asking the database for its revision. Whatever is then
/// refused or left alone is looked at again at the newest state.
pub(crate) async fn change<F>(
    call: &mut Call<'_>,
    options: &WriteOptions,
    mut compute: F,
) -> Result<Entry, Status>
where
    F: FnMut(&Object) -> Result<Computed, Status>,
{
    let mut at = if options.dry_run { At::Latest } else { At::Any };
    // The deadline around the whole request bounds this loop.
    loop {
        let mut warnings = Vec::new();
        let outcome = attempt(call, options, at, &mut warnings, &mut compute).await;
        if at == At::Any && !matches!(outcome, Ok(Outcome::Written(..) | Outcome::Refused(_))) {
            at = At::Latest;
            continue;
        }
        match outcome {
            Ok(Outcome::Conflict) => {}
            Ok(Outcome::Written(Written { old, entry, note })) => {
                call.warnings.extend(warnings);
                call.audit(Some(old), &entry, options.dry_run, note);
                return Ok(entry);
            }
            Ok(Outcome::Same(entry)) => {
                call.warnings.extend(warnings);
                return Ok(entry);
            }
            Ok(Outcome::Refused(status)) | Err(status) => {
                call.warnings.extend(warnings);
                return Err(status);
            }
        }
    }
}

async fn attempt<F>(
    call: &Call<'_>,
    options: &WriteOptions,
    at: At,
    warnings: &mut Vec<String>,
    compute: &mut F,
) -> Result<Outcome, Status>
where
    F: FnMut(&Object) -> Result<Computed, Status>,
{
    let resource = call.resource();
    let name = call.asked.name.as_str();
    let failed = |error: &Error| status_of(error, resource, name);
    let key = call.key();
    let entry = call.api.store.get(&call.cx.access, &key, at).await.map_err(|error| failed(&error))?;
    let live = Object::from_stored(&entry.body, entry.revision.0)
        .map_err(|error| failed(&Error::Corrupt(error.to_string())))?;
    let computed = compute(&live)?;
    warnings.extend(computed.warnings.iter().cloned());
    let (versioned, now) = (computed.versioned, call.now());
    let mut cx = context(call, options.dry_run, versioned, &now);
    let prepared = prepare(call, options, &live, computed, &mut cx);
    warnings.append(&mut cx.warnings);
    let Some((mut object, gone)) = prepared? else {
        return Ok(Outcome::Same(written(&key, entry.uid, entry.revision, entry.body.clone())));
    };
    let (part, strategy) = (call.part(), &resource.strategy);
    if let Some(right) = strategy.extra_right(&cx, part, Some(&live), &object) {
        call.demand(&right, name).await?;
    }
    strategy.check_update(part, &live, &object)?;
    let hold = if gone { strategy.hold(&cx, &live) } else { None };
    let note =
        hold.as_ref().map_or_else(String::new, |held| format!("{}: {}", held.state.as_str(), held.reason));
    let state = state(resource, &mut object)?;
    let body = Bytes::from(state.body.clone());
    let (expected, before) = (entry.revision, before(resource, &entry, &live)?);
    let may_grow = part == Part::Main && !object.is_deleting();
    let change = if gone {
        Change::Delete { expected, before, last: state }
    } else {
        Change::Update { expected, before, state }
    };
    let told = if may_grow { growth_warnings(resource, &change) } else { Vec::new() };
    let write = Write { key: key.clone(), uid: entry.uid, change, may_grow, hold };
    match commit(call, write, options.dry_run).await {
        Ok(revision) => {
            warnings.extend(told);
            let revision = if options.dry_run { expected } else { revision };
            let entry = written(&key, entry.uid, revision, body);
            Ok(Outcome::Written(Written { old: expected, entry, note }))
        }
        Err(Error::Conflict) => Ok(Outcome::Conflict),
        Err(Error::Refused(violations)) => {
            let cx = context(call, options.dry_run, versioned, &now);
            Ok(Outcome::Refused(resource.strategy.refusal(&cx, &object, &violations)))
        }
        Err(error) => Ok(Outcome::Refused(failed(&error))),
    }
}

/// Makes of what the client wants what will be stored; `None` where that is what is stored already. `true`: nobody
/// waits for the object any more, and it goes with this write.
fn prepare(
    call: &Call<'_>,
    options: &WriteOptions,
    live: &Object,
    computed: Computed,
    cx: &mut WriteContext<'_>,
) -> Result<Option<(Object, bool)>, Status> {
    let resource = call.resource();
    let (part, strategy) = (call.part(), &resource.strategy);
    check_revision(resource, live, &computed.object)?;
    let track = computed.track;
    let mut new = keep_part(resource, part, live, computed);
    keep_identity(live, &mut new);
    cx.warnings.extend(validation::dedup_owner_references(&mut new));
    strategy.prepare_update(cx, part, live, &mut new)?;
    if track {
        let write = writer(call, &options.manager, cx.now);
        new = tracker(resource, part).update(Some(live), new, write);
    }
    let spec_changed = part == Part::Main
        && !same_but(live.as_map(), new.as_map(), &["apiVersion", "kind", "metadata", "status"]);
    if spec_changed && live.generation() > 0 {
        new.set(&["metadata", "generation"], Value::from(live.generation().saturating_add(1)));
    }
    let mut errors = validation::object_meta_update(&new, live);
    errors.extend(strategy.validate_update(cx, part, live, &new));
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.gvk, new.name(), &errors));
    }
    let gone = new.is_deleting() && new.finalizers().next().is_none() && strategy.waits_for(&new).is_none();
    if !gone && is_unchanged(live, &new) {
        return Ok(None);
    }
    cx.warnings.extend(validation::finalizer_warnings(&new, Some(live)));
    Ok(Some((new, gone)))
}

/// A revision in the object is the one the client has seen.
fn check_revision(resource: &Resource, live: &Object, new: &Object) -> Result<(), Status> {
    match resource_version(new.resource_version())? {
        Some(seen) if seen.to_string() != live.resource_version() => {
            Err(Status::conflict(&resource.group_resource(), live.name(), MODIFIED))
        }
        _ => Ok(()),
    }
}

/// What no request changes.
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
