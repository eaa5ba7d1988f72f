//! `POST` of a collection.

use crate::resource::{Part, Resource};
use crate::verbs::Call;
use crate::verbs::body;
use crate::verbs::commit::{commit, context, growth_warnings, owns, state, tracker, writer, written};
use crate::verbs::errors::status_of;
use crate::verbs::options::{WriteKind, WriteOptions};
use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::Status;
use meta::{name, validation};
use serde_json::Value;
use std::sync::Arc;
use store::model::{Change, Write};
use store::quota::Violation;
use store::read::At;
use store::{Entry, Error, Key};
use uuid::Uuid;

/// Names that are tried for an object with a `generateName`.
const GENERATED_NAMES_MAX: usize = 8;
/// What the server alone gives an object.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

pub(crate) async fn create(call: &mut Call<'_>, body: Body) -> Result<Response<Body>, Status> {
    let media = body::media(&call.headers)?;
    let bytes = body::read(body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Create)?;
    let (object, dropped) = body::decode(&bytes, media, call.resource(), options.validation)?;
    call.warnings.extend(dropped);
    let entry = insert(call, object, &options, true).await?;
    call.respond(StatusCode::CREATED, &entry)
}

/// Stores a new object. `track` is false for an apply, which has named its fields' owner itself.
pub(crate) async fn insert(
    call: &mut Call<'_>,
    mut object: Object,
    options: &WriteOptions,
    track: bool,
) -> Result<Entry, Status> {
    let resource = Arc::clone(call.resource());
    if call.sees_nothing() {
        return Err(Status::forbidden(
            &resource.group_resource(),
            object.name(),
            "nothing is visible to this user",
        ));
    }
    place(call, &mut object)?;
    call.warnings.extend(validation::dedup_owner_references(&mut object));
    let generated = object.name().is_empty() && !object.text(&["metadata", "generateName"]).is_empty();
    let tries = if generated { GENERATED_NAMES_MAX } else { 1 };
    for _try in 1..tries {
        match try_insert(call, object.clone(), options, track).await {
            Err(Failure::Taken(_)) => {}
            other => return other.map_err(Failure::status),
        }
    }
    match try_insert(call, object, options, track).await {
        Err(Failure::Taken(mut status)) if generated => {
            status.message = format!(
                "{}, the server was not able to generate a unique name for the object",
                status.message
            );
            Err(status.retry_after(1))
        }
        other => other.map_err(Failure::status),
    }
}

enum Failure {
    /// The name is taken.
    Taken(Status),
    Other(Status),
}

impl Failure {
    fn status(self) -> Status {
        match self {
            Self::Taken(status) | Self::Other(status) => status,
        }
    }
}

/// The namespace is the URL's.
fn place(call: &Call<'_>, object: &mut Object) -> Result<(), Status> {
    let path = ["metadata", "namespace"];
    if !call.resource().namespaced {
        object.remove(&path);
        return Ok(());
    }
    let given = object.namespace();
    if !given.is_empty() && given != call.asked.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object.set(&path, Value::from(call.asked.namespace.as_str()));
    Ok(())
}

async fn try_insert(
    call: &mut Call<'_>,
    object: Object,
    options: &WriteOptions,
    track: bool,
) -> Result<Entry, Failure> {
    let resource = Arc::clone(call.resource());
    let now = call.now();
    let uid = Uuid::new_v4();
    let scope_tenant = scope_tenant(call, &object).await;
    let made = prepare(call, object, options, (uid, track), scope_tenant.as_deref());
    let (mut object, warnings) = made.map_err(Failure::Other)?;
    call.warnings.extend(warnings);
    may_have(call, &object, options.dry_run).await.map_err(Failure::Other)?;
    let state = state(&resource, &mut object).map_err(Failure::Other)?;
    let key = Key::new(resource.id, object.namespace(), object.name());
    let body = Bytes::from(state.body.clone());
    let change = Change::Create(state);
    let told = growth_warnings(&resource, &change);
    let write = Write { key: key.clone(), uid, change, may_grow: true, hold: None };
    match commit(call, write, options.dry_run).await {
        Ok(revision) => {
            call.warnings.extend(told);
            let entry = written(&key, uid, revision, body);
            call.audit(None, &entry, options.dry_run, String::new());
            Ok(entry)
        }
        Err(Error::Refused(violations)) => {
            let cx = context(call, options.dry_run, false, &now);
            Err(Failure::Other(resource.strategy.refusal(&cx, &object, &violations)))
        }
        // Where the caller may put nothing, there is nothing for him.
        Err(Error::NotFound) => {
            let pays = resource.strategy.account(&object).ok().and_then(|account| account.pays);
            let violations: Vec<Violation> =
                pays.into_iter().map(|scope| Violation::ScopeMissing { scope }).collect();
            let cx = context(call, options.dry_run, false, &now);
            Err(Failure::Other(match violations.as_slice() {
                [] => status_of(&Error::NotFound, &resource, object.name()),
                missing => resource.strategy.refusal(&cx, &object, missing),
            }))
        }
        Err(error @ Error::AlreadyExists { .. }) => {
            Err(Failure::Taken(status_of(&error, &resource, object.name())))
        }
        Err(error) => Err(Failure::Other(status_of(&error, &resource, object.name()))),
    }
}

/// The tenant of the new object's scope, where neither the caller nor the object says one. What the store decides
/// does not rest on it: it compares the tenants again.
async fn scope_tenant(call: &Call<'_>, object: &Object) -> Option<String> {
    let account = call.resource().strategy.account(object).ok()?;
    let confined = context(call, true, false, "").tenant.is_some();
    if confined || !account.tenant.is_empty() {
        return None;
    }
    let scope = account.pays?;
    let stands =
        |resource: &&Arc<Resource>| resource.kind.stands_for().is_some_and(|s| s.scope == scope.kind);
    let kind = call.api.resources.iter().find(stands)?.id;
    let key = Key::new(kind, "", &scope.name);
    for at in [At::Any, At::Latest] {
        if let Ok(entry) = call.api.store.get(&call.cx.access, &key, at).await {
            return entry.attributes.tenant.as_deref().map(str::to_owned);
        }
    }
    None
}

/// Makes the object what will be stored, and validates it.
fn prepare(
    call: &Call<'_>,
    mut object: Object,
    options: &WriteOptions,
    (uid, track): (Uuid, bool),
    scope_tenant: Option<&str>,
) -> Result<(Object, Vec<String>), Status> {
    let resource = call.resource();
    let strategy = &resource.strategy;
    let now = call.now();
    for field in SYSTEM_FIELDS {
        object.remove(&["metadata", field]);
    }
    object.set(&["metadata", "uid"], Value::from(uid.to_string()));
    object.set(&["metadata", "creationTimestamp"], Value::from(now.as_str()));
    object.set(&["metadata", "generation"], Value::from(1));
    generate_name(&mut object);
    if owns(resource, Part::Status) {
        object.remove(&["status"]);
    }
    let mut cx = context(call, options.dry_run, false, &now);
    cx.scope_tenant = scope_tenant;
    strategy.prepare_create(&mut cx, &mut object)?;
    // A strategy may bring a prefix of its own for an object that has neither name nor prefix.
    generate_name(&mut object);
    // Owners that cannot be read are forgotten, and no error.
    if track {
        object = tracker(resource, Part::Main).update(None, object, writer(call, &options.manager, &now));
    }
    let mut errors = validation::object_meta(&object, resource.namespaced, strategy.name_rule());
    errors.extend(strategy.validate_create(&mut cx, &object));
    if !errors.is_empty() {
        return Err(Status::invalid(&resource.gvk, object.name(), &errors));
    }
    if !object.resource_version().is_empty() {
        // What a Go server says: a bare storage error without a reason.
        return Err(Status::failure(500, "", "resourceVersion should not be set on objects to be created"));
    }
    let mut warnings = cx.warnings;
    warnings.extend(validation::finalizer_warnings(&object, None));
    Ok((object, warnings))
}

/// Whether the caller has every right that the object takes.
async fn may_have(call: &mut Call<'_>, object: &Object, dry_run: bool) -> Result<(), Status> {
    let resource = Arc::clone(call.resource());
    let now = call.now();
    let right = resource.strategy.extra_right(&context(call, dry_run, false, &now), Part::Main, None, object);
    match right {
        Some(right) => call.demand(&right, object.name()).await,
        None => Ok(()),
    }
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
