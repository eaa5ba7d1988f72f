//! A watch: first the changes since a revision, or a whole state, and then changes as they happen.
//!
//! A watch replays older changes in small chunks: from the ring, or from the table of events if they are older than the
//! ring. When no older change is left, it subscribes under the cache's lock. From then on the tail puts the changes
//! that match into its queue. So no change is lost between the two, and none comes twice.

/// Frames that several watches share.
pub(crate) mod frames;
/// The subscribed watches, and the queue of each.
pub(crate) mod subscriptions;
#[cfg(test)]
mod simulation;

use crate::access::Access;
use crate::cache::Cache;
use crate::cache::filter::Filter;
use crate::cache::inner::CacheInner;
use crate::error::Error;
use crate::history;
use crate::list::PageStart;
use crate::model::{Entry, Revision};
use crate::read::{At, Op, WatchEnd, WatchFrom, WatchItem, WatchQuery};
use frames::Frames;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;
use subscriptions::Subscription;

/// Most changes of the ring that are read under one lock. Few in unit tests, so that a replay there has many chunks.
const REPLAY_CHUNK: usize = if cfg!(test) { 3 } else { 2048 };

/// An open watch. Dropping it closes it.
#[derive(Debug)]
pub struct Watch {
    cache: Arc<CacheInner>,
    filter: Arc<Filter>,
    generation: u64,
    phase: Phase,
    /// All changes up to this revision were returned or do not match.
    reached: Revision,
    bookmark_wanted: bool,
}

#[derive(Debug)]
enum Phase {
    /// Objects of the initial state that are still to be returned.
    Initial(vec::IntoIter<Arc<Entry>>),
    /// Older changes that were read and are still to be returned. The next chunk begins after `cursor`.
    Replay {
        items: VecDeque<WatchItem>,
        cursor: Revision,
    },
    /// Waiting for new changes.
    Live(Subscription),
    Ended(WatchEnd),
}

impl Cache {
    /// Opens a watch. [`Error::Busy`] if too many are open. If its revision is compacted, or newer than the database's,
    /// it begins with [`WatchEnd::Expired`].
    pub async fn watch(&self, access: &Access, query: &WatchQuery) -> Result<Watch, Error> {
        if !self.0.subscriptions.try_open() {
            return Err(Error::Busy);
        }
        let mut watch = Watch {
            cache: Arc::clone(&self.0),
            filter: Arc::new(self.0.filter(access, &query.selection)),
            generation: 0,
            phase: Phase::Ended(WatchEnd::Shutdown),
            reached: Revision::default(),
            bookmark_wanted: false,
        };
        watch.start(query.from).await?;
        Ok(watch)
    }
}

impl Watch {
    async fn start(&mut self, from: WatchFrom) -> Result<(), Error> {
        match from {
            WatchFrom::State(at) => {
                self.cache.wait_until_fresh(at).await?;
                self.generation = self.cache.read().generation;
                let page = self.cache.list_from(&self.filter, None, at, &PageStart::Beginning).await?;
                self.reached = page.revision;
                self.phase = Phase::Initial(page.items.into_iter());
            }
            WatchFrom::After(revision) => {
                self.cache.wait_until_fresh(At::Any).await?;
                self.generation = self.cache.read().generation;
                if self.cache.database_has_reached(revision).await? {
                    self.replay_after(revision);
                } else {
                    // The revision belongs to a lost history. A watch that waited for it would miss the events that
                    // this history has under the same revisions.
                    let current = self.cache.read().revision;
                    self.phase = Phase::Ended(WatchEnd::Expired { asked: revision, current });
                }
            }
            WatchFrom::Now => {
                self.cache.wait_until_fresh(At::Latest).await?;
                let (generation, revision) = {
                    let state = self.cache.read();
                    (state.generation, state.revision)
                };
                self.generation = generation;
                self.replay_after(revision);
            }
        }
        Ok(())
    }

    fn replay_after(&mut self, revision: Revision) {
        self.reached = revision;
        self.phase = Phase::Replay { items: VecDeque::new(), cursor: revision };
    }

    /// Asks for a bookmark: [`Watch::next`] returns one as soon as it can, at once in most cases.
    pub fn bookmark(&mut self) {
        self.bookmark_wanted = true;
    }

    /// The next item. A call that is cancelled loses nothing.
    pub async fn next(&mut self) -> Result<WatchItem, WatchEnd> {
        loop {
            if self.cache.subscriptions.is_shutting_down() && !matches!(self.phase, Phase::Live(_)) {
                self.phase = Phase::Ended(WatchEnd::Shutdown);
            }
            match &mut self.phase {
                Phase::Initial(entries) => {
                    let Some(entry) = entries.next() else {
                        let revision = self.reached;
                        self.replay_after(revision);
                        return Ok(WatchItem::InitialEnd(revision));
                    };
                    return Ok(WatchItem::Event { op: Op::Added, entry, frame: Arc::default() });
                }
                Phase::Replay { items, cursor } => {
                    if std::mem::take(&mut self.bookmark_wanted) {
                        return Ok(WatchItem::Bookmark(self.reached));
                    }
                    if let Some(item) = items.pop_front() {
                        self.reached = revision_of(&item);
                        return Ok(item);
                    }
                    self.reached = self.reached.max(*cursor);
                    let cursor = *cursor;
                    self.read_chunk(cursor).await;
                }
                Phase::Live(subscription) => {
                    if std::mem::take(&mut self.bookmark_wanted) {
                        // Read before the queue is checked: a change that is dispatched in between is not covered by
                        // the bookmark.
                        let dispatched = self.cache.subscriptions.dispatched();
                        if subscription.subscriber.is_empty() {
                            self.reached = self.reached.max(dispatched);
                        }
                        return Ok(WatchItem::Bookmark(self.reached));
                    }
                    let subscriber = Arc::clone(&subscription.subscriber);
                    match std::future::poll_fn(|cx| subscriber.poll_next(cx)).await {
                        Ok(item) => {
                            self.reached = revision_of(&item);
                            return Ok(item);
                        }
                        Err(end) => self.end(end),
                    }
                }
                Phase::Ended(end) => return Err(*end),
            }
        }
    }

    /// Reads the next chunk of older changes, or subscribes if there is none.
    async fn read_chunk(&mut self, cursor: Revision) {
        if let Some(phase) = self.read_ring(cursor) {
            self.phase = phase;
            tokio::task::yield_now().await;
            return;
        }
        // Boxed, as it is seldom needed: the future of a watch has no room for it.
        match Box::pin(history::read(&self.cache, self.generation, &self.filter, cursor)).await {
            Ok(Some((items, end))) => {
                self.phase = Phase::Replay { items, cursor: end };
                if end == cursor {
                    // No later event is known to be committed yet.
                    tokio::time::sleep(self.cache.config.poll).await;
                } else {
                    tokio::task::yield_now().await;
                }
            }
            Ok(None) => {
                let current = self.cache.read().revision;
                self.end(WatchEnd::Expired { asked: cursor, current });
            }
            // The client watches again, and gets an error then if the database is still away.
            Err(error) => {
                tracing::warn!(%error, "read events for a watch from an older revision");
                self.end(WatchEnd::Slow);
            }
        }
    }

    /// The next phase, with the changes after `cursor` in the ring; `None` if `cursor` is older than the ring.
    fn read_ring(&self, cursor: Revision) -> Option<Phase> {
        let state = self.cache.read();
        if state.generation != self.generation {
            return Some(Phase::Ended(WatchEnd::Expired { asked: cursor, current: state.revision }));
        }
        if self.cache.is_compacted(cursor) {
            return Some(Phase::Ended(WatchEnd::Expired { asked: cursor, current: state.revision }));
        }
        if cursor < state.ring.floor() {
            return None;
        }
        let mut items = VecDeque::new();
        let mut end = cursor;
        for (looked, change) in state.ring.after(cursor).enumerate() {
            if looked == REPLAY_CHUNK {
                return Some(Phase::Replay { items, cursor: end });
            }
            end = change.revision();
            items.extend(Frames::default().item(change, &self.filter));
        }
        if !items.is_empty() {
            return Some(Phase::Replay { items, cursor: end });
        }
        // The cache is still locked, so every later change is dispatched to this subscription.
        let after = cursor.max(state.revision);
        Some(Phase::Live(self.cache.subscriptions.subscribe(&self.filter, after)))
    }

    fn end(&mut self, end: WatchEnd) {
        if let Phase::Live(subscription) = &self.phase {
            self.cache.subscriptions.unsubscribe(subscription);
        }
        self.phase = Phase::Ended(match end {
            WatchEnd::Expired { current, .. } => WatchEnd::Expired { asked: self.reached, current },
            end => end,
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Phase::Live(subscription) = &self.phase {
            self.cache.subscriptions.unsubscribe(subscription);
        }
        self.cache.subscriptions.close();
    }
}

fn revision_of(item: &WatchItem) -> Revision {
    match item {
        WatchItem::Event { entry, .. } => entry.revision,
        WatchItem::InitialEnd(revision) | WatchItem::Bookmark(revision) => *revision,
    }
}
