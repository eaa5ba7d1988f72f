use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Certificates that somebody may ask for at once.
const BURST: u32 = 10;
/// After this time he may ask for another one.
const REFILL: Duration = Duration::from_secs(6);
/// Callers that are remembered.
const HOLDERS_MAX: usize = 10_000;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Empty for an operator.
    pub tenant: String,
    /// His name.
    pub user: String,
}

/// How many certificates each caller may still ask for, on this replica. Each makes objects in a member cluster.
#[derive(Debug, Default)]
pub struct Allowance(Mutex<HashMap<Holder, Instant>>);

impl Allowance {
    /// Takes one; the error is after how many seconds there is another.
    pub fn take(&self, holder: &Holder) -> Result<(), u32> {
        let now = Instant::now();
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= HOLDERS_MAX {
            used.retain(|_, until| *until > now);
        }
        // What was asked for counts until this time.
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

    #[tokio::test(start_paused = true)]
    async fn each_caller_has_his_own_share_and_gets_it_back() {
        let allowance = Allowance::default();
        let holder = |tenant: &str| Holder { tenant: tenant.into(), user: "alice".into() };
        for _ in 0..BURST {
            assert_eq!(allowance.take(&holder("a")), Ok(()));
        }
        assert_eq!(allowance.take(&holder("a")), Err(7));
        assert_eq!(allowance.take(&holder("b")), Ok(()), "the same name in another tenant");
        tokio::time::advance(REFILL).await;
        assert_eq!(allowance.take(&holder("a")), Ok(()));
        assert!(allowance.take(&holder("a")).is_err());
        tokio::time::advance(REFILL * BURST * 2).await;
        for _ in 0..BURST {
            assert_eq!(allowance.take(&holder("a")), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_no_more_are_forgotten() {
        let allowance = Allowance::default();
        let holder = |number: usize| Holder { tenant: "t".into(), user: number.to_string() };
        for number in 0..HOLDERS_MAX {
            assert_eq!(allowance.take(&holder(number)), Ok(()));
        }
        assert_eq!(allowance.take(&holder(HOLDERS_MAX)), Err(1));
        tokio::time::advance(REFILL * 2).await;
        assert_eq!(allowance.take(&holder(HOLDERS_MAX)), Ok(()));
        assert_eq!(allowance.0.lock().unwrap().len(), 1);
    }
}
