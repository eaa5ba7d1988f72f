//! A watch: first the past, from a state or from a revision, then what happens.
//!
//! The past is read in short pieces from the ring, or from the table of events where the ring does not reach
//! back. Only when nothing is left of it does the watch subscribe, under the cache's lock: from then on the
//! tail puts what concerns it into its queue. Nothing is lost between the two, and nothing comes twice.

/// Frames shared by watchers.
pub(crate) mod frames;
/// Who waits for which changes.
pub(crate) mod subscriptions;
#[cfg(test)]
mod simulation;

use crate::access::Access;
use crate::cache::Cache;
use crate::cache::filter::Filter;
use crate::cache::inner::CacheInner;
use crate::error::Error;
use crate::history;
use crate::list::Start;
use crate::model::{Entry, Revision};
use crate::read::{At, Op, WatchEnd, WatchFrom, WatchItem, WatchQuery};
use frames::Frames;
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;
use subscriptions::Subscription;

/// Changes of the ring looked at under one lock; few in unit tests, so that the past there has many pieces.
const PIECE: usize = if cfg!(test) { 3 } else { 2048 };

/// An open watch. Dropping it closes it.
#[derive(Debug)]
pub struct Watch {
    cache: Arc<CacheInner>,
    filter: Arc<Filter>,
    generation: u64,
    phase: Phase,
    /// Everything up to here was handed out or does not concern this watch.
    reached: Revision,
    bookmark_wanted: bool,
}

#[derive(Debug)]
enum Phase {
    /// Objects of the first state that are still to be handed out.
    State(vec::IntoIter<Arc<Entry>>),
    /// Changes that were read and are still to be handed out; then the past goes on after `cursor`.
    Past {
        items: VecDeque<WatchItem>,
        cursor: Revision,
    },
    /// Waiting for what happens.
    Live(Subscription),
    Ended(WatchEnd),
}

impl Cache {
    /// Opens a watch. If its revision is too old, or one that the database has not come to, its first item says so.
    pub async fn watch(&self, access: &Access, query: &WatchQuery) -> Result<Watch, Error> {
        if !self.0.subscriptions.admit() {
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
        watch.begin(query.from).await?;
        Ok(watch)
    }
}

impl Watch {
    async fn begin(&mut self, from: WatchFrom) -> Result<(), Error> {
        match from {
            WatchFrom::State(at) => {
                self.cache.wait_until_fresh(at).await?;
                self.generation = self.cache.read().generation;
                let page = self.cache.list_from(&self.filter, None, at, &Start::Beginning).await?;
                self.reached = page.revision;
                self.phase = Phase::State(page.items.into_iter());
            }
            WatchFrom::After(revision) => {
                self.cache.wait_until_fresh(At::Any).await?;
                self.generation = self.cache.read().generation;
                if self.cache.database_has_reached(revision).await? {
                    self.go_on_after(revision);
                } else {
                    // The revision belongs to a history that was lost: a watch that waited for it would miss what
                    // this history has under the same numbers.
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
                self.go_on_after(revision);
            }
        }
        Ok(())
    }

    fn go_on_after(&mut self, revision: Revision) {
        self.reached = revision;
        self.phase = Phase::Past { items: VecDeque::new(), cursor: revision };
    }

    /// Asks for a bookmark: [`Watch::next`] gives one as soon as it is true, at once in most cases.
    pub fn bookmark(&mut self) {
        self.bookmark_wanted = true;
    }

    /// The next item. A call that is given up loses nothing.
    pub async fn next(&mut self) -> Result<WatchItem, WatchEnd> {
        loop {
            if self.cache.subscriptions.is_ending() && !matches!(self.phase, Phase::Live(_)) {
                self.phase = Phase::Ended(WatchEnd::Shutdown);
            }
            match &mut self.phase {
                Phase::State(entries) => {
                    let Some(entry) = entries.next() else {
                        let revision = self.reached;
                        self.go_on_after(revision);
                        return Ok(WatchItem::InitialEnd(revision));
                    };
                    return Ok(WatchItem::Event { op: Op::Added, entry, frame: Arc::default() });
                }
                Phase::Past { items, cursor } => {
                    if std::mem::take(&mut self.bookmark_wanted) {
                        return Ok(WatchItem::Bookmark(self.reached));
                    }
                    if let Some(item) = items.pop_front() {
                        self.reached = revision_of(&item);
                        return Ok(item);
                    }
                    self.reached = self.reached.max(*cursor);
                    let cursor = *cursor;
                    self.read_on(cursor).await;
                }
                Phase::Live(subscription) => {
                    if std::mem::take(&mut self.bookmark_wanted) {
                        // In this order: what is dispatched later than this is not in the bookmark.
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

    /// Reads the next piece of the past, or subscribes where there is none.
    async fn read_on(&mut self, cursor: Revision) {
        if let Some(phase) = self.read_ring(cursor) {
            self.phase = phase;
            tokio::task::yield_now().await;
            return;
        }
        // Seldom needed: a watch keeps no room for it.
        match Box::pin(history::read(&self.cache, self.generation, &self.filter, cursor)).await {
            Ok(Some((items, end))) => {
                self.phase = Phase::Past { items, cursor: end };
                if end == cursor {
                    // Nothing that is known to be committed follows yet.
                    tokio::time::sleep(self.cache.config.poll).await;
                } else {
                    tokio::task::yield_now().await;
                }
            }
            Ok(None) => {
                let current = self.cache.read().revision;
                self.end(WatchEnd::Expired { asked: cursor, current });
            }
            // The reader comes back, and is told then how things are.
            Err(error) => {
                tracing::warn!(%error, "read events for a watch from an older revision");
                self.end(WatchEnd::Slow);
            }
        }
    }

    /// The changes after `cursor` in the cache; `None` if the ring does not reach back so far.
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
            if looked == PIECE {
                return Some(Phase::Past { items, cursor: end });
            }
            end = change.revision();
            items.extend(Frames::default().item(change, &self.filter));
        }
        if !items.is_empty() {
            return Some(Phase::Past { items, cursor: end });
        }
        // The lock is still held: whatever comes next is dispatched after this.
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
        self.cache.subscriptions.dismiss();
    }
}

fn revision_of(item: &WatchItem) -> Revision {
    match item {
        WatchItem::Event { entry, .. } => entry.revision,
        WatchItem::InitialEnd(revision) | WatchItem::Bookmark(revision) => *revision,
    }
}
