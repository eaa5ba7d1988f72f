//! The memory budget of all member clusters: whoever controls one cluster could fill the memory that all need.

use super::weight;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much memory the caches of the followed clusters take, and may take.
#[derive(Debug)]
pub struct MemoryBudget {
    max_bytes: usize,
    /// By name.
    weights: Mutex<BTreeMap<String, ClusterWeight>>,
}

/// How much memory the cache of one cluster takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClusterWeight {
    pub(super) bytes: usize,
    /// It was evicted before, and is being listed again.
    pub(super) on_probation: bool,
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, weights: Mutex::default() }
    }

    /// The bytes that all caches together may take.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Records the weight of a cluster. Returns whether this one must be evicted because all together exceed the
    /// budget: a cluster that is being listed again goes first, then the heaviest.
    pub(super) fn must_evict(&self, cluster: &str, weight: ClusterWeight) -> bool {
        let mut weights = self.lock();
        weights.insert(cluster.to_owned(), weight);
        if weight::sum(weights.values().map(|one| one.bytes)) <= self.max_bytes {
            return false;
        }
        let worst = weights.iter().max_by_key(|(_, one)| (one.on_probation && one.bytes > 0, one.bytes));
        let goes = worst.is_some_and(|(name, _)| name == cluster);
        if goes {
            // Its weight is cleared at once, so that no other cluster is evicted, too.
            weights.insert(cluster.to_owned(), ClusterWeight::default());
        }
        goes
    }

    pub(super) fn forget(&self, cluster: &str) {
        self.lock().remove(cluster);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ClusterWeight>> {
        self.weights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(bytes: usize) -> ClusterWeight {
        ClusterWeight { bytes, on_probation: false }
    }

    #[test]
    fn of_all_clusters_together_no_more_is_kept_and_the_heaviest_goes() {
        let budget = MemoryBudget::new(100);
        assert!(!budget.must_evict("a", weight(60)) && !budget.must_evict("b", weight(40)));
        assert!(!budget.must_evict("b", weight(50)), "another one is heavier");
        assert!(budget.must_evict("a", weight(60)));
        assert!(!budget.must_evict("b", weight(90)), "there is room by now");
        // What is listed again goes before those that are worked on.
        let again = ClusterWeight { bytes: 20, on_probation: true };
        assert!(budget.must_evict("a", again));
        assert!(!budget.must_evict("a", ClusterWeight { bytes: 0, on_probation: true }));
        assert!(budget.must_evict("b", weight(101)), "one of which nothing is seen yet takes nothing");
        budget.forget("b");
        assert!(!budget.must_evict("a", weight(100)));
    }
}
