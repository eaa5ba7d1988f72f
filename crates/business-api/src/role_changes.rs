//! Callers that wait to be told that their roles have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The fewest subscriptions after which those that ended are looked for.
const SWEEP_MIN: usize = 1024;

/// Who waits for news, by each name under which he may be given a role. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RoleChanges(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    people: HashMap<Box<str>, Vec<Arc<watch::Sender<u64>>>>,
    /// Subscriptions until those that ended are looked for.
    until_sweep: usize,
}

impl RoleChanges {
    /// Counts the changes of the roles of these names. A caller that subscribes before it reads the roles misses no
    /// change.
    pub fn subscribe(&self, people: impl IntoIterator<Item = impl Into<Box<str>>>) -> watch::Receiver<u64> {
        let sender = Arc::new(watch::Sender::default());
        let receiver = sender.subscribe();
        let mut waiting = self.lock();
        if waiting.until_sweep == 0 {
            waiting.sweep();
        }
        waiting.until_sweep = waiting.until_sweep.saturating_sub(1);
        for person in people {
            waiting.people.entry(person.into()).or_default().push(Arc::clone(&sender));
        }
        receiver
    }

    /// Tells those who wait under a name that their roles, or what they see, have changed.
    pub(crate) fn tell(&self, person: &str) {
        if let Some(waiting) = self.lock().people.get(person) {
            tell(waiting);
        }
    }

    /// Tells those who wait under the names that are concerned.
    pub(crate) fn tell_those(&self, is_concerned: impl Fn(&str) -> bool) {
        for (person, waiting) in &self.lock().people {
            if is_concerned(person) {
                tell(waiting);
            }
        }
    }

    /// The number of names that somebody waits, or has waited, under.
    pub(crate) fn len(&self) -> usize {
        self.lock().people.len()
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().people.is_empty()
    }

    /// Tells everybody.
    pub(crate) fn tell_everybody(&self) {
        for waiting in self.lock().people.values() {
            tell(waiting);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(waiting: &[Arc<watch::Sender<u64>>]) {
    for changes in waiting {
        changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Waiting {
    /// Forgets those who wait no longer.
    fn sweep(&mut self) {
        self.people.retain(|_person, waiting| {
            waiting.retain(|changes| changes.receiver_count() > 0);
            !waiting.is_empty()
        });
        self.until_sweep = self.people.values().map(Vec::len).sum::<usize>().max(SWEEP_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_under_each_of_his_names_and_nobody_else() {
        let changes = RoleChanges::default();
        let (mut alice, bob) = (changes.subscribe(["alice", "devs"]), changes.subscribe(["bob"]));
        for name in ["alice", "devs"] {
            changes.tell(name);
            assert!(alice.has_changed().unwrap() && !bob.has_changed().unwrap());
            alice.mark_unchanged();
        }
        changes.tell("nobody");
        changes.tell_those(|person| person == "nobody");
        assert!(!alice.has_changed().unwrap());
        changes.tell_those(|person| person == "devs");
        assert!(alice.has_changed().unwrap() && !bob.has_changed().unwrap());
        changes.tell_everybody();
        assert!(alice.has_changed().unwrap() && bob.has_changed().unwrap());
    }

    #[test]
    fn who_waits_no_longer_is_forgotten() {
        let changes = RoleChanges::default();
        for user in 0..4 * SWEEP_MIN {
            drop(changes.subscribe([user.to_string()]));
        }
        assert!(changes.lock().people.len() <= SWEEP_MIN);
        let kept = changes.subscribe(["alice"]);
        changes.lock().sweep();
        assert_eq!(changes.lock().people.len(), 1);
        drop(kept);
        changes.lock().sweep();
        assert!(changes.lock().people.is_empty());
    }
}
