use std::time::Duration;

/// Exponential waiting times between a floor and a ceiling, each cut by up to a fifth at random so that
/// many waiters do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    ceiling: Duration,
    next: Duration,
}

impl Backoff {
    /// The first wait is about `floor`, later ones double up to `ceiling`.
    pub fn new(floor: Duration, ceiling: Duration) -> Self {
        Self { floor, ceiling, next: floor }
    }

    /// The next waiting time.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = self.next.saturating_mul(2).min(self.ceiling);
        delay.mul_f64(1.0 - rand::random::<f64>() / 5.0)
    }

    /// Starts again at the floor, after a success.
    pub fn reset(&mut self) {
        self.next = self.floor;
    }

    /// Sleeps for the next waiting time.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }
}
