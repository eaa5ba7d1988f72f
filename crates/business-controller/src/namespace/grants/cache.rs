//! Grants that were found lately. A project with many people has the same ones for all its namespaces in a cluster, and to find
//! them keeps a thread for a while.

use crate::digest;
use crate::namespace::access_state::Grants;
use crate::project::ancestors::ChainEnd;
use crate::project::kind::ProjectView;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Grants that are kept, of one project in one cluster each.
pub(super) const CACHED_MAX: usize = 32;
/// Views of which so much is known before it is looked which of them are gone.
pub(super) const DIGESTS_MIN: usize = 1_024;

/// Grants that were found lately, by project and cluster.
#[derive(Debug, Default)]
pub struct GrantsCache {
    pub(super) store: Arc<GrantsStore>,
    /// What takes long is found one at a time.
    computing: tokio::sync::Mutex<()>,
}

impl GrantsCache {
    /// Waits until nobody else has grants found that take long.
    pub async fn compute_lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.computing.lock().await
    }
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct GrantsStore(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    grants_by_key: HashMap<GrantsKey, CachedGrants>,
    /// Whom a view of a project names, by its address.
    subjects: HashMap<usize, SubjectsDigest>,
    /// So many views are kept until it is looked which of them are gone.
    digests_max: usize,
    /// Counts what is kept and looked up.
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

/// Whom a project names.
#[derive(Debug)]
struct SubjectsDigest {
    /// No view changes. None lives longer by this, but no other one gets its address.
    view: Weak<ProjectView>,
    digest: Arc<str>,
}

/// What grants were found from, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrantsBasis {
    /// The digests of those whom each project of the line names.
    pub(super) subjects: Vec<Arc<str>>,
    pub(super) end: ChainEnd,
    /// The digest of everything that no project says.
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

    /// Whom a view names, which is looked at once.
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

    /// Of how many grants, and of how many views, something is kept.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.grants_by_key.len(), state.subjects.len())
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
