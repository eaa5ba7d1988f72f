use std::time::Duration;

/// The least rate in bytes a second: a client that sends or takes fewer holds up others.
const LEAST_RATE: u64 = 256 * 1024;

/// The time within which so many bytes must be sent or taken.
pub(crate) fn time_for(bytes: u64, beside: Duration) -> Duration {
    beside + Duration::from_millis(bytes.saturating_mul(1000) / LEAST_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_time_at_the_least_rate() {
        let beside = Duration::from_secs(10);
        assert_eq!(time_for(1, beside), beside, "a few win nothing");
        assert_eq!(time_for(3 * LEAST_RATE, beside), Duration::from_secs(13));
    }
}
