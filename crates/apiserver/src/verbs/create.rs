//! `POST` of a collection.

use crate::resource::{Resource, StoredKind};
use crate::store_status::status_of;
use crate::strategy::{Strategy, WriteContext};
use crate::verbs::commit::{
    OBJECT_BYTES_MAX, Warnings, commit, growth_warnings, name_taken, new_state, write_context, written_entry,
};
use crate::verbs::options::{WriteKind, WriteOptions, has_no_revision};
use crate::verbs::owned_fields::{ResetFields, field_writer, reset_at_create};
use crate::verbs::{Call, body, owner_references, parent};
use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::Status;
use meta::{decode, name, validation};
use serde_json::Value;
use store::model::{Change, Write};
use store::read::At;
use store::{Entry, Error, Key};
use uuid::Uuid;

/// How many names are tried for an object with a `generateName`.
const GENERATED_NAMES_MAX: usize = 8;
/// Fields of `metadata` that only the server sets.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

pub(crate) async fn create(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    let media = body::media(&call.headers)?;
    let bytes = body::read_for_write(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Create)?;
    let decoded = body::decode(&bytes, media, &call.resource.gvk, &call.resource.schema, options.validation)?;
    call.warnings.extend(decoded.warnings);
    let new = NewObject { object: decoded.object, track: true };
    let entry = insert(call, stored, new, &options).await?;
    call.respond(StatusCode::CREATED, &entry)
}

/// An object that a client wants to create.
#[derive(Clone)]
pub(crate) struct NewObject {
    pub(crate) object: Object,
    /// Whether `managedFields` still has to be set. An apply has set it already.
    pub(crate) track: bool,
}

/// Stores a new object.
pub(crate) async fn insert(
    call: &mut Call<'_>,
    stored: &StoredKind,
    mut new: NewObject,
    options: &WriteOptions,
) -> Result<Entry, Status> {
    if call.sees_nothing() {
        let about = call.resource.group_resource();
        return Err(Status::forbidden(&about, new.object.name(), "nothing is visible to this user"));
    }
    body::set_namespace(&call.resource, &call.request.namespace, &mut new.object)?;
    parent::check(call, stored, None, &new.object).await?;
    call.warnings.extend(validation::dedup_owner_references(&mut new.object));
    let generated =
        new.object.name().is_empty() && !new.object.text(&["metadata", "generateName"]).is_empty();
    let attempts = if generated { GENERATED_NAMES_MAX } else { 1 };
    for _attempt in 1..attempts {
        match try_insert(call, stored, new.clone(), options).await {
            Err(CreateFailure::NameTaken(_)) => {}
            other => return other.map_err(CreateFailure::status),
        }
    }
    match try_insert(call, stored, new, options).await {
        Err(CreateFailure::NameTaken(mut status)) if generated => {
            status.message = format!(
                "{}, the server was not able to generate a unique name for the object",
                status.message
            );
            Err(status.retry_after(1))
        }
        other => other.map_err(CreateFailure::status),
    }
}

enum CreateFailure {
    /// The name is taken.
    NameTaken(Status),
    Other(Status),
}

impl CreateFailure {
    fn status(self) -> Status {
        match self {
            Self::NameTaken(status) | Self::Other(status) => status,
        }
    }
}

async fn try_insert(
    call: &mut Call<'_>,
    stored: &StoredKind,
    new: NewObject,
    options: &WriteOptions,
) -> Result<Entry, CreateFailure> {
    let mut warnings = Warnings::default();
    let prepared = prepare_write(call, stored, new, options, &mut warnings).await;
    call.warnings.append(&mut warnings.always);
    let (object, write) = prepared.map_err(CreateFailure::Other)?;
    let (key, uid) = (write.key.clone(), write.uid);
    let body = Bytes::from(write.change.state().body.clone());
    // While its memory is in the processor's cache. A refusal, which is rare, reads it again from its body.
    drop(object);
    match commit(call, write, options.dry_run).await {
        Ok(revision) => {
            call.warnings.extend(warnings.accepted);
            let entry = written_entry(&key, uid, revision, body);
            call.record_change(None, &entry, options.dry_run, String::new());
            Ok(entry)
        }
        Err(error) => Err(Box::pin(refused(call, stored, options.dry_run, &key, &body, error)).await),
    }
}

/// The answer to a create that the store refused.
async fn refused(
    call: &Call<'_>,
    stored: &StoredKind,
    dry_run: bool,
    key: &Key,
    body: &[u8],
    error: Error,
) -> CreateFailure {
    match error {
        Error::AlreadyExists { deleting } => CreateFailure::NameTaken(name_taken(call, key, deleting).await),
        Error::Refused(_) | Error::NotFound => CreateFailure::Other(match Object::from_body(body) {
            Ok(object) => object_refused(call, stored, dry_run, &object, &error),
            Err(error) => Status::internal(error.to_string()),
        }),
        error => CreateFailure::Other(status_of(&error, &call.resource.group_resource(), &key.name)),
    }
}

/// The answer to a create that the limits refused, or the place of the object.
fn object_refused(
    call: &Call<'_>,
    stored: &StoredKind,
    dry_run: bool,
    object: &Object,
    error: &Error,
) -> Status {
    match (error, stored.strategy.parent(object)) {
        (Error::Refused(violations), _) => {
            let now = call.now();
            stored.strategy.refusal(&write_context(call, dry_run, &now), object, violations)
        }
        // The caller may create nothing below this parent: for him it does not exist.
        (Error::NotFound, Some(parent)) => parent::missing(call, stored, object, &parent),
        (error, _) => status_of(error, &call.resource.group_resource(), object.name()),
    }
}

/// A new object as it can be stored, and the write that stores it.
pub(crate) async fn prepare_write(
    call: &Call<'_>,
    stored: &StoredKind,
    mut new: NewObject,
    options: &WriteOptions,
    warnings: &mut Warnings,
) -> Result<(Object, Write), Status> {
    let (now, uid) = (call.now(), Uuid::new_v4());
    let mut cx = write_context(call, options.dry_run, &now);
    set_system_fields(&mut new.object, uid, &now);
    let mut object = prepare(call, stored, new, &options.manager, &mut cx).await?;
    warnings.accepted.append(&mut cx.warnings);
    warnings.always.extend(validation::finalizer_warnings(&object, None));
    let extra = stored.strategy.extra_right(&cx, None, &object);
    let growth = call.growth(extra, object.name()).await?;
    let change = Change::Create(new_state(stored, &mut object, OBJECT_BYTES_MAX)?);
    stored.strategy.reserve(&cx, None, &object)?;
    warnings.accepted.extend(growth_warnings(stored, &change));
    let key = Key::new(stored.id, object.namespace(), object.name());
    Ok((object, Write { key, uid, change, growth, hold: None }))
}

fn set_system_fields(object: &mut Object, uid: Uuid, now: &str) {
    for field in SYSTEM_FIELDS {
        object.remove(&["metadata", field]);
    }
    object.set(&["metadata", "uid"], Value::from(uid.to_string()));
    object.set(&["metadata", "creationTimestamp"], Value::from(now));
    object.set(&["metadata", "generation"], Value::from(1));
}

/// Turns an object that has its system fields into the state to store, and validates it.
async fn prepare(
    call: &Call<'_>,
    stored: &StoredKind,
    new: NewObject,
    manager: &str,
    cx: &mut WriteContext<'_>,
) -> Result<Object, Status> {
    let NewObject { mut object, track } = new;
    let (resource, strategy) = (&*call.resource, &*stored.strategy);
    generate_name(&mut object);
    reset_at_create(stored, &mut object);
    check_enum_values(resource, strategy, &object)?;
    strategy.prepare_create(cx, &mut object)?;
    // The strategy may have set a `generateName` for an object that has neither.
    generate_name(&mut object);
    check_applied_name(call, &object)?;
    if let Some(admission) = strategy.admit(cx, call.view(At::Any), None, &mut object) {
        admission.await?;
    }
    // `managedFields` that cannot be read are dropped without an error.
    if track {
        let write = field_writer(call, manager, cx.now);
        let reset_fields = ResetFields::of(resource, stored, call.endpoint);
        object = reset_fields.track(resource, |field_manager| field_manager.update(None, object, write));
    }
    let mut errors = validation::object_meta(&object, resource.namespaced, strategy.name_rule());
    errors.extend(strategy.validate_create(cx, &object));
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.gvk, object.name(), &errors));
    }
    owner_references::check(call, None, &object).await?;
    if !has_no_revision(object.resource_version()) {
        // A Go server answers with this storage error, which has no reason.
        return Err(Status::failure(500, "", "resourceVersion should not be set on objects to be created"));
    }
    object.remove(&["metadata", "resourceVersion"]);
    Ok(object)
}

/// Refuses an object to which the strategy has given another name than that in the URL, which only an apply has there.
/// The client would never find what it has made.
fn check_applied_name(call: &Call<'_>, object: &Object) -> Result<(), Status> {
    let (name, url_name) = (object.name(), call.request.name.as_str());
    if url_name.is_empty() || name == url_name {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({name}), which its spec says, does not match the name on the URL ({url_name}): \
         metadata.name must be the same"
    )))
}

/// Refuses values that are not in the enums of the schema. Later steps of a strategy read them as Rust enums.
fn check_enum_values(resource: &Resource, strategy: &dyn Strategy, object: &Object) -> Result<(), Status> {
    let enum_errors = decode::check_enums(object, &resource.schema);
    if enum_errors.is_empty() {
        return Ok(());
    }
    let mut errors = Vec::new();
    // A missing name is no error yet: the strategy may still set one.
    if !object.name().is_empty() {
        errors = validation::object_meta(object, resource.namespaced, strategy.name_rule());
    }
    errors.extend(enum_errors);
    Err(Status::invalid(&resource.gvk, object.name(), &errors))
}

/// Sets a name with a random suffix if there is only a `generateName`.
fn generate_name(object: &mut Object) {
    let prefix = object.text(&["metadata", "generateName"]);
    if object.name().is_empty() && !prefix.is_empty() {
        let generated = name::generated(prefix, &random_suffix());
        object.set(&["metadata", "name"], Value::from(generated));
    }
}

fn random_suffix() -> String {
    let alphabet = name::GENERATED_ALPHABET;
    let letter = || alphabet.get(rand::random_range(0..alphabet.len())).copied().map_or('x', char::from);
    std::iter::repeat_with(letter).take(name::GENERATED_SUFFIX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_suffixes_have_the_right_letters() {
        let suffix = random_suffix();
        assert_eq!(suffix.len(), name::GENERATED_SUFFIX_CHARS);
        assert!(suffix.bytes().all(|byte| name::GENERATED_ALPHABET.contains(&byte)));
    }
}
