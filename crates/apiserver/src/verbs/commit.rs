//! The steps that creates, changes and deletes share.

use crate::object_endpoint::ObjectEndpoint;
use crate::resource::{Resource, StoredKind};
use crate::store_status::status_of;
use crate::strategy::WriteContext;
use crate::verbs::Call;
use bytes::Bytes;
use meta::object::Object;
use meta::status::Status;
use std::sync::Arc;
use store::model::{Before, Change, NewState, Write};
use store::read::At;
use store::{Attributes, Entry, Error, Key, Revision};
use uuid::Uuid;

/// The most bytes of a stored object.
pub(crate) const OBJECT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The same after a write through a subresource, or of an object that is being deleted. Without the difference, an
/// object of the full size could get no status and lose no finalizer.
const OBJECT_BYTES_MAX_WITH_RESERVE: usize = OBJECT_BYTES_MAX + 256 * 1024;

/// Texts for the `Warning` headers of a write.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// About what the client has sent: a refused write shows them too.
    pub(crate) always: Vec<String>,
    /// About the result. A refused write does not show them, since they may be about objects that its caller may not
    /// see.
    pub(crate) accepted: Vec<String>,
}

impl Warnings {
    pub(crate) fn into_all(self) -> impl Iterator<Item = String> {
        self.always.into_iter().chain(self.accepted)
    }
}

/// The context for the strategy of a write without a `resourceVersion` as its precondition.
pub(crate) fn write_context<'a>(call: &'a Call<'_>, dry_run: bool, now: &'a str) -> WriteContext<'a> {
    WriteContext {
        caller: &call.cx.caller,
        visibility: call.cx.access.visibility(),
        endpoint: call.endpoint,
        dry_run,
        versioned: false,
        now,
        warnings: Vec::new(),
    }
}

/// Reads an object for a write.
pub(crate) async fn read_entry(call: &Call<'_>, key: &Key, at: At) -> Result<Arc<Entry>, Status> {
    let read = call.api.store.get(&call.cx.access, key, at).await;
    read.map_err(|error| status_of(&error, &call.resource.group_resource(), &key.name))
}

/// An object as it was read for a write.
pub(crate) struct LiveObject {
    pub(crate) entry: Arc<Entry>,
    /// With its revision.
    pub(crate) object: Object,
}

impl LiveObject {
    pub(crate) async fn read(call: &Call<'_>, key: &Key, at: At) -> Result<Self, Status> {
        Self::parse(call, read_entry(call, key, at).await?)
    }

    pub(crate) fn parse(call: &Call<'_>, entry: Arc<Entry>) -> Result<Self, Status> {
        let object = Object::from_stored(&entry.body, entry.revision.0).map_err(|error| {
            let about = call.resource.group_resource();
            status_of(&Error::Corrupt(error.to_string()), &about, &entry.key.name)
        })?;
        Ok(Self { entry, object })
    }

    /// The state that was read, as the store needs it.
    pub(crate) fn before(&self, stored: &StoredKind) -> Result<Before, Status> {
        let account = stored.strategy.account(&self.object)?;
        Ok(Before { attributes: self.entry.attributes.clone(), account })
    }

    /// The object as it is, to answer with.
    pub(crate) fn unchanged(&self) -> Entry {
        let Entry { key, uid, revision, body, .. } = &*self.entry;
        written_entry(key, *uid, *revision, body.clone())
    }
}

/// The most bytes that an object may have after a change. A change that adds nothing passes, however large the object
/// is already.
pub(crate) fn changed_bytes_max(call: &Call<'_>, live: &Entry, new: &Object) -> usize {
    let has_reserve = call.endpoint != ObjectEndpoint::Main || new.is_deleting();
    let limit = if has_reserve { OBJECT_BYTES_MAX_WITH_RESERVE } else { OBJECT_BYTES_MAX };
    limit.max(live.body.len())
}

/// The state to store. An error if its body has more than `bytes_max` bytes.
pub(crate) fn new_state(
    stored: &StoredKind,
    object: &mut Object,
    bytes_max: usize,
) -> Result<NewState, Status> {
    object.remove(&["metadata", "resourceVersion"]);
    let body = serde_json::to_string(object.as_map()).map_err(|error| Status::internal(error.to_string()))?;
    if body.len() > bytes_max {
        return Err(Status::too_large(format!("Request entity too large: limit is {bytes_max}")));
    }
    Ok(NewState { body, account: stored.strategy.account(object)? })
}

/// Hands a write to the store. Returns `Revision(0)` for a dry run.
pub(crate) async fn commit(call: &Call<'_>, write: Write, dry_run: bool) -> Result<Revision, Error> {
    if dry_run {
        return call.api.store.check(&call.cx.access, write).await.map(|()| Revision(0));
    }
    call.api.store.write(&call.cx.access, write).await
}

/// Warnings about what the object of an accepted write now costs or grants.
pub(crate) fn growth_warnings(stored: &StoredKind, change: &Change) -> Vec<String> {
    let (before, Some(after)) = (change.before(), change.after()) else { return Vec::new() };
    if before.is_some_and(|before| before.has_same_charges_as(after)) {
        return Vec::new();
    }
    stored.strategy.growth_warnings(before, after)
}

/// The answer to a write that had a conflict at every attempt.
pub(crate) fn retries_exhausted(resource: &Resource, name: &str) -> Status {
    tracing::warn!(resource = resource.plural, name, "a write has lost every race and is given up");
    status_of(&Error::Conflict, &resource.group_resource(), name)
}

/// The answer if the name is taken. It says that the other object is being deleted only to a caller who sees that
/// object.
pub(crate) async fn name_taken(call: &Call<'_>, key: &Key, deleting: bool) -> Status {
    let seen = deleting && call.api.store.get(&call.cx.access, key, At::Latest).await.is_ok();
    status_of(&Error::AlreadyExists { deleting: seen }, &call.resource.group_resource(), &key.name)
}

/// The object as it was written, to answer with.
pub(crate) fn written_entry(key: &Key, uid: Uuid, revision: Revision, body: Bytes) -> Entry {
    Entry { key: key.clone(), uid, revision, body, attributes: Attributes::default() }
}
