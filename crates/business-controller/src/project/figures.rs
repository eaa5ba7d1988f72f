//! When the figures of a project may be written again.

use crate::kinds::RootKey;
use crate::leader::until;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// From when on the figures of each project may be written again.
#[derive(Debug, Default)]
pub struct Figures(Mutex<HashMap<RootKey, Instant>>);

impl Figures {
    /// How long they have to wait.
    pub fn wait(&self, project: &RootKey) -> Option<Duration> {
        until(self.lock().get(project).copied()).err()
    }

    /// They were written; the next time is after `period`.
    pub fn written(&self, project: &RootKey, period: Duration) {
        self.lock().insert(project.clone(), Instant::now() + period);
    }

    pub fn forget(&self, project: &RootKey) {
        self.lock().remove(project);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RootKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
