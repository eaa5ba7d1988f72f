//! Snapshots of our objects that are listed when a share is acquired. The watch cache may be older than that list: a
//! former holder may have finished an object that is still cached here, or that a late event will bring. Such an object
//! must not be reconciled.

use crate::kinds::{Kind, View, revision};
use std::collections::HashMap;

/// The generation of every object of a kind at one resourceVersion.
#[derive(Clone, Debug, Default)]
pub struct GenerationSnapshot {
    pub revision: u64,
    /// By the object's uid.
    pub generations: HashMap<String, i64>,
}

/// How far a cache has followed the API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheProgress {
    /// The highest resourceVersion that a watch event has delivered. Everything up to it was seen.
    pub last_event: u64,
    /// How many lists have begun.
    pub lists_begun: u64,
    /// The number of the last list that has ended.
    pub last_completed_list: u64,
}

/// The objects that existed when a share was acquired, and how far the cache was at that time.
#[derive(Debug, Default)]
pub struct AcquisitionSnapshot {
    snapshot: GenerationSnapshot,
    /// The progress of the cache at that time.
    progress: CacheProgress,
}

impl AcquisitionSnapshot {
    /// `progress` is that of the cache, read after the snapshot.
    pub fn new(snapshot: GenerationSnapshot, progress: CacheProgress) -> Self {
        Self { snapshot, progress }
    }

    /// Whether an object that was created at this resourceVersion is newer than the snapshot.
    pub fn is_older_than(&self, made_at: u64) -> bool {
        made_at > self.snapshot.revision
    }

    /// Whether a cached object is at least as new as the snapshot. `progress` is that of the cache now. An older object
    /// is about to be updated or removed by the watch.
    pub fn is_up_to_date<K: Kind>(&self, object: &View<K>, progress: CacheProgress) -> bool {
        let as_new = |newest: &i64| *newest <= object.generation;
        revision(&object.resource_version) > self.snapshot.revision
            || self.snapshot.generations.get(&object.uid).is_some_and(as_new)
            || progress.last_event > self.snapshot.revision
            || progress.last_completed_list > self.progress.lists_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::fixtures::pending;
    use crate::kinds::ChangeSource;
    use crate::namespace::kind::{BusinessNamespace, NamespaceView};

    fn at(revision: u64, generation: i64) -> NamespaceView {
        NamespaceView { resource_version: revision.to_string(), generation, ..pending(&[]) }
    }

    /// At revision 10.
    fn acquisition(view: &Cache<BusinessNamespace>, generations: &[(&str, i64)]) -> AcquisitionSnapshot {
        let generations = generations.iter().map(|(uid, generation)| ((*uid).to_owned(), *generation));
        AcquisitionSnapshot::new(
            GenerationSnapshot { revision: 10, generations: generations.collect() },
            view.progress(),
        )
    }

    fn counts(
        acquisition: &AcquisitionSnapshot,
        object: &NamespaceView,
        view: &Cache<BusinessNamespace>,
    ) -> bool {
        acquisition.is_up_to_date::<BusinessNamespace>(object, view.progress())
    }

    #[test]
    fn what_was_there_then_or_came_later_counts() {
        let view = Cache::default();
        let acquisition = acquisition(&view, &[("u", 2)]);
        assert!(counts(&acquisition, &at(7, 2), &view));
        assert!(!counts(&acquisition, &at(7, 1), &view), "it was changed before");
        assert!(counts(&acquisition, &at(11, 3), &view));
        let gone = NamespaceView { uid: "gone".to_owned(), ..at(7, 1) };
        assert!(!counts(&acquisition, &gone, &view));
    }

    #[test]
    fn what_is_left_counts_when_our_view_is_newer_than_that() {
        let view = Cache::default();
        let (acquisition, old) = (acquisition(&view, &[]), at(7, 1));
        let other = |revision| NamespaceView { uid: "other".to_owned(), ..at(revision, 1) };
        view.upsert(other(10), ChangeSource::WatchEvent);
        assert!(!counts(&acquisition, &old, &view), "its end may be told by the next event");
        view.upsert(other(11), ChangeSource::OwnWrite);
        assert!(!counts(&acquisition, &old, &view), "an answer says nothing of events");
        view.upsert(other(12), ChangeSource::WatchEvent);
        assert!(counts(&acquisition, &old, &view));
    }

    #[test]
    fn a_list_that_had_begun_says_nothing_and_a_later_one_everything() {
        let view = Cache::default();
        view.begin_list();
        let (acquisition, old) = (acquisition(&view, &[]), at(7, 1));
        view.upsert(at(12, 1), ChangeSource::List);
        assert!(!counts(&acquisition, &old, &view), "the rest of the list is still to come");
        view.end_list();
        assert!(!counts(&acquisition, &old, &view), "it may be older");
        // History may have gone back: no event of a later revision has to come.
        view.begin_list();
        assert!(!counts(&acquisition, &old, &view));
        view.end_list();
        assert!(counts(&acquisition, &old, &view));
    }
}
