//! Notifies callers that their roles have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The fewest new entries before those of ended subscriptions are removed.
const SWEEP_MIN: usize = 1024;

/// The subscribers to changes of roles, by each subject that a subscriber is. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RoleChanges(Arc<Mutex<Subscribers>>);

#[derive(Debug, Default)]
struct Subscribers {
    subjects: HashMap<Box<str>, Vec<Arc<watch::Sender<u64>>>>,
    /// New entries, one for each subject of a subscriber, until those of ended subscriptions are removed.
    until_sweep: usize,
}

impl RoleChanges {
    /// Counts the changes of the roles of these subjects. A caller that subscribes before it reads the roles misses no
    /// change.
    pub fn subscribe(&self, subjects: impl IntoIterator<Item = impl Into<Box<str>>>) -> watch::Receiver<u64> {
        let sender = Arc::new(watch::Sender::default());
        let receiver = sender.subscribe();
        let mut subscribers = self.lock();
        if subscribers.until_sweep == 0 {
            subscribers.sweep();
        }
        for subject in subjects {
            subscribers.until_sweep = subscribers.until_sweep.saturating_sub(1);
            subscribers.subjects.entry(subject.into()).or_default().push(Arc::clone(&sender));
        }
        receiver
    }

    /// Notifies the subscribers of a subject that its roles, or what it sees, have changed.
    pub(crate) fn notify(&self, subject: &str) {
        if let Some(senders) = self.lock().subjects.get(subject) {
            count_change(senders);
        }
    }

    /// Notifies the subscribers of all affected subjects.
    pub(crate) fn notify_matching(&self, is_affected: impl Fn(&str) -> bool) {
        for (subject, senders) in &self.lock().subjects {
            if is_affected(subject) {
                count_change(senders);
            }
        }
    }

    /// The number of subjects with subscriptions, including ended ones that have not been removed.
    pub(crate) fn len(&self) -> usize {
        self.lock().subjects.len()
    }

    /// Whether there are no subscriptions.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().subjects.is_empty()
    }

    /// Notifies all subscribers.
    pub(crate) fn notify_all(&self) {
        for senders in self.lock().subjects.values() {
            count_change(senders);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count_change(senders: &[Arc<watch::Sender<u64>>]) {
    for sender in senders {
        sender.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Subscribers {
    /// Removes the entries of ended subscriptions.
    fn sweep(&mut self) {
        self.subjects.retain(|_subject, senders| {
            senders.retain(|sender| sender.receiver_count() > 0);
            !senders.is_empty()
        });
        self.until_sweep = self.subjects.values().map(Vec::len).sum::<usize>().max(SWEEP_MIN);
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
            changes.notify(name);
            assert!(alice.has_changed().unwrap() && !bob.has_changed().unwrap());
            alice.mark_unchanged();
        }
        changes.notify("nobody");
        changes.notify_matching(|subject| subject == "nobody");
        assert!(!alice.has_changed().unwrap());
        changes.notify_matching(|subject| subject == "devs");
        assert!(alice.has_changed().unwrap() && !bob.has_changed().unwrap());
        changes.notify_all();
        assert!(alice.has_changed().unwrap() && bob.has_changed().unwrap());
    }

    #[test]
    fn who_waits_no_longer_is_forgotten() {
        let changes = RoleChanges::default();
        for user in 0..4 * SWEEP_MIN {
            drop(changes.subscribe([user.to_string()]));
        }
        assert!(changes.lock().subjects.len() <= SWEEP_MIN);
        let kept = changes.subscribe(["alice"]);
        changes.lock().sweep();
        assert_eq!(changes.lock().subjects.len(), 1);
        drop(kept);
        changes.lock().sweep();
        assert!(changes.lock().subjects.is_empty());
    }

    #[test]
    fn who_was_many_subjects_is_forgotten_as_soon() {
        let changes = RoleChanges::default();
        let subjects = |user: usize| (0..SWEEP_MIN).map(move |group| format!("{user}-{group}"));
        let kept = changes.subscribe(subjects(0));
        for user in 1..32 {
            drop(changes.subscribe(subjects(user)));
        }
        assert!(changes.len() <= 2 * SWEEP_MIN, "{}", changes.len());
        drop(kept);
    }
}
