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

/// The server's metrics, with the names of `k8s.io/apiserver`. All label values are from closed sets: for a resource
/// that is not served they are empty.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    resource_labels: Vec<Arc<ResourceLabels>>,
    other: Arc<ResourceLabels>,
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
    pub(crate) delegated_authn: DelegationMetrics,
    pub(crate) delegated_authz: DelegationMetrics,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOutcome {
    pub(crate) code: u16,
    /// Time until the head of the response.
    pub(crate) took: Duration,
    /// Bytes of the response's body; `None` for streams.
    pub(crate) size: Option<u64>,
    /// The parameter `fieldValidation` of a write with a body.
    pub(crate) validation: Option<&'static str>,
    /// Whether it is a stream, whose duration is not observed.
    pub(crate) is_stream: bool,
}

/// The labels of a resource or subresource.
#[derive(Debug, Default)]
struct ResourceLabels {
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
    labels: Arc<ResourceLabels>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestLabels {
    code: u16,
    duration_labels: DurationLabels,
}

impl PartialEq for DurationLabels {
    fn eq(&self, other: &Self) -> bool {
        (self.verb, self.scope, self.dry_run, self.labels.number)
            == (other.verb, other.scope, other.dry_run, other.labels.number)
    }
}

impl Eq for DurationLabels {}

impl std::hash::Hash for DurationLabels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.verb, self.scope, self.dry_run, self.labels.number).hash(state);
    }
}

impl EncodeLabelSet for DurationLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        let labels = &self.labels;
        for (name, value) in [
            ("verb", self.verb),
            ("group", &labels.group),
            ("version", &labels.version),
            ("resource", labels.resource),
            ("subresource", labels.subresource),
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
        self.duration_labels.encode(encoder)?;
        ("code", self.code).encode(encoder.encode_label())
    }
}

/// The resource whose events a watch sends.
#[derive(Clone, Debug)]
struct WatchLabels(Arc<ResourceLabels>);

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
        let ResourceLabels { group, version, resource, .. } = &*self.0;
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
        // The SLI metric leaves out the time in webhooks and queues. There is none here, so both are the same.
        let durations: Histograms<DurationLabels> = Family::new_with_constructor(latencies);
        for name in ["apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds"] {
            metrics.register(name, "Time to the answer's head", durations.clone());
        }
        Self {
            resource_labels: resource_labels(resources),
            other: Arc::new(ResourceLabels::default()),
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
            delegated_authn: DelegationMetrics::new(metrics, "apiserver_delegated_authn_request"),
            delegated_authz: DelegationMetrics::new(metrics, "apiserver_delegated_authz_request"),
        }
    }

    pub(crate) fn record_authentication(&self, known: bool) {
        if known { &self.authenticated } else { &self.unauthenticated }.inc();
    }

    /// Records that the file of the issuers has changed, and whether the change was applied.
    pub(crate) fn record_issuer_reload(&self, applied: bool, now: i64) {
        let status = [("status", if applied { "success" } else { "failure" })];
        self.issuer_reloads.get_or_create(&status).inc();
        self.issuer_reload_times.get_or_create(&status).set(now);
    }

    /// Counts a request of a caller who is not anonymous.
    pub(crate) fn record_authenticated_user(&self) {
        self.users.inc();
    }

    /// Records the remaining lifetime of the certificate that authenticated a request.
    pub(crate) fn record_client_certificate(&self, left_seconds: i64) {
        #[expect(clippy::cast_precision_loss, reason = "buckets are coarse")]
        self.certificates.observe(left_seconds.max(0) as f64);
    }

    /// The counter for the events of a watch; `None` for other requests.
    pub(crate) fn watch_events(&self, info: &RequestInfo) -> Option<WatchEvents> {
        let request = info.resource().filter(|request| request.verb == Verb::Watch)?;
        let labels = WatchLabels(Arc::clone(self.labels(request).unwrap_or(&self.other)));
        let count = self.watch_events.get_or_create_owned(&labels);
        Some(WatchEvents { count, sizes: self.watch_sizes.get_or_create_owned(&labels) })
    }

    /// Counts a request that was terminated before its answer was complete.
    pub(crate) fn record_termination(&self, reason: &'static str) {
        self.terminations.get_or_create(&[("reason", reason)]).inc();
    }

    /// Records a request that was answered.
    pub(crate) fn record_response(
        &self,
        info: Option<&RequestInfo>,
        dry_run: bool,
        outcome: &RequestOutcome,
    ) {
        let request = info.and_then(RequestInfo::resource);
        let labels = request.and_then(|request| self.labels(request)).unwrap_or(&self.other);
        let duration_labels = DurationLabels {
            verb: info.map_or("", |info| verb(info.verb())),
            scope: request.map_or("", scope),
            dry_run,
            labels: Arc::clone(labels),
        };
        if !outcome.is_stream {
            self.durations.get_or_create(&duration_labels).observe(outcome.took.as_secs_f64());
        }
        if let Some(size) = outcome.size
            && matches!(duration_labels.verb, "GET" | "LIST")
        {
            #[expect(clippy::cast_precision_loss, reason = "buckets are coarse")]
            self.sizes.get_or_create(&duration_labels).observe(size as f64);
        }
        if let Some(validation) = outcome.validation {
            let labels = [("field_validation", validation)];
            self.validations.get_or_create(&labels).observe(outcome.took.as_secs_f64());
        }
        self.requests.get_or_create(&RequestLabels { code: outcome.code, duration_labels }).inc();
    }

    fn labels(&self, request: &ResourceRequest) -> Option<&Arc<ResourceLabels>> {
        self.resource_labels.iter().find(|labels| {
            labels.resource == request.resource
                && labels.subresource == request.subresource
                && labels.version == request.version
                && labels.group == request.group
        })
    }
}

fn resource_labels(resources: &[Arc<Resource>]) -> Vec<Arc<ResourceLabels>> {
    let mut resource_labels = Vec::new();
    for resource in resources {
        let subresources = std::iter::once("").chain(resource.subresources().iter().map(|s| s.name));
        for subresource in subresources {
            resource_labels.push(Arc::new(ResourceLabels {
                number: resource_labels.len() + 1,
                group: resource.gvk.group.clone(),
                version: resource.gvk.version.clone(),
                resource: resource.plural,
                subresource,
            }));
        }
    }
    resource_labels
}

/// Metrics of the reviews by kube-apiserver.
#[derive(Debug)]
pub(crate) struct DelegationMetrics {
    requests: Family<[(&'static str, u16); 1], Counter>,
    durations: Histograms<[(&'static str, u16); 1]>,
}

impl DelegationMetrics {
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

    /// Records a review; without a response the label is 0.
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

fn scope(request: &ResourceRequest) -> &'static str {
    let is_collection = matches!(request.verb.as_str(), "list" | "watch");
    match request {
        _ if request.verb == Verb::Create => "resource",
        _ if !request.object_name().is_empty() && !is_collection => "resource",
        _ if !request.namespace.is_empty() => "namespace",
        _ => "cluster",
    }
}
