//! What the cache, its tail and its readers share.

use super::config::CacheConfig;
use super::filter::Filter;
use super::metrics::{CacheMetrics, WaitingRead};
use super::state::CacheState;
use crate::access::Access;
use crate::error::Error;
use crate::history::segments::SegmentCache;
use crate::kinds::Kinds;
use crate::model::{KindId, Revision};
use crate::read::{At, Selection};
use crate::tail::handover::Handover;
use crate::watch::subscriptions::Subscriptions;
use sqlx::postgres::PgConnectOptions;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Longest wait of a read for the revision that it needs.
pub const READ_WAIT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct CacheInner {
    /// The server that objects and events are read from. Each task has a connection of its own, so no task waits for
    /// what another one reads.
    pub(crate) reading: PgConnectOptions,
    /// The server that takes the writes, if `reading` is a standby of it.
    pub(crate) primary: Option<PgConnectOptions>,
    /// The server at which to LISTEN, if any.
    pub(super) listening: Option<PgConnectOptions>,
    pub(crate) kinds: Kinds,
    pub(crate) config: CacheConfig,
    pub(super) state: RwLock<CacheState>,
    pub(crate) subscriptions: Subscriptions,
    /// The newest change of each kind that a reader may have seen.
    pub(super) changed: BTreeMap<KindId, AtomicU64>,
    pub(crate) progress: watch::Sender<TailProgress>,
    /// The cache has everything that was committed before this moment.
    pub(super) fresh_as_of: Mutex<Option<Instant>>,
    /// The number of tickets so far. A reader that needs fresh data draws one and waits for a poll that begins
    /// afterwards.
    pub(super) tickets: AtomicU64,
    /// Bytes of the bodies of all events that were applied to the cache.
    pub(crate) event_bytes: AtomicU64,
    /// Gives the tail this replica's own batches, and requests for a poll.
    pub(crate) handover: Arc<Handover>,
    /// Events that are older than the ring, and the watches that wait for some.
    pub(crate) history: SegmentCache,
    pub(crate) metrics: CacheMetrics,
}

/// How far the tail has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailProgress {
    /// The cache's revision.
    pub(crate) revision: Revision,
    /// Events up to this revision may be compacted.
    pub(crate) compacted: Revision,
    /// The newest revision that the database was seen to have.
    pub(crate) seen: Revision,
    /// The newest revision that the primary is known to have committed. A cache that reads from a standby goes no
    /// further.
    pub(crate) committed: Revision,
    /// Readers with a ticket up to this one have the fresh state that they wait for.
    pub(crate) served: u64,
    /// Readers with a ticket up to this one that is not served get an error.
    pub(crate) failed: u64,
    /// The cache holds a state of the database's history.
    pub(crate) ready: bool,
    /// The cache was `ready` at least once.
    pub(crate) synced: bool,
    /// Why the database does not answer, if it does not.
    pub(crate) trouble: Option<Arc<str>>,
}

impl CacheInner {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, CacheState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, CacheState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn filter(&self, access: &Access, selection: &Selection) -> Filter {
        let fields = self.kinds.get(selection.kind).map(|kind| kind.fields()).unwrap_or_default();
        Filter::new(access, selection, fields)
    }

    /// The newest ticket that a reader has drawn.
    pub(crate) fn last_ticket(&self) -> u64 {
        self.tickets.load(Ordering::SeqCst)
    }

    /// The primary, which takes the writes. History is compacted there, and watches read events older than the ring
    /// there.
    pub(crate) fn primary_options(&self) -> &PgConnectOptions {
        self.primary.as_ref().unwrap_or(&self.reading)
    }

    /// The newest revision that this replica knows of, in any epoch.
    pub(crate) fn newest_known(&self) -> Revision {
        let progress = self.progress.borrow();
        progress.seen.max(progress.committed)
    }

    /// The newest revision whose events the cache may show. A standby may have events that are not acknowledged to any
    /// caller yet.
    pub(crate) fn horizon(&self) -> Revision {
        if self.primary.is_some() { self.progress.borrow().committed } else { Revision::MAX }
    }

    /// Notes that the primary has committed a revision.
    pub(crate) fn note_committed(&self, revision: Revision) {
        self.progress.send_if_modified(|progress| {
            let is_newer = revision > progress.committed;
            progress.committed = progress.committed.max(revision);
            is_newer
        });
    }

    /// The newest change of a kind that a reader may have seen. After the cache was filled: the revision of that state.
    pub(crate) fn changed(&self, kind: KindId) -> Revision {
        Revision(self.changed.get(&kind).map_or(0, |changed| changed.load(Ordering::SeqCst)))
    }

    /// Notes a change of a kind. Call this before any reader can see the change.
    pub(crate) fn note_change(&self, kind: KindId, revision: Revision) {
        if let Some(changed) = self.changed.get(&kind) {
            changed.store(revision.0, Ordering::SeqCst);
        }
    }

    /// Notes that the cache was filled at a revision: any kind may have changed up to it.
    pub(crate) fn note_fill(&self, revision: Revision) {
        self.changed.values().for_each(|changed| changed.store(revision.0, Ordering::SeqCst));
    }

    /// Notes that the cache has everything that was committed before this moment.
    pub(crate) fn set_fresh_as_of(&self, moment: Instant) {
        *self.fresh_as_of.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
    }

    /// How old the cache may be: a commit may be missing in it for this long. `None` before it was filled.
    pub(crate) fn age(&self) -> Option<Duration> {
        let fresh_as_of = *self.fresh_as_of.lock().unwrap_or_else(PoisonError::into_inner);
        fresh_as_of.map(|fresh_as_of| fresh_as_of.elapsed())
    }

    /// Whether history after `revision` may be missing in the tables.
    pub(crate) fn is_compacted(&self, revision: Revision) -> bool {
        revision < self.progress.borrow().compacted
    }

    /// Fails unless the cache can undo its changes back to the state at `revision`.
    pub(crate) fn check_undo(&self, state: &CacheState, revision: Revision) -> Result<(), Error> {
        let gone = revision < state.ring.undo_floor() || self.is_compacted(revision);
        if gone && revision != state.revision {
            return Err(Error::Expired { asked: revision, current: state.revision });
        }
        Ok(())
    }

    /// Waits until the cache is as fresh as asked.
    pub(crate) async fn wait_until_fresh(&self, at: At) -> Result<(), Error> {
        if !self.progress.borrow().ready {
            return Err(Error::Starting);
        }
        match at {
            At::Any => Ok(()),
            At::Latest => self.wait_until_current().await,
            At::NotOlderThan(revision) | At::Exact(revision) => self.wait_for_revision(revision).await,
        }
    }

    /// Whether the database has reached a revision, which the cache may not have yet. Polls the database if that is not
    /// known. While a standby is behind, this returns an error instead of false.
    pub(crate) async fn database_has_reached(&self, revision: Revision) -> Result<bool, Error> {
        let is_known = |progress: &TailProgress| progress.revision.max(progress.committed) >= revision;
        let known = is_known(&self.progress.borrow());
        if !known {
            self.wait_until_current_or(is_known).await?;
        }
        let known = is_known(&self.progress.borrow());
        Ok(known)
    }

    async fn wait_until_current(&self) -> Result<(), Error> {
        self.wait_until_current_or(|_progress| false).await
    }

    /// Waits until the cache has everything that was committed before this call, or until `is_satisfied` is true.
    async fn wait_until_current_or(&self, is_satisfied: impl Fn(&TailProgress) -> bool) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let ticket = self.tickets.fetch_add(1, Ordering::SeqCst) + 1;
        self.handover.request_poll();
        let answered = progress
            .wait_for(|progress| is_satisfied(progress) || progress.served.max(progress.failed) >= ticket);
        let _waiting = WaitingRead::new(&self.metrics.waiting_reads);
        match tokio::time::timeout(READ_WAIT, answered).await {
            Ok(Ok(progress)) if progress.served >= ticket || is_satisfied(&progress) => Ok(()),
            Ok(Ok(progress)) => Err(database_unavailable(&progress)),
            Ok(Err(_)) | Err(_) => Err(timeout_error(&self.progress.borrow())),
        }
    }

    async fn wait_for_revision(&self, asked: Revision) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        if progress.borrow().revision >= asked {
            return Ok(());
        }
        self.handover.request_poll();
        let reached = progress.wait_for(|progress| progress.revision >= asked);
        let _waiting = WaitingRead::new(&self.metrics.waiting_reads);
        if let Ok(Ok(_)) = tokio::time::timeout(READ_WAIT, reached).await {
            return Ok(());
        }
        let progress = self.progress.borrow();
        if progress.trouble.is_some() {
            return Err(database_unavailable(&progress));
        }
        Err(Error::TooFarAhead { asked, current: progress.revision })
    }
}

fn timeout_error(progress: &TailProgress) -> Error {
    let TailProgress { revision, committed, .. } = progress;
    Error::Unavailable(if committed > revision {
        format!("the standby that is read is behind: it has come to {revision} of {committed}")
    } else {
        "no answer in time".to_owned()
    })
}

fn database_unavailable(progress: &TailProgress) -> Error {
    Error::Unavailable(progress.trouble.as_deref().unwrap_or("the connection was lost").to_owned())
}
