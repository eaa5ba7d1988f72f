//! The frames of a watch. The frame of a whole object is encoded once and shared by all streams.

use crate::response::{Form, IncludeObject, Media, Renderer, event_frame, status_body};
use bytes::{BufMut, Bytes, BytesMut};
use meta::status::Status;
use runtime::Clock;
use serde_json::json;
use std::sync::OnceLock;
use store::read::Op;
use store::{Attributes, Entry, Key, KindId, Revision};
use uuid::Uuid;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Encodes the frames of one stream.
#[derive(Debug)]
pub(super) struct Frames {
    renderer: Renderer,
    /// For the column `AGE` of tables.
    clock: Clock,
    /// Only the first table of a stream has the column definitions.
    columns_sent: bool,
}

/// The frame of an error, which ends the stream.
pub(super) fn error(status: &Status, media: Media) -> Bytes {
    if media == Media::Protobuf {
        return event_frame("ERROR", |out| status_body(status, out));
    }
    let json = serde_json::to_vec(status).unwrap_or_else(|_| b"{}".to_vec());
    framed("ERROR", |out: &mut BytesMut| out.put_slice(&json))
}

impl Frames {
    pub(super) fn new(renderer: Renderer, clock: Clock) -> Self {
        Self { renderer, clock, columns_sent: false }
    }

    /// The frame of an error, which ends the stream.
    pub(super) fn error(&self, status: &Status) -> Bytes {
        error(status, self.renderer.media)
    }

    pub(super) fn event(&mut self, op: Op, entry: &Entry, shared: &OnceLock<Bytes>) -> Bytes {
        let op = match op {
            Op::Added => "ADDED",
            Op::Modified => "MODIFIED",
            Op::Deleted => "DELETED",
        };
        if self.renderer.form == Form::Object {
            return shared.get_or_init(|| framed(op, |out| entry.write_json(out))).clone();
        }
        self.renderer.now = self.clock.unix_seconds();
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        rendered(op, &self.renderer, entry, columns)
    }

    /// A bookmark of a revision.
    pub(super) fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Bytes {
        self.renderer.now = self.clock.unix_seconds();
        let gvk = &self.renderer.resource.gvk;
        let mut metadata = json!({"creationTimestamp": null});
        if initial_end {
            metadata = json!({"creationTimestamp": null, "annotations": {INITIAL_EVENTS_END: "true"}});
        }
        let body =
            json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata}).to_string();
        let entry = Entry {
            key: Key::new(KindId(0), "", ""),
            uid: Uuid::nil(),
            revision,
            body: body.into(),
            attributes: Attributes::default(),
        };
        let mut renderer = self.renderer.clone();
        if renderer.include == IncludeObject::None {
            renderer.include = IncludeObject::Metadata;
        }
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        rendered("BOOKMARK", &renderer, &entry, columns)
    }
}

fn rendered(op: &str, renderer: &Renderer, entry: &Entry, columns: bool) -> Bytes {
    let write = |out: &mut BytesMut| match renderer.form {
        Form::Table(_) => renderer.table(entry, columns, out),
        _ => renderer.object(entry, out),
    };
    if renderer.media == Media::Protobuf { event_frame(op, write) } else { framed(op, write) }
}

fn framed(op: &str, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::with_capacity(1024);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(op.as_bytes());
    out.put_slice(b"\",\"object\":");
    write(&mut out);
    out.put_slice(b"}\n");
    out.freeze()
}
