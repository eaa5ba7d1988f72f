//! The metrics of the controller. Labels are closed sets, and names of followed clusters.

use crate::error::{Error, UNAVAILABLE};
use crate::outcome::PassOutcome;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::Metrics;
use std::time::Duration;

/// Labels of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PassLabels {
    kind: &'static str,
    outcome: &'static str,
}

/// Labels of an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    kind: &'static str,
    category: &'static str,
}

/// What drifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Drift {
    /// The namespace was gone.
    Namespace,
    /// Its marks were gone.
    Marks,
    /// The quota was gone or another.
    Quota,
    /// A binding was gone or another.
    Binding,
    /// Something of a template was gone or another.
    Template,
}

impl Drift {
    const ALL: [Self; 5] = [Self::Namespace, Self::Marks, Self::Quota, Self::Binding, Self::Template];
}

/// Labels of a repair.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DriftLabels {
    /// What drifted.
    pub what: Drift,
}

/// A label for counts by kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StateLabels {
    /// The state.
    pub state: &'static str,
}

/// The metrics of the controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    passes: Family<PassLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    seconds: Histogram,
    /// Drift that was repaired.
    pub drift: Family<DriftLabels, Counter>,
    /// Objects that wait, and that are at work.
    pub queue: Family<StateLabels, Gauge>,
    /// Member clusters by their state.
    pub members: Family<StateLabels, Gauge>,
    /// When the directory of member clusters was last read, in seconds since 1970.
    pub directory_read: Gauge,
    /// Credentials of member clusters by their validity.
    pub credentials: Family<StateLabels, Gauge>,
    /// Namespaces of member clusters that may take what no object is charged for.
    pub orphans: Gauge,
    /// Namespaces of member clusters with our marks and without our seal.
    pub strangers: Gauge,
    /// Namespaces that somebody has to look at, by what is wrong with them.
    pub namespaces: Family<StateLabels, Gauge>,
    /// When the last audit of all members that answer ended, in seconds since 1970.
    pub audited: Gauge,
    /// Events that were not sent.
    pub events_dropped: Counter,
    /// 1 for each share that this process holds.
    pub leading: Family<ShareLabels, Gauge>,
    /// Bytes that are kept of each member cluster that is followed here, about.
    pub seen: Family<ClusterLabels, Gauge>,
    /// Bytes that may be kept of all of them.
    pub seen_max: Gauge,
}

/// A label for member clusters. It goes when a cluster is not followed any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClusterLabels {
    /// Its name.
    pub cluster: String,
}

/// A label for the shares of the work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ShareLabels {
    /// `fleet`, or the number.
    pub share: String,
}

impl ControllerMetrics {
    /// Registers them.
    pub fn register(metrics: &Metrics) -> Self {
        let r = metrics;
        let gauge = |name: &str, help: &str| -> Gauge { r.register(name, help, Gauge::default()) };
        let states = |name: &str, help: &str| -> Family<StateLabels, Gauge> {
            r.register(name, help, Family::default())
        };
        let buckets = exponential_buckets(0.001, 2.0, 14);
        let drift = Family::<DriftLabels, Counter>::default();
        // So that the rate of what has not happened yet is zero, not unknown.
        for what in Drift::ALL {
            drop(drift.get_or_create(&DriftLabels { what }));
        }
        Self {
            passes: r.register(
                "business_controller_passes",
                "Passes over objects by how they ended",
                Family::default(),
            ),
            errors: r.register(
                "business_controller_errors",
                "Passes that failed, by what failed",
                Family::default(),
            ),
            seconds: r.register(
                "business_controller_pass_seconds",
                "Time a pass takes",
                Histogram::new(buckets),
            ),
            drift: r.register(
                "business_controller_drift_repaired",
                "Drift repaired in member clusters",
                drift,
            ),
            queue: states("business_controller_queue", "Objects that wait or are at work"),
            members: states("business_controller_members", "Member clusters by state"),
            directory_read: gauge("business_controller_directory_read_time", "Last reading of the directory"),
            credentials: states("business_controller_credentials", "Credentials of member clusters by state"),
            orphans: gauge(
                "business_controller_orphans",
                "Namespaces of member clusters that may take what no object is charged for",
            ),
            strangers: gauge(
                "business_controller_strangers",
                "Namespaces of member clusters with our marks and without our seal",
            ),
            namespaces: states(
                "business_controller_namespaces",
                "Namespaces with which something is wrong, by what it is",
            ),
            audited: gauge("business_controller_audited_time", "End of the last audit"),
            events_dropped: r.register(
                "business_controller_events_dropped",
                "Events not sent",
                Counter::default(),
            ),
            leading: r.register(
                "business_controller_leading",
                "1 for each share of the work that this process holds",
                Family::default(),
            ),
            seen: r.register(
                "business_controller_seen_bytes",
                "Memory that what is seen of a member cluster takes, about",
                Family::default(),
            ),
            seen_max: gauge(
                "business_controller_seen_max_bytes",
                "Memory that what is seen of all member clusters may take",
            ),
        }
    }

    /// Counts a pass.
    pub fn count(&self, kind: &'static str, result: &Result<PassOutcome, Error>, took: Duration) {
        // So that the rate of failures, which alerts use, is zero where there are none.
        drop(self.errors.get_or_create(&ErrorLabels { kind, category: UNAVAILABLE }));
        let outcome = match result {
            Ok(outcome) => outcome.label(),
            Err(error) => {
                self.errors.get_or_create(&ErrorLabels { kind, category: error.category() }).inc();
                "failed"
            }
        };
        self.passes.get_or_create(&PassLabels { kind, outcome }).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
