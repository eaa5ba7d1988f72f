use crate::Health;
use crate::process::ProcessCollector;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Metric, Registry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The program's metrics, in the text format of OpenMetrics. Label values come from fixed sets: no messages, and no
/// names that callers choose.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Registrations>>);

#[derive(Debug, Default)]
struct Registrations {
    registry: Registry,
    descriptions: Vec<MetricDescription>,
}

/// A registered metric. It may not have a value yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricDescription {
    /// Its name in the output.
    pub name: String,
    /// `counter`, `gauge`, `histogram` …
    pub kind: String,
    /// Its help text.
    pub help: String,
}

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry with the metrics of the process.
    pub fn of_process() -> Self {
        let metrics = Self::default();
        metrics.collect(ProcessCollector);
        metrics
    }

    /// Registers a metric and returns it. The output adds the suffix `_total` to the name of a counter.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        let kind = metric.metric_type().as_str().to_owned();
        // The name in OpenMetrics.
        let printed = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let mut registrations = self.registrations();
        registrations.descriptions.push(MetricDescription { name: printed, kind, help: help.to_owned() });
        registrations.registry.register(name, help, metric.clone());
        metric
    }

    /// Registers a collector, which is called at each scrape.
    pub fn collect(&self, collector: impl Collector) {
        self.registrations().registry.register_collector(Box::new(collector));
    }

    /// The metrics that were registered by [`Self::register`], sorted by name, without those of collectors.
    pub fn descriptions(&self) -> Vec<MetricDescription> {
        let mut descriptions = self.registrations().descriptions.clone();
        descriptions.sort_by(|one, other| one.name.cmp(&other.name));
        descriptions
    }

    fn registrations(&self) -> MutexGuard<'_, Registrations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All metrics in the text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registrations = self.registrations();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &registrations.registry) {
            tracing::error!(%error, "encode metrics");
        }
        text
    }
}

/// Health checks as the metric of Kubernetes components: 1 for a check that passes, else 0.
#[derive(Debug)]
pub(crate) struct Healthchecks {
    /// The checks by endpoint.
    pub(crate) endpoints: [(&'static str, Health); 2],
}

impl Collector for Healthchecks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Whether a health check passes";
        let mut checks =
            encoder.encode_descriptor("kubernetes_healthcheck", help, None, MetricType::Gauge)?;
        for (endpoint, health) in &self.endpoints {
            for (name, passes) in health.results() {
                let labels = [("name", name), ("type", *endpoint)];
                ConstGauge::new(i64::from(passes)).encode(checks.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;

    #[test]
    fn a_metric_is_described_before_anything_is_counted() {
        let metrics = Metrics::new();
        metrics.register("lost", "What is lost", Family::<[(&str, &str); 1], Counter>::default());
        metrics.register("found", "What is found", Gauge::<i64>::default());
        assert!(!metrics.encode().contains("lost"), "nothing is lost yet");
        let descriptions = metrics.descriptions();
        let found: Vec<_> = descriptions.iter().map(|one| (one.name.as_str(), one.kind.as_str())).collect();
        assert_eq!(found, [("found", "gauge"), ("lost_total", "counter")]);
    }

    #[test]
    fn health_checks_are_metrics_as_they_are_at_the_moment() {
        let (live, ready) = (Health::new(), Health::new());
        ready.add("postgres", || Err("away".to_owned()));
        live.add("ping", || Ok(()));
        let metrics = Metrics::new();
        metrics.collect(Healthchecks { endpoints: [("livez", live), ("readyz", ready.clone())] });
        let text = metrics.encode();
        assert!(text.contains("kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1"), "{text}");
        assert!(text.contains("kubernetes_healthcheck{name=\"postgres\",type=\"readyz\"} 0"), "{text}");
        ready.add("postgres", || Ok(()));
        assert!(metrics.encode().contains("{name=\"postgres\",type=\"readyz\"} 1"));
    }
}
