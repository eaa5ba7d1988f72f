//! Who waits to be told that his roles have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Subscriptions after which those that ended are looked for, at the least.
const SWEEP_MIN: usize = 1024;

/// Users who wait for news, by tenant and name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RoleChanges(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    tenants: HashMap<Box<str>, HashMap<Box<str>, watch::Sender<u64>>>,
    /// Subscriptions until those that ended are looked for.
    until_sweep: usize,
}

impl RoleChanges {
    /// Counts the changes of a user's roles. Whoever subscribes before he asks for them misses none.
    pub fn subscribe(&self, tenant: &str, user: &str) -> watch::Receiver<u64> {
        let mut waiting = self.lock();
        if waiting.until_sweep == 0 {
            waiting.sweep();
        }
        waiting.until_sweep = waiting.until_sweep.saturating_sub(1);
        waiting.tenants.entry(tenant.into()).or_default().entry(user.into()).or_default().subscribe()
    }

    /// Tells a user that what he is, or sees, has changed.
    pub(crate) fn tell(&self, tenant: &str, user: &str) {
        if let Some(changes) = self.lock().tenants.get(tenant).and_then(|users| users.get(user)) {
            changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    /// Tells everybody of a tenant.
    pub(crate) fn tell_all(&self, tenant: &str) {
        for changes in self.lock().tenants.get(tenant).into_iter().flat_map(HashMap::values) {
            changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Forgets those who wait no longer.
    fn sweep(&mut self) {
        for users in self.tenants.values_mut() {
            users.retain(|_user, changes| changes.receiver_count() > 0);
        }
        self.tenants.retain(|_tenant, users| !users.is_empty());
        self.until_sweep = self.tenants.values().map(HashMap::len).sum::<usize>().max(SWEEP_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_and_nobody_else() {
        let changes = RoleChanges::default();
        let (alice, bob) = (changes.subscribe("t", "alice"), changes.subscribe("u", "alice"));
        changes.tell("t", "alice");
        changes.tell("t", "nobody");
        assert!(alice.has_changed().unwrap() && !bob.has_changed().unwrap());
    }

    #[test]
    fn who_waits_no_longer_is_forgotten() {
        let changes = RoleChanges::default();
        for user in 0..4 * SWEEP_MIN {
            drop(changes.subscribe("t", &user.to_string()));
        }
        assert!(changes.lock().tenants["t"].len() <= SWEEP_MIN);
        let kept = changes.subscribe("t", "alice");
        changes.lock().sweep();
        assert_eq!(changes.lock().tenants["t"].len(), 1);
        drop(kept);
        changes.lock().sweep();
        assert!(changes.lock().tenants.is_empty());
    }
}
