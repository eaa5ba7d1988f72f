//! Limits how often usage figures in a status are written, so that many changes make one write.

use crate::fence::until;
use crate::kinds::RootKey;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often figures may be written.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Shortest time between two writes.
    pub floor: Duration,
    /// Added for each object that a pass counts.
    pub each: Duration,
    /// Longest time between two writes.
    pub ceiling: Duration,
}

impl Pace {
    /// The time between two writes of figures that are counted over so many objects.
    pub fn period(self, objects: usize) -> Duration {
        let objects = u32::try_from(objects).unwrap_or(u32::MAX);
        self.floor.saturating_add(self.each.saturating_mul(objects)).min(self.ceiling)
    }
}

/// When the figures of each object may be written again.
#[derive(Debug, Default)]
pub struct StatusThrottle(Mutex<HashMap<RootKey, Instant>>);

impl StatusThrottle {
    /// How long the next write has to wait; `None` if it may be sent now.
    pub fn wait(&self, object: &RootKey) -> Option<Duration> {
        until(self.lock().get(object).copied()).err()
    }

    /// Records a write. The next one is allowed after `period`.
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
