//! Hands committed batches from the writer to the tail, so that this replica need not read again what it has written.
//!
//! This only saves a poll. The tail uses a batch when it begins at the cache's revision, and when the history behind
//! the writer's connection was compared with the cache's. It reads all other events from the database, as it reads
//! those of other replicas.

use crate::cache::state::Event;
use crate::kinds::Kinds;
use crate::model::{Attributes, Entry, Key, Revision};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use uuid::Uuid;

/// Most batches that wait for the tail. The tail reads further ones from the database.
const BATCHES_MAX: usize = 64;
/// Most connections whose newest acknowledged write is kept. The writes over further connections are not checked.
const ACKNOWLEDGED_MAX: usize = 16;

/// A row of `events`, as it was sent to the database.
#[derive(Debug)]
pub(crate) struct WrittenEvent {
    pub(crate) key: Key,
    pub(crate) uid: Uuid,
    pub(crate) revision: Revision,
    pub(crate) body: String,
    pub(crate) deleted: bool,
    /// Absent for a create.
    pub(crate) before: Option<Attributes>,
}

impl WrittenEvent {
    /// The event as a poll would read it; `None` for a kind that is not served.
    pub(crate) fn into_event(self, kinds: &Kinds) -> Option<Event> {
        let attributes = kinds.get(self.key.kind)?.attributes(self.body.as_bytes());
        // A copy takes exactly the memory that it needs; the text may have spare capacity.
        let body = Bytes::copy_from_slice(self.body.as_bytes());
        let entry = Entry { key: self.key, uid: self.uid, revision: self.revision, body, attributes };
        Some(Event { entry, deleted: self.deleted, before: self.before })
    }
}

/// A batch that was committed. It has all revisions after `base` up to and with `end`.
#[derive(Debug)]
pub(crate) struct CommittedBatch {
    pub(crate) base: Revision,
    pub(crate) end: Revision,
    pub(crate) events: Vec<WrittenEvent>,
    /// The number of the writer's connection that it was committed over.
    pub(crate) connection: u64,
}

/// The newest write over one connection of the writer whose caller was told that it is committed. A server commits in
/// the order of the revisions. So a history that has this write has all writes acknowledged over that connection
/// before it.
#[derive(Clone, Debug)]
pub(crate) struct AcknowledgedWrite {
    pub(crate) connection: u64,
    pub(crate) revision: Revision,
    pub(crate) uid: Uuid,
    pub(crate) deleted: bool,
    pub(crate) body: Arc<str>,
}

/// What wakes the tail: batches of this replica's writer, requests for a poll, and notices of changes.
#[derive(Debug)]
pub(crate) struct Handover {
    writer: Uuid,
    batches: Mutex<Vec<CommittedBatch>>,
    acknowledged: Mutex<Vec<AcknowledgedWrite>>,
    connections: AtomicU64,
    /// A reader waits for a poll.
    poll_requested: AtomicBool,
    /// The database has changes that no reader waits for.
    changes_noticed: AtomicBool,
    wake: Notify,
}

impl Handover {
    pub(crate) fn new() -> Self {
        Self {
            writer: Uuid::new_v4(),
            batches: Mutex::default(),
            acknowledged: Mutex::default(),
            connections: AtomicU64::new(0),
            poll_requested: AtomicBool::new(false),
            changes_noticed: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// The id of this replica's writer.
    pub(crate) fn writer(&self) -> Uuid {
        self.writer
    }

    /// Counts one more connection of the writer.
    pub(crate) fn add_connection(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of the writer's newest connection.
    pub(crate) fn current_connection(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Gives a batch to the tail.
    pub(crate) fn push(&self, batch: CommittedBatch) {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if batches.len() < BATCHES_MAX {
            batches.push(batch);
        } else {
            self.changes_noticed.store(true, Ordering::SeqCst);
        }
        drop(batches);
        self.wake.notify_one();
    }

    /// The batches since the last call, in order.
    pub(crate) fn drain(&self) -> Vec<CommittedBatch> {
        std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a write that is about to be acknowledged, instead of the previous one over the same connection.
    pub(crate) fn acknowledge(&self, newest: AcknowledgedWrite) {
        let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = acknowledged.iter_mut().find(|known| known.connection == newest.connection) {
            *known = newest;
        } else if acknowledged.len() < ACKNOWLEDGED_MAX {
            acknowledged.push(newest);
        }
    }

    /// The acknowledged writes after this revision of the cache. Forgets the others.
    pub(crate) fn acknowledged_after(&self, revision: Revision) -> Vec<AcknowledgedWrite> {
        let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        acknowledged.retain(|known| known.revision > revision);
        acknowledged.clone()
    }

    /// Makes the tail poll the database at once.
    pub(crate) fn request_poll(&self) {
        self.poll_requested.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Tells the tail that other replicas have written, so that it polls soon.
    pub(crate) fn notify_changes(&self) {
        self.changes_noticed.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Whether a poll was requested; clears the request.
    pub(crate) fn take_poll_request(&self) -> bool {
        self.poll_requested.swap(false, Ordering::SeqCst)
    }

    /// Whether changes of other replicas were noticed; clears the notice.
    pub(crate) fn take_change_notice(&self) -> bool {
        self.changes_noticed.swap(false, Ordering::SeqCst)
    }

    /// Waits until there is something to do.
    pub(crate) async fn notified(&self) {
        self.wake.notified().await;
    }
}
