//! `PUT` of one object.

use crate::resource::{Resource, StoredKind};
use crate::verbs::change::{change, needs_revision};
use crate::verbs::options::{WriteKind, WriteOptions, has_no_revision};
use crate::verbs::owned_fields::DesiredState;
use crate::verbs::{Call, body};
use axum::body::Body;
use http::{Response, StatusCode};
use meta::object::Object;
use meta::status::Status;
use std::sync::Arc;

pub(crate) async fn update(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    let bytes = body::read_for_write(call, body).await?;
    let options = WriteOptions::parse(&call.query, &call.headers, WriteKind::Update)?;
    let media = body::media(&call.headers)?;
    let resource = Arc::clone(&call.resource);
    let decoded = body::decode(&bytes, media, &resource.gvk, &resource.schema, options.validation)?;
    call.warnings.extend(decoded.warnings);
    let mut given = decoded.object;
    check_identity(&resource, &call.request.name, &call.request.namespace, &mut given)?;
    let entry = change(call, stored, &options, |live| {
        let uid = given.uid();
        if !uid.is_empty() && uid != live.uid() {
            let key =
                format!("/{}/{}/{}/{}", resource.gvk.group, resource.plural, live.namespace(), live.name());
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
                 failed: UID in precondition: {uid}, UID in object meta: {}",
                key.replace("//", "/"),
                live.uid()
            );
            return Err(Status::conflict(&resource.group_resource(), live.name(), &why));
        }
        let unversioned = has_no_revision(given.resource_version());
        if unversioned && !stored.strategy.allows_unconditional_update() {
            return Err(needs_revision(&resource, live));
        }
        Ok(DesiredState { object: given.clone(), track: true, versioned: !unversioned, warnings: Vec::new() })
    });
    let entry = entry.await?;
    call.respond(StatusCode::OK, &entry)
}

/// Refuses an object whose name or namespace differs from the URL's. Sets a missing namespace.
pub(crate) fn check_identity(
    resource: &Resource,
    url_name: &str,
    url_namespace: &str,
    given: &mut Object,
) -> Result<(), Status> {
    let name = given.name();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({url_name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != url_name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url_name})"
        )));
    }
    body::set_namespace(resource, url_namespace, given)
}
