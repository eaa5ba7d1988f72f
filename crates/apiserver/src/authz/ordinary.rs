//! People of an issuer who were no operators when kube-apiserver was asked last: tenants come directly so that they do not
//! depend on it. Operators are never remembered, for what they may can be taken from them.

use crate::caller::Caller;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the last answer is good for while there is no other.
const KEPT: Duration = Duration::from_hours(1);
/// Of how many people. All are forgotten when there are more.
const CAPACITY: usize = 8192;

/// Who was no operator, and when: by his name and his groups, as RBAC knows no more of him. Nothing is allocated for who is known.
#[derive(Debug, Default)]
struct People {
    known: HashMap<String, HashMap<Vec<String>, Instant>>,
    count: usize,
}

#[derive(Debug, Default)]
pub(super) struct OrdinaryPeople(Mutex<People>);

impl OrdinaryPeople {
    /// What kube-apiserver has said of a caller.
    pub(super) fn note(&self, caller: &Caller, operates: bool, now: Instant) {
        let mut people = self.lock();
        let of_name = people.known.get_mut(&caller.name);
        if operates {
            if of_name.is_some_and(|by_groups| by_groups.remove(&caller.groups).is_some()) {
                people.count -= 1;
            }
            return;
        }
        if let Some(at) = of_name.and_then(|by_groups| by_groups.get_mut(&caller.groups)) {
            *at = now;
            return;
        }
        if people.count >= CAPACITY {
            *people = People::default();
        }
        people.count += 1;
        people.known.entry(caller.name.clone()).or_default().insert(caller.groups.clone(), now);
    }

    /// Whether he was none, not long ago.
    pub(super) fn contains(&self, caller: &Caller, now: Instant) -> bool {
        let people = self.lock();
        let at = people.known.get(&caller.name).and_then(|by_groups| by_groups.get(&caller.groups));
        at.is_some_and(|at| now.duration_since(*at) < KEPT)
    }

    fn lock(&self) -> MutexGuard<'_, People> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
