//! The objects of one kind as last seen.

use crate::inventory::{Inventory, Roll, ViewAge};
use crate::kinds::{Heard, Kind, View, ViewChange, ViewIndex as _, revision};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::SetOnce;

/// The objects of one kind, newest version only.
#[derive(Debug)]
pub struct Cache<K: Kind> {
    held: RwLock<CachedViews<K>>,
    /// Everything was listed at least once.
    synced: SetOnce<()>,
    pub memory: K::Memory,
}

#[derive(Debug)]
struct CachedViews<K: Kind> {
    objects: Views<K>,
    index: K::Index,
    /// Highest revision that the watch has delivered.
    delivered: u64,
    age: ViewAge,
    /// What there was in our tenure, where the kind is looked after as a whole.
    inventory: Option<Inventory>,
    /// Seen since a list has begun.
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
            age: ViewAge::default(),
            inventory: None,
            listed: None,
        };
        Self { held: RwLock::new(held), synced: SetOnce::new(), memory: K::Memory::default() }
    }
}

impl<K: Kind> Cache<K> {
    /// Whether everything was listed at least once.
    pub fn is_synced(&self) -> bool {
        self.synced.initialized()
    }

    /// Waits until everything was listed.
    pub async fn synced(&self) {
        self.synced.wait().await;
    }

    pub fn get(&self, key: &K::Key) -> Option<Arc<View<K>>> {
        self.read().objects.get(key).cloned()
    }

    pub fn all(&self) -> Vec<Arc<View<K>>> {
        self.read().objects.values().cloned().collect()
    }

    /// For the look-ups of a kind.
    pub fn look<R>(&self, at: impl FnOnce(&Views<K>, &K::Index) -> R) -> R {
        let held = self.read();
        at(&held.objects, &held.index)
    }

    /// How much it has heard.
    pub fn age(&self) -> ViewAge {
        self.read().age
    }

    /// These were the objects at a moment of our tenure.
    pub fn take_over(&self, roll: Roll) {
        let mut held = self.write();
        held.inventory = Some(Inventory::new(roll, held.age));
    }

    /// Whether the object with this key was not changed, and has not gone, before our tenure has begun.
    pub fn may_decide_from(&self, key: &K::Key) -> bool {
        let held = self.read();
        let (Some(inventory), Some(object)) = (&held.inventory, held.objects.get(key)) else { return true };
        inventory.has_no_newer::<K>(object, held.age)
    }

    /// Whether an object is held that the roll does not have, or has newer.
    pub fn is_behind(&self, roll: &Roll) -> bool {
        let is_older = |view: &Arc<View<K>>| {
            let newest = roll.generations.get(&view.uid);
            revision(&view.resource_version) <= roll.revision
                && newest.is_none_or(|newest| view.generation < *newest)
        };
        self.read().objects.values().any(is_older)
    }

    pub fn list_begins(&self) {
        let mut held = self.write();
        held.age.lists += 1;
        held.listed = Some(HashSet::new());
    }

    /// An object was listed or changed. `None` if nothing is new.
    pub fn seen(&self, object: View<K>, heard: Heard) -> Option<ViewChange<K>> {
        let incoming = revision(&object.resource_version);
        let mut held = self.write();
        if heard != Heard::FromOwnWrite {
            held.delivered = held.delivered.max(incoming);
            if heard == Heard::ByEvent {
                held.age.followed = held.age.followed.max(incoming);
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
            // A list counts as it is: after commits were lost, an object is what it was before, and no event may ever come.
            old.uid == object.uid && if heard == Heard::InList { held == incoming } else { held >= incoming }
        };
        if old.as_deref().is_some_and(is_old) {
            return None;
        }
        let new = Arc::new(object);
        held.objects.insert(new.key.clone(), Arc::clone(&new));
        Some(held.index(ViewChange { old, new: Some(new), heard }))
    }

    pub fn gone(&self, object: &View<K>) -> Option<ViewChange<K>> {
        let mut held = self.write();
        let ended = revision(&object.resource_version);
        held.delivered = held.delivered.max(ended);
        held.age.followed = held.age.followed.max(ended);
        if held.objects.get(&object.key).is_none_or(|held| held.uid != object.uid) {
            return None;
        }
        let old = held.objects.remove(&object.key);
        Some(held.index(ViewChange { old, new: None, heard: Heard::ByEvent }))
    }

    /// A list has ended: what was not in it is gone.
    pub fn list_ends(&self) -> Vec<ViewChange<K>> {
        let mut held = self.write();
        held.age.listed = held.age.lists;
        let _known_already = self.synced.set(());
        let Some(listed) = held.listed.take() else { return Vec::new() };
        let gone: Vec<K::Key> = held.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter()
            .map(|key| {
                let old = held.objects.remove(key);
                held.index(ViewChange { old, new: None, heard: Heard::InList })
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
        cache.seen(namespace("p", "n", 5), Heard::ByEvent).unwrap();
        assert!(cache.seen(namespace("p", "n", 7), Heard::FromOwnWrite).is_some());
        let older = cache.seen(namespace("p", "n", 6), Heard::ByEvent);
        assert!(older.is_none(), "older than what is held");
        cache.gone(&namespace("p", "n", 8)).unwrap();
        assert!(cache.seen(namespace("p", "n", 7), Heard::FromOwnWrite).is_none());
        assert!(cache.all().is_empty() && cache.at_place("c1", "n").is_none());
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let cache = Cache::<BusinessNamespace>::default();
        for name in ["a", "b"] {
            cache.seen(namespace("p", name, 1), Heard::ByEvent).unwrap();
        }
        cache.seen(namespace("p2", "c", 1), Heard::ByEvent).unwrap();
        cache.list_begins();
        assert!(cache.seen(namespace("p", "a", 1), Heard::ByEvent).is_none());
        assert_eq!(cache.list_ends().len(), 2);
        assert_eq!(cache.of_project("p").len(), 1);
        assert!(cache.at_place("c1", "a").is_some() && cache.at_place("c1", "b").is_none());
    }

    #[test]
    fn a_new_list_counts_although_history_went_back() {
        let cache = Cache::<BusinessNamespace>::default();
        cache.seen(namespace("p", "n", 5), Heard::ByEvent).unwrap();
        cache.seen(namespace("p", "n", 9), Heard::FromOwnWrite).unwrap();
        cache.list_begins();
        assert!(cache.seen(namespace("p", "n", 7), Heard::InList).is_some(), "what was written at 9 is lost");
        assert!(cache.seen(namespace("p", "n", 7), Heard::InList).is_none());
        assert!(cache.list_ends().is_empty());
        assert_eq!(cache.all()[0].resource_version, "7");
        assert!(cache.seen(namespace("p", "n", 8), Heard::ByEvent).is_some());
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
        cache.seen(project("root", "", 1), Heard::ByEvent);
        cache.seen(project("other", "", 2), Heard::ByEvent);
        cache.seen(project("child", "root", 3), Heard::ByEvent);
        assert_eq!(cache.children_of("root").len(), 1);
        cache.seen(project("child", "other", 4), Heard::ByEvent);
        assert!(cache.children_of("root").is_empty());
        assert_eq!(cache.children_of("other")[0].key.name(), "child");
    }
}
