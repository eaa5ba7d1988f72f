//! Answers about callers that are good for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer counts while there is no other.
pub(super) const KEPT: Duration = Duration::from_hours(1);

/// The callers about whom the last answer was yes, and its time. All are forgotten when there are more than
/// `CAPACITY`.
#[derive(Debug, Default)]
pub(super) struct Recent<K, const CAPACITY: usize>(Mutex<HashMap<K, Instant>>);

impl<K: Eq + Hash, const CAPACITY: usize> Recent<K, CAPACITY> {
    /// Keeps an answer.
    pub(super) fn note(&self, person: K, answer: bool, now: Instant) {
        let mut people = self.lock();
        if !answer {
            people.remove(&person);
            return;
        }
        if people.len() >= CAPACITY && !people.contains_key(&person) {
            people.clear();
        }
        people.insert(person, now);
    }

    /// Whether the last answer was yes, not long ago.
    pub(super) fn contains(&self, person: &K, now: Instant) -> bool {
        self.lock().get(person).is_some_and(|at| now.duration_since(*at) < KEPT)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
