//! When what is kept below a prefix is measured next.

use crate::fence::until;
use crate::kinds::ProjectKey;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// From when on each object's content is to be measured again.
#[derive(Debug, Default)]
pub struct Scans(Mutex<HashMap<ProjectKey, Instant>>);

impl Scans {
    /// How long the next measurement has to wait; none is due at once.
    pub fn wait(&self, key: &ProjectKey) -> Option<Duration> {
        until(self.lock().get(key).copied()).err()
    }

    /// It was measured; the next time is after `period`.
    pub fn measured(&self, key: &ProjectKey, period: Duration) {
        self.lock().insert(key.clone(), Instant::now() + period);
    }

    /// Something has changed there, or it is gone.
    pub fn forget(&self, key: &ProjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
