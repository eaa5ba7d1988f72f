use crate::process::ProcessCollector;
use prometheus_client::registry::{Metric, Registry};
use std::sync::{Arc, Mutex, PoisonError};

/// The program's metrics, in the text form of OpenMetrics. Labels are closed sets: never names or messages.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// With what the kernel tells of this process.
    pub fn of_process() -> Self {
        let metrics = Self::default();
        metrics
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .register_collector(Box::new(ProcessCollector));
        metrics
    }

    /// Registers a metric and hands it back. Counters get the suffix `_total` when they are printed.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).register(name, help, metric.clone());
        metric
    }

    /// Everything registered, as a scraper reads it.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &registry) {
            tracing::error!(%error, "encode metrics");
        }
        text
    }
}
