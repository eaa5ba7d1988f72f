//! A set whose members expire.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a key stays in the set after it was last added.
pub(super) const RETENTION: Duration = Duration::from_hours(1);

/// Keys, as hashes with a secret key, and the time when each was last added. The set is cleared when it would exceed
/// `CAPACITY`.
#[derive(Debug, Default)]
pub(super) struct RecentSet<const CAPACITY: usize> {
    hasher: RandomState,
    last_added: Mutex<HashMap<u64, Instant>>,
}

impl<const CAPACITY: usize> RecentSet<CAPACITY> {
    /// Adds or removes a key.
    pub(super) fn note(&self, key: impl Hash, is_member: bool, now: Instant) {
        let hash = self.hasher.hash_one(key);
        let mut last_added = self.lock();
        if !is_member {
            last_added.remove(&hash);
            return;
        }
        if last_added.len() >= CAPACITY && !last_added.contains_key(&hash) {
            last_added.clear();
        }
        last_added.insert(hash, now);
    }

    /// Whether the key is in the set and has not expired.
    pub(super) fn contains(&self, key: impl Hash, now: Instant) -> bool {
        let hash = self.hasher.hash_one(key);
        self.lock().get(&hash).is_some_and(|at| now.duration_since(*at) < RETENTION)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.last_added.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
