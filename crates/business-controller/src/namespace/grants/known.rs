//! Grants that were found lately. A project with many people has the same ones for all its namespaces in a cluster, and to find
//! them keeps a thread for a while.

use crate::digest;
use crate::namespace::access_state::Grants;
use crate::project::kind::ProjectView;
use crate::project::lineage::LineageEnd;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Grants that are kept, of one project in one cluster each.
pub(super) const KEPT_MAX: usize = 32;
/// Views of which so much is known before it is looked which of them are gone.
pub(super) const VIEWS_MIN: usize = 1_024;

/// Grants that were found lately, by project and cluster.
#[derive(Debug, Default)]
pub struct KnownGrants {
    pub(super) store: Arc<Store>,
    /// What takes long is found one at a time.
    turn: tokio::sync::Mutex<()>,
}

impl KnownGrants {
    /// Waits until nobody else has grants found that take long.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Store(Mutex<StoreState>);

#[derive(Debug, Default)]
struct StoreState {
    kept: HashMap<GrantsPlace, Known>,
    /// Whom a view of a project names, by its address.
    people: HashMap<usize, People>,
    /// So many views are kept until it is looked which of them are gone.
    views_max: usize,
    /// Counts what is kept and looked up.
    now: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GrantsPlace {
    pub(super) project: Arc<str>,
    pub(super) cluster: String,
}

#[derive(Clone, Debug)]
struct Known {
    basis: Basis,
    grants: Arc<Grants>,
    used: u64,
}

/// Whom a project names.
#[derive(Debug)]
struct People {
    /// No view changes. None lives longer by this, but no other one gets its address.
    view: Weak<ProjectView>,
    digest: Arc<str>,
}

/// What grants were found from, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Basis {
    /// The digests of those whom each project of the line names.
    pub(super) people: Vec<Arc<str>>,
    pub(super) end: LineageEnd,
    /// The digest of everything that no project says.
    pub(super) others: Arc<str>,
}

impl Store {
    pub(super) fn known(&self, place: &GrantsPlace, basis: &Basis) -> Option<Arc<Grants>> {
        let mut state = self.lock();
        state.now = state.now.wrapping_add(1);
        let now = state.now;
        let known = state.kept.get_mut(place).filter(|known| known.basis == *basis)?;
        known.used = now;
        Some(Arc::clone(&known.grants))
    }

    pub(super) fn remember(&self, place: GrantsPlace, basis: Basis, grants: Arc<Grants>) {
        let mut state = self.lock();
        state.now = state.now.wrapping_add(1);
        let used = state.now;
        if state.kept.len() >= KEPT_MAX && !state.kept.contains_key(&place) {
            let oldest = state.kept.iter().min_by_key(|(_, known)| known.used);
            if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                state.kept.remove(&oldest);
            }
        }
        state.kept.insert(place, Known { basis, grants, used });
    }

    pub(super) fn known_people(&self, view: &Arc<ProjectView>) -> Option<Arc<str>> {
        self.lock().people.get(&Arc::as_ptr(view).addr()).map(|people| Arc::clone(&people.digest))
    }

    /// Whom a view names, which is looked at once.
    pub(super) fn people(&self, view: &Arc<ProjectView>) -> Arc<str> {
        if let Some(known) = self.known_people(view) {
            return known;
        }
        let digest: Arc<str> = Arc::from(digest::of(&(&view.spec.members, &view.spec.access)));
        let people = People { view: Arc::downgrade(view), digest: Arc::clone(&digest) };
        let mut state = self.lock();
        state.people.insert(Arc::as_ptr(view).addr(), people);
        if state.people.len() > state.views_max.max(VIEWS_MIN) {
            state.people.retain(|_, people| people.view.strong_count() > 0);
            state.views_max = state.people.len().saturating_mul(2);
        }
        digest
    }

    /// Of how many grants, and of how many views, something is kept.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.kept.len(), state.people.len())
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
