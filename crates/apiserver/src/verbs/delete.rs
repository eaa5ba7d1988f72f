//! `DELETE` of one object: it is marked if somebody must act before it goes, and removed otherwise.

use crate::request::Verb;
use crate::resource::StoredKind;
use crate::response::{self, PROTOBUF};
use crate::store_status::status_of;
use crate::verbs::commit::{Live, Warnings, always_conflicts, commit, context, state, written};
use crate::verbs::options::{DeleteOptions, Propagation};
use crate::verbs::owned::is_unchanged;
use crate::verbs::tries::Tries;
use crate::verbs::{Call, body};
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use meta::decode;
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::protobuf;
use meta::status::{Details, Status};
use serde_json::Value;
use store::model::{Change, Growth, Write};
use store::read::At;
use store::{Entry, Error, Key, Revision};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Options in protobuf: a message of two bytes becomes hundreds, and no options are large.
const PROTOBUF_MAX: usize = 64 * 1024;

/// What became of the object.
pub(crate) enum Removal {
    /// It is gone; this was its last state.
    Gone(Entry),
    /// It waits for its finalizers.
    Marked(Entry),
    /// It was marked before, and its strategy says what it waits for. That is a conflict for a DELETE of this one
    /// object.
    Waits(Status),
}

pub(crate) async fn delete(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    let options = read_options(call, body).await?;
    let key = call.key(stored);
    match remove(call, stored, &key, &options).await? {
        Removal::Gone(entry) => {
            let gvk = &call.resource.gvk;
            let details = Details {
                name: key.name.to_string(),
                group: gvk.group.clone(),
                kind: call.resource.plural.to_owned(),
                uid: entry.uid.to_string(),
                ..Details::default()
            };
            Ok(response::answer(StatusCode::OK, &Status::success(details), &call.style))
        }
        Removal::Marked(entry) => {
            // The one case in which a Go server answers that the deletion is not done yet.
            let code =
                if options.orphan_dependents == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
            call.respond(code, &entry)
        }
        Removal::Waits(status) => Err(status),
    }
}

/// Options from the body, or from the query if there is none.
pub(crate) async fn read_options(call: &Call<'_>, body: Body) -> Result<DeleteOptions, Status> {
    let bytes = body::read(body).await?;
    if bytes.is_empty() {
        let mut options = DeleteOptions::from_query(&call.query)?;
        if call.asked.verb == Verb::DeleteCollection {
            // In the query of a collection it names the state to list, and not an object's revision.
            options.resource_version = None;
        }
        return Ok(options);
    }
    // What is kept of it is little.
    let _place = body::place(call, &bytes)?;
    DeleteOptions::from_body(decoded(&bytes, &call.headers)?, &call.resource.gvk.api_version())
}

/// Options are a meta type: unlike objects, they have a form in protobuf.
fn decoded(bytes: &[u8], headers: &HeaderMap) -> Result<Value, Status> {
    if body::content_type(headers) == PROTOBUF {
        if bytes.len() > PROTOBUF_MAX {
            let text = format!("Request entity too large: limit of options in protobuf is {PROTOBUF_MAX}");
            return Err(Status::too_large(text));
        }
        return protobuf::decode(bytes, "DeleteOptions")
            .map_err(|error| Status::bad_request(error.to_string()));
    }
    let media = body::media(headers).map_err(|_other| {
        Status::unsupported_media_type(&["application/json", "application/yaml", PROTOBUF])
    })?;
    let decoded = decode::decode_value(bytes, media).map(|(value, _duplicates)| value);
    decoded
        .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
}

/// Runs one object's deletion as far as it goes now.
pub(crate) async fn remove(
    call: &mut Call<'_>,
    stored: &StoredKind,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Removal, Status> {
    let mut tries = Tries::new(options.dry_run);
    loop {
        let mut told = Warnings::default();
        let outcome = attempt(call, stored, key, options, tries.at(), &mut told).await;
        let is_decided = matches!(outcome, Ok(DeleteOutcome::Removed(..) | DeleteOutcome::Refused(_)));
        if !is_decided && tries.look_again() {
            continue;
        }
        match outcome {
            Ok(DeleteOutcome::Conflict) if tries.again().await => {}
            Ok(DeleteOutcome::Conflict) => return Err(always_conflicts(&call.resource, &key.name)),
            Ok(DeleteOutcome::Removed(old, removal)) => {
                call.warnings.extend(told.of_accepted());
                if let Removal::Gone(entry) | Removal::Marked(entry) = &removal {
                    call.audit(Some(old), entry, options.dry_run, String::new());
                }
                return Ok(removal);
            }
            Ok(DeleteOutcome::Waits(status)) => return Ok(Removal::Waits(status)),
            Ok(DeleteOutcome::Refused(status)) | Err(status) => return Err(status),
        }
    }
}

enum DeleteOutcome {
    /// It was at this revision before.
    Removed(Revision, Removal),
    /// It is marked, and its strategy waits for something.
    Waits(Status),
    /// Somebody was faster.
    Conflict,
    /// The store has decided: there is nothing to look at again.
    Refused(Status),
}

/// One try.
async fn attempt(
    call: &Call<'_>,
    stored: &StoredKind,
    key: &Key,
    options: &DeleteOptions,
    at: At,
    told: &mut Warnings,
) -> Result<DeleteOutcome, Status> {
    let live = Live::read(call, key, at).await?;
    let about = call.resource.group_resource();
    if options.listed.is_some_and(|uid| uid != live.entry.uid) {
        return Err(status_of(&Error::NotFound, &about, &key.name));
    }
    check_preconditions(call, &live.object, options)?;
    let now = call.now();
    let cx = context(call, options.dry_run, options.resource_version.is_some(), &now);
    stored.strategy.check_delete(&cx, &live.object)?;
    let waits = stored.strategy.waits_for(&live.object);
    if live.object.is_deleting()
        && let Some(text) = &waits
    {
        return Ok(DeleteOutcome::Waits(Status::conflict(&about, live.object.name(), text)));
    }
    let prepared = prepare(call, stored, &live.object, waits.is_some(), options, told);
    let Some(Prepared { mut object, gone }) = prepared else {
        if at == At::Any {
            // Nothing is written, so nothing else would notice that the object has gone meanwhile, and that another
            // has its name.
            return Ok(DeleteOutcome::Conflict);
        }
        return Ok(DeleteOutcome::Removed(live.entry.revision, Removal::Marked(live.unchanged())));
    };
    let state = state(stored, &mut object)?;
    let body = Bytes::from(state.body.clone());
    let (expected, before) = (live.entry.revision, live.before(stored)?);
    let hold = if gone { stored.strategy.hold(&cx, &live.object) } else { None };
    let change = if gone {
        Change::Delete { expected, before, last: state }
    } else {
        Change::Update { expected, before, state }
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
    let entry = written(key, uid, revision, body);
    Ok(DeleteOutcome::Removed(expected, if gone { Removal::Gone(entry) } else { Removal::Marked(entry) }))
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

/// What will be stored.
struct Prepared {
    object: Object,
    /// This write removes it.
    gone: bool,
}

/// The state to store, or nothing if the object waits already.
fn prepare(
    call: &Call<'_>,
    stored: &StoredKind,
    live: &Object,
    waits: bool,
    options: &DeleteOptions,
    told: &mut Warnings,
) -> Option<Prepared> {
    let finalizers = finalizers_after(live, options);
    let mut object = live.clone();
    set_finalizers(&mut object, &finalizers);
    if !waits && finalizers.is_empty() {
        return Some(Prepared { object, gone: true });
    }
    if !live.is_deleting() {
        let now = call.now();
        let mut cx = context(call, options.dry_run, options.resource_version.is_some(), &now);
        object.set(&["metadata", "deletionTimestamp"], Value::from(now.as_str()));
        if !waits {
            object.set(&["metadata", "deletionGracePeriodSeconds"], Value::from(0));
        }
        if live.generation() > 0 {
            object.set(&["metadata", "generation"], Value::from(live.generation().saturating_add(1)));
        }
        stored.strategy.prepare_delete(&mut cx, &mut object);
        told.accepted.append(&mut cx.warnings);
    }
    // Marking changes no charge: the object's charge is refunded when it goes.
    (!is_unchanged(live, &object)).then_some(Prepared { object, gone: false })
}

/// The garbage collector's finalizers follow the options, all others stay.
fn finalizers_after(live: &Object, options: &DeleteOptions) -> Vec<String> {
    let has = |wanted: &str| live.finalizers().any(|finalizer| finalizer == wanted);
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
    for (finalizer, wanted) in [(ORPHAN, orphan), (FOREGROUND, foreground)] {
        if wanted && !has(finalizer) {
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
        let code = |bytes: usize| decoded(&vec![0; bytes], &headers).unwrap_err().code;
        assert_eq!((code(PROTOBUF_MAX + 1), code(PROTOBUF_MAX)), (413, 400));
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
