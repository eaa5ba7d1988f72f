//! How much of the work on the registry is one tenant's at a time. A measurement or a removal may take long, by what its tenant
//! has there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Passes over objects of one tenant at a time: a part of those that the queue lets run. One of them is for what does not take
/// long, which else would wait for what does.
const TURNS_MAX: usize = 4;

/// The passes that run.
#[derive(Debug, Default)]
pub struct Turns {
    /// By tenant. None is without any.
    running: Mutex<HashMap<String, usize>>,
}

/// Leave for a pass, as long as it is held.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    tenant: &'a str,
}

impl Turns {
    /// Leave for a pass over an object of this tenant; `None` while too many run. `is_slow`: the last one has taken long.
    pub fn take<'a>(&'a self, tenant: &'a str, is_slow: bool) -> Option<Turn<'a>> {
        let max = if is_slow { TURNS_MAX - 1 } else { TURNS_MAX };
        let mut running = self.lock();
        let count = running.entry(tenant.to_owned()).or_default();
        if *count >= max {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Turn { turns: self, tenant })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut running = self.turns.lock();
        let Some(count) = running.get_mut(self.tenant) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            running.remove(self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_some_turns_at_a_time_and_others_have_theirs() {
        let turns = Turns::default();
        let mut held: Vec<_> = (0..TURNS_MAX).filter_map(|_| turns.take("large", false)).collect();
        assert_eq!(held.len(), TURNS_MAX);
        assert!(turns.take("large", false).is_none() && turns.take("small", true).is_some());
        held.pop();
        assert!(turns.take("large", false).is_some());
        held.clear();
        assert!(turns.lock().is_empty());
    }

    #[test]
    fn what_takes_long_leaves_a_turn_to_what_does_not() {
        let turns = Turns::default();
        let held: Vec<_> = (0..10).filter_map(|_| turns.take("t", true)).collect();
        assert_eq!(held.len(), TURNS_MAX - 1);
        let last = turns.take("t", false);
        assert!(last.is_some() && turns.take("t", false).is_none());
    }
}
