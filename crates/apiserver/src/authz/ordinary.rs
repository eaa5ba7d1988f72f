//! Users of an issuer who were not operators when kube-apiserver was last asked: tenants come directly so that they
//! do not depend on it. Operators are never remembered here, for their rights can be taken from them.

use super::recent::Recent;
use crate::caller::Caller;
use std::time::Instant;

/// A user and his groups: RBAC knows no more of him.
type Person = (String, Vec<String>);

/// Users who were not operators.
#[derive(Debug, Default)]
pub(super) struct OrdinaryPeople(Recent<Person, 8192>);

impl OrdinaryPeople {
    /// Notes what kube-apiserver has said about a caller.
    pub(super) fn note(&self, caller: &Caller, operates: bool, now: Instant) {
        self.0.note(person(caller), !operates, now);
    }

    /// Whether he was not an operator, not long ago.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        self.0.contains(&person(caller), now)
    }
}

fn person(caller: &Caller) -> Person {
    (caller.name.clone(), caller.groups.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::recent::KEPT;

    #[test]
    fn an_ordinary_person_is_remembered_for_an_hour_and_an_operator_never() {
        let people = OrdinaryPeople::default();
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
        assert!(!people.contains(&of("dev"), now + KEPT));
    }
}
