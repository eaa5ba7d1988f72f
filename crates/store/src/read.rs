//! What can be asked of the store, and what comes back.

use crate::model::{Entry, KindId, Revision};
use bytes::Bytes;
use meta::selector::{FieldSelector, LabelSelector};
use std::sync::{Arc, OnceLock};

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Everything committed before the request came.
    Latest,
    /// Whatever the cache holds.
    Any,
    /// This revision or a later one; waits at most 3 s for it.
    NotOlderThan(Revision),
    /// Exactly this revision.
    Exact(Revision),
}

/// Which objects are meant.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Their kind.
    pub kind: KindId,
    /// Only in this namespace; all of them when absent.
    pub namespace: Option<String>,
    /// Label selector; empty selects everything.
    pub labels: LabelSelector,
    /// Field selector over `metadata.name`, `metadata.namespace` and [`crate::Kind::fields`].
    pub fields: FieldSelector,
}

/// A list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Which objects.
    pub selection: Selection,
    /// How fresh. Not looked at when a token is given.
    pub at: At,
    /// Items a page; `None` is all.
    pub limit: Option<usize>,
    /// Token of an earlier page.
    pub continue_token: Option<String>,
}

/// A page of a list: one snapshot, in bytewise order of `namespace/name`.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects.
    pub items: Vec<Arc<Entry>>,
    /// Revision of the snapshot.
    pub revision: Revision,
    /// Token of the next page, when there is one.
    pub continue_token: Option<String>,
    /// Items after this page; only known without selectors and filters.
    pub remaining: Option<u64>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// First an ADDED for every object of a state as fresh as asked, then [`WatchItem::InitialEnd`], then changes.
    State(At),
    /// Changes after this revision. A reader who has it from another replica may be ahead of the cache here, but not
    /// of the database, which is asked then.
    After(Revision),
    /// Changes from now on.
    Now,
}

/// A watch.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    /// Which objects.
    pub selection: Selection,
    /// Where it begins.
    pub from: WatchFrom,
}

/// What happened to an object, seen through a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// It appeared, or began to match.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or matches no longer; the entry is the last matching state at the event's revision.
    Deleted,
}

/// One step of a watch.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// A change.
    Event {
        /// What happened.
        op: Op,
        /// The object.
        entry: Arc<Entry>,
        /// The finished JSON frame, made by the first stream that needs it and shared by all.
        frame: Arc<OnceLock<Bytes>>,
    },
    /// All objects of the initial state have been sent; the state's revision.
    InitialEnd(Revision),
    /// Asked for with [`crate::watch::Watch::bookmark`]: everything up to this revision has been sent.
    Bookmark(Revision),
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The reader was too slow and is let go; it may come back from its last revision.
    Slow,
    /// History was compacted or diverged, or never came to where the reader was: he has to list again (410).
    Expired {
        /// Where the reader was.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The server ends.
    Shutdown,
}
