//! `GET` of one object, or of a subresource that answers with the same object.

use crate::resource::StoredKind;
use crate::store_status::status_of;
use crate::verbs::Call;
use crate::verbs::options::resource_version;
use axum::body::Body;
use http::{Response, StatusCode};
use meta::status::Status;
use store::Revision;
use store::read::At;

pub(crate) async fn get(call: &mut Call<'_>, stored: &StoredKind) -> Result<Response<Body>, Status> {
    check_parameters(call)?;
    let found = call.api.store.get(&call.cx.access, &call.key(stored), freshness(call)?).await;
    let entry =
        found.map_err(|error| status_of(&error, &call.resource.group_resource(), &call.request.name))?;
    call.respond(StatusCode::OK, &entry)
}

/// Refuses a query parameter that GET no longer supports.
pub(crate) fn check_parameters(call: &Call<'_>) -> Result<(), Status> {
    if call.query.flag("export").unwrap_or_default() {
        return Err(Status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    Ok(())
}

/// How fresh the object must be.
pub(crate) fn freshness(call: &Call<'_>) -> Result<At, Status> {
    Ok(match resource_version(call.query.text("resourceVersion"))? {
        None => At::Latest,
        Some(0) => At::Any,
        Some(revision) => At::NotOlderThan(Revision(revision)),
    })
}
