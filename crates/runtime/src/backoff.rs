use std::time::Duration;

/// Exponential backoff between a floor and a ceiling. Jitter shortens each delay by up to a fifth, so that many clients
/// do not retry at the same time.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    ceiling: Duration,
    next: Duration,
}

impl Backoff {
    /// The first delay is about `floor`. Each further delay is twice as long, up to `ceiling`.
    pub fn new(floor: Duration, ceiling: Duration) -> Self {
        Self { floor, ceiling, next: floor }
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = self.next.saturating_mul(2).min(self.ceiling);
        delay.mul_f64(1.0 - rand::random::<f64>() / 5.0)
    }

    /// Starts again at the floor, after a success.
    pub fn reset(&mut self) {
        self.next = self.floor;
    }

    /// Sleeps for the next delay.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }
}
