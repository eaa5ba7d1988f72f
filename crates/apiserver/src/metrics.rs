use crate::request::{RequestInfo, ResourceRequest, Verb};
use crate::resource::Resource;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::Metrics;
use std::sync::Arc;
use std::time::Duration;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
type Label = (&'static str, &'static str);

/// The server's metrics, under the names of `k8s.io/apiserver`. Labels are closed sets: resources that are not served
/// have none.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    subjects: Vec<Arc<MetricLabels>>,
    other: Arc<MetricLabels>,
    requests: Family<RequestLabels, Counter>,
    durations: Histograms<DurationLabels>,
    sizes: Histograms<DurationLabels>,
    validations: Histograms<[Label; 1]>,
    terminations: Family<[Label; 1], Counter>,
    watch_events: Family<WatchLabels, Counter>,
    watch_sizes: Histograms<WatchLabels>,
    users: Counter,
    certificates: Histogram,
    pub(crate) audit_events: Counter,
    issuer_reloads: Family<[Label; 1], Counter>,
    issuer_reload_times: Family<[Label; 1], Gauge>,
    authenticated: Counter,
    unauthenticated: Counter,
    pub(crate) panics: Counter,
    pub(crate) aborts: Counter,
    pub(crate) tls_handshake_errors: Counter,
    pub(crate) connections: Gauge,
    pub(crate) reads: Gauge,
    pub(crate) writes: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) delegated_authn: Delegated,
    pub(crate) delegated_authz: Delegated,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOutcome {
    pub(crate) code: u16,
    /// Time to the answer's head.
    pub(crate) took: Duration,
    /// Bytes of the answer's body; streams have none.
    pub(crate) size: Option<u64>,
    /// `fieldValidation` of a write with a body.
    pub(crate) validation: Option<&'static str>,
    /// The time that its answer takes says nothing.
    pub(crate) is_stream: bool,
}

/// A resource or subresource, as labels name it.
#[derive(Debug, Default)]
struct MetricLabels {
    number: usize,
    group: String,
    version: String,
    resource: &'static str,
    subresource: &'static str,
}

#[derive(Clone, Debug)]
struct DurationLabels {
    verb: &'static str,
    scope: &'static str,
    dry_run: bool,
    subject: Arc<MetricLabels>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestLabels {
    code: u16,
    rest: DurationLabels,
}

impl PartialEq for DurationLabels {
    fn eq(&self, other: &Self) -> bool {
        (self.verb, self.scope, self.dry_run, self.subject.number)
            == (other.verb, other.scope, other.dry_run, other.subject.number)
    }
}

impl Eq for DurationLabels {}

impl std::hash::Hash for DurationLabels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.verb, self.scope, self.dry_run, self.subject.number).hash(state);
    }
}

impl EncodeLabelSet for DurationLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        let subject = &self.subject;
        for (name, value) in [
            ("verb", self.verb),
            ("group", &subject.group),
            ("version", &subject.version),
            ("resource", subject.resource),
            ("subresource", subject.subresource),
            ("scope", self.scope),
            ("component", "apiserver"),
            ("dry_run", if self.dry_run { "All" } else { "" }),
        ] {
            (name, value).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.rest.encode(encoder)?;
        ("code", self.code).encode(encoder.encode_label())
    }
}

/// The resource whose events a watch sends.
#[derive(Clone, Debug)]
struct WatchLabels(Arc<MetricLabels>);

impl PartialEq for WatchLabels {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for WatchLabels {}

impl std::hash::Hash for WatchLabels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

impl EncodeLabelSet for WatchLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        let MetricLabels { group, version, resource, .. } = &*self.0;
        for (name, value) in [("group", group.as_str()), ("version", version), ("resource", resource)] {
            (name, value).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// Counts the events of one watch.
#[derive(Debug)]
pub(crate) struct WatchEvents {
    count: Counter,
    sizes: Histogram,
}

impl WatchEvents {
    pub(crate) fn sent(&self, bytes: usize) {
        self.count.inc();
        #[expect(clippy::cast_precision_loss, reason = "buckets are coarse")]
        self.sizes.observe(bytes as f64);
    }
}

impl ServerMetrics {
    pub(crate) fn new(metrics: &Metrics, resources: &[Arc<Resource>]) -> Self {
        let counter = |name, help| metrics.register(name, help, Counter::default());
        let gauge = |name, help| metrics.register(name, help, Gauge::default());
        let counters = |name, help| metrics.register(name, help, Family::<[Label; 1], Counter>::default());
        let in_flight = metrics.register(
            "apiserver_current_inflight_requests",
            "Requests under way",
            Family::<[Label; 1], Gauge>::default(),
        );
        let attempts = counters("authentication_attempts", "Authentications by result");
        let users =
            counters("authenticated_user_requests", "Requests of callers who are known; names are no labels");
        // These times have no part that the service level excludes, so both names mean the same here.
        let durations: Histograms<DurationLabels> = Family::new_with_constructor(latencies);
        for name in ["apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds"] {
            metrics.register(name, "Time to the answer's head", durations.clone());
        }
        Self {
            subjects: subjects(resources),
            other: Arc::new(MetricLabels::default()),
            requests: metrics.register("apiserver_request", "Answered requests", Family::default()),
            durations,
            sizes: metrics.register(
                "apiserver_response_sizes",
                "Bytes of an answer to a read",
                Family::new_with_constructor(sizes),
            ),
            validations: metrics.register(
                "field_validation_request_duration_seconds",
                "Time to the answer's head of writes, by fieldValidation",
                Family::new_with_constructor(latencies),
            ),
            watch_events: metrics.register(
                "apiserver_watch_events",
                "Events sent to watchers",
                Family::default(),
            ),
            watch_sizes: metrics.register(
                "apiserver_watch_events_sizes",
                "Bytes of an event sent to a watcher",
                Family::new_with_constructor(event_sizes),
            ),
            certificates: metrics.register(
                "apiserver_client_certificate_expiration_seconds",
                "What is left of the client certificate of a request",
                lifetimes(),
            ),
            terminations: counters("apiserver_request_terminations", "Requests that were cut off"),
            users: users.get_or_create_owned(&[("username", "other")]),
            authenticated: attempts.get_or_create_owned(&[("result", "success")]),
            unauthenticated: attempts.get_or_create_owned(&[("result", "error")]),
            audit_events: counter("apiserver_audit_event", "Writes in the audit log"),
            issuer_reloads: counters(
                "apiserver_authentication_config_controller_automatic_reloads",
                "Changes of the file of the issuers, by whether they were taken over",
            ),
            issuer_reload_times: metrics.register(
                "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
                "When it has changed, in Unix seconds",
                Family::default(),
            ),
            panics: counter("apiserver_panics", "Panics in requests"),
            aborts: counter("apiserver_request_aborts", "Requests whose client left before the answer"),
            tls_handshake_errors: counter("apiserver_tls_handshake_errors", "TLS handshakes that failed"),
            connections: gauge("apiserver_open_connections", "Open connections"),
            reads: in_flight.get_or_create_owned(&[("request_kind", "readOnly")]),
            writes: in_flight.get_or_create_owned(&[("request_kind", "mutating")]),
            watches: gauge("apiserver_longrunning_requests", "Watches under way"),
            delegated_authn: Delegated::new(metrics, "apiserver_delegated_authn_request"),
            delegated_authz: Delegated::new(metrics, "apiserver_delegated_authz_request"),
        }
    }

    pub(crate) fn authenticated(&self, known: bool) {
        if known { &self.authenticated } else { &self.unauthenticated }.inc();
    }

    /// The file of the issuers has changed.
    pub(crate) fn issuers_reloaded(&self, taken: bool, now: i64) {
        let status = [("status", if taken { "success" } else { "failure" })];
        self.issuer_reloads.get_or_create(&status).inc();
        self.issuer_reload_times.get_or_create(&status).set(now);
    }

    /// A request of a caller who is not anonymous.
    pub(crate) fn user(&self) {
        self.users.inc();
    }

    /// A request that was authenticated by a certificate with so many seconds to live.
    pub(crate) fn certificate(&self, left_seconds: i64) {
        #[expect(clippy::cast_precision_loss, reason = "buckets are coarse")]
        self.certificates.observe(left_seconds.max(0) as f64);
    }

    /// The counter for the events of a watch; `None` for other requests.
    pub(crate) fn watch_events(&self, info: &RequestInfo) -> Option<WatchEvents> {
        let asked = info.resource().filter(|asked| asked.verb == Verb::Watch)?;
        let labels = WatchLabels(Arc::clone(self.subject(asked).unwrap_or(&self.other)));
        let count = self.watch_events.get_or_create_owned(&labels);
        Some(WatchEvents { count, sizes: self.watch_sizes.get_or_create_owned(&labels) })
    }

    /// A request that was terminated instead of answered, and why.
    pub(crate) fn terminated(&self, reason: &'static str) {
        self.terminations.get_or_create(&[("reason", reason)]).inc();
    }

    /// A request that was answered.
    pub(crate) fn answered(&self, info: Option<&RequestInfo>, dry_run: bool, outcome: &RequestOutcome) {
        let asked = info.and_then(RequestInfo::resource);
        let subject = asked.and_then(|asked| self.subject(asked)).unwrap_or(&self.other);
        let rest = DurationLabels {
            verb: info.map_or("", |info| verb(info.verb())),
            scope: asked.map_or("", scope),
            dry_run,
            subject: Arc::clone(subject),
        };
        if !outcome.is_stream {
            self.durations.get_or_create(&rest).observe(outcome.took.as_secs_f64());
        }
        if let Some(size) = outcome.size
            && matches!(rest.verb, "GET" | "LIST")
        {
            #[expect(clippy::cast_precision_loss, reason = "buckets are coarse")]
            self.sizes.get_or_create(&rest).observe(size as f64);
        }
        if let Some(validation) = outcome.validation {
            let labels = [("field_validation", validation)];
            self.validations.get_or_create(&labels).observe(outcome.took.as_secs_f64());
        }
        self.requests.get_or_create(&RequestLabels { code: outcome.code, rest }).inc();
    }

    fn subject(&self, asked: &ResourceRequest) -> Option<&Arc<MetricLabels>> {
        self.subjects.iter().find(|subject| {
            subject.resource == asked.resource
                && subject.subresource == asked.subresource
                && subject.version == asked.version
                && subject.group == asked.group
        })
    }
}

fn subjects(resources: &[Arc<Resource>]) -> Vec<Arc<MetricLabels>> {
    let mut subjects = Vec::new();
    for resource in resources {
        let subresources = std::iter::once("").chain(resource.subresources().iter().map(|s| s.name));
        for subresource in subresources {
            subjects.push(Arc::new(MetricLabels {
                number: subjects.len() + 1,
                group: resource.gvk.group.clone(),
                version: resource.gvk.version.clone(),
                resource: resource.plural,
                subresource,
            }));
        }
    }
    subjects
}

/// Requests to kube-apiserver for a review.
#[derive(Debug)]
pub(crate) struct Delegated {
    requests: Family<[(&'static str, u16); 1], Counter>,
    durations: Histograms<[(&'static str, u16); 1]>,
}

impl Delegated {
    fn new(metrics: &Metrics, name: &str) -> Self {
        Self {
            requests: metrics.register(name, "Reviews asked for, by code", Family::default()),
            durations: metrics.register(
                &format!("{name}_duration_seconds"),
                "Time of a review",
                Family::new_with_constructor(latencies),
            ),
        }
    }

    /// Code 0 is no answer at all.
    pub(crate) fn observe(&self, code: Option<u16>, took: Duration) {
        let labels = [("code", code.unwrap_or_default())];
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// `k8s.io/apiserver`'s buckets, with finer ones below them.
fn latencies() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0,
        8.0, 15.0, 30.0, 60.0,
    ])
}

/// `k8s.io/apiserver`'s buckets: 1 kB to 1 GB.
fn sizes() -> Histogram {
    Histogram::new([1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9])
}

/// `k8s.io/apiserver`'s buckets: 1 KiB to 128 KiB.
fn event_sizes() -> Histogram {
    Histogram::new([1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0])
}

/// `k8s.io/apiserver`'s buckets: half an hour to a year.
fn lifetimes() -> Histogram {
    let hours = [0.0, 0.5, 1.0, 2.0, 6.0, 12.0, 24.0, 48.0, 96.0, 168.0, 720.0, 2160.0, 4320.0, 8760.0];
    Histogram::new(hours.map(|hours| hours * 3600.0))
}

fn verb(verb: &str) -> &'static str {
    match verb {
        "create" | "post" => "POST",
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "OTHER",
    }
}

fn scope(asked: &ResourceRequest) -> &'static str {
    let is_collection = matches!(asked.verb.as_str(), "list" | "watch");
    match asked {
        _ if asked.verb == Verb::Create => "resource",
        _ if !asked.object_name().is_empty() && !is_collection => "resource",
        _ if !asked.namespace.is_empty() => "namespace",
        _ => "cluster",
    }
}
