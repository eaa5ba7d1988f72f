//! Server-side apply.

use crate::object_endpoint::ObjectEndpoint;
use crate::request::Verb;
use crate::resource::{Resource, StoredKind};
use crate::verbs::change::change;
use crate::verbs::create::{NewObject, insert};
use crate::verbs::options::{WriteKind, WriteOptions, has_no_revision, resource_version};
use crate::verbs::owned_fields::{DesiredState, ResetFields, field_writer};
use crate::verbs::update::check_identity;
use crate::verbs::{Call, body, nul};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::decode::{self, FieldValidation, Media};
use meta::object::Object;
use meta::status::Status;
use serde_json::Value;
use std::sync::Arc;
use store::Entry;

/// Attempts of an apply that finds the object absent when it updates it, and present when it creates it.
const ROUNDS_MAX: usize = 4;

pub(crate) async fn apply(
    call: &mut Call<'_>,
    stored: &StoredKind,
    bytes: &[u8],
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Apply)?;
    let (mut applied, duplicates) = decode(bytes)?;
    nul::check(bytes, &applied)?;
    if options.validation == FieldValidation::Warn {
        call.warnings.extend(duplicates);
    } else if options.validation == FieldValidation::Strict && !duplicates.is_empty() {
        return Err(Status::bad_request(format!("error strict decoding YAML: {}", duplicates.join(", "))));
    }
    set_name(call, &mut applied)?;
    let mut round = 0_usize;
    loop {
        round = round.saturating_add(1);
        match change_live(call, stored, &applied, &options).await {
            Err(status) if is_missing(call, &status) => {}
            other => return call.respond(StatusCode::OK, &other?),
        }
        match create_new(call, stored, applied, &options).await {
            Err(status) if status.reason == "AlreadyExists" && round < ROUNDS_MAX => {
                (applied, _) = decode(bytes)?;
                set_name(call, &mut applied)?;
            }
            other => return call.respond(StatusCode::CREATED, &other?),
        }
    }
}

/// The configuration, and the errors about its repeated fields.
fn decode(bytes: &[u8]) -> Result<(Value, Vec<String>), Status> {
    decode::decode_value(bytes, Media::Yaml)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))
}

/// Whether an update failed because the object does not exist, so that the apply creates it. A subresource creates
/// nothing.
fn is_missing(call: &Call<'_>, status: &Status) -> bool {
    let is_this = status.details.as_ref().is_some_and(|details| {
        details.name == call.request.name
            && details.kind == call.resource.plural
            && details.group == call.resource.gvk.group
    });
    status.code == 404 && is_this && call.endpoint == ObjectEndpoint::Main
}

/// Takes the name from the URL if the configuration has none.
fn set_name(call: &Call<'_>, applied: &mut Value) -> Result<(), Status> {
    let Some(metadata) = applied.as_object_mut().and_then(|map| {
        map.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new())).as_object_mut()
    }) else {
        return Err(Status::bad_request("an applied configuration must be an object with metadata"));
    };
    let name = metadata.entry("name").or_insert_with(|| Value::from(call.request.name.as_str()));
    if name.as_str() != Some(call.request.name.as_str()) {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            name.as_str().unwrap_or_default(),
            call.request.name
        )));
    }
    Ok(())
}

/// Applies the configuration to the object that exists.
async fn change_live(
    call: &mut Call<'_>,
    stored: &StoredKind,
    applied: &Value,
    options: &WriteOptions,
) -> Result<Entry, Status> {
    let (resource, request) = (Arc::clone(&call.resource), Arc::clone(&call.request));
    let (now, subresource) = (call.now(), call.endpoint.name());
    let reset_fields = ResetFields::of(&resource, stored, call.endpoint);
    let versioned = !has_no_revision(given(applied, "resourceVersion"));
    let entry = change(call, stored, options, |live| {
        let write = meta::managed::Writer { manager: &options.manager, subresource, now: &now };
        let merged = reset_fields
            .track(&resource, |field_manager| field_manager.apply(Some(live), applied, options.force, write));
        let mut object = merged.map_err(|error| error.status())?;
        set_defaults(&resource, &mut object)?;
        check_identity(&resource, &request.name, &request.namespace, &mut object)?;
        Ok(DesiredState { object, track: false, versioned, warnings: Vec::new() })
    });
    entry.await
}

/// Creates the object. The configuration is dropped before the database is waited for.
async fn create_new(
    call: &mut Call<'_>,
    stored: &StoredKind,
    applied: Value,
    options: &WriteOptions,
) -> Result<Entry, Status> {
    let resource = Arc::clone(&call.resource);
    let uid = given(&applied, "uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource.group_resource(), &call.request.name, &why));
    }
    resource_version(given(&applied, "resourceVersion"))?;
    call.require_verb(Verb::Create).await?;
    let now = call.now();
    let write = field_writer(call, &options.manager, &now);
    let reset_fields = ResetFields::of(&resource, stored, call.endpoint);
    let merged = reset_fields
        .track(&resource, |field_manager| field_manager.apply(None, &applied, options.force, write));
    drop(applied);
    let mut object = merged.map_err(|error| error.status())?;
    // As in a Go server, an apply with the revision of a deleted object creates a new one.
    object.remove(&["metadata", "resourceVersion"]);
    set_defaults(&resource, &mut object)?;
    insert(call, stored, NewObject { object, track: false }, options).await
}

fn set_defaults(resource: &Resource, object: &mut Object) -> Result<(), Status> {
    decode::apply_defaults(object, &resource.schema).map_err(|error| body::refused(&resource.gvk, &error))
}

/// A text field of the metadata of an applied configuration.
fn given<'a>(applied: &'a Value, field: &str) -> &'a str {
    applied
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}
