use std::time::Duration;

/// A client that sends or receives more slowly holds up others.
const MIN_BYTES_PER_SECOND: u64 = 256 * 1024;

/// The time within which so many bytes must be transferred: `base`, and their time at the minimum rate.
pub(crate) fn timeout_for(bytes: u64, base: Duration) -> Duration {
    base + Duration::from_millis(bytes.saturating_mul(1000) / MIN_BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_time_at_the_least_rate() {
        let base = Duration::from_secs(10);
        assert_eq!(timeout_for(1, base), base, "a few win nothing");
        assert_eq!(timeout_for(3 * MIN_BYTES_PER_SECOND, base), Duration::from_secs(13));
    }
}
