//! Reads of kinds whose objects are computed for each request.

use crate::computed::{Computed, ReadContext, Singleton};
use crate::request::Verb;
use crate::response::list_response;
use crate::store_status::status_of;
use crate::verbs::list::{check_fields, freshness};
use crate::verbs::options::{ListOptions, resource_version};
use crate::verbs::{Call, body, get};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::{ListMeta, Status};
use std::sync::Arc;
use store::read::At;
use store::{Attributes, Entry, Error, Key, KindId, Revision};
use uuid::Uuid;

pub(crate) async fn read(call: &mut Call<'_>, computed: &dyn Computed) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    match call.request.verb {
        Verb::Get => get_one(call, computed).await,
        Verb::List => list_all(call, computed).await,
        _ => Err(Status::method_not_allowed()),
    }
}

async fn get_one(call: &Call<'_>, computed: &dyn Computed) -> Result<Response<Body>, Status> {
    get::check_parameters(call)?;
    let (at, now, name) = (get::freshness(call)?, call.now(), &call.request.name);
    match computed.get(context(call, at, &now), name).await? {
        Some(object) => call.respond(StatusCode::OK, &entry(call, object)),
        None => Err(status_of(&Error::NotFound, &call.resource.group_resource(), name)),
    }
}

/// A list has only one page, since no older state is kept for further ones.
async fn list_all(call: &Call<'_>, computed: &dyn Computed) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query, false)?;
    check_fields(&options.fields, computed.fields())?;
    let renderer = call.renderer()?;
    let at = match freshness(&options)?.at {
        At::Exact(_) => {
            return Err(Status::bad_request("objects of this kind are only there as they are now"));
        }
        at => at,
    };
    if options.continue_token.is_some() {
        return Err(Status::bad_request("invalid continue token: lists of this kind have one page"));
    }
    // Read before the objects: a client that watches the kinds they are computed from, from this revision on, misses
    // nothing.
    let revision = Revision(call.api.store.revision().0.max(1));
    let now = call.now();
    let mut objects = computed.list(context(call, at, &now)).await?;
    objects.retain(|object| {
        options.labels.matches_object(object) && options.fields.matches(|field| field_of(object, field))
    });
    objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    let items = objects.into_iter().map(|object| Arc::new(entry(call, object))).collect();
    let meta = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    Ok(list_response(renderer, &meta, items, &call.style).await)
}

/// Answers a request for the collection with its one object. Selectors must be valid, but have no effect.
pub(crate) async fn read_singleton(
    call: &mut Call<'_>,
    singleton: &dyn Singleton,
) -> Result<Response<Body>, Status> {
    call.negotiate()?;
    let options = ListOptions::parse(&call.query, false)?;
    check_fields(&options.fields, &[])?;
    let at = match resource_version(&options.resource_version)? {
        None => At::NotOlderThan(call.api.store.seen()),
        Some(0) => At::Any,
        Some(revision) => At::NotOlderThan(Revision(revision)),
    };
    let now = call.now();
    let object = singleton.get(context(call, at, &now)).await?;
    call.respond(StatusCode::OK, &entry(call, object))
}

fn context<'a>(call: &'a Call<'_>, at: At, now: &'a str) -> ReadContext<'a> {
    ReadContext {
        caller: &call.cx.caller,
        visibility: call.cx.access.visibility(),
        view: call.view(at),
        namespace: Some(call.request.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        now,
    }
}

fn field_of<'o>(object: &'o Object, field: &str) -> Option<&'o str> {
    let path: Vec<&str> = field.split('.').collect();
    object.get(&path)?.as_str()
}

/// The object in the form of an entry of the store.
fn entry(call: &Call<'_>, mut object: Object) -> Entry {
    body::set_kind(&mut object, &call.resource.gvk);
    Entry {
        key: Key::new(KindId(0), object.namespace(), object.name()),
        uid: Uuid::nil(),
        revision: Revision(0),
        body: object.to_stored().into(),
        attributes: Attributes::default(),
    }
}
