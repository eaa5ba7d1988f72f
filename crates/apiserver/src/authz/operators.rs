//! Callers who were operators when kube-apiserver was last asked. That gives them no right, only room: a crowd of
//! others must not keep out those who can do something about it, before kube-apiserver can be asked about them.

use super::recent::Recent;
use crate::caller::Caller;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

/// Operators, by a hash with a secret key.
#[derive(Debug, Default)]
pub(super) struct KnownOperators {
    hasher: RandomState,
    seen: Recent<u64, 1024>,
}

impl KnownOperators {
    /// Notes what kube-apiserver has said about a caller.
    pub(super) fn note(&self, caller: &Caller, operates: bool, now: Instant) {
        self.seen.note(self.person(caller), operates, now);
    }

    /// Whether he was one, not long ago.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        self.seen.contains(&self.person(caller), now)
    }

    /// Without the extra keys, which change with each token: RBAC does not look at them.
    fn person(&self, caller: &Caller) -> u64 {
        self.hasher.hash_one((caller.via, caller.tenant.as_deref(), &caller.name, &caller.groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::recent::KEPT;
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
