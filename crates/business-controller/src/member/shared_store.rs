//! Objects of a kind in the namespaces of a member cluster, as far as they are known.

use super::watch_store::{ListEnd, Versioned, WatchStore};
use crate::error::ListFailure;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Objects of a kind.
#[derive(Debug)]
pub struct SharedStore<V>(RwLock<SharedStoreState<V>>);

#[derive(Debug)]
struct SharedStoreState<V> {
    store: WatchStore<V>,
    /// Why they cannot be listed.
    error: Option<ListFailure>,
}

/// They were not listed yet; if that has failed, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotListed(pub Option<ListFailure>);

impl NotListed {
    /// We may not see them. So we have never put any there, or may not take it away.
    pub fn is_forbidden(&self) -> bool {
        self.0.as_ref().is_some_and(|failure| failure.is_forbidden)
    }
}

impl<V> Default for SharedStore<V> {
    fn default() -> Self {
        Self(RwLock::new(SharedStoreState { store: WatchStore::default(), error: None }))
    }
}

impl<V: Versioned> SharedStore<V> {
    /// What is in a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<V>>, NotListed> {
        let seen = self.read();
        if seen.store.is_synced() {
            Ok(seen.store.in_namespace(namespace))
        } else {
            Err(NotListed(seen.error.clone()))
        }
    }

    /// A list begins.
    pub fn begin_list(&self) {
        self.write().store.begin_list();
    }

    /// A list has ended.
    pub fn end_list(&self) -> ListEnd {
        let mut seen = self.write();
        seen.error = None;
        seen.store.end_list()
    }

    /// They cannot be listed; whether that is news.
    pub fn list_failed(&self, error: &ListFailure) -> bool {
        let mut seen = self.write();
        !seen.store.is_synced() && seen.error.replace(error.clone()).as_ref() != Some(error)
    }

    /// An object as it is; whether that is news.
    pub fn upsert(&self, namespace: &str, name: &str, object: V, by_watch: bool) -> bool {
        self.write().store.upsert(&format!("{namespace}/{name}"), object, by_watch)
    }

    /// An object is gone.
    pub fn remove(&self, namespace: &str, name: &str, object: &V) {
        self.write().store.remove(&format!("{namespace}/{name}"), object);
    }

    /// Whether they were listed, or may not be.
    pub fn is_listed(&self) -> bool {
        let seen = self.read();
        seen.store.is_synced() || seen.error.as_ref().is_some_and(|error| error.is_forbidden)
    }

    /// About how many bytes they take.
    pub fn weight(&self) -> usize {
        self.read().store.weight()
    }

    /// Forgets everything.
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
