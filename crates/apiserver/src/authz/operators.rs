//! Who was an operator when kube-apiserver was asked last. It gives no right, only room: a crowd of others must not keep out
//! those who can do something about it, before they can be asked about.

use crate::caller::Caller;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer counts.
const KEPT: Duration = Duration::from_hours(1);
/// Of how many operators. All are forgotten when there are more.
const CAPACITY: usize = 1024;

/// Operators, by a hash with a secret key, and when they were seen to be some.
#[derive(Debug, Default)]
pub(super) struct KnownOperators {
    hasher: RandomState,
    seen: Mutex<HashMap<u64, Instant>>,
}

impl KnownOperators {
    /// What kube-apiserver has said of a caller.
    pub(super) fn note(&self, caller: &Caller, operates: bool, now: Instant) {
        let person = self.person(caller);
        let mut seen = self.lock();
        if !operates {
            seen.remove(&person);
            return;
        }
        if seen.len() >= CAPACITY && !seen.contains_key(&person) {
            seen.clear();
        }
        seen.insert(person, now);
    }

    /// Whether he was one, not long ago.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        let person = self.person(caller);
        self.lock().get(&person).is_some_and(|at| now.duration_since(*at) < KEPT)
    }

    /// A token's extra keys are others each hour: RBAC does not look at them.
    fn person(&self, caller: &Caller) -> u64 {
        self.hasher.hash_one((caller.via, caller.tenant.as_deref(), &caller.name, &caller.groups))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Via;

    #[test]
    fn an_operator_is_remembered_for_an_hour_and_under_his_own_name_only() {
        let operators = KnownOperators::default();
        let of = |via| Caller { name: "controller".to_owned(), via, ..Caller::default() };
        let now = Instant::now();
        operators.note(&of(Via::TokenReview), true, now);
        assert!(operators.contains(&of(Via::TokenReview), now));
        assert!(!operators.contains(&of(Via::Jwt), now), "an issuer's user of the same name");
        assert!(!operators.contains(&of(Via::TokenReview), now + KEPT));
        operators.note(&of(Via::TokenReview), false, now);
        assert!(!operators.contains(&of(Via::TokenReview), now), "he is none any more");
    }
}
