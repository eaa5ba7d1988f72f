use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many certificates a caller may ask for at once.
const BURST: u32 = 10;
/// The time after which a caller may ask for another one.
const REFILL: Duration = Duration::from_secs(6);
/// While so many callers are counted, further ones of a tenant that has its share of them have to wait.
const KEYS_MAX: usize = 10_000;
/// The share of a tenant: its identity provider may make any number of users.
const TENANT_KEYS_MAX: usize = KEYS_MAX / 10;

/// A caller whose certificates are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateLimitKey {
    /// Empty for an operator.
    pub tenant: String,
    /// The caller's name.
    pub user: String,
}

/// Limits how often each caller asks this replica for certificates: each one makes objects in a member cluster. The
/// value of a caller is the time at which the whole burst is available again.
#[derive(Debug, Default)]
pub struct RateLimiter(Mutex<HashMap<RateLimitKey, Instant>>);

impl RateLimiter {
    /// Counts one certificate of a caller. The error is the number of seconds until the caller may ask again.
    pub fn acquire(&self, key: &RateLimitKey, now: Instant) -> Result<(), u32> {
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if full_at.len() >= KEYS_MAX {
            full_at.retain(|_, until| *until > now);
        }
        let until = full_at.get(key).copied().filter(|until| *until > now).unwrap_or(now);
        let wait = (until + REFILL).saturating_duration_since(now + REFILL * BURST);
        if !wait.is_zero() {
            return Err(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1));
        }
        if full_at.len() >= KEYS_MAX && !full_at.contains_key(key) {
            let held = full_at.keys().filter(|held| held.tenant == key.tenant).count();
            if held >= TENANT_KEYS_MAX {
                return Err(1);
            }
        }
        full_at.insert(key.clone(), until + REFILL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_his_own_share_and_gets_it_back() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let take = |tenant: &str, now: Instant| {
            limiter.acquire(&RateLimitKey { tenant: tenant.into(), user: "alice".into() }, now)
        };
        for _ in 0..BURST {
            assert_eq!(take("a", now), Ok(()));
        }
        assert_eq!(take("a", now), Err(7));
        assert_eq!(take("b", now), Ok(()), "the same name in another tenant");
        assert_eq!(take("a", now + REFILL), Ok(()));
        assert!(take("a", now + REFILL).is_err());
        let later = now + REFILL * BURST * 2;
        for _ in 0..BURST {
            assert_eq!(take("a", later), Ok(()));
        }
        assert!(take("a", later).is_err());
    }

    #[test]
    fn those_who_ask_no_more_are_forgotten() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let key = |number: usize| RateLimitKey { tenant: "t".into(), user: number.to_string() };
        for number in 0..KEYS_MAX {
            assert_eq!(limiter.acquire(&key(number), now), Ok(()));
        }
        assert_eq!(limiter.acquire(&key(KEYS_MAX), now), Err(1));
        assert_eq!(limiter.acquire(&key(KEYS_MAX), now + REFILL * 2), Ok(()));
        assert_eq!(limiter.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_tenant_of_very_many_users_keeps_no_other_out() {
        let limiter = RateLimiter::default();
        let now = Instant::now();
        let take = |tenant: &str, number: usize| {
            limiter.acquire(&RateLimitKey { tenant: tenant.into(), user: number.to_string() }, now)
        };
        for number in 0..KEYS_MAX {
            assert_eq!(take("big", number), Ok(()));
        }
        assert_eq!(take("big", KEYS_MAX), Err(1));
        assert_eq!(take("small", 0), Ok(()));
        assert_eq!(take("", 0), Ok(()), "an operator");
    }
}
