//! Indices in memory over the objects of one kind, kept from the store's own watch.
//!
//! An index is built aside from a whole state and takes the old one's place when it is complete. Until then readers go on
//! with the old one: out of date since its watch ended, and complete as of then.

use meta::selector::{FieldSelector, LabelSelector};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use store::read::{At, Op, Selection, WatchEnd, WatchFrom, WatchItem, WatchQuery};
use store::{Access, Entry, KindId, Revision, Store};
use tokio::sync::{Notify, watch};

const RETRY: Duration = Duration::from_millis(200);
/// How long a change that the store has told others of may take until it comes here by itself.
const UNASKED: Duration = Duration::from_millis(100);

/// An index of the objects of one kind.
pub trait FollowedIndex: Send + Sync + 'static {
    /// An index like this without any object, which is filled aside.
    #[must_use]
    fn emptied(&self) -> Self;

    /// Takes an object in its present state, or its last one when it is gone.
    fn take(&mut self, entry: &Entry, exists: bool);

    /// The same while others read the index. Work that takes long is done before they have to wait.
    fn take_shared(kept: &Kept<Self>, entry: &Entry, exists: bool)
    where
        Self: Sized,
    {
        kept.change(|index| index.take(entry, exists));
    }

    /// Replaces the index by a complete one. The value that it returns is dropped when no reader waits any more.
    #[must_use]
    fn replace(&mut self, complete: Self) -> Self
    where
        Self: Sized,
    {
        std::mem::replace(self, complete)
    }
}

/// An index that is read while it is kept. Clones share it.
#[derive(Debug)]
pub struct Kept<I>(Arc<FollowedShared<I>>);

#[derive(Debug)]
struct FollowedShared<I> {
    index: RwLock<I>,
    complete: AtomicBool,
    /// What is followed, once it is.
    source: OnceLock<(Store, KindId)>,
    /// Up to where history is in the index.
    reached: watch::Sender<Revision>,
    /// Somebody wants to know how far it is.
    asked: Notify,
}

impl<I> Clone for Kept<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I: FollowedIndex> Kept<I> {
    /// An index that waits to be filled.
    pub fn new(index: I) -> Self {
        let (index, complete) = (RwLock::new(index), AtomicBool::new(false));
        let (reached, asked) = (watch::Sender::new(Revision::default()), Notify::new());
        let source = OnceLock::new();
        Self(Arc::new(FollowedShared { index, complete, source, reached, asked }))
    }

    /// Waits until the index has reached this revision of the store. Without a follower it never does.
    pub async fn reach(&self, revision: Revision) {
        let mut reached = self.0.reached.subscribe();
        while *reached.borrow_and_update() < revision {
            self.0.asked.notify_one();
            if reached.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether the store may have told others of a change that the index does not have yet.
    pub fn is_behind(&self) -> bool {
        self.missing().is_some()
    }

    /// Waits until the index has all that the store has told others of by now. The follower is told of it, too: it is
    /// asked only if that takes long, since each answer wakes all who wait.
    pub async fn catch_up(&self) {
        let Some(newest) = self.missing() else { return };
        let mut reached = self.0.reached.subscribe();
        let has_come =
            tokio::time::timeout(UNASKED, reached.wait_for(|reached| *reached >= newest)).await.is_ok();
        if !has_come {
            self.reach(newest).await;
        }
    }

    fn missing(&self) -> Option<Revision> {
        let (store, kind) = self.0.source.get()?;
        let newest = store.changed(*kind);
        (*self.0.reached.borrow() < newest).then_some(newest)
    }

    /// The index as it is now. Changes wait as long as this is held.
    pub fn read(&self) -> RwLockReadGuard<'_, I> {
        self.0.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the index has been complete, which it then stays.
    pub fn is_complete(&self) -> bool {
        self.0.complete.load(Ordering::Acquire)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut I) -> T) -> T {
        change(&mut self.0.index.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows a complete index in the place of the one before.
    pub(crate) fn show(&self, complete: I) {
        let _old = self.change(|index| index.replace(complete));
        self.0.complete.store(true, Ordering::Release);
    }

    /// Follows the objects of a kind for ever. `who` names the reader to the store.
    pub async fn follow(self, store: Store, kind: KindId, who: &'static str) {
        let access = Access::internal(who);
        // One index follows one kind.
        let _known = self.0.source.set((store.clone(), kind));
        let mut keeper = Keeper::new(self);
        loop {
            let query = WatchQuery { selection: all(kind), from: keeper.begin() };
            match store.watch(&access, &query).await {
                Ok(mut watch) => {
                    let end = loop {
                        let next = tokio::select! {
                            next = watch.next() => next,
                            () = keeper.kept.0.asked.notified() => {
                                watch.bookmark();
                                continue;
                            }
                        };
                        match next {
                            Ok(item) => keeper.take(item),
                            Err(end) => break end,
                        }
                        // A first state is read without waiting: this lets other tasks have the thread, too.
                        tokio::task::coop::consume_budget().await;
                    };
                    tracing::debug!(who, ?end, "the watch of a kind's objects has ended");
                    keeper.end(end);
                }
                Err(error) => tracing::debug!(who, %error, "follow the objects of a kind"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// All objects of a kind.
pub fn all(kind: KindId) -> Selection {
    let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
    Selection { kind, namespace: None, labels, fields }
}

/// Takes a watch's items into an index.
#[derive(Debug)]
struct Keeper<I> {
    kept: Kept<I>,
    /// The index that is filled from a state that has not been read to its end.
    aside: Option<I>,
    /// Where the index is in history; absent when it has to be built anew.
    reached: Option<Revision>,
}

impl<I: FollowedIndex> Keeper<I> {
    fn new(kept: Kept<I>) -> Self {
        Self { kept, aside: None, reached: None }
    }

    /// Where the next watch begins.
    fn begin(&mut self) -> WatchFrom {
        self.aside = self.reached.is_none().then(|| self.kept.read().emptied());
        self.reached.map_or(WatchFrom::State(At::Any), WatchFrom::After)
    }

    fn take(&mut self, item: WatchItem) {
        match item {
            WatchItem::Event { op, entry, .. } => {
                let exists = op != Op::Deleted;
                if let Some(aside) = &mut self.aside {
                    aside.take(&entry, exists);
                } else {
                    I::take_shared(&self.kept, &entry, exists);
                    self.reach(entry.revision);
                }
            }
            WatchItem::InitialEnd(revision) => {
                if let Some(complete) = self.aside.take() {
                    self.kept.show(complete);
                }
                self.reach(revision);
            }
            // The index that is filled aside is not shown yet.
            WatchItem::Bookmark(_) if self.aside.is_some() => {}
            WatchItem::Bookmark(revision) => self.reach(revision),
        }
    }

    fn reach(&mut self, revision: Revision) {
        self.reached = Some(revision);
        self.kept.0.reached.send_replace(revision);
    }

    /// A watch that could not keep up is taken up again where it ended; history that is gone is read anew.
    fn end(&mut self, end: WatchEnd) {
        if matches!(end, WatchEnd::Expired { .. }) {
            self.reached = None;
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

    impl FollowedIndex for Names {
        fn emptied(&self) -> Self {
            Self::default()
        }

        fn take(&mut self, entry: &Entry, exists: bool) {
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

    fn names(keeper: &Keeper<Names>) -> Vec<String> {
        keeper.kept.read().0.iter().cloned().collect()
    }

    fn filled() -> Keeper<Names> {
        let mut keeper = Keeper::new(Kept::new(Names::default()));
        assert_eq!(keeper.begin(), WatchFrom::State(At::Any));
        for name in ["a", "b"] {
            keeper.take(event(Op::Added, name, 1));
            assert_eq!((names(&keeper).len(), keeper.kept.is_complete()), (0, false), "a part is not shown");
        }
        keeper.take(WatchItem::InitialEnd(Revision(5)));
        keeper
    }

    const EXPIRED: WatchEnd = WatchEnd::Expired { asked: Revision(5), current: Revision(9) };

    #[test]
    fn what_is_read_anew_is_shown_when_it_is_complete() {
        let mut keeper = filled();
        assert!(keeper.kept.is_complete());
        keeper.end(EXPIRED);
        assert_eq!(keeper.begin(), WatchFrom::State(At::Any));
        keeper.take(event(Op::Added, "b", 7));
        assert_eq!(names(&keeper), ["a", "b"], "the old one, whole");
        keeper.end(EXPIRED);
        assert_eq!(keeper.begin(), WatchFrom::State(At::Any));
        for name in ["b", "c"] {
            keeper.take(event(Op::Added, name, 8));
            assert_eq!(names(&keeper), ["a", "b"]);
        }
        keeper.take(WatchItem::InitialEnd(Revision(9)));
        assert_eq!(names(&keeper), ["b", "c"]);
        assert!(keeper.kept.is_complete());
    }

    #[test]
    fn a_watch_that_was_too_slow_goes_on_where_it_ended() {
        let mut keeper = filled();
        keeper.take(event(Op::Deleted, "a", 8));
        keeper.end(WatchEnd::Slow);
        assert_eq!(keeper.begin(), WatchFrom::After(Revision(8)));
        keeper.take(event(Op::Added, "c", 9));
        assert_eq!(names(&keeper), ["b", "c"]);
    }
}
