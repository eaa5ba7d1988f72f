//! When what is kept below a prefix is measured next.

use crate::fence::until;
use crate::kinds::ProjectKey;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What took longer to measure rests before the next time.
const FAST_MAX: Duration = Duration::from_secs(2);
/// So many times as long as it took.
const COOLDOWN_FACTOR: u32 = 2;

/// When each object's content is to be measured.
#[derive(Debug, Default)]
pub struct MeasureSchedule(Mutex<ScheduleState>);

#[derive(Debug, Default)]
struct ScheduleState {
    /// From when on it is measured again.
    due: HashMap<ProjectKey, Instant>,
    /// Until when it is not measured again, whatever changes: what takes long leaves the registry to others.
    cooldowns: HashMap<ProjectKey, Instant>,
    /// Whose last measurement has not come to its end.
    timed_out: HashSet<ProjectKey>,
}

impl MeasureSchedule {
    /// How long the next measurement has to wait; none is due at once.
    pub fn wait(&self, key: &ProjectKey) -> Option<Duration> {
        until(self.lock().due.get(key).copied()).err()
    }

    /// How long what has been measured still rests.
    pub fn cooldown(&self, key: &ProjectKey) -> Option<Duration> {
        until(self.lock().cooldowns.get(key).copied()).err()
    }

    /// Whether the last measurement has taken long, or has not come to its end.
    pub fn is_slow(&self, key: &ProjectKey) -> bool {
        let times = self.lock();
        times.cooldowns.contains_key(key) || times.timed_out.contains(key)
    }

    /// It was measured, which has taken so long; the next time is after `period`.
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

    /// It cannot be measured; the next try is after `period`.
    pub fn put_off(&self, key: &ProjectKey, period: Duration) {
        self.lock().due.insert(key.clone(), Instant::now() + period);
    }

    /// A measurement has not come to its end in time, and is due again. Whether that was so the last time, too: the first look
    /// at much finds out most of what the next one needs.
    pub fn record_timeout(&self, key: &ProjectKey) -> bool {
        let mut times = self.lock();
        times.due.remove(key);
        !times.timed_out.insert(key.clone())
    }

    /// Something has changed there, or it is gone.
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
