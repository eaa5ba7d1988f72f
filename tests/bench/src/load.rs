//! Closed loops of N clients, and what they measured.

use anyhow::Result;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Latencies of one measurement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// Successful requests a second.
    pub(crate) rate: f64,
    latencies_us: Vec<u64>,
}

impl Sample {
    /// From latencies and the time they took together.
    pub(crate) fn new(mut latencies_us: Vec<u64>, elapsed: Duration) -> Self {
        latencies_us.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "counts of requests are small")]
        let rate = latencies_us.len() as f64 / elapsed.as_secs_f64().max(1e-9);
        Self { rate, latencies_us }
    }

    /// A quantile in milliseconds.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        let count = self.latencies_us.len();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index into a small list"
        )]
        let index = ((count as f64 * quantile) as usize).min(count.saturating_sub(1));
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a request")]
        let micros = self.latencies_us.get(index).copied().unwrap_or_default() as f64;
        micros / 1000.0
    }

    /// `rate/s (p50 / p99 ms)`.
    pub(crate) fn text(&self) -> String {
        format!("{:.0}/s ({:.1} / {:.1} ms)", self.rate, self.quantile_ms(0.5), self.quantile_ms(0.99))
    }
}

/// The sample with the median rate.
pub(crate) fn median(mut samples: Vec<Sample>) -> Sample {
    samples.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let middle = samples.len() / 2;
    if samples.is_empty() { Sample::default() } else { samples.swap_remove(middle) }
}

/// Runs one closed loop a client for `duration`. `start` makes a client's state; `step` is one request.
pub(crate) async fn closed_loop<S, Start, StartFut, Step>(
    clients: usize,
    duration: Duration,
    start: Start,
    step: Step,
) -> Result<Sample>
where
    S: Send + 'static,
    Start: Fn(usize) -> StartFut,
    StartFut: Future<Output = Result<S>>,
    Step: AsyncStep<S>,
{
    let mut states = Vec::with_capacity(clients);
    for client in 0..clients {
        states.push(start(client).await?);
    }
    let begin = Instant::now();
    let mut loops = JoinSet::new();
    for (client, mut state) in states.into_iter().enumerate() {
        let step = step.clone();
        loops.spawn(async move {
            let mut latencies = Vec::new();
            let mut number = 0;
            while begin.elapsed() < duration {
                let sent = Instant::now();
                step.step(&mut state, client, number).await?;
                latencies.push(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
                number += 1;
            }
            anyhow::Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = loops.join_next().await {
        all.extend(done??);
    }
    Ok(Sample::new(all, begin.elapsed()))
}

/// One request of a closed loop.
pub(crate) trait AsyncStep<S>: Clone + Send + Sync + 'static {
    /// Sends request `number` of client `client`.
    fn step(&self, state: &mut S, client: usize, number: usize) -> impl Future<Output = Result<()>> + Send;
}
