//! Committed batches on their way from the writer to the tail: this replica need not read again what it has written.
//!
//! It only saves a look. A batch is used when it begins where the cache ends, and when the history of the writer's
//! connection was compared with the cache's; everything else is read from the database like another replica's.

use crate::cache::state::Event;
use crate::kinds::Kinds;
use crate::model::{Attributes, Entry, Key, Revision};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use uuid::Uuid;

/// Batches that may wait. Further ones are read from the database.
const WAITING_MAX: usize = 64;
/// Connections whose newest answer is kept. About answers over further ones nothing can be shown.
const ANSWERED_MAX: usize = 16;

/// A row of `events`, as it was sent to the database.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) key: Key,
    pub(crate) uid: Uuid,
    pub(crate) revision: Revision,
    pub(crate) body: String,
    pub(crate) deleted: bool,
    /// Absent for a create.
    pub(crate) before: Option<Attributes>,
}

impl Written {
    /// The event, as it would have been read; `None` for a kind that is not served.
    pub(crate) fn into_event(self, kinds: &Kinds) -> Option<Event> {
        let attributes = kinds.get(self.key.kind)?.attributes(self.body.as_bytes());
        // A copy has no room to spare, unlike a text that grew while it was written.
        let body = Bytes::copy_from_slice(self.body.as_bytes());
        let entry = Entry { key: self.key, uid: self.uid, revision: self.revision, body, attributes };
        Some(Event { entry, deleted: self.deleted, before: self.before })
    }
}

/// A batch that was committed: all revisions after `base` up to `end` are its own.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) base: Revision,
    pub(crate) end: Revision,
    pub(crate) written: Vec<Written>,
    /// The connection that it was committed over.
    pub(crate) connection: u64,
}

/// The newest write that was answered over one connection of the writer. Commits of one server are in the order of
/// their revisions: a history that has this write has all that were answered before it over that connection.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) connection: u64,
    pub(crate) revision: Revision,
    pub(crate) uid: Uuid,
    pub(crate) deleted: bool,
    pub(crate) body: Arc<str>,
}

/// Where the tail is told what there is to do.
#[derive(Debug)]
pub(crate) struct Handover {
    writer: Uuid,
    waiting: Mutex<Vec<Committed>>,
    answered: Mutex<Vec<Answered>>,
    connections: AtomicU64,
    /// A reader waits for what only the database can tell.
    look: AtomicBool,
    /// The database has something new that no reader waits for.
    news: AtomicBool,
    wake: Notify,
}

impl Handover {
    pub(crate) fn new() -> Self {
        Self {
            writer: Uuid::new_v4(),
            waiting: Mutex::default(),
            answered: Mutex::default(),
            connections: AtomicU64::new(0),
            look: AtomicBool::new(false),
            news: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// Who writes for this replica.
    pub(crate) fn writer(&self) -> Uuid {
        self.writer
    }

    /// Counts one more connection of the writer.
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of the writer's newest connection.
    pub(crate) fn connection(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Hands a batch to the tail.
    pub(crate) fn give(&self, batch: Committed) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_MAX {
            waiting.push(batch);
        } else {
            self.news.store(true, Ordering::SeqCst);
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// What was handed over since the last time, in order.
    pub(crate) fn take(&self) -> Vec<Committed> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps a write that is about to be answered, in place of the previous one over the same connection.
    pub(crate) fn answering(&self, newest: Answered) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = answered.iter_mut().find(|known| known.connection == newest.connection) {
            *known = newest;
        } else if answered.len() < ANSWERED_MAX {
            answered.push(newest);
        }
    }

    /// The answered writes that a cache at this revision does not have; the others are forgotten.
    pub(crate) fn answered_after(&self, revision: Revision) -> Vec<Answered> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.retain(|known| known.revision > revision);
        answered.clone()
    }

    /// Makes the tail look at the database.
    pub(crate) fn ask(&self) {
        self.look.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Others have written; the tail looks soon.
    pub(crate) fn hear(&self) {
        self.news.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Takes the request for a look, if there is one.
    pub(crate) fn take_ask(&self) -> bool {
        self.look.swap(false, Ordering::SeqCst)
    }

    /// Takes the news that others have written, if there is any.
    pub(crate) fn take_news(&self) -> bool {
        self.news.swap(false, Ordering::SeqCst)
    }

    /// Waits for something to do.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}
