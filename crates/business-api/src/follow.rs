//! Indices in memory over the objects of one kind, filled from the store's watch.
//!
//! A `Reflector` lists and watches the objects. It builds a new index from a full list beside the current one, and
//! swaps them when the new one is complete. Until then readers use the current index: it is complete, and as old as the
//! end of its watch.

use meta::selector::{FieldSelector, LabelSelector};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use store::read::{At, Op, Selection, WatchEnd, WatchFrom, WatchItem, WatchQuery};
use store::{Access, Entry, KindId, Revision, Store};
use tokio::sync::{Notify, watch};

const RETRY: Duration = Duration::from_millis(200);
/// How long [`SharedIndex::catch_up`] waits for the watch before it requests a bookmark.
const BOOKMARK_DELAY: Duration = Duration::from_millis(100);

/// An index of the objects of one kind.
pub trait ObjectIndex: Send + Sync + 'static {
    /// An empty index of the same configuration, to be filled from a new list.
    #[must_use]
    fn new_empty(&self) -> Self;

    /// Applies an event: the object's present state, or its last state if it does not exist any more.
    fn apply(&mut self, entry: &Entry, exists: bool);

    /// Applies an event to an index that others read. An implementation does slow work before it takes the write lock.
    fn apply_shared(shared: &SharedIndex<Self>, entry: &Entry, exists: bool)
    where
        Self: Sized,
    {
        shared.update(|index| index.apply(entry, exists));
    }

    /// Replaces this index by a complete one and returns the old one. The caller drops it after it has released the
    /// lock.
    #[must_use]
    fn replace(&mut self, complete: Self) -> Self
    where
        Self: Sized,
    {
        std::mem::replace(self, complete)
    }
}

/// An index that readers share with the task that updates it. Clones share the same index.
#[derive(Debug)]
pub struct SharedIndex<I>(Arc<SharedIndexState<I>>);

#[derive(Debug)]
struct SharedIndexState<I> {
    index: RwLock<I>,
    synced: AtomicBool,
    /// The store and the kind that are followed; set when following begins.
    source: OnceLock<(Store, KindId)>,
    /// The revision that the index has reached.
    reached: watch::Sender<Revision>,
    /// Wakes the reflector: somebody waits for a later revision, and a bookmark is requested.
    bookmark_requested: Notify,
}

impl<I> Clone for SharedIndex<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I: ObjectIndex> SharedIndex<I> {
    /// Shares an index that has not been filled yet.
    pub fn new(index: I) -> Self {
        let (index, synced) = (RwLock::new(index), AtomicBool::new(false));
        let (reached, bookmark_requested) = (watch::Sender::new(Revision::default()), Notify::new());
        let source = OnceLock::new();
        Self(Arc::new(SharedIndexState { index, synced, source, reached, bookmark_requested }))
    }

    /// Waits until the index has reached a revision of the store. Waits for ever if nothing follows the store.
    pub async fn wait_for(&self, revision: Revision) {
        let mut reached = self.0.reached.subscribe();
        while *reached.borrow_and_update() < revision {
            self.0.bookmark_requested.notify_one();
            if reached.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether the store may have sent other watches a change that the index does not have yet.
    pub fn is_behind(&self) -> bool {
        self.missing_revision().is_some()
    }

    /// Waits until the index has every change that the store has sent to other watches by now. The index's own watch
    /// gets these changes, too. A bookmark is requested only if that takes long, since each bookmark wakes everybody
    /// who waits.
    pub async fn catch_up(&self) {
        let Some(newest) = self.missing_revision() else { return };
        let mut reached = self.0.reached.subscribe();
        let has_come = tokio::time::timeout(BOOKMARK_DELAY, reached.wait_for(|reached| *reached >= newest))
            .await
            .is_ok();
        if !has_come {
            self.wait_for(newest).await;
        }
    }

    /// The revision of the kind's newest change, if the index has not reached it.
    fn missing_revision(&self) -> Option<Revision> {
        let (store, kind) = self.0.source.get()?;
        let newest = store.changed(*kind);
        (*self.0.reached.borrow() < newest).then_some(newest)
    }

    /// Locks the index for reading. Updates wait as long as the guard is held.
    pub fn read(&self) -> RwLockReadGuard<'_, I> {
        self.0.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the first complete index has been published. Stays true from then on.
    pub fn has_synced(&self) -> bool {
        self.0.synced.load(Ordering::Acquire)
    }

    pub(crate) fn update<T>(&self, update: impl FnOnce(&mut I) -> T) -> T {
        update(&mut self.0.index.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current index by a complete one.
    pub(crate) fn publish(&self, complete: I) {
        let _old = self.update(|index| index.replace(complete));
        self.0.synced.store(true, Ordering::Release);
    }

    /// Follows the objects of a kind for ever. `who` is the reader's name for the store.
    pub async fn follow(self, store: Store, kind: KindId, who: &'static str) {
        let access = Access::internal(who);
        // One index follows one kind.
        let _known = self.0.source.set((store.clone(), kind));
        let mut reflector = Reflector::new(self);
        loop {
            let query = WatchQuery { selection: select_kind(kind), from: reflector.start() };
            match store.watch(&access, &query).await {
                Ok(mut watch) => {
                    let end = loop {
                        let next = tokio::select! {
                            next = watch.next() => next,
                            () = reflector.shared.0.bookmark_requested.notified() => {
                                watch.bookmark();
                                continue;
                            }
                        };
                        match next {
                            Ok(item) => reflector.apply(item),
                            Err(end) => break end,
                        }
                        // The initial list comes without waiting: other tasks of this thread get a turn here.
                        tokio::task::coop::consume_budget().await;
                    };
                    tracing::debug!(who, ?end, "the watch of a kind's objects has ended");
                    reflector.watch_ended(end);
                }
                Err(error) => tracing::debug!(who, %error, "follow the objects of a kind"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Selects all objects of a kind.
pub fn select_kind(kind: KindId) -> Selection {
    let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
    Selection { kind, namespace: None, labels, fields }
}

/// Applies the items of a watch to an index, and says where the next watch begins.
#[derive(Debug)]
struct Reflector<I> {
    shared: SharedIndex<I>,
    /// The index that is being built from a list that has not been read to its end.
    building: Option<I>,
    /// The revision to resume from; absent when the index has to be built from a new list.
    resume: Option<Revision>,
}

impl<I: ObjectIndex> Reflector<I> {
    fn new(shared: SharedIndex<I>) -> Self {
        Self { shared, building: None, resume: None }
    }

    /// Where the next watch begins.
    fn start(&mut self) -> WatchFrom {
        self.building = self.resume.is_none().then(|| self.shared.read().new_empty());
        self.resume.map_or(WatchFrom::State(At::Any), WatchFrom::After)
    }

    fn apply(&mut self, item: WatchItem) {
        match item {
            WatchItem::Event { op, entry, .. } => {
                let exists = op != Op::Deleted;
                if let Some(building) = &mut self.building {
                    building.apply(&entry, exists);
                } else {
                    I::apply_shared(&self.shared, &entry, exists);
                    self.reached(entry.revision);
                }
            }
            WatchItem::InitialEnd(revision) => {
                if let Some(complete) = self.building.take() {
                    self.shared.publish(complete);
                }
                self.reached(revision);
            }
            // The index that is being built is not published yet.
            WatchItem::Bookmark(_) if self.building.is_some() => {}
            WatchItem::Bookmark(revision) => self.reached(revision),
        }
    }

    fn reached(&mut self, revision: Revision) {
        self.resume = Some(revision);
        self.shared.0.reached.send_replace(revision);
    }

    /// After a watch that was too slow, the next one resumes where it ended. After one that has expired, the objects
    /// are listed again.
    fn watch_ended(&mut self, end: WatchEnd) {
        if matches!(end, WatchEnd::Expired { .. }) {
            self.resume = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use store::{Attributes, Key};

    const KIND: KindId = KindId(1);

    #[derive(Debug, Default)]
    struct Names(BTreeSet<String>);

    impl ObjectIndex for Names {
        fn new_empty(&self) -> Self {
            Self::default()
        }

        fn apply(&mut self, entry: &Entry, exists: bool) {
            let name = entry.key.name.to_string();
            if exists {
                self.0.insert(name)
            } else {
                self.0.remove(&name)
            };
        }
    }

    fn event(op: Op, name: &str, revision: u64) -> WatchItem {
        let entry = Entry {
            key: Key::new(KIND, "", name),
            uid: uuid::Uuid::nil(),
            revision: Revision(revision),
            body: Vec::new().into(),
            attributes: Attributes::default(),
        };
        WatchItem::Event { op, entry: Arc::new(entry), frame: Arc::default() }
    }

    fn names(reflector: &Reflector<Names>) -> Vec<String> {
        reflector.shared.read().0.iter().cloned().collect()
    }

    fn filled() -> Reflector<Names> {
        let mut reflector = Reflector::new(SharedIndex::new(Names::default()));
        assert_eq!(reflector.start(), WatchFrom::State(At::Any));
        for name in ["a", "b"] {
            reflector.apply(event(Op::Added, name, 1));
            assert_eq!(
                (names(&reflector).len(), reflector.shared.has_synced()),
                (0, false),
                "a part is not shown"
            );
        }
        reflector.apply(WatchItem::InitialEnd(Revision(5)));
        reflector
    }

    const EXPIRED: WatchEnd = WatchEnd::Expired { asked: Revision(5), current: Revision(9) };

    #[test]
    fn what_is_read_anew_is_shown_when_it_is_complete() {
        let mut reflector = filled();
        assert!(reflector.shared.has_synced());
        reflector.watch_ended(EXPIRED);
        assert_eq!(reflector.start(), WatchFrom::State(At::Any));
        reflector.apply(event(Op::Added, "b", 7));
        assert_eq!(names(&reflector), ["a", "b"], "the old one, whole");
        reflector.watch_ended(EXPIRED);
        assert_eq!(reflector.start(), WatchFrom::State(At::Any));
        for name in ["b", "c"] {
            reflector.apply(event(Op::Added, name, 8));
            assert_eq!(names(&reflector), ["a", "b"]);
        }
        reflector.apply(WatchItem::InitialEnd(Revision(9)));
        assert_eq!(names(&reflector), ["b", "c"]);
        assert!(reflector.shared.has_synced());
    }

    #[test]
    fn a_watch_that_was_too_slow_goes_on_where_it_ended() {
        let mut reflector = filled();
        reflector.apply(event(Op::Deleted, "a", 8));
        reflector.watch_ended(WatchEnd::Slow);
        assert_eq!(reflector.start(), WatchFrom::After(Revision(8)));
        reflector.apply(event(Op::Added, "c", 9));
        assert_eq!(names(&reflector), ["b", "c"]);
    }
}
