//! The types of `meta.k8s.io` as protobuf, byte for byte as a Go server encodes them: fields in the order of their
//! numbers, with empty strings and zeros, without absent pointers. Other kinds have no protobuf form here.
//!
//! A body is a magic number of four bytes and a `runtime.Unknown` that contains the object. An event of a watch is its
//! length and a `WatchEvent` that contains such a body.

mod message;
mod metadata;
mod read;

pub use message::Message;
pub use metadata::partial_object_metadata;
pub use read::{WireError, decode, decode_event};

use crate::status::{ListMeta, Status, StatusCause, StatusDetails};
use bytes::BytesMut;

/// The magic number at the start of a body.
const MAGIC: &[u8] = b"k8s\0";
/// The last fields of a `runtime.Unknown`: empty content encoding and content type.
const UNKNOWN_TRAILER: &[u8] = b"\x1a\0\x22\0";

/// Writes a body. `write` writes the fields of the object.
pub fn body(out: &mut Message, api_version: &str, kind: &str, write: impl FnOnce(&mut Message)) {
    body_start(out, api_version, kind);
    out.nested(2, write);
    out.raw(UNKNOWN_TRAILER);
}

fn body_start(out: &mut Message, api_version: &str, kind: &str) {
    out.raw(MAGIC);
    out.nested(1, |types| {
        types.text(1, api_version);
        types.text(2, kind);
    });
}

/// The field number of `items` in a `PartialObjectMetadataList`, which depends on the version.
pub fn items_field(api_version: &str) -> u32 {
    if api_version == "meta.k8s.io/v1beta1" { 1 } else { 2 }
}

/// The parts of a `PartialObjectMetadataList` body before and after its encoded items, which have `items_bytes` bytes.
pub fn around_items(api_version: &str, meta: &ListMeta, items_bytes: usize) -> (Message, Message) {
    let (mut before, mut after) = (Message::default(), Message::default());
    let (first, meta_field) = if items_field(api_version) == 1 { (&mut after, 2) } else { (&mut before, 1) };
    first.nested(meta_field, |out| list_meta(out, meta));
    let length = items_bytes.saturating_add(before.len()).saturating_add(after.len());
    let mut head = Message::default();
    body_start(&mut head, api_version, "PartialObjectMetadataList");
    head.key(2, 2);
    head.varint(u64::try_from(length).unwrap_or(u64::MAX));
    head.raw(before.as_slice());
    after.raw(UNKNOWN_TRAILER);
    (head, after)
}

/// Writes the body of a Status.
pub fn status(out: &mut Message, status: &Status) {
    body(out, &status.api_version, &status.kind, |out| {
        out.nested(1, |out| list_meta(out, &status.metadata));
        out.text(2, &status.status);
        out.text(3, &status.message);
        out.text(4, &status.reason);
        if let Some(found) = &status.details {
            out.nested(5, |out| details(out, found));
        }
        out.integer(6, i64::from(status.code));
    });
}

/// An event of a watch, preceded by its length. `write` writes the object's body.
pub fn event_frame(op: &str, write: impl FnOnce(&mut Message)) -> BytesMut {
    let mut out = Message::default();
    out.raw(&[0; size_of::<u32>()]);
    out.text(1, op);
    out.nested(2, |extension| extension.nested(1, write));
    let mut frame = out.into_bytes();
    let length = u32::try_from(frame.len().saturating_sub(size_of::<u32>())).unwrap_or(u32::MAX);
    if let Some(head) = frame.first_chunk_mut() {
        *head = length.to_be_bytes();
    }
    frame
}

fn list_meta(out: &mut Message, meta: &ListMeta) {
    out.text(1, "");
    out.text(2, &meta.resource_version);
    out.text(3, &meta.continue_token);
    if let Some(count) = meta.remaining_item_count {
        out.integer(4, count);
    }
}

fn details(out: &mut Message, details: &StatusDetails) {
    out.text(1, &details.name);
    out.text(2, &details.group);
    out.text(3, &details.kind);
    for found in &details.causes {
        out.nested(4, |out| cause(out, found));
    }
    out.integer(5, i64::from(details.retry_after_seconds));
    out.text(6, &details.uid);
}

fn cause(out: &mut Message, cause: &StatusCause) {
    out.text(1, &cause.reason);
    out.text(2, &cause.message);
    out.text(3, &cause.field);
}

#[cfg(test)]
mod tests;
