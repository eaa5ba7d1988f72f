//! Whether the caller may see the parent of an object is checked before the object itself.

use crate::resource::StoredKind;
use crate::store_status::status_of;
use crate::verbs::Call;
use meta::object::Object;
use meta::status::Status;
use store::read::At;
use store::{Error, Key, Visibility};

/// Answers a write below a parent that the caller does not see with a 404 for the parent. The answer is the same
/// whether the parent exists or not. For a caller who sees everything, the store checks that the parent exists.
pub(crate) async fn check(
    call: &Call<'_>,
    stored: &StoredKind,
    live: Option<&Object>,
    new: &Object,
) -> Result<(), Status> {
    if matches!(call.cx.access.visibility(), Visibility::Everything) {
        return Ok(());
    }
    let Some(parent) = stored.strategy.parent(new) else { return Ok(()) };
    if live.is_some_and(|live| stored.strategy.parent(live).as_ref() == Some(&parent)) {
        return Ok(());
    }
    match call.view(At::Any).get(&parent).await? {
        Some(_seen) => Ok(()),
        None => Err(missing(call, stored, new, &parent)),
    }
}

/// The error for a parent that does not exist for the caller.
pub(crate) fn missing(call: &Call<'_>, stored: &StoredKind, new: &Object, parent: &Key) -> Status {
    stored
        .strategy
        .parent_missing(new, parent)
        .unwrap_or_else(|| status_of(&Error::NotFound, &call.api.resource_of(parent.kind), &parent.name))
}
