use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limits how often the same thing, identified by a key, is logged.
#[derive(Debug)]
pub(crate) struct LogThrottle<K> {
    interval: Duration,
    /// How many keys are remembered. While there are so many recent ones, other keys are not logged.
    capacity: usize,
    last: Mutex<BTreeMap<K, LastLog>>,
}

#[derive(Clone, Copy, Debug)]
struct LastLog {
    at: Instant,
    suppressed: u64,
}

impl<K: Ord> LogThrottle<K> {
    pub(crate) const fn new(interval: Duration, capacity: usize) -> Self {
        Self { interval, capacity, last: Mutex::new(BTreeMap::new()) }
    }

    /// Whether it may be logged now. Returns how many times it was suppressed since it was last logged, or `None` if it
    /// is suppressed this time, too.
    pub(crate) fn try_log(&self, key: K) -> Option<u64> {
        self.try_log_at(key, Instant::now())
    }

    fn try_log_at(&self, key: K, now: Instant) -> Option<u64> {
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |last: &LastLog| now.saturating_duration_since(last.at) < self.interval;
        if let Some(last) = all.get_mut(&key) {
            if is_recent(last) {
                last.suppressed = last.suppressed.saturating_add(1);
                return None;
            }
            let suppressed = last.suppressed;
            *last = LastLog { at: now, suppressed: 0 };
            return Some(suppressed);
        }
        if all.len() >= self.capacity {
            all.retain(|_, last| is_recent(last));
        }
        if all.len() >= self.capacity {
            return None;
        }
        all.insert(key, LastLog { at: now, suppressed: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_told_once_in_a_while_with_what_was_left_out() {
        let throttle = LogThrottle::new(Duration::from_secs(10), 2);
        let begun = Instant::now();
        let at = |key, seconds| throttle.try_log_at(key, begun + Duration::from_secs(seconds));
        assert_eq!(at("a", 0), Some(0));
        assert_eq!((at("a", 1), at("a", 9)), (None, None));
        assert_eq!((at("a", 10), at("b", 10)), (Some(2), Some(0)));
        assert_eq!(at("c", 11), None, "there is room for two");
        assert_eq!(at("c", 21), Some(0), "the others are old");
    }
}
