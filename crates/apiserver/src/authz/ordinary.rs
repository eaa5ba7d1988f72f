//! People of an issuer who were no operators when kube-apiserver was asked last: tenants come directly so that they do not
//! depend on it. Operators are never remembered, for what they may can be taken from them.

use crate::caller::Caller;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the last answer is good for while there is no other.
const KEPT: Duration = Duration::from_hours(1);
/// Of how many people. All are forgotten when there are more.
const CAPACITY: usize = 8192;

/// A user and his groups: RBAC knows no more of him.
type Person = (String, Vec<String>);

/// Who was no operator, and when.
#[derive(Debug, Default)]
pub(super) struct OrdinaryPeople(Mutex<HashMap<Person, Instant>>);

impl OrdinaryPeople {
    /// What kube-apiserver has said of a caller.
    pub(super) fn note(&self, caller: &Caller, operates: bool, now: Instant) {
        let mut people = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let person = (caller.name.clone(), caller.groups.clone());
        if operates {
            people.remove(&person);
            return;
        }
        if people.len() >= CAPACITY {
            people.clear();
        }
        people.insert(person, now);
    }

    /// Whether he was none, not long ago.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        let people = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let person = (caller.name.clone(), caller.groups.clone());
        people.get(&person).is_some_and(|at| now.duration_since(*at) < KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
