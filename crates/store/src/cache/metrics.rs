use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;

/// Metrics of the read side.
#[derive(Debug, Default)]
pub(crate) struct CacheMetrics {
    pub(crate) revision: Gauge,
    pub(crate) lag: Gauge,
    pub(crate) objects: Gauge,
    pub(crate) ring_changes: Gauge,
    pub(crate) ring_bytes: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) waiting_reads: Gauge,
    pub(crate) polls: Counter,
    pub(crate) events: Counter,
    pub(crate) fills: Counter,
    pub(crate) divergences: Counter,
    pub(crate) slow_watches: Counter,
    pub(crate) history_reads: Counter,
}

impl CacheMetrics {
    pub(crate) fn register(&self, metrics: &Metrics) {
        let gauges = [
            ("store_cache_revision", "Revision of the cache", &self.revision),
            ("store_cache_lag_revisions", "Revisions that the database has and the cache has not", &self.lag),
            ("store_cache_objects", "Objects in the cache", &self.objects),
            ("store_cache_ring_changes", "Changes in the undo ring", &self.ring_changes),
            ("store_cache_ring_bytes", "Bytes that the undo ring keeps alive", &self.ring_bytes),
            ("store_watches", "Open watches", &self.watches),
            ("store_reads_waiting", "Reads that wait until the cache is new enough", &self.waiting_reads),
        ];
        for (name, help, gauge) in gauges {
            metrics.register(name, help, gauge.clone());
        }
        let counters = [
            ("store_tail_looks", "Looks of the tail at the database", &self.polls),
            ("store_tail_events", "Events that the tail has read", &self.events),
            ("store_cache_fills", "Times that the cache was filled from a snapshot", &self.fills),
            ("store_divergences", "Times that this replica found history diverged", &self.divergences),
            ("store_watches_slow", "Watches let go because their readers were too slow", &self.slow_watches),
            ("store_history_reads", "Stretches of the past that were read for watches", &self.history_reads),
        ];
        for (name, help, counter) in counters {
            metrics.register(name, help, counter.clone());
        }
    }
}

/// Counts a read that waits, until it is dropped: whoever reads may give up meanwhile.
#[derive(Debug)]
pub(crate) struct WaitingRead(Gauge);

impl WaitingRead {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for WaitingRead {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A number as the value of a gauge.
pub(crate) fn gauge_value<N: TryInto<i64>>(number: N) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
