//! When the figures in the status of an object may be written again: what many others change is written together.

use crate::fence::until;
use crate::kinds::RootKey;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often figures are written.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Shortest time between two writes.
    pub floor: Duration,
    /// More for each object that every pass goes through.
    pub each: Duration,
    /// Longest time between two writes.
    pub ceiling: Duration,
}

impl Pace {
    /// The time between two writes of what is counted over so many objects.
    pub fn period(self, objects: usize) -> Duration {
        let objects = u32::try_from(objects).unwrap_or(u32::MAX);
        self.floor.saturating_add(self.each.saturating_mul(objects)).min(self.ceiling)
    }
}

/// From when on the figures of each object may be written again.
#[derive(Debug, Default)]
pub struct StatusThrottle(Mutex<HashMap<RootKey, Instant>>);

impl StatusThrottle {
    /// How long they have to wait.
    pub fn wait(&self, object: &RootKey) -> Option<Duration> {
        until(self.lock().get(object).copied()).err()
    }

    /// They were written; the next time is after `period`.
    pub fn written(&self, object: &RootKey, period: Duration) {
        self.lock().insert(object.clone(), Instant::now() + period);
    }

    pub fn forget(&self, object: &RootKey) {
        self.lock().remove(object);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RootKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
