use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the log is told of each key once in a while only, however often it happens.
#[derive(Debug)]
pub(crate) struct Seldom<K> {
    every: Duration,
    /// Keys at once. While there are so many, others are not told.
    most: usize,
    told: Mutex<BTreeMap<K, Told>>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    left_out: u64,
}

impl<K: Ord> Seldom<K> {
    pub(crate) const fn new(every: Duration, most: usize) -> Self {
        Self { every, most, told: Mutex::new(BTreeMap::new()) }
    }

    /// How often it has happened since it was told last; `None` if it is too early to tell it again.
    pub(crate) fn left_out(&self, key: K) -> Option<u64> {
        self.left_out_at(key, Instant::now())
    }

    fn left_out_at(&self, key: K, now: Instant) -> Option<u64> {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |told: &Told| now.saturating_duration_since(told.at) < self.every;
        if let Some(told) = all.get_mut(&key) {
            if is_recent(told) {
                told.left_out = told.left_out.saturating_add(1);
                return None;
            }
            let left_out = told.left_out;
            *told = Told { at: now, left_out: 0 };
            return Some(left_out);
        }
        if all.len() >= self.most {
            all.retain(|_, told| is_recent(told));
        }
        if all.len() >= self.most {
            return None;
        }
        all.insert(key, Told { at: now, left_out: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_told_once_in_a_while_with_what_was_left_out() {
        let seldom = Seldom::new(Duration::from_secs(10), 2);
        let begun = Instant::now();
        let at = |key, seconds| seldom.left_out_at(key, begun + Duration::from_secs(seconds));
        assert_eq!(at("a", 0), Some(0));
        assert_eq!((at("a", 1), at("a", 9)), (None, None));
        assert_eq!((at("a", 10), at("b", 10)), (Some(2), Some(0)));
        assert_eq!(at("c", 11), None, "there is room for two");
        assert_eq!(at("c", 21), Some(0), "the others are old");
    }
}
