//! Objects of a kind in the namespaces of a member cluster, as far as they are known.

use super::sights::{ListEnd, Sights, Versioned};
use crate::error::ListFailure;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Objects of a kind.
#[derive(Debug)]
pub struct Seen<V>(RwLock<SeenState<V>>);

#[derive(Debug)]
struct SeenState<V> {
    sights: Sights<V>,
    /// Why they cannot be listed.
    error: Option<ListFailure>,
}

/// They were not listed yet; if that has failed, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted(pub Option<ListFailure>);

impl Unlisted {
    /// We may not see them. So we have never put any there, or may not take it away.
    pub fn is_forbidden(&self) -> bool {
        self.0.as_ref().is_some_and(|failure| failure.is_forbidden)
    }
}

impl<V> Default for Seen<V> {
    fn default() -> Self {
        Self(RwLock::new(SeenState { sights: Sights::default(), error: None }))
    }
}

impl<V: Versioned> Seen<V> {
    /// What is in a namespace.
    pub fn within(&self, namespace: &str) -> Result<Vec<Arc<V>>, Unlisted> {
        let seen = self.read();
        if seen.sights.is_synced() {
            Ok(seen.sights.within(namespace))
        } else {
            Err(Unlisted(seen.error.clone()))
        }
    }

    /// A list begins.
    pub fn begin(&self) {
        self.write().sights.begin_list();
    }

    /// A list has ended.
    pub fn end(&self) -> ListEnd {
        let mut seen = self.write();
        seen.error = None;
        seen.sights.end_list()
    }

    /// They cannot be listed; whether that is news.
    pub fn failed(&self, error: &ListFailure) -> bool {
        let mut seen = self.write();
        !seen.sights.is_synced() && seen.error.replace(error.clone()).as_ref() != Some(error)
    }

    /// An object as it is; whether that is news.
    pub fn upsert(&self, namespace: &str, name: &str, object: V, by_watch: bool) -> bool {
        self.write().sights.upsert(&format!("{namespace}/{name}"), object, by_watch)
    }

    /// An object is gone.
    pub fn remove(&self, namespace: &str, name: &str, object: &V) {
        self.write().sights.remove(&format!("{namespace}/{name}"), object);
    }

    /// Whether they were listed, or may not be.
    pub fn is_listed(&self) -> bool {
        let seen = self.read();
        seen.sights.is_synced() || seen.error.as_ref().is_some_and(|error| error.is_forbidden)
    }

    /// About how many bytes they take.
    pub fn weight(&self) -> usize {
        self.read().sights.weight()
    }

    /// Forgets everything.
    pub fn reset(&self) {
        *self.write() = SeenState { sights: Sights::default(), error: None };
    }

    fn read(&self) -> RwLockReadGuard<'_, SeenState<V>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SeenState<V>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
