//! What the cache, its tail and its readers share.

use super::config::CacheConfig;
use super::filter::Filter;
use super::metrics::CacheMetrics;
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
    /// Where objects and events come from. Each task has a connection of its own, so none waits for what another one
    /// reads.
    pub(crate) reading: PgConnectOptions,
    /// The server that takes the writes, where `reading` leads to a standby of it.
    pub(crate) primary: Option<PgConnectOptions>,
    pub(super) listening: Option<PgConnectOptions>,
    pub(crate) kinds: Kinds,
    pub(crate) config: CacheConfig,
    pub(super) state: RwLock<CacheState>,
    pub(crate) subscriptions: Subscriptions,
    /// The newest change of each kind that a reader may have been shown.
    pub(super) changed: BTreeMap<KindId, AtomicU64>,
    pub(crate) progress: watch::Sender<TailProgress>,
    /// All that was committed before this moment is in the cache.
    pub(super) confirmed: Mutex<Option<Instant>>,
    /// Tickets drawn by readers who want a look that begins after them.
    pub(super) asked: AtomicU64,
    /// Bytes of the bodies of all events that have come to the cache.
    pub(crate) event_bytes: AtomicU64,
    /// What the tail is given: this replica's own batches, and requests for a look.
    pub(crate) handover: Arc<Handover>,
    /// The stretches of the past beyond the ring that were read, and the watches that wait for some.
    pub(crate) history: SegmentCache,
    pub(crate) metrics: CacheMetrics,
}

/// How far the tail has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailProgress {
    /// The cache's revision.
    pub(crate) revision: Revision,
    /// History up to here may be gone.
    pub(crate) compacted: Revision,
    /// The newest revision that the database was seen to have.
    pub(crate) seen: Revision,
    /// The newest revision that the primary was seen to have, where a standby is read. The cache goes no further.
    pub(crate) shown: Revision,
    /// Tickets up to this one have what they wanted.
    pub(crate) served: u64,
    /// Tickets up to this one, if not served, get an error.
    pub(crate) failed: u64,
    /// The cache holds a state of the database's history.
    pub(crate) ready: bool,
    /// It has been `ready` once.
    pub(crate) synced: bool,
    /// Why the database is not answering.
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

    /// Tickets drawn so far.
    pub(crate) fn tickets(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// The server that makes the history. It is compacted there, and watches read the past from there.
    pub(crate) fn authority(&self) -> &PgConnectOptions {
        self.primary.as_ref().unwrap_or(&self.reading)
    }

    /// The newest revision that is known here, of any epoch.
    pub(crate) fn known(&self) -> Revision {
        let progress = self.progress.borrow();
        progress.seen.max(progress.shown)
    }

    /// The revision up to which events that were read may be shown: a standby may have events that no caller was told
    /// of yet.
    pub(crate) fn horizon(&self) -> Revision {
        if self.primary.is_some() { self.progress.borrow().shown } else { Revision::MAX }
    }

    /// Notes a revision that the primary has committed.
    pub(crate) fn show(&self, revision: Revision) {
        self.progress.send_if_modified(|progress| {
            let is_news = revision > progress.shown;
            progress.shown = progress.shown.max(revision);
            is_news
        });
    }

    /// The newest change of a kind that a reader may have been shown; after a filling, what was filled.
    pub(crate) fn changed(&self, kind: KindId) -> Revision {
        Revision(self.changed.get(&kind).map_or(0, |changed| changed.load(Ordering::SeqCst)))
    }

    /// Notes a change of a kind. It must be noted before anybody is shown it.
    pub(crate) fn note_change(&self, kind: KindId, revision: Revision) {
        if let Some(changed) = self.changed.get(&kind) {
            changed.store(revision.0, Ordering::SeqCst);
        }
    }

    /// Notes that everything may have changed up to a revision.
    pub(crate) fn note_filling(&self, revision: Revision) {
        self.changed.values().for_each(|changed| changed.store(revision.0, Ordering::SeqCst));
    }

    /// Notes that the cache has all that was committed before this.
    pub(crate) fn confirm(&self, asked: Instant) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
    }

    /// How old the cache may be: for how long a commit may be missing in it. `None` before it was filled.
    pub(crate) fn age(&self) -> Option<Duration> {
        let confirmed = *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        confirmed.map(|confirmed| confirmed.elapsed())
    }

    /// Whether history after `revision` may be missing in the tables.
    pub(crate) fn is_compacted(&self, revision: Revision) -> bool {
        revision < self.progress.borrow().compacted
    }

    /// An error unless the state at `revision` can be had by undoing changes.
    pub(crate) fn check_undo(&self, state: &CacheState, revision: Revision) -> Result<(), Error> {
        let gone = revision < state.ring.undo_floor() || self.is_compacted(revision);
        if gone && revision != state.revision {
            return Err(Error::Expired { asked: revision, current: state.revision });
        }
        Ok(())
    }

    /// Waits until the cache is as fresh as asked.
    pub(crate) async fn reach(&self, at: At) -> Result<(), Error> {
        if !self.progress.borrow().ready {
            return Err(Error::Starting);
        }
        match at {
            At::Any => Ok(()),
            At::Latest => self.reach_now().await,
            At::NotOlderThan(revision) | At::Exact(revision) => self.reach_revision(revision).await,
        }
    }

    /// Whether the database has reached a revision; it is asked if that is not known here. The cache may be behind
    /// it. While a standby that is read is behind, the answer is an error, and not no.
    pub(crate) async fn has_come_to(&self, revision: Revision) -> Result<bool, Error> {
        let is_known = |progress: &TailProgress| progress.revision.max(progress.shown) >= revision;
        let known = is_known(&self.progress.borrow());
        if !known {
            self.reach_now_unless(is_known).await?;
        }
        let known = is_known(&self.progress.borrow());
        Ok(known)
    }

    async fn reach_now(&self) -> Result<(), Error> {
        self.reach_now_unless(|_progress| false).await
    }

    /// Waits until the cache has everything that was committed before this call, or until `is_enough` holds.
    async fn reach_now_unless(&self, is_enough: impl Fn(&TailProgress) -> bool) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.handover.request_poll();
        let answered = progress
            .wait_for(|progress| is_enough(progress) || progress.served.max(progress.failed) >= ticket);
        match tokio::time::timeout(READ_WAIT, answered).await {
            Ok(Ok(progress)) if progress.served >= ticket || is_enough(&progress) => Ok(()),
            Ok(Ok(progress)) => Err(unavailable(&progress)),
            Ok(Err(_)) | Err(_) => Err(late(&self.progress.borrow())),
        }
    }

    async fn reach_revision(&self, asked: Revision) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        if progress.borrow().revision >= asked {
            return Ok(());
        }
        self.handover.request_poll();
        let reached = progress.wait_for(|progress| progress.revision >= asked);
        if let Ok(Ok(_)) = tokio::time::timeout(READ_WAIT, reached).await {
            return Ok(());
        }
        let progress = self.progress.borrow();
        if progress.trouble.is_some() {
            return Err(unavailable(&progress));
        }
        Err(Error::TooFarAhead { asked, current: progress.revision })
    }
}

fn late(progress: &TailProgress) -> Error {
    let TailProgress { revision, shown, .. } = progress;
    Error::Unavailable(if shown > revision {
        format!("the standby that is read is behind: it has come to {revision} of {shown}")
    } else {
        "no answer in time".to_owned()
    })
}

fn unavailable(progress: &TailProgress) -> Error {
    Error::Unavailable(progress.trouble.as_deref().unwrap_or("the connection was lost").to_owned())
}
