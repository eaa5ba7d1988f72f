//! Callers who were operators when kube-apiserver was last asked. This gives them no right, only priority in the
//! in-flight limits, which apply before kube-apiserver is asked: operators must get in when others overload the server.

use super::recent::RecentSet;
use crate::caller::Caller;
use std::hash::Hash;
use std::time::Instant;

/// Callers who were operators.
#[derive(Debug, Default)]
pub(super) struct KnownOperators(RecentSet<1024>);

impl KnownOperators {
    /// Records the answer of kube-apiserver about a caller.
    pub(super) fn note(&self, caller: &Caller, is_operator: bool, now: Instant) {
        self.0.note(identity(caller), is_operator, now);
    }

    /// Whether the caller was an operator within the retention time.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        self.0.contains(identity(caller), now)
    }
}

/// The extra keys are left out: they differ between tokens of one user, and RBAC does not use them.
fn identity(caller: &Caller) -> impl Hash {
    (caller.via, caller.tenant.as_deref(), &caller.name, &caller.groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::recent::RETENTION;
    use crate::caller::Via;

    #[test]
    fn an_operator_is_remembered_for_an_hour_and_under_his_own_name_only() {
        let operators = KnownOperators::default();
        let of = |via| Caller { name: "controller".to_owned(), via, ..Caller::default() };
        let now = Instant::now();
        operators.note(&of(Via::TokenReview), true, now);
        assert!(operators.contains(&of(Via::TokenReview), now));
        assert!(!operators.contains(&of(Via::Jwt), now), "an issuer's user of the same name");
        assert!(!operators.contains(&of(Via::TokenReview), now + RETENTION));
        operators.note(&of(Via::TokenReview), false, now);
        assert!(!operators.contains(&of(Via::TokenReview), now), "he is none any more");
    }
}
