//! Server-side apply.

use crate::part::Part;
use crate::resource::StoredKind;
use crate::verbs::change::change;
use crate::verbs::create::{New, insert};
use crate::verbs::options::{WriteKind, WriteOptions, names_no_revision, resource_version};
use crate::verbs::owned::{Resets, Wanted, writer};
use crate::verbs::update::check_identity;
use crate::verbs::{Call, nul};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::decode::{self, FieldValidation, Media};
use meta::status::Status;
use serde_json::Value;
use std::sync::Arc;
use store::Entry;

/// How often an apply tries again that finds the object present at one moment and absent at the next.
const ROUNDS_MAX: usize = 4;

pub(crate) async fn apply(
    call: &mut Call<'_>,
    stored: &StoredKind,
    bytes: &[u8],
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Apply)?;
    let (mut applied, duplicates) = decode::decode_value(bytes, Media::Yaml)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    nul::check(bytes, &applied)?;
    if options.validation == FieldValidation::Warn {
        call.warnings.extend(duplicates);
    } else if options.validation == FieldValidation::Strict && !duplicates.is_empty() {
        return Err(Status::bad_request(format!("error strict decoding YAML: {}", duplicates.join(", "))));
    }
    name_it(call, &mut applied)?;
    let mut round = 0_usize;
    loop {
        round = round.saturating_add(1);
        match change_live(call, stored, &applied, &options).await {
            Err(status) if is_missing(call, &status) => {}
            other => return call.respond(StatusCode::OK, &other?),
        }
        match create_new(call, stored, &applied, &options).await {
            Err(status) if status.reason == "AlreadyExists" && round < ROUNDS_MAX => {}
            other => return call.respond(StatusCode::CREATED, &other?),
        }
    }
}

/// An apply creates only the object itself, and only if the object is what is missing.
fn is_missing(call: &Call<'_>, status: &Status) -> bool {
    let is_this = status.details.as_ref().is_some_and(|details| {
        details.name == call.asked.name
            && details.kind == call.resource.plural
            && details.group == call.resource.gvk.group
    });
    status.code == 404 && is_this && call.part == Part::Main
}

fn name_it(call: &Call<'_>, applied: &mut Value) -> Result<(), Status> {
    let Some(metadata) = applied.as_object_mut().and_then(|map| {
        map.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new())).as_object_mut()
    }) else {
        return Err(Status::bad_request("an applied configuration must be an object with metadata"));
    };
    let name = metadata.entry("name").or_insert_with(|| Value::from(call.asked.name.as_str()));
    if name.as_str() != Some(call.asked.name.as_str()) {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            name.as_str().unwrap_or_default(),
            call.asked.name
        )));
    }
    Ok(())
}

async fn change_live(
    call: &mut Call<'_>,
    stored: &StoredKind,
    applied: &Value,
    options: &WriteOptions,
) -> Result<Entry, Status> {
    let (resource, asked) = (Arc::clone(&call.resource), Arc::clone(&call.asked));
    let (now, subresource) = (call.now(), call.part.name());
    let resets = Resets::of(&resource, stored, call.part);
    let versioned = !names_no_revision(given(applied, "resourceVersion"));
    let entry = change(call, stored, options, |live| {
        let write = meta::managed::Write { manager: &options.manager, subresource, now: &now };
        let merged =
            resets.track(&resource, |tracker| tracker.apply(Some(live), applied, options.force, write));
        let mut object = merged.map_err(|error| error.status())?;
        decode::apply_defaults(&mut object, &resource.schema);
        check_identity(&resource, &asked.name, &asked.namespace, &mut object)?;
        Ok(Wanted { object, track: false, versioned, warnings: Vec::new() })
    });
    entry.await
}

async fn create_new(
    call: &mut Call<'_>,
    stored: &StoredKind,
    applied: &Value,
    options: &WriteOptions,
) -> Result<Entry, Status> {
    let resource = Arc::clone(&call.resource);
    let uid = given(applied, "uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource.group_resource(), &call.asked.name, &why));
    }
    resource_version(given(applied, "resourceVersion"))?;
    call.may_create().await?;
    let now = call.now();
    let write = writer(call, &options.manager, &now);
    let resets = Resets::of(&resource, stored, call.part);
    let merged = resets.track(&resource, |tracker| tracker.apply(None, applied, options.force, write));
    let mut object = merged.map_err(|error| error.status())?;
    // As in a Go server, the revision of an object that is gone does not prevent a new one.
    object.remove(&["metadata", "resourceVersion"]);
    decode::apply_defaults(&mut object, &resource.schema);
    insert(call, stored, New { object, track: false }, options).await
}

fn given<'a>(applied: &'a Value, field: &str) -> &'a str {
    applied
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}
