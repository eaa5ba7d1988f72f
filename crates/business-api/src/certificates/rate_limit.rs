use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Certificates that somebody may ask for at once.
const BURST: u32 = 10;
/// The time after which he may ask for another one.
const REFILL: Duration = Duration::from_secs(6);
/// Callers that are remembered.
const HOLDERS_MAX: usize = 10_000;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllowanceHolder {
    /// Empty for an operator.
    pub tenant: String,
    /// His name.
    pub user: String,
}

/// How many certificates each caller may still ask for, on this replica. Each makes objects in a member cluster.
#[derive(Debug, Default)]
pub struct Allowance(Mutex<HashMap<AllowanceHolder, Instant>>);

impl Allowance {
    /// Takes one. The error is the number of seconds until there is another.
    pub fn take(&self, holder: &AllowanceHolder, now: Instant) -> Result<(), u32> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= HOLDERS_MAX {
            used.retain(|_, until| *until > now);
        }
        // What he has asked for is used up until this time.
        let until = used.get(holder).copied().filter(|until| *until > now).unwrap_or(now);
        let over = (until + REFILL).saturating_duration_since(now + REFILL * BURST);
        if !over.is_zero() {
            return Err(u32::try_from(over.as_secs()).unwrap_or(u32::MAX).saturating_add(1));
        }
        if used.len() >= HOLDERS_MAX && !used.contains_key(holder) {
            return Err(1);
        }
        used.insert(holder.clone(), until + REFILL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_his_own_share_and_gets_it_back() {
        let allowance = Allowance::default();
        let now = Instant::now();
        let take = |tenant: &str, now: Instant| {
            allowance.take(&AllowanceHolder { tenant: tenant.into(), user: "alice".into() }, now)
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
        let allowance = Allowance::default();
        let now = Instant::now();
        let holder = |number: usize| AllowanceHolder { tenant: "t".into(), user: number.to_string() };
        for number in 0..HOLDERS_MAX {
            assert_eq!(allowance.take(&holder(number), now), Ok(()));
        }
        assert_eq!(allowance.take(&holder(HOLDERS_MAX), now), Err(1));
        assert_eq!(allowance.take(&holder(HOLDERS_MAX), now + REFILL * 2), Ok(()));
        assert_eq!(allowance.0.lock().unwrap().len(), 1);
    }
}
