use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What becomes of writes, in all clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// They are made later, unless their own timeout has passed then.
    pub late: Delay,
    /// They are made, and the answer comes later.
    pub slow: Delay,
    /// Out of a hundred, so many are made and never answered: the connection breaks.
    pub unanswered_percent: u8,
}

/// Out of a hundred writes, so many wait up to this time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delay {
    pub percent: u8,
    pub millis: u64,
}

/// What becomes of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFault {
    pub before: Duration,
    pub after: Duration,
    pub unanswered: bool,
}

impl Faults {
    /// What becomes of the next write.
    pub fn pick(self) -> WriteFault {
        let happens = |percent: u8| rand::rng().random_range(0..100) < percent;
        let wait = |delay: Delay| {
            let millis = if happens(delay.percent) { rand::rng().random_range(0..=delay.millis) } else { 0 };
            Duration::from_millis(millis)
        };
        WriteFault {
            before: wait(self.late),
            after: wait(self.slow),
            unanswered: happens(self.unanswered_percent),
        }
    }
}
