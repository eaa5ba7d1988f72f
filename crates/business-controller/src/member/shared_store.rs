//! A store of the objects of one kind in a member cluster, behind a lock, with the reason why it could not be listed.

use super::watch_store::{ListEnd, UpdateSource, Versioned, WatchStore};
use crate::error::ListFailure;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A shared store.
#[derive(Debug)]
pub struct SharedStore<V>(RwLock<SharedStoreState<V>>);

#[derive(Debug)]
struct SharedStoreState<V> {
    store: WatchStore<V>,
    /// Why the last list failed.
    error: Option<ListFailure>,
}

/// The objects were not listed yet. If the list has failed, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotListed(pub Option<ListFailure>);

impl NotListed {
    /// We have no right to list them. So we have never created any, or may not delete them.
    pub fn is_forbidden(&self) -> bool {
        self.0.as_ref().is_some_and(|failure| failure.is_forbidden)
    }

    /// Why `what` cannot be listed; `None` if no list has failed.
    pub fn describe(self, what: &str) -> Option<String> {
        self.0.map(|failure| format!("{what}: {}", failure.text))
    }
}

impl<V> Default for SharedStore<V> {
    fn default() -> Self {
        Self(RwLock::new(SharedStoreState { store: WatchStore::default(), error: None }))
    }
}

impl<V: Versioned> SharedStore<V> {
    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<V>>, NotListed> {
        let seen = self.read();
        if seen.store.is_synced() {
            Ok(seen.store.in_namespace(namespace))
        } else {
            Err(NotListed(seen.error.clone()))
        }
    }

    /// Begins a list.
    pub fn begin_list(&self) {
        self.write().store.begin_list();
    }

    /// Ends a list.
    pub fn end_list(&self) -> ListEnd {
        let mut seen = self.write();
        seen.error = None;
        seen.store.end_list()
    }

    /// Records that a list has failed. Returns whether that is new.
    pub fn list_failed(&self, error: &ListFailure) -> bool {
        let mut seen = self.write();
        !seen.store.is_synced() && seen.error.replace(error.clone()).as_ref() != Some(error)
    }

    /// Stores an object. Returns whether it is new or changed.
    pub fn upsert(&self, namespace: &str, name: &str, object: V, source: UpdateSource) -> bool {
        self.write().store.upsert(&format!("{namespace}/{name}"), object, source)
    }

    /// Removes an object.
    pub fn remove(&self, namespace: &str, name: &str, object: &V) {
        self.write().store.remove(&format!("{namespace}/{name}"), object);
    }

    /// Whether the objects were listed, or we have no right to list them.
    pub fn is_listed(&self) -> bool {
        let seen = self.read();
        seen.store.is_synced() || seen.error.as_ref().is_some_and(|error| error.is_forbidden)
    }

    /// The estimated bytes of all objects.
    pub fn weight(&self) -> usize {
        self.read().store.weight()
    }

    /// Removes everything.
    pub fn reset(&self) {
        *self.write() = SharedStoreState { store: WatchStore::default(), error: None };
    }

    fn read(&self) -> RwLockReadGuard<'_, SharedStoreState<V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SharedStoreState<V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
