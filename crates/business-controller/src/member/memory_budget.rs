//! How much is kept of all member clusters together: whoever rules one could take the memory that all are worked on with.

use super::weight;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much is kept of the clusters that are followed.
#[derive(Debug)]
pub struct MemoryBudget {
    max_bytes: usize,
    /// By name.
    weights: Mutex<BTreeMap<String, ClusterWeight>>,
}

/// How much is kept of one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClusterWeight {
    pub(super) bytes: usize,
    /// It had to go before, and is being listed again.
    pub(super) on_probation: bool,
}

impl MemoryBudget {
    /// So many bytes may be kept.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, weights: Mutex::default() }
    }

    /// Bytes that may be kept of all of them.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// So much is kept of a cluster now. Whether it is the one that has to go, as all take more than they may: one that is being
    /// listed again, else the heaviest.
    pub(super) fn must_evict(&self, cluster: &str, weight: ClusterWeight) -> bool {
        let mut weights = self.lock();
        weights.insert(cluster.to_owned(), weight);
        if weight::sum(weights.values().map(|one| one.bytes)) <= self.max_bytes {
            return false;
        }
        let worst = weights.iter().max_by_key(|(_, one)| (one.on_probation && one.bytes > 0, one.bytes));
        let goes = worst.is_some_and(|(name, _)| name == cluster);
        if goes {
            // At once, so that no other one goes with it.
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
