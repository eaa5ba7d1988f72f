//! Queries of the store, and their results.

use crate::model::{Entry, KindId, Revision};
use bytes::Bytes;
use meta::selector::{FieldSelector, LabelSelector};
use std::sync::{Arc, OnceLock};

/// How fresh an answer must be. Before the cache is filled, every read fails with [`crate::Error::Starting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Everything committed before the request came.
    Latest,
    /// Whatever the cache holds.
    Any,
    /// This revision or a later one. A read waits at most 3 s for it, and then fails with
    /// [`crate::Error::TooFarAhead`].
    NotOlderThan(Revision),
    /// Exactly this revision. A read waits for it in the same way, and fails with [`crate::Error::Expired`] if the
    /// revision is compacted.
    Exact(Revision),
}

/// Which objects to read.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The objects' kind.
    pub kind: KindId,
    /// The objects' namespace; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Label selector; an empty one selects everything.
    pub labels: LabelSelector,
    /// Field selector over `metadata.name`, `metadata.namespace` and [`crate::Kind::fields`].
    pub fields: FieldSelector,
}

/// A request for a page of a list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Which objects.
    pub selection: Selection,
    /// How fresh. Ignored if there is a continue token.
    pub at: At,
    /// The maximum number of items of the page; `None` or 0 for all.
    pub limit: Option<usize>,
    /// The token of the previous page; `None` for the first page.
    pub continue_token: Option<String>,
}

/// A page of a list: one snapshot, in bytewise order of `namespace/name`.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects.
    pub items: Vec<Arc<Entry>>,
    /// The revision of the snapshot.
    pub revision: Revision,
    /// The token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// The number of items after this page. Known only if every object matches.
    pub remaining: Option<u64>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// First an ADDED for every object of a state as fresh as asked, then [`WatchItem::InitialEnd`], then changes.
    State(At),
    /// Changes after this revision. If it comes from another replica, this cache may not have it yet. The database is
    /// polled then, and must have it.
    After(Revision),
    /// Changes from now on.
    Now,
}

/// A request for a watch.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    /// Which objects.
    pub selection: Selection,
    /// Where it begins.
    pub from: WatchFrom,
}

/// What happened to an object, as a selection sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// It was created, or began to match.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted, or no longer matches. The entry is the last matching state, at the event's revision.
    Deleted,
}

/// One item of a watch.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// A change.
    Event {
        /// What happened.
        op: Op,
        /// The object.
        entry: Arc<Entry>,
        /// The finished JSON frame. The first stream that needs it makes it, and all streams share it.
        frame: Arc<OnceLock<Bytes>>,
    },
    /// All objects of the initial state were sent. It is the state at this revision.
    InitialEnd(Revision),
    /// Everything up to this revision was sent. [`crate::watch::Watch::bookmark`] asks for it.
    Bookmark(Revision),
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The reader was too slow. It may watch again from its last revision.
    Slow,
    /// The reader must list again (410): the history after its revision is compacted or lost, or the database never had
    /// that revision.
    Expired {
        /// The reader's revision.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The server shuts down.
    Shutdown,
}
