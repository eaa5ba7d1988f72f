//! Grants that were computed lately. A project with many people has the same grants for all its namespaces in a
//! cluster, and computing them blocks a thread for a while.

use crate::digest;
use crate::namespace::access_state::Grants;
use crate::project::ancestors::ChainEnd;
use crate::project::kind::ProjectView;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How many grants are cached. Each is of one project in one cluster.
pub(super) const CACHED_MAX: usize = 32;
/// How many digests are cached before those of dropped views are removed.
pub(super) const DIGESTS_MIN: usize = 1_024;

/// Grants that were computed lately, by project and cluster.
#[derive(Debug, Default)]
pub struct GrantsCache {
    pub(super) store: Arc<GrantsStore>,
    /// Expensive computations run one at a time.
    computing: tokio::sync::Mutex<()>,
}

impl GrantsCache {
    /// Waits until no other expensive computation runs.
    pub async fn compute_lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.computing.lock().await
    }
}

/// The cached grants and digests.
#[derive(Debug, Default)]
pub(super) struct GrantsStore(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    grants_by_key: HashMap<GrantsKey, CachedGrants>,
    /// Digests of the subjects of a project, by the address of its view.
    subjects: HashMap<usize, SubjectsDigest>,
    /// How many digests are kept before those of dropped views are removed.
    digests_max: usize,
    /// Counts accesses, to find the least recently used grants.
    now: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GrantsKey {
    pub(super) project: Arc<str>,
    pub(super) cluster: String,
}

#[derive(Clone, Debug)]
struct CachedGrants {
    basis: GrantsBasis,
    grants: Arc<Grants>,
    used: u64,
}

/// The digest of the subjects that a project names.
#[derive(Debug)]
struct SubjectsDigest {
    /// Views are immutable. A weak reference does not keep the view, but it keeps its address from being reused.
    view: Weak<ProjectView>,
    digest: Arc<str>,
}

/// Everything that the grants were computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrantsBasis {
    /// The digests of the subjects of each project in the chain.
    pub(super) subjects: Vec<Arc<str>>,
    pub(super) end: ChainEnd,
    /// The digest of everything that does not come from a project.
    pub(super) others: Arc<str>,
}

impl GrantsStore {
    pub(super) fn get(&self, key: &GrantsKey, basis: &GrantsBasis) -> Option<Arc<Grants>> {
        let mut state = self.lock();
        state.now = state.now.wrapping_add(1);
        let now = state.now;
        let cached = state.grants_by_key.get_mut(key).filter(|cached| cached.basis == *basis)?;
        cached.used = now;
        Some(Arc::clone(&cached.grants))
    }

    pub(super) fn insert(&self, key: GrantsKey, basis: GrantsBasis, grants: Arc<Grants>) {
        let mut state = self.lock();
        state.now = state.now.wrapping_add(1);
        let used = state.now;
        if state.grants_by_key.len() >= CACHED_MAX && !state.grants_by_key.contains_key(&key) {
            let oldest = state.grants_by_key.iter().min_by_key(|(_, cached)| cached.used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                state.grants_by_key.remove(&oldest);
            }
        }
        state.grants_by_key.insert(key, CachedGrants { basis, grants, used });
    }

    pub(super) fn cached_subjects_digest(&self, view: &Arc<ProjectView>) -> Option<Arc<str>> {
        self.lock().subjects.get(&Arc::as_ptr(view).addr()).map(|subjects| Arc::clone(&subjects.digest))
    }

    /// The digest of the subjects of a view, which is computed once.
    pub(super) fn subjects_digest(&self, view: &Arc<ProjectView>) -> Arc<str> {
        if let Some(cached) = self.cached_subjects_digest(view) {
            return cached;
        }
        let digest: Arc<str> = Arc::from(digest::of(&(&view.spec.members, &view.spec.access)));
        let subjects = SubjectsDigest { view: Arc::downgrade(view), digest: Arc::clone(&digest) };
        let mut state = self.lock();
        state.subjects.insert(Arc::as_ptr(view).addr(), subjects);
        if state.subjects.len() > state.digests_max.max(DIGESTS_MIN) {
            state.subjects.retain(|_, subjects| subjects.view.strong_count() > 0);
            state.digests_max = state.subjects.len().saturating_mul(2);
        }
        digest
    }

    /// How many grants and how many digests are cached.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.grants_by_key.len(), state.subjects.len())
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
