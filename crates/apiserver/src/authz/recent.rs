//! A set whose members expire.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a key stays in the set after it was last added.
pub(super) const RETENTION: Duration = Duration::from_hours(1);

/// Keys and the time when each was last added. The set is cleared when it would exceed `CAPACITY`.
#[derive(Debug, Default)]
pub(super) struct RecentSet<K, const CAPACITY: usize>(Mutex<HashMap<K, Instant>>);

impl<K: Eq + Hash, const CAPACITY: usize> RecentSet<K, CAPACITY> {
    /// Adds or removes a key.
    pub(super) fn note(&self, key: K, is_member: bool, now: Instant) {
        let mut entries = self.lock();
        if !is_member {
            entries.remove(&key);
            return;
        }
        if entries.len() >= CAPACITY && !entries.contains_key(&key) {
            entries.clear();
        }
        entries.insert(key, now);
    }

    /// Whether the key is in the set and has not expired.
    pub(super) fn contains(&self, key: &K, now: Instant) -> bool {
        self.lock().get(key).is_some_and(|at| now.duration_since(*at) < RETENTION)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
