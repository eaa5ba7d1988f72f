//! `POST` of a collection.

use crate::resource::StoredKind;
use crate::store_status::status_of;
use crate::verbs::commit::{Warnings, commit, context, growth_warnings, state, taken, written};
use crate::verbs::options::{WriteKind, WriteOptions, names_no_revision};
use crate::verbs::owned::{Resets, keep_at_create, writer};
use crate::verbs::{Call, body, owners, parent};
use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::Status;
use meta::{name, validation};
use serde_json::Value;
use store::model::{Change, Write};
use store::read::At;
use store::{Entry, Error, Key};
use uuid::Uuid;

/// Names that are tried for an object with a `generateName`.
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
    let bytes = body::take(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Create)?;
    let decoded = body::decode(&bytes, media, &call.resource.gvk, &call.resource.schema, options.validation)?;
    call.warnings.extend(decoded.warnings);
    let new = New { object: decoded.object, track: true };
    let entry = insert(call, stored, new, &options).await?;
    call.respond(StatusCode::CREATED, &entry)
}

/// An object that a client wants to create.
#[derive(Clone)]
pub(crate) struct New {
    pub(crate) object: Object,
    /// Whether field owners still have to be tracked. An apply has set them already.
    pub(crate) track: bool,
}

/// Stores a new object.
pub(crate) async fn insert(
    call: &mut Call<'_>,
    stored: &StoredKind,
    mut new: New,
    options: &WriteOptions,
) -> Result<Entry, Status> {
    if call.sees_nothing() {
        let about = call.resource.group_resource();
        return Err(Status::forbidden(&about, new.object.name(), "nothing is visible to this user"));
    }
    body::set_namespace(&call.resource, &call.asked.namespace, &mut new.object)?;
    parent::check(call, stored, None, &new.object).await?;
    call.warnings.extend(validation::dedup_owner_references(&mut new.object));
    let generated =
        new.object.name().is_empty() && !new.object.text(&["metadata", "generateName"]).is_empty();
    let tries = if generated { GENERATED_NAMES_MAX } else { 1 };
    for _try in 1..tries {
        match try_insert(call, stored, new.clone(), options).await {
            Err(CreateFailure::Taken(_)) => {}
            other => return other.map_err(CreateFailure::status),
        }
    }
    match try_insert(call, stored, new, options).await {
        Err(CreateFailure::Taken(mut status)) if generated => {
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
    Taken(Status),
    Other(Status),
}

impl CreateFailure {
    fn status(self) -> Status {
        match self {
            Self::Taken(status) | Self::Other(status) => status,
        }
    }
}

async fn try_insert(
    call: &mut Call<'_>,
    stored: &StoredKind,
    new: New,
    options: &WriteOptions,
) -> Result<Entry, CreateFailure> {
    let now = call.now();
    let mut told = Warnings::default();
    let ready = ready(call, stored, new, options, &mut told).await;
    call.warnings.append(&mut told.always);
    let (object, write) = ready.map_err(CreateFailure::Other)?;
    let (key, uid) = (write.key.clone(), write.uid);
    let body = Bytes::from(write.change.state().body.clone());
    match commit(call, write, options.dry_run).await {
        Ok(revision) => {
            call.warnings.extend(told.accepted);
            let entry = written(&key, uid, revision, body);
            call.audit(None, &entry, options.dry_run, String::new());
            Ok(entry)
        }
        Err(Error::Refused(violations)) => {
            let cx = context(call, options.dry_run, false, &now);
            Err(CreateFailure::Other(stored.strategy.refusal(&cx, &object, &violations)))
        }
        Err(error) => Err(Box::pin(refused(call, stored, &object, &key, error)).await),
    }
}

/// The answer to a create that the store refused, but for quota.
async fn refused(
    call: &Call<'_>,
    stored: &StoredKind,
    object: &Object,
    key: &Key,
    error: Error,
) -> CreateFailure {
    let about = call.resource.group_resource();
    match error {
        Error::AlreadyExists { deleting } => CreateFailure::Taken(taken(call, key, deleting).await),
        // A place where the caller may create nothing does not exist for him.
        Error::NotFound => CreateFailure::Other(match stored.strategy.parent(object) {
            Some(parent) => parent::missing(call, stored, object, &parent),
            None => status_of(&error, &about, object.name()),
        }),
        error => CreateFailure::Other(status_of(&error, &about, object.name())),
    }
}

/// A new object as it can be stored, and the write that stores it.
pub(crate) async fn ready(
    call: &Call<'_>,
    stored: &StoredKind,
    new: New,
    options: &WriteOptions,
    told: &mut Warnings,
) -> Result<(Object, Write), Status> {
    let (now, uid) = (call.now(), Uuid::new_v4());
    let mut object = prepare(call, stored, new, options, uid, told).await?;
    let extra = stored.strategy.extra_right(&context(call, options.dry_run, false, &now), None, &object);
    let growth = call.growth(extra, object.name()).await?;
    let change = Change::Create(state(stored, &mut object)?);
    told.accepted.extend(growth_warnings(stored, &change));
    let key = Key::new(stored.id, object.namespace(), object.name());
    Ok((object, Write { key, uid, change, growth, hold: None }))
}

/// Turns the object into the state to store, and validates it.
async fn prepare(
    call: &Call<'_>,
    stored: &StoredKind,
    new: New,
    options: &WriteOptions,
    uid: Uuid,
    told: &mut Warnings,
) -> Result<Object, Status> {
    let New { mut object, track } = new;
    let (resource, strategy, now) = (&*call.resource, &*stored.strategy, call.now());
    for field in SYSTEM_FIELDS {
        object.remove(&["metadata", field]);
    }
    object.set(&["metadata", "uid"], Value::from(uid.to_string()));
    object.set(&["metadata", "creationTimestamp"], Value::from(now.as_str()));
    object.set(&["metadata", "generation"], Value::from(1));
    generate_name(&mut object);
    keep_at_create(stored, &mut object);
    let mut cx = context(call, options.dry_run, false, &now);
    strategy.prepare_create(&mut cx, &mut object)?;
    // A strategy may bring a prefix of its own for an object that has neither name nor prefix.
    generate_name(&mut object);
    if let Some(admission) = strategy.admit(&mut cx, call.view(At::Any), None, &mut object) {
        admission.await?;
    }
    // Owners that cannot be read are dropped without an error.
    if track {
        let write = writer(call, &options.manager, &now);
        let resets = Resets::of(resource, stored, call.part);
        object = resets.track(resource, |tracker| tracker.update(None, object, write));
    }
    let mut errors = validation::object_meta(&object, resource.namespaced, strategy.name_rule());
    errors.extend(strategy.validate_create(&mut cx, &object));
    told.accepted.append(&mut cx.warnings);
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.gvk, object.name(), &errors));
    }
    owners::check(call, None, &object).await?;
    if !names_no_revision(object.resource_version()) {
        // The answer of a Go server: a bare storage error without a reason.
        return Err(Status::failure(500, "", "resourceVersion should not be set on objects to be created"));
    }
    object.remove(&["metadata", "resourceVersion"]);
    told.always.extend(validation::finalizer_warnings(&object, None));
    Ok(object)
}

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
