//! A cache of the roles that callers have and of the objects that they see. Requests and open watches share it.
//!
//! It is protected by the lock of the index that it is computed from: readers of the index fill it, and every change of
//! the index removes the entries that the change affects. So an entry is never out of date.

use super::tenant_roles::RolesByTenant;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most callers, and the most subtrees, in the cache.
const ENTRIES_MAX: usize = 1024;
/// The most subjects that all callers are together. Each change of a role looks at all of them, while nobody can read the
/// index.
const SUBJECTS_MAX: usize = 100_000;
/// The most object names in all subtrees together, some 50 MB. A cache that would exceed it is cleared.
const NAMES_MAX: usize = 1_000_000;

/// The subjects that a caller is, and the tenant that the lookup is limited to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CallerKey {
    subjects: Vec<Box<str>>,
    tenant: Option<Box<str>>,
}

/// Objects of a tenant, with all their descendants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubtreeKey {
    pub(super) tenant: Arc<str>,
    pub(super) roots: Vec<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct VisibilityCache(Mutex<CacheEntries>);

#[derive(Debug, Default)]
struct CacheEntries {
    callers: HashMap<CallerKey, Arc<RolesByTenant>>,
    subtrees: HashMap<SubtreeKey, Arc<BTreeSet<String>>>,
}

impl CallerKey {
    pub(super) fn new(subjects: &[Box<str>], tenant: Option<&str>) -> Self {
        let mut subjects = subjects.to_vec();
        subjects.sort_unstable();
        Self { subjects, tenant: tenant.map(Box::from) }
    }
}

impl VisibilityCache {
    pub(super) fn is_empty(&self) -> bool {
        let entries = self.lock();
        entries.callers.is_empty() && entries.subtrees.is_empty()
    }

    pub(super) fn get(&self, caller: &CallerKey) -> Option<Arc<RolesByTenant>> {
        self.lock().callers.get(caller).cloned()
    }

    pub(super) fn insert(&self, caller: CallerKey, roles: &Arc<RolesByTenant>) {
        let mut entries = self.lock();
        entries.make_room(0);
        let subjects = entries.callers.keys().map(|known| known.subjects.len());
        if subjects.fold(caller.subjects.len(), usize::saturating_add) > SUBJECTS_MAX {
            entries.callers.clear();
        }
        entries.callers.insert(caller, Arc::clone(roles));
    }

    /// The names of a subtree, computed if they are not cached. If several callers compute them at once, all get the
    /// value that was inserted first.
    pub(super) fn subtree(
        &self,
        key: SubtreeKey,
        compute: impl FnOnce(&SubtreeKey) -> BTreeSet<String>,
    ) -> Arc<BTreeSet<String>> {
        let cached = self.lock().subtrees.get(&key).cloned();
        if let Some(cached) = cached {
            return cached;
        }
        let names = Arc::new(compute(&key));
        let mut entries = self.lock();
        entries.make_room(names.len());
        Arc::clone(entries.subtrees.entry(key).or_insert(names))
    }

    /// Removes the callers with an affected subject, and the subtrees that have changed. Returns the subtrees, because
    /// dropping them takes time and the caller holds a lock.
    pub(super) fn invalidate(
        &self,
        is_affected: impl Fn(&str) -> bool,
        has_changed: impl Fn(&BTreeSet<String>) -> bool,
    ) -> Vec<Arc<BTreeSet<String>>> {
        let mut entries = self.lock();
        entries.callers.retain(|caller, _roles| !caller.subjects.iter().any(|subject| is_affected(subject)));
        entries.subtrees.extract_if(|_key, names| has_changed(names)).map(|(_key, names)| names).collect()
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntries {
    /// Makes room for one more caller, or for one more subtree of `names` names.
    fn make_room(&mut self, names: usize) {
        let total = self.subtrees.values().map(|names| names.len()).fold(names, usize::saturating_add);
        if self.subtrees.len() >= ENTRIES_MAX || total > NAMES_MAX {
            // The entries of callers hold subtrees, too.
            *self = Self::default();
        } else if self.callers.len() >= ENTRIES_MAX {
            self.callers.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let cache = VisibilityCache::default();
        for number in 0..2 * ENTRIES_MAX {
            let subject = number.to_string().into_boxed_str();
            cache.insert(CallerKey::new(&[subject], None), &Arc::default());
            let key = SubtreeKey { tenant: Arc::from("t"), roots: vec![Arc::from(number.to_string())] };
            let names = if number % 8 == 0 { 10_000 } else { 1 };
            cache.subtree(key, |_| (0..names).map(|name: usize| name.to_string()).collect());
            let entries = cache.lock();
            let names: usize = entries.subtrees.values().map(|names| names.len()).sum();
            assert!(
                names <= NAMES_MAX
                    && entries.callers.len() <= ENTRIES_MAX
                    && entries.subtrees.len() <= ENTRIES_MAX
            );
        }
    }

    #[test]
    fn callers_in_very_many_groups_are_few() {
        let cache = VisibilityCache::default();
        let groups = 1000;
        for number in 0..2 * SUBJECTS_MAX / groups {
            let subjects = (0..groups).map(|group| format!("{number}-{group}").into_boxed_str());
            let subjects: Vec<Box<str>> = subjects.collect();
            cache.insert(CallerKey::new(&subjects, None), &Arc::default());
            let subjects: usize = cache.lock().callers.keys().map(|caller| caller.subjects.len()).sum();
            assert!((groups..=SUBJECTS_MAX).contains(&subjects), "{subjects}");
        }
    }
}
