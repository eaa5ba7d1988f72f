//! `DELETE` of one object: it gets a `deletionTimestamp` if it has finalizers or its strategy waits, and is removed
//! otherwise.

use crate::request::Verb;
use crate::resource::StoredKind;
use crate::response::{self, PROTOBUF};
use crate::store_status::status_of;
use crate::strategy::WriteContext;
use crate::verbs::commit::{
    LiveObject, Warnings, commit, new_state, retries_exhausted, write_context, written_entry,
};
use crate::verbs::options::{DeleteOptions, Propagation};
use crate::verbs::owned_fields::is_unchanged;
use crate::verbs::retry::Retries;
use crate::verbs::{Call, body};
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use meta::decode;
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::protobuf;
use meta::status::{Status, StatusDetails};
use serde_json::Value;
use store::model::{Change, Growth, Write};
use store::read::At;
use store::{Entry, Error, Key, Revision};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Most bytes of options in protobuf. A message of two bytes can become hundreds in memory, and real options are small.
const PROTOBUF_BYTES_MAX: usize = 64 * 1024;

/// What happened to the object.
pub(crate) enum Removal {
    /// It is removed; this was its last state.
    Removed(Entry),
    /// It waits for its finalizers.
    Terminating(Entry),
    /// It was terminating before, and its strategy waits for something. A DELETE of this one object is answered with
    /// the conflict.
    Blocked(Status),
}

pub(crate) async fn delete(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    let options = read_options(call, body).await?;
    let key = call.key(stored);
    match remove(call, stored, &key, &options).await? {
        Removal::Removed(entry) => {
            let gvk = &call.resource.gvk;
            let details = StatusDetails {
                name: key.name.to_string(),
                group: gvk.group.clone(),
                kind: call.resource.plural.to_owned(),
                uid: entry.uid.to_string(),
                ..StatusDetails::default()
            };
            Ok(response::render_status(StatusCode::OK, &Status::success(details), &call.style))
        }
        Removal::Terminating(entry) => {
            // Only in this case does a Go server answer with 202.
            let code =
                if options.orphan_dependents == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
            call.respond(code, &entry)
        }
        Removal::Blocked(status) => Err(status),
    }
}

/// Options from the body, or from the query if there is none.
pub(crate) async fn read_options(call: &Call<'_>, body: Body) -> Result<DeleteOptions, Status> {
    let bytes = body::read(body).await?;
    if bytes.is_empty() {
        let mut options = DeleteOptions::from_query(&call.query)?;
        if call.request.verb == Verb::DeleteCollection {
            // For a collection this parameter is the revision to list at, and no precondition.
            options.resource_version = None;
        }
        return Ok(options);
    }
    // The permit ends here: the options are small.
    let _permit = body::heavy_body_permit(call, &bytes)?;
    DeleteOptions::from_body(decode_options(&bytes, &call.headers)?, &call.resource.gvk.api_version())
}

/// Options are a type of `meta.k8s.io`: unlike objects, they may be in protobuf.
fn decode_options(bytes: &[u8], headers: &HeaderMap) -> Result<Value, Status> {
    if body::content_type(headers) == PROTOBUF {
        if bytes.len() > PROTOBUF_BYTES_MAX {
            let text =
                format!("Request entity too large: limit of options in protobuf is {PROTOBUF_BYTES_MAX}");
            return Err(Status::too_large(text));
        }
        return protobuf::decode(bytes, "DeleteOptions")
            .map_err(|error| Status::bad_request(error.to_string()));
    }
    let media = body::media(headers).map_err(|_other| {
        Status::unsupported_media_type(&["application/json", "application/yaml", PROTOBUF])
    })?;
    let options = decode::decode_value(bytes, media).map(|(value, _duplicates)| value);
    options
        .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
}

/// Deletes one object, as far as its finalizers and its strategy allow now.
pub(crate) async fn remove(
    call: &mut Call<'_>,
    stored: &StoredKind,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Removal, Status> {
    let mut retries = Retries::new(options.dry_run);
    loop {
        let mut warnings = Warnings::default();
        let outcome = attempt(call, stored, key, options, retries.at(), &mut warnings).await;
        let is_decided = matches!(outcome, Ok(DeleteOutcome::Applied(..) | DeleteOutcome::Refused(_)));
        if !is_decided && retries.retry_with_latest() {
            continue;
        }
        match outcome {
            Ok(DeleteOutcome::Conflict) if retries.wait().await => {}
            Ok(DeleteOutcome::Conflict) => return Err(retries_exhausted(&call.resource, &key.name)),
            Ok(DeleteOutcome::Applied(old, removal)) => {
                call.warnings.extend(warnings.into_all());
                if let Removal::Removed(entry) | Removal::Terminating(entry) = &removal {
                    call.record_change(Some(old), entry, options.dry_run, String::new());
                }
                return Ok(removal);
            }
            Ok(DeleteOutcome::Blocked(status)) => return Ok(Removal::Blocked(status)),
            Ok(DeleteOutcome::Refused(status)) | Err(status) => return Err(status),
        }
    }
}

enum DeleteOutcome {
    /// The write is stored. The object had this revision before.
    Applied(Revision, Removal),
    /// It is terminating already, and its strategy waits for something.
    Blocked(Status),
    /// Another write was faster.
    Conflict,
    /// The store refused it, so a newer state need not be read before the answer.
    Refused(Status),
}

async fn attempt(
    call: &Call<'_>,
    stored: &StoredKind,
    key: &Key,
    options: &DeleteOptions,
    at: At,
    warnings: &mut Warnings,
) -> Result<DeleteOutcome, Status> {
    let live = LiveObject::read(call, key, at).await?;
    let about = call.resource.group_resource();
    if options.listed.is_some_and(|uid| uid != live.entry.uid) {
        return Err(status_of(&Error::NotFound, &about, &key.name));
    }
    check_preconditions(call, &live.object, options)?;
    let now = call.now();
    let mut cx = WriteContext {
        versioned: options.resource_version.is_some(),
        ..write_context(call, options.dry_run, &now)
    };
    stored.strategy.check_delete(&cx, &live.object)?;
    let waits = stored.strategy.waits_for(&live.object);
    if live.object.is_deleting()
        && let Some(text) = &waits
    {
        return Ok(DeleteOutcome::Blocked(Status::conflict(&about, live.object.name(), text)));
    }
    let (mut object, is_removed) = match prepare(stored, &live.object, options, waits.is_some(), &mut cx)? {
        Prepared::Removed(object) => (object, true),
        Prepared::Terminating(object) => (object, false),
        // Nothing is written, so the store would not notice that the object is gone meanwhile and that another one has
        // its name.
        Prepared::Unchanged if at == At::Any => return Ok(DeleteOutcome::Conflict),
        Prepared::Unchanged => {
            let removal = Removal::Terminating(live.unchanged());
            return Ok(DeleteOutcome::Applied(live.entry.revision, removal));
        }
    };
    warnings.accepted.append(&mut cx.warnings);
    // A deletion adds little, and is never refused for the object's size.
    let state = new_state(stored, &mut object, usize::MAX)?;
    let body = Bytes::from(state.body.clone());
    let (expected, before) = (live.entry.revision, live.before(stored)?);
    let (change, hold) = if is_removed {
        (Change::Delete { expected, before, last: state }, stored.strategy.hold(&cx, &live.object))
    } else {
        (Change::Update { expected, before, state }, None)
    };
    let uid = live.entry.uid;
    let write = Write { key: key.clone(), uid, change, growth: Growth::Refused, hold };
    let revision = match commit(call, write, options.dry_run).await {
        Ok(_) if options.dry_run => expected,
        Ok(revision) => revision,
        Err(Error::Conflict) => return Ok(DeleteOutcome::Conflict),
        Err(Error::Refused(violations)) => {
            return Ok(DeleteOutcome::Refused(stored.strategy.refusal(&cx, &live.object, &violations)));
        }
        Err(error) => return Ok(DeleteOutcome::Refused(status_of(&error, &about, &key.name))),
    };
    let entry = written_entry(key, uid, revision, body);
    let removal = if is_removed { Removal::Removed(entry) } else { Removal::Terminating(entry) };
    Ok(DeleteOutcome::Applied(expected, removal))
}

fn check_preconditions(call: &Call<'_>, live: &Object, options: &DeleteOptions) -> Result<(), Status> {
    // Failed preconditions show the kind; conflicts of an update show the plural.
    let gvk = &call.resource.gvk;
    let conflict = |why: &str| {
        let about = GroupResource::new(gvk.group.as_str(), gvk.kind.as_str());
        Err(Status::conflict(&about, live.name(), why))
    };
    match &options.uid {
        Some(uid) if uid != live.uid() => {
            return conflict(&format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                live.uid()
            ));
        }
        _ => {}
    }
    match &options.resource_version {
        Some(version) if version != live.resource_version() => conflict(&format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The \
             object might have been modified",
            live.resource_version()
        )),
        _ => Ok(()),
    }
}

/// What a deletion makes of the object now.
enum Prepared {
    /// It is removed; this is its last state.
    Removed(Object),
    /// It gets this state, and waits.
    Terminating(Object),
    /// It is terminating already, and nothing changes.
    Unchanged,
}

/// The state to store. With `waits`, the object's strategy waits for something.
fn prepare(
    stored: &StoredKind,
    live: &Object,
    options: &DeleteOptions,
    waits: bool,
    cx: &mut WriteContext<'_>,
) -> Result<Prepared, Status> {
    let finalizers = finalizers_after(live, options);
    let mut object = live.clone();
    set_finalizers(&mut object, &finalizers);
    if !waits && finalizers.is_empty() {
        return Ok(Prepared::Removed(object));
    }
    if !live.is_deleting() {
        object.set(&["metadata", "deletionTimestamp"], Value::from(cx.now));
        if !waits {
            object.set(&["metadata", "deletionGracePeriodSeconds"], Value::from(0));
        }
        if live.generation() > 0 {
            object.set(&["metadata", "generation"], Value::from(live.generation().saturating_add(1)));
        }
        stored.strategy.prepare_delete(cx, &mut object)?;
    }
    Ok(if is_unchanged(live, &object) { Prepared::Unchanged } else { Prepared::Terminating(object) })
}

/// The finalizers of the object: the options decide those of the garbage collector, all others stay.
fn finalizers_after(live: &Object, options: &DeleteOptions) -> Vec<String> {
    let has = |name: &str| live.finalizers().any(|finalizer| finalizer == name);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation) {
        (Some(orphan), _) => (orphan, false),
        (None, Some(Propagation::Orphan)) => (true, false),
        (None, Some(Propagation::Foreground)) => (false, true),
        (None, Some(Propagation::Background)) => (false, false),
        (None, None) => (has(ORPHAN), has(FOREGROUND)),
    };
    let mut kept: Vec<String> = live
        .finalizers()
        .filter(|finalizer| match *finalizer {
            ORPHAN => orphan,
            FOREGROUND => foreground,
            _ => true,
        })
        .map(str::to_owned)
        .collect();
    for (finalizer, is_wanted) in [(ORPHAN, orphan), (FOREGROUND, foreground)] {
        if is_wanted && !has(finalizer) {
            kept.push(finalizer.to_owned());
        }
    }
    kept
}

fn set_finalizers(object: &mut Object, finalizers: &[String]) {
    if finalizers.is_empty() {
        object.remove(&["metadata", "finalizers"]);
    } else {
        object.set(&["metadata", "finalizers"], Value::from(finalizers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;
    use serde_json::json;

    #[test]
    fn options_in_protobuf_are_small() {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF))]);
        let code = |bytes: usize| decode_options(&vec![0; bytes], &headers).unwrap_err().code;
        assert_eq!((code(PROTOBUF_BYTES_MAX + 1), code(PROTOBUF_BYTES_MAX)), (413, 400));
    }

    #[test]
    fn the_propagation_policy_decides_the_collectors_finalizers() {
        let after = |finalizers: &[&str], orphan: Option<bool>, propagation: Option<Propagation>| {
            let live = Object::new(json!({"metadata": {"finalizers": finalizers}})).unwrap();
            let options =
                DeleteOptions { orphan_dependents: orphan, propagation, ..DeleteOptions::default() };
            finalizers_after(&live, &options).join(",")
        };
        let own = &["a/b"];
        assert_eq!(after(own, None, None), "a/b");
        assert_eq!(after(own, Some(true), None), "a/b,orphan");
        assert_eq!(after(own, Some(false), None), "a/b");
        assert_eq!(after(own, None, Some(Propagation::Foreground)), "a/b,foregroundDeletion");
        assert_eq!(after(&["orphan", "a/b"], None, None), "orphan,a/b");
        assert_eq!(after(&["orphan", "a/b"], None, Some(Propagation::Foreground)), "a/b,foregroundDeletion");
        assert_eq!(after(&["foregroundDeletion"], None, Some(Propagation::Background)), "");
    }
}
