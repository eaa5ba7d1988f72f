//! The watch cache of the objects of one kind.

use crate::acquisition::{AcquisitionSnapshot, CacheProgress, GenerationSnapshot};
use crate::kinds::{ChangeSource, Kind, View, ViewChange, ViewIndex as _, revision};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::SetOnce;

/// The objects of one kind, each in its newest version.
#[derive(Debug)]
pub struct Cache<K: Kind> {
    held: RwLock<CachedViews<K>>,
    /// Set when the first list has ended.
    synced: SetOnce<()>,
    pub memory: K::Memory,
}

#[derive(Debug)]
struct CachedViews<K: Kind> {
    objects: Views<K>,
    index: K::Index,
    /// The highest resourceVersion that the watch has delivered.
    delivered: u64,
    progress: CacheProgress,
    /// The objects when the share of the fleet was acquired; for kinds that belong to the fleet.
    acquisition: Option<AcquisitionSnapshot>,
    /// The keys that the current list has shown so far.
    listed: Option<HashSet<K::Key>>,
}

/// The objects of one kind by key.
pub type Views<K> = BTreeMap<<K as Kind>::Key, Arc<View<K>>>;

impl<K: Kind> Default for Cache<K> {
    fn default() -> Self {
        let held = CachedViews {
            objects: BTreeMap::new(),
            index: K::Index::default(),
            delivered: 0,
            progress: CacheProgress::default(),
            acquisition: None,
            listed: None,
        };
        Self { held: RwLock::new(held), synced: SetOnce::new(), memory: K::Memory::default() }
    }
}

impl<K: Kind> Cache<K> {
    /// Whether the first list has ended.
    pub fn is_synced(&self) -> bool {
        self.synced.initialized()
    }

    /// Waits for the end of the first list.
    pub async fn synced(&self) {
        self.synced.wait().await;
    }

    pub fn get(&self, key: &K::Key) -> Option<Arc<View<K>>> {
        self.read().objects.get(key).cloned()
    }

    pub fn all(&self) -> Vec<Arc<View<K>>> {
        self.read().objects.values().cloned().collect()
    }

    /// Reads the objects with the index of the kind.
    pub fn with_index<R>(&self, read: impl FnOnce(&Views<K>, &K::Index) -> R) -> R {
        let held = self.read();
        read(&held.objects, &held.index)
    }

    /// How far the cache has followed the API server.
    pub fn progress(&self) -> CacheProgress {
        self.read().progress
    }

    /// Sets the objects that existed when the share was acquired.
    pub fn set_acquisition_snapshot(&self, snapshot: GenerationSnapshot) {
        let mut held = self.write();
        held.acquisition = Some(AcquisitionSnapshot::new(snapshot, held.progress));
    }

    /// Whether the cached object is at least as new as the snapshot of the share's acquisition. Otherwise a former
    /// holder has changed or finished it, and it must not be reconciled.
    pub fn is_up_to_date(&self, key: &K::Key) -> bool {
        let held = self.read();
        let (Some(acquisition), Some(object)) = (&held.acquisition, held.objects.get(key)) else {
            return true;
        };
        acquisition.is_up_to_date::<K>(object, held.progress)
    }

    /// Whether a cached object is missing from the snapshot, or older than there.
    pub fn is_behind(&self, snapshot: &GenerationSnapshot) -> bool {
        let is_older = |view: &Arc<View<K>>| {
            let newest = snapshot.generations.get(&view.uid);
            revision(&view.resource_version) <= snapshot.revision
                && newest.is_none_or(|newest| view.generation < *newest)
        };
        self.read().objects.values().any(is_older)
    }

    pub fn begin_list(&self) {
        let mut held = self.write();
        held.progress.lists_begun += 1;
        held.listed = Some(HashSet::new());
    }

    /// Stores an object that was listed, changed or written by us. `None` if it is not newer than the cached one.
    pub fn upsert(&self, object: View<K>, source: ChangeSource) -> Option<ViewChange<K>> {
        let incoming = revision(&object.resource_version);
        let mut held = self.write();
        if source != ChangeSource::OwnWrite {
            held.delivered = held.delivered.max(incoming);
            if source == ChangeSource::WatchEvent {
                held.progress.last_event = held.progress.last_event.max(incoming);
            }
            if let Some(listed) = &mut held.listed {
                listed.insert(object.key.clone());
            }
        } else if incoming <= held.delivered || !held.objects.contains_key(&object.key) {
            return None;
        }
        let old = held.objects.get(&object.key).cloned();
        let is_old = |old: &View<K>| {
            let held = revision(&old.resource_version);
            // A list replaces what is cached, whatever the resourceVersions: after a restore of the database an object
            // may be back at an older state, and no event would follow.
            old.uid == object.uid
                && if source == ChangeSource::List { held == incoming } else { held >= incoming }
        };
        if old.as_deref().is_some_and(is_old) {
            return None;
        }
        let new = Arc::new(object);
        held.objects.insert(new.key.clone(), Arc::clone(&new));
        Some(held.index(ViewChange { old, new: Some(new), source }))
    }

    pub fn remove(&self, object: &View<K>) -> Option<ViewChange<K>> {
        let mut held = self.write();
        let ended = revision(&object.resource_version);
        held.delivered = held.delivered.max(ended);
        held.progress.last_event = held.progress.last_event.max(ended);
        if held.objects.get(&object.key).is_none_or(|held| held.uid != object.uid) {
            return None;
        }
        let old = held.objects.remove(&object.key);
        Some(held.index(ViewChange { old, new: None, source: ChangeSource::WatchEvent }))
    }

    /// Ends a list. Objects that it did not contain are removed.
    pub fn end_list(&self) -> Vec<ViewChange<K>> {
        let mut held = self.write();
        held.progress.last_completed_list = held.progress.lists_begun;
        let _known_already = self.synced.set(());
        let Some(listed) = held.listed.take() else { return Vec::new() };
        let gone: Vec<K::Key> = held.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter()
            .map(|key| {
                let old = held.objects.remove(key);
                held.index(ViewChange { old, new: None, source: ChangeSource::List })
            })
            .collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, CachedViews<K>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CachedViews<K>> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Kind> CachedViews<K> {
    fn index(&mut self, change: ViewChange<K>) -> ViewChange<K> {
        self.index.follow(&change);
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{ObjectKey as _, ProjectKey, RootKey};
    use crate::namespace::kind::{BusinessNamespace, NamespaceView};
    use crate::project::kind::{BusinessProject, ProjectView};
    use business_types::{NamespaceSpec, ProjectSpec};

    fn namespace(project: &str, name: &str, revision: u64) -> NamespaceView {
        let spec =
            NamespaceSpec { cluster_name: "c1".into(), namespace: name.into(), ..NamespaceSpec::default() };
        NamespaceView {
            key: ProjectKey::new(Some(project), name),
            uid: format!("uid-{name}"),
            resource_version: revision.to_string(),
            spec,
            ..NamespaceView::default()
        }
    }

    #[test]
    fn an_answer_to_a_write_never_brings_back_what_is_gone() {
        let cache = Cache::<BusinessNamespace>::default();
        cache.upsert(namespace("p", "n", 5), ChangeSource::WatchEvent).unwrap();
        assert!(cache.upsert(namespace("p", "n", 7), ChangeSource::OwnWrite).is_some());
        let older = cache.upsert(namespace("p", "n", 6), ChangeSource::WatchEvent);
        assert!(older.is_none(), "older than what is held");
        cache.remove(&namespace("p", "n", 8)).unwrap();
        assert!(cache.upsert(namespace("p", "n", 7), ChangeSource::OwnWrite).is_none());
        assert!(cache.all().is_empty() && cache.at_place("c1", "n").is_none());
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let cache = Cache::<BusinessNamespace>::default();
        for name in ["a", "b"] {
            cache.upsert(namespace("p", name, 1), ChangeSource::WatchEvent).unwrap();
        }
        cache.upsert(namespace("p2", "c", 1), ChangeSource::WatchEvent).unwrap();
        cache.begin_list();
        assert!(cache.upsert(namespace("p", "a", 1), ChangeSource::WatchEvent).is_none());
        assert_eq!(cache.end_list().len(), 2);
        assert_eq!(cache.of_project("p").len(), 1);
        assert!(cache.at_place("c1", "a").is_some() && cache.at_place("c1", "b").is_none());
    }

    #[test]
    fn a_new_list_counts_although_history_went_back() {
        let cache = Cache::<BusinessNamespace>::default();
        cache.upsert(namespace("p", "n", 5), ChangeSource::WatchEvent).unwrap();
        cache.upsert(namespace("p", "n", 9), ChangeSource::OwnWrite).unwrap();
        cache.begin_list();
        assert!(
            cache.upsert(namespace("p", "n", 7), ChangeSource::List).is_some(),
            "what was written at 9 is lost"
        );
        assert!(cache.upsert(namespace("p", "n", 7), ChangeSource::List).is_none());
        assert!(cache.end_list().is_empty());
        assert_eq!(cache.all()[0].resource_version, "7");
        assert!(cache.upsert(namespace("p", "n", 8), ChangeSource::WatchEvent).is_some());
    }

    #[test]
    fn children_follow_their_parent() {
        let cache = Cache::<BusinessProject>::default();
        let project = |name: &str, parent: &str, revision: u64| ProjectView {
            key: RootKey::new(None, name),
            uid: name.into(),
            resource_version: revision.to_string(),
            spec: ProjectSpec { parent_project_name: parent.into(), ..ProjectSpec::default() },
            ..ProjectView::default()
        };
        cache.upsert(project("root", "", 1), ChangeSource::WatchEvent);
        cache.upsert(project("other", "", 2), ChangeSource::WatchEvent);
        cache.upsert(project("child", "root", 3), ChangeSource::WatchEvent);
        assert_eq!(cache.children_of("root").len(), 1);
        cache.upsert(project("child", "other", 4), ChangeSource::WatchEvent);
        assert!(cache.children_of("root").is_empty());
        assert_eq!(cache.children_of("other")[0].key.name(), "child");
    }
}
