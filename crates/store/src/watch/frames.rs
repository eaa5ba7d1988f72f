//! The frames of one change, which its watches share.

use crate::cache::filter::Filter;
use crate::cache::ring::{RingChange, SeenChange};
use crate::model::Entry;
use crate::read::{Op, WatchItem};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

type Frame = Arc<OnceLock<Bytes>>;

/// The frames of one change: one for each way to see it, made when the first watch needs it.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    added: Option<Frame>,
    modified: Option<Frame>,
    deleted: Option<Frame>,
    left: Option<(Arc<Entry>, Frame)>,
}

impl Frames {
    /// The change as a watch item, if the filter lets it through.
    pub(crate) fn item(&mut self, change: &RingChange, filter: &Filter) -> Option<WatchItem> {
        let (op, slot) = match change.seen_by(filter)? {
            SeenChange::Added => (Op::Added, &mut self.added),
            SeenChange::Modified => (Op::Modified, &mut self.modified),
            SeenChange::Deleted => (Op::Deleted, &mut self.deleted),
            SeenChange::Left => {
                if self.left.is_none() {
                    self.left = Some((change.left()?, Frame::default()));
                }
                let (entry, frame) = self.left.as_ref()?;
                let (entry, frame) = (Arc::clone(entry), Arc::clone(frame));
                return Some(WatchItem::Event { op: Op::Deleted, entry, frame });
            }
        };
        let frame = Arc::clone(slot.get_or_insert_default());
        Some(WatchItem::Event { op, entry: Arc::clone(&change.new), frame })
    }
}
