//! What is seen of one kind in a member cluster, brought forward by its watch and by the answers to own writes.

use super::weight;
use crate::kinds::revision;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What is seen of one kind, by name of the namespace, or by `NAMESPACE/NAME`.
#[derive(Debug)]
pub(super) struct WatchStore<V> {
    objects: BTreeMap<String, Arc<V>>,
    /// Of all of them, with their names.
    weight: usize,
    delivered: u64,
    /// The highest revision since the last list began: no history that has come less far is the one that was seen.
    highest: u64,
    listed: Option<HashSet<String>>,
    synced: bool,
}

impl<V> Default for WatchStore<V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), weight: 0, delivered: 0, highest: 0, listed: None, synced: false }
    }
}

/// Something of a member cluster that is kept by the name of its namespace.
pub trait Versioned: Clone + PartialEq {
    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str;

    /// About how many bytes it takes: whoever rules a cluster chooses how long its texts are.
    fn weight(&self) -> usize;
}

/// What an object takes with its name, which is kept twice while it is listed.
fn weight_of<V: Versioned>(name: &str, object: &V) -> usize {
    weight::texts([name, name]).saturating_add(object.weight())
}

impl<V: Versioned> WatchStore<V> {
    /// About how many bytes all of it takes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<V>> {
        self.objects.get(name)
    }

    /// The highest revision since the last list began.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// A list is under way.
    pub(super) fn is_being_listed(&self) -> bool {
        self.listed.is_some()
    }

    pub(super) fn begin_list(&mut self) {
        self.highest = 0;
        self.listed = Some(HashSet::new());
    }

    /// What lies in a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        let prefix = format!("{namespace}/");
        let from = self.objects.range(prefix.clone()..);
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Whether `object` is news. Between the beginning and the end of a list the watch tells nothing but the list.
    pub(super) fn upsert(&mut self, name: &str, object: V, by_watch: bool) -> bool {
        let incoming = revision(object.resource_version());
        self.highest = self.highest.max(incoming);
        let is_listed = by_watch && self.listed.is_some();
        if by_watch {
            self.delivered = self.delivered.max(incoming);
            if let Some(listed) = self.listed.as_mut() {
                listed.insert(name.to_owned());
            }
        } else if incoming <= self.delivered || self.is_in_list(name) {
            return false;
        }
        let is_old = |held: &V| {
            // A list counts as it is: the cluster may have been restored, and then its revisions went back. Answers to own
            // writes wait until they have come as far again; the watch tells the same.
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

    /// The list that is under way has told of it. What an own write has changed since, the watch tells.
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

    /// What was not in the list is gone.
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

/// What the end of a list tells.
#[derive(Debug, PartialEq, Eq)]
pub struct ListEnd {
    /// It is the first one since the cluster was connected to.
    pub is_first: bool,
    /// The namespaces of what is there no more.
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
            store.upsert(key, quota(), true);
        }
        store.begin_list();
        store.upsert("b/view", quota(), true);
        let end = store.end_list();
        assert_eq!((end.is_first, end.gone), (true, BTreeSet::from(["a".to_owned(), "c".to_owned()])));
        assert!(!store.end_list().is_first);
    }
}
