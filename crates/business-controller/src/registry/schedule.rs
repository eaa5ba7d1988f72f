//! When the content below a prefix is measured next.

use crate::fence::until;
use crate::kinds::ProjectKey;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A measurement that took longer is followed by a cooldown.
const FAST_MAX: Duration = Duration::from_secs(2);
/// The cooldown, as a multiple of the time that the measurement took.
const COOLDOWN_FACTOR: u32 = 2;

/// When the content of each object is to be measured.
#[derive(Debug, Default)]
pub struct MeasureSchedule(Mutex<ScheduleState>);

#[derive(Debug, Default)]
struct ScheduleState {
    /// When the next measurement is due.
    due: HashMap<ProjectKey, Instant>,
    /// Until when nothing is measured, whatever changes: slow measurements leave the registry to others.
    cooldowns: HashMap<ProjectKey, Instant>,
    /// Objects whose last measurement or removal has timed out.
    timed_out: HashSet<ProjectKey>,
}

impl MeasureSchedule {
    /// How long the next measurement has to wait; `None` if it is due.
    pub fn wait(&self, key: &ProjectKey) -> Option<Duration> {
        until(self.lock().due.get(key).copied()).err()
    }

    /// The rest of the cooldown.
    pub fn cooldown(&self, key: &ProjectKey) -> Option<Duration> {
        until(self.lock().cooldowns.get(key).copied()).err()
    }

    /// Whether the last measurement was slow or has timed out.
    pub fn is_slow(&self, key: &ProjectKey) -> bool {
        let times = self.lock();
        times.cooldowns.contains_key(key) || times.timed_out.contains(key)
    }

    /// Records a measurement and the time that it took. The next one is due after `period`.
    pub fn record_measured(&self, key: &ProjectKey, took: Duration, period: Duration) {
        self.put_off(key, period);
        let mut times = self.lock();
        times.timed_out.remove(key);
        if took > FAST_MAX {
            times.cooldowns.insert(key.clone(), Instant::now() + took.saturating_mul(COOLDOWN_FACTOR));
        } else {
            times.cooldowns.remove(key);
        }
    }

    /// Makes the next measurement due after `period`.
    pub fn put_off(&self, key: &ProjectKey, period: Duration) {
        self.lock().due.insert(key.clone(), Instant::now() + period);
    }

    /// Records a timeout, and makes the next measurement due at once. Returns whether the one before has timed out,
    /// too. The first look at much content caches most of what the next one needs.
    pub fn record_timeout(&self, key: &ProjectKey) -> bool {
        let mut times = self.lock();
        times.due.remove(key);
        !times.timed_out.insert(key.clone())
    }

    /// Forgets an object that is gone or was replaced.
    pub fn forget(&self, key: &ProjectKey) {
        let mut times = self.lock();
        times.due.remove(key);
        times.cooldowns.remove(key);
        times.timed_out.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, ScheduleState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ObjectKey as _;

    #[tokio::test]
    async fn what_is_late_is_due_until_it_is_put_off() {
        let (schedule, key) = (MeasureSchedule::default(), ProjectKey::new(Some("p"), "web"));
        schedule.record_measured(&key, Duration::ZERO, Duration::from_mins(1));
        assert!(schedule.wait(&key).is_some() && !schedule.is_slow(&key));
        assert!(!schedule.record_timeout(&key) && schedule.wait(&key).is_none(), "it goes on at once");
        assert!(schedule.record_timeout(&key) && schedule.is_slow(&key));
        schedule.put_off(&key, Duration::from_mins(1));
        assert!(schedule.wait(&key).is_some() && schedule.record_timeout(&key));
        schedule.record_measured(&key, Duration::ZERO, Duration::from_mins(1));
        assert!(!schedule.record_timeout(&key), "it has come to its end meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn what_took_long_rests_twice_as_long() {
        let (schedule, key) = (MeasureSchedule::default(), ProjectKey::new(Some("p"), "web"));
        let measured =
            |took| schedule.record_measured(&key, Duration::from_secs(took), Duration::from_mins(1));
        measured(1);
        assert_eq!(schedule.cooldown(&key), None);
        measured(10);
        assert_eq!(schedule.cooldown(&key), Some(Duration::from_secs(20)));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert!(schedule.cooldown(&key).is_none() && schedule.is_slow(&key));
        measured(1);
        assert!(!schedule.is_slow(&key));
    }
}
