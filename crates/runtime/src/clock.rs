use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time in whole microseconds since 1970. A fixed clock, for tests, stands still until it is advanced.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that only [`Clock::advance`] moves.
    pub fn fixed(unix_micros: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(unix_micros))))
    }

    /// Advances a fixed clock. Does nothing to the system's clock.
    pub fn advance(&self, micros: i64) {
        if let Some(time) = &self.0 {
            time.fetch_add(micros, Ordering::Relaxed);
        }
    }

    /// Now, in microseconds since 1970.
    pub fn unix_micros(&self) -> i64 {
        match &self.0 {
            Some(time) => time.load(Ordering::Relaxed),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .ok()
                .and_then(|since| i64::try_from(since.as_micros()).ok())
                .unwrap_or_default(),
        }
    }

    /// Now, in seconds since 1970.
    pub fn unix_seconds(&self) -> i64 {
        self.unix_micros().div_euclid(1_000_000)
    }
}
