//! A store of the objects of one kind in a member cluster. Its watch fills it, and answers to our own writes bring it
//! forward.

use super::weight;
use crate::kinds::revision;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The objects of one kind, by the name of the namespace, or by `NAMESPACE/NAME`.
#[derive(Debug)]
pub(super) struct WatchStore<V> {
    objects: BTreeMap<String, Arc<V>>,
    /// The estimated bytes of all objects with their names.
    weight: usize,
    delivered: u64,
    /// The highest revision that was seen since the last list began. A history that has not come as far is another one.
    highest: u64,
    listed: Option<HashSet<String>>,
    synced: bool,
}

impl<V> Default for WatchStore<V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), weight: 0, delivered: 0, highest: 0, listed: None, synced: false }
    }
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateSource {
    /// The watch has delivered it, in a list or as an event.
    Watch,
    /// It is the answer to our own write, which may be behind the watch.
    OwnWrite,
}

/// An object of a member cluster with a resourceVersion.
pub trait Versioned: Clone + PartialEq {
    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str;

    /// The estimated bytes it takes: whoever controls a cluster chooses how long its strings are.
    fn weight(&self) -> usize;
}

/// The estimated bytes of an object with its name, which is stored twice during a list.
fn weight_of<V: Versioned>(name: &str, object: &V) -> usize {
    weight::texts([name, name]).saturating_add(object.weight())
}

impl<V: Versioned> WatchStore<V> {
    /// The estimated bytes of all objects.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<V>> {
        self.objects.get(name)
    }

    /// The highest revision that was seen since the last list began.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether a list is under way.
    pub(super) fn is_being_listed(&self) -> bool {
        self.listed.is_some()
    }

    pub(super) fn begin_list(&mut self) {
        self.highest = 0;
        self.listed = Some(HashSet::new());
    }

    /// The objects of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        let prefix = format!("{namespace}/");
        let from = self.objects.range(prefix.clone()..);
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Stores an object. Returns whether it is new or changed. During a list, the watch delivers nothing but the list.
    pub(super) fn upsert(&mut self, name: &str, object: V, source: UpdateSource) -> bool {
        let incoming = revision(object.resource_version());
        self.highest = self.highest.max(incoming);
        let is_listed = source == UpdateSource::Watch && self.listed.is_some();
        if source == UpdateSource::Watch {
            self.delivered = self.delivered.max(incoming);
            if let Some(listed) = self.listed.as_mut() {
                listed.insert(name.to_owned());
            }
        } else if incoming <= self.delivered || self.is_in_list(name) {
            return false;
        }
        let is_old = |held: &V| {
            // A list replaces what is stored, whatever the revisions: the cluster may have been restored, and then its
            // revisions went back. Answers to our own writes are ignored until the revisions are as high again; the
            // watch delivers the same.
            if is_listed { *held == object } else { revision(held.resource_version()) >= incoming }
        };
        if self.objects.get(name).is_some_and(|held| is_old(held)) {
            return false;
        }
        self.weight = self.weight.saturating_add(weight_of(name, &object));
        if let Some(before) = self.objects.insert(name.to_owned(), Arc::new(object)) {
            self.weight = self.weight.saturating_sub(weight_of(name, &*before));
        }
        true
    }

    /// Whether the current list has already shown this object. The watch will deliver what our own write has changed
    /// since.
    fn is_in_list(&self, name: &str) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.contains(name))
    }

    pub(super) fn remove(&mut self, name: &str, object: &V) {
        let gone_at = revision(object.resource_version());
        self.delivered = self.delivered.max(gone_at);
        self.highest = self.highest.max(gone_at);
        if let Some(before) = self.objects.remove(name) {
            self.weight = self.weight.saturating_sub(weight_of(name, &*before));
        }
    }

    /// Ends a list: objects that it did not contain are removed.
    pub(super) fn end_list(&mut self) -> ListEnd {
        let is_first = !std::mem::replace(&mut self.synced, true);
        let Some(listed) = self.listed.take() else { return ListEnd { is_first, gone: BTreeSet::new() } };
        let gone = self.objects.keys().filter(|key| !listed.contains(*key));
        let namespace = |key: &String| key.split_once('/').map_or(key.as_str(), |(name, _)| name).to_owned();
        let gone = gone.map(namespace).collect();
        self.objects.retain(|key, _| listed.contains(key));
        self.weight = weight::sum(self.objects.iter().map(|(key, object)| weight_of(key, &**object)));
        ListEnd { is_first, gone }
    }
}

/// The result of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct ListEnd {
    /// It is the first list since the cluster was connected to.
    pub is_first: bool,
    /// The namespaces of objects that were removed.
    pub gone: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::quota::ClusterQuota;

    #[test]
    fn a_list_tells_the_namespaces_of_what_it_lacks() {
        let quota = || ClusterQuota { resource_version: "1".into(), ..ClusterQuota::default() };
        let mut store = WatchStore::default();
        for key in ["a/edit", "a/view", "b/view", "c"] {
            store.upsert(key, quota(), UpdateSource::Watch);
        }
        store.begin_list();
        store.upsert("b/view", quota(), UpdateSource::Watch);
        let end = store.end_list();
        assert_eq!((end.is_first, end.gone), (true, BTreeSet::from(["a".to_owned(), "c".to_owned()])));
        assert!(!store.end_list().is_first);
    }
}
