//! The outcome of a pass over an object.

use crate::error::Error;
use crate::queue::Requeue;
use std::time::Duration;

/// The outcome of a pass that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassOutcome {
    /// Something was written.
    Applied,
    /// Everything was as it should be.
    Unchanged,
    /// It waits for something, and an event will enqueue the object.
    Waiting,
    /// The same, but it is enqueued after this time at the latest.
    WaitingFor(Duration),
    /// The pass could not be begun. It is tried after this time, in the same lane.
    NotBegun(Duration),
    /// There was nothing to do.
    Skipped,
    /// It was refused: shown in the status, and tried again with a growing delay.
    Refused,
}

impl PassOutcome {
    /// The label for metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Waiting | Self::WaitingFor(_) | Self::NotBegun(_) => "waiting",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
        }
    }
}

/// When the object is to be processed again.
pub fn requeue(result: &Result<PassOutcome, Error>) -> Requeue {
    match result {
        Ok(PassOutcome::Applied | PassOutcome::Unchanged | PassOutcome::Waiting | PassOutcome::Skipped) => {
            Requeue::Never
        }
        Ok(PassOutcome::WaitingFor(delay)) => Requeue::After(*delay),
        Ok(PassOutcome::NotBegun(delay)) => Requeue::InSameLane(*delay),
        Ok(PassOutcome::Refused) | Err(_) => Requeue::WithBackoff,
    }
}
