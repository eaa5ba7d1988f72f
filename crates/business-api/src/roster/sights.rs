//! A cache of what callers see, kept until something changes it. Requests and open watches share it.
//!
//! It lies behind the lock of the index that it is computed from. It is filled while the index is read, and a change of
//! the index removes what it concerns. So the cache never holds what is no longer true.

use super::given::GivenByTenant;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Callers, and trees, that are kept …
const KEPT_MAX: usize = 1024;
/// … and names of all of them together, some 50 MB. Beyond that, everything is forgotten and worked out again.
const NAMES_MAX: usize = 1_000_000;

/// The names of a caller who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    people: Vec<Box<str>>,
    within: Option<Box<str>>,
}

/// Objects of a tenant, with all that lies below them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    pub(super) tenant: Arc<str>,
    pub(super) tops: Vec<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct Sights(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    callers: HashMap<Asking, Arc<GivenByTenant>>,
    trees: HashMap<Tree, Arc<BTreeSet<String>>>,
}

impl Asking {
    pub(super) fn new(people: &[Box<str>], within: Option<&str>) -> Self {
        let mut people = people.to_vec();
        people.sort_unstable();
        Self { people, within: within.map(Box::from) }
    }
}

impl Sights {
    pub(super) fn is_empty(&self) -> bool {
        let known = self.lock();
        known.callers.is_empty() && known.trees.is_empty()
    }

    pub(super) fn of(&self, asking: &Asking) -> Option<Arc<GivenByTenant>> {
        self.lock().callers.get(asking).cloned()
    }

    pub(super) fn keep(&self, asking: Asking, given: &Arc<GivenByTenant>) {
        let mut known = self.lock();
        known.make_room(0);
        known.callers.insert(asking, Arc::clone(given));
    }

    /// The names of a tree. If several callers work it out at once, all get the first one's.
    pub(super) fn tree(
        &self,
        tree: Tree,
        names: impl FnOnce(&Tree) -> BTreeSet<String>,
    ) -> Arc<BTreeSet<String>> {
        let found = self.lock().trees.get(&tree).cloned();
        if let Some(found) = found {
            return found;
        }
        let names = Arc::new(names(&tree));
        let mut known = self.lock();
        known.make_room(names.len());
        Arc::clone(known.trees.entry(tree).or_insert(names))
    }

    /// Forgets callers one of whose names a change concerns, and trees that have changed. It returns the trees, since
    /// dropping them takes a moment.
    pub(super) fn forget(
        &self,
        is_concerned: impl Fn(&str) -> bool,
        has_changed: impl Fn(&BTreeSet<String>) -> bool,
    ) -> Vec<Arc<BTreeSet<String>>> {
        let mut known = self.lock();
        known.callers.retain(|asking, _given| !asking.people.iter().any(|person| is_concerned(person)));
        known.trees.extract_if(|_tree, names| has_changed(names)).map(|(_tree, names)| names).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Makes room for one more caller, and for one more tree of this many names.
    fn make_room(&mut self, names: usize) {
        let kept = self.trees.values().map(|names| names.len()).fold(names, usize::saturating_add);
        if self.trees.len() >= KEPT_MAX || kept > NAMES_MAX {
            // Callers hold them, too.
            *self = Self::default();
        } else if self.callers.len() >= KEPT_MAX {
            self.callers.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let sights = Sights::default();
        for number in 0..2 * KEPT_MAX {
            let person = number.to_string().into_boxed_str();
            sights.keep(Asking::new(&[person], None), &Arc::default());
            let tree = Tree { tenant: Arc::from("t"), tops: vec![Arc::from(number.to_string())] };
            let names = if number % 8 == 0 { 10_000 } else { 1 };
            sights.tree(tree, |_| (0..names).map(|name: usize| name.to_string()).collect());
            let known = sights.lock();
            let names: usize = known.trees.values().map(|names| names.len()).sum();
            assert!(names <= NAMES_MAX && known.callers.len() <= KEPT_MAX && known.trees.len() <= KEPT_MAX);
        }
    }
}
