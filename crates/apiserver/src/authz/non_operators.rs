//! Users of a token issuer who were not operators when kube-apiserver was last asked. Tenants connect directly in order
//! not to depend on kube-apiserver, so this answer is used while it does not respond. That somebody is an operator is
//! never remembered here, since the right may have been taken away.

use super::recent::RecentSet;
use crate::caller::Caller;
use std::hash::Hash;
use std::time::Instant;

/// Users who were not operators.
#[derive(Debug, Default)]
pub(super) struct KnownNonOperators(RecentSet<8192>);

impl KnownNonOperators {
    /// Records the answer of kube-apiserver about a caller.
    pub(super) fn note(&self, caller: &Caller, is_operator: bool, now: Instant) {
        self.0.note(user_and_groups(caller), !is_operator, now);
    }

    /// Whether the caller was no operator within the retention time.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        self.0.contains(user_and_groups(caller), now)
    }
}

/// All that RBAC uses of a user.
fn user_and_groups(caller: &Caller) -> impl Hash {
    (&caller.name, &caller.groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::recent::RETENTION;

    #[test]
    fn an_ordinary_person_is_remembered_for_an_hour_and_an_operator_never() {
        let people = KnownNonOperators::default();
        let of = |group: &str| Caller {
            name: "jane".to_owned(),
            groups: vec![group.to_owned()],
            ..Caller::default()
        };
        let now = Instant::now();
        people.note(&of("dev"), false, now);
        people.note(&of("ops"), true, now);
        assert!(people.contains(&of("dev"), now) && !people.contains(&of("ops"), now));
        people.note(&of("dev"), true, now);
        assert!(!people.contains(&of("dev"), now), "he has become one");
        people.note(&of("dev"), false, now);
        assert!(!people.contains(&of("dev"), now + RETENTION));
    }
}
