use crate::kinds::Kind;
use meta::object::Object;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Changes that are kept for watches.
const HISTORY: usize = 20_000;

/// Where an object lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// One revision.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: Key,
    /// As it was before; none when it is new.
    pub before: Option<Arc<Object>>,
    /// As it is afterwards; none when it is gone.
    pub after: Option<Arc<Object>>,
    /// The last of it: with the revision of its end when it is gone.
    pub last: Arc<Object>,
}

/// The objects of a cluster, with their history.
#[derive(Debug, Default)]
pub struct ClusterState {
    revision: u64,
    objects: BTreeMap<Key, Arc<Object>>,
    /// The newest last; their revisions have no gap.
    history: VecDeque<Change>,
    /// What the cluster's controllers have to look at.
    dirty: BTreeSet<Key>,
}

impl ClusterState {
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Those of a kind, in a namespace or everywhere.
    pub fn list(&self, kind: Kind, namespace: &str) -> impl Iterator<Item = &Arc<Object>> {
        let from = Key::new(kind, namespace, "");
        let namespace = namespace.to_owned();
        self.objects
            .range(from..)
            .take_while(move |(key, _)| {
                key.kind == kind && (namespace.is_empty() || key.namespace == namespace)
            })
            .map(|(_, object)| object)
    }

    /// What lies in a namespace.
    pub fn within(&self, namespace: &str) -> Vec<Key> {
        self.objects.keys().filter(|key| key.namespace == namespace).cloned().collect()
    }

    /// Changes after a revision; none when they are not known any more.
    pub fn since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        let news = usize::try_from(self.revision.saturating_sub(revision)).ok()?;
        let known = self.history.len().checked_sub(news)?;
        Some(self.history.iter().skip(known))
    }

    pub fn put(&mut self, key: Key, mut object: Object) -> Arc<Object> {
        self.stamp(&mut object);
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        self.dirty.insert(key.clone());
        self.remember(Change { key, before, after: Some(Arc::clone(&object)), last: Arc::clone(&object) });
        object
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(before) = self.objects.remove(key) else { return };
        let mut last = Object::clone(&before);
        self.stamp(&mut last);
        self.remember(Change { key: key.clone(), before: Some(before), after: None, last: Arc::new(last) });
    }

    /// What was changed since the last time.
    pub fn take_dirty(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.dirty)
    }

    fn stamp(&mut self, object: &mut Object) {
        self.revision += 1;
        object.set(&["metadata", "resourceVersion"], self.revision.to_string().into());
    }

    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn history_is_told_without_a_gap_or_not_at_all() {
        let mut state = ClusterState::default();
        let key = Key::new(Kind::Namespace, "", "a");
        for _ in 0..HISTORY + 2 {
            state.put(key.clone(), Object::new(json!({"metadata": {"name": "a"}})).unwrap());
        }
        assert!(state.since(0).is_none() && state.since(1).is_none());
        assert_eq!(state.since(2).unwrap().count(), HISTORY);
        assert_eq!(state.since(state.revision()).unwrap().count(), 0);
        state.remove(&key);
        let gone: Vec<&Change> = state.since(state.revision() - 1).unwrap().collect();
        assert!(gone[0].after.is_none());
        assert_eq!(gone[0].last.resource_version(), state.revision().to_string());
    }
}
