//! Limits the registry passes that run for one tenant. A measurement or a removal may take long, depending on the
//! tenant's content.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Passes that may run for one tenant at a time: a part of those that the queue runs. The last one is only for fast
/// objects, which would otherwise wait for slow ones.
const PASSES_MAX: usize = 4;

/// The number of running passes.
#[derive(Debug, Default)]
pub struct TenantLimiter {
    /// By tenant. A tenant without passes has no entry.
    running: Mutex<HashMap<String, usize>>,
}

/// A permit for a pass, until it is dropped.
#[derive(Debug)]
pub struct TenantPermit<'a> {
    limiter: &'a TenantLimiter,
    tenant: &'a str,
}

impl TenantLimiter {
    /// A permit for a pass over an object of this tenant; `None` while too many run. `is_slow` says that the last pass
    /// over the object was slow.
    pub fn try_acquire<'a>(&'a self, tenant: &'a str, is_slow: bool) -> Option<TenantPermit<'a>> {
        let max = if is_slow { PASSES_MAX - 1 } else { PASSES_MAX };
        let mut running = self.lock();
        let count = running.entry(tenant.to_owned()).or_default();
        if *count >= max {
            return None;
        }
        *count = count.saturating_add(1);
        Some(TenantPermit { limiter: self, tenant })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TenantPermit<'_> {
    fn drop(&mut self) {
        let mut running = self.limiter.lock();
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
        let limiter = TenantLimiter::default();
        let mut held: Vec<_> = (0..PASSES_MAX).filter_map(|_| limiter.try_acquire("large", false)).collect();
        assert_eq!(held.len(), PASSES_MAX);
        assert!(
            limiter.try_acquire("large", false).is_none() && limiter.try_acquire("small", true).is_some()
        );
        held.pop();
        assert!(limiter.try_acquire("large", false).is_some());
        held.clear();
        assert!(limiter.lock().is_empty());
    }

    #[test]
    fn what_takes_long_leaves_a_turn_to_what_does_not() {
        let limiter = TenantLimiter::default();
        let held: Vec<_> = (0..10).filter_map(|_| limiter.try_acquire("t", true)).collect();
        assert_eq!(held.len(), PASSES_MAX - 1);
        let last = limiter.try_acquire("t", false);
        assert!(last.is_some() && limiter.try_acquire("t", false).is_none());
    }
}
