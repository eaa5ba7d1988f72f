//! Protobuf: `PartialObjectMetadata`, lists and events of it, and Status.

use crate::response::raw_metadata::{metadata_object, resource_version};
use bytes::{Bytes, BytesMut};
use meta::protobuf::{self, Message};
use meta::status::{ListMeta, Status};
use std::sync::Arc;
use store::Entry;
use tokio::task::yield_now;

/// Entries that are encoded before other tasks get their turn.
const ENTRIES_PER_TURN: usize = 256;

/// The metadata of one object.
pub(super) fn object(entry: &Entry, version: &str, out: &mut BytesMut) {
    append(out, |out| protobuf::body(out, version, "PartialObjectMetadata", |out| metadata(entry, out)));
}

/// An element of a list of metadata.
pub(super) fn item(entry: &Entry, version: &str, out: &mut BytesMut) {
    append(out, |out| out.nested(protobuf::items_field(version), |out| metadata(entry, out)));
}

/// The bytes before and after a list's elements. The length of the elements comes first, so they are encoded twice:
/// here for their length, and again when they are sent. To keep them would take memory for the whole list.
pub(super) async fn envelope(version: &str, meta: &ListMeta, items: &[Arc<Entry>]) -> (Bytes, Bytes) {
    let (mut total, mut scratch) = (0_usize, BytesMut::new());
    for entries in items.chunks(ENTRIES_PER_TURN) {
        for entry in entries {
            scratch.clear();
            item(entry, version, &mut scratch);
            total = total.saturating_add(scratch.len());
        }
        yield_now().await;
    }
    let (before, after) = protobuf::around_items(version, meta, total);
    (before.into_bytes().freeze(), after.into_bytes().freeze())
}

/// The body of a Status.
pub(crate) fn status_body(status: &Status, out: &mut BytesMut) {
    append(out, |out| protobuf::status(out, status));
}

/// The frame of a watch event, with the object that `write` writes.
pub(crate) fn event_frame(op: &str, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    protobuf::event_frame(op, |out| write(out.buffer())).freeze()
}

fn metadata(entry: &Entry, out: &mut Message) {
    let text = std::str::from_utf8(&entry.body).ok().and_then(metadata_object).unwrap_or("{}");
    if let Err(error) = protobuf::partial_object_metadata(out, text, &resource_version(entry)) {
        tracing::error!(%error, key = ?entry.key, "stored metadata cannot be read");
    }
}

/// Appends to a buffer.
fn append(out: &mut BytesMut, write: impl FnOnce(&mut Message)) {
    let mut message = Message::from(std::mem::take(out));
    write(&mut message);
    *out = message.into_bytes();
}
