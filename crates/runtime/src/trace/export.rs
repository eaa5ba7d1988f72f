use super::{SpanKind, SpanRecord, TraceSettings, Value};
use crate::{Metrics, Tasks};
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prometheus_client::metrics::counter::Counter;
use rustls::RootCertStore;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Traces that wait to be sent; more are dropped.
const QUEUE: usize = 1024;
/// Spans sent at once.
const BATCH: usize = 512;
/// How long a batch gathers.
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Largest answer read.
const ANSWER_LIMIT: usize = 64 * 1024;
/// The path for traces, below a collector's base URL.
const PATH: &str = "/v1/traces";

/// The collector's URL cannot work.
#[derive(Debug, thiserror::Error)]
#[error("collector of traces {endpoint}: {why}")]
pub struct InvalidEndpoint {
    endpoint: String,
    why: String,
}

/// The way to a collector: a bounded queue. A collector that is slow or gone costs traces, never requests.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: mpsc::Sender<Vec<SpanRecord>>,
    dropped: Counter,
}

impl Exporter {
    pub(super) fn start(
        settings: &TraceSettings,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> Result<Self, InvalidEndpoint> {
        let invalid = |why: String| InvalidEndpoint { endpoint: settings.endpoint.clone(), why };
        let url = format!("{}{PATH}", settings.endpoint.trim_end_matches('/'));
        let url: Uri = url.parse().map_err(|error: http::uri::InvalidUri| invalid(error.to_string()))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none() {
            return Err(invalid("no http or https URL".to_owned()));
        }
        let (queue, waiting) = mpsc::channel(QUEUE);
        let dropped =
            metrics.register("trace_spans_dropped", "Spans that no collector took", Counter::default());
        let sender = Sender {
            waiting,
            url,
            client: client().map_err(|error| invalid(error.to_string()))?,
            resource: json!({"attributes": [
                attribute("service.name", &settings.service.into()),
                attribute("service.version", &settings.version.into()),
            ]}),
            sent: metrics.register("trace_spans_sent", "Spans that a collector took", Counter::default()),
            dropped: dropped.clone(),
            failing: false,
        };
        tasks.spawn_draining("traces", sender.run(tasks.token()));
        Ok(Self { queue, dropped })
    }

    /// Hands a finished trace over, unless the queue is full.
    pub(super) fn send(&self, spans: Vec<SpanRecord>) {
        let count = spans.len() as u64;
        if self.queue.try_send(spans).is_err() {
            self.dropped.inc_by(count);
        }
    }
}

type Body = Full<axum::body::Bytes>;

fn client() -> Result<Client<HttpsConnector<HttpConnector>, Body>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let (_added, _ignored) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

struct Sender {
    waiting: mpsc::Receiver<Vec<SpanRecord>>,
    url: Uri,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    resource: serde_json::Value,
    sent: Counter,
    dropped: Counter,
    failing: bool,
}

impl Sender {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                first = self.waiting.recv() => first,
                () = stop.cancelled() => break,
            };
            // Nobody traces any more. The task waits, for one that ended by itself would end all others.
            let Some(batch) = first else { return stop.cancelled().await };
            let batch = self.gather(batch, &stop).await;
            self.send(batch).await;
        }
        // Sends what was finished before the end, but only one batch: nobody waits for a collector.
        let mut rest = Vec::new();
        while let Ok(spans) = self.waiting.try_recv() {
            rest.extend(spans);
        }
        if !rest.is_empty() {
            self.send(rest).await;
        }
    }

    async fn gather(&mut self, mut batch: Vec<SpanRecord>, stop: &CancellationToken) -> Vec<SpanRecord> {
        let until = Instant::now() + GATHER;
        while batch.len() < BATCH {
            let next = tokio::select! {
                next = timeout_at(until, self.waiting.recv()) => next,
                () = stop.cancelled() => return batch,
            };
            match next {
                Ok(Some(spans)) => batch.extend(spans),
                Ok(None) | Err(_) => break,
            }
        }
        batch
    }

    async fn send(&mut self, batch: Vec<SpanRecord>) {
        let outcome = timeout(ANSWER, self.post(&batch)).await;
        let outcome = outcome.unwrap_or_else(|_elapsed| Err("no answer in time".to_owned()));
        match outcome {
            Ok(()) => {
                self.sent.inc_by(batch.len() as u64);
                if std::mem::take(&mut self.failing) {
                    tracing::info!(collector = %self.url, "the collector takes traces again");
                }
            }
            Err(error) => {
                self.dropped.inc_by(batch.len() as u64);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(collector = %self.url, error, "the collector takes no traces");
                }
            }
        }
    }

    async fn post(&self, batch: &[SpanRecord]) -> Result<(), String> {
        let spans: Vec<serde_json::Value> = batch.iter().map(span).collect();
        let scope = json!({"scope": {"name": "runtime::trace"}, "spans": spans});
        let body = json!({"resourceSpans": [{"resource": self.resource, "scopeSpans": [scope]}]}).to_string();
        let request = Request::post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        // Read to its end, so that the connection is used again.
        let read = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        read.map_err(|error| error.to_string())?;
        if status.is_success() { Ok(()) } else { Err(status.to_string()) }
    }
}

/// A span in OTLP's JSON form: ids are hexadecimal, 64-bit numbers are texts.
fn span(record: &SpanRecord) -> serde_json::Value {
    let above = if record.above == 0 { String::new() } else { format!("{:016x}", record.above) };
    let attributes: Vec<_> = record.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    json!({
        "traceId": format!("{:032x}", record.trace),
        "spanId": format!("{:016x}", record.id),
        "parentSpanId": above,
        "traceState": record.state,
        "name": record.name,
        "kind": match record.kind { SpanKind::Internal => 1, SpanKind::Server => 2 },
        "startTimeUnixNano": record.began.as_nanos().to_string(),
        "endTimeUnixNano": (record.began + record.took).as_nanos().to_string(),
        "attributes": attributes,
        "status": if record.failed { json!({"code": 2}) } else { json!({}) },
    })
}

fn attribute(key: &str, value: &Value) -> serde_json::Value {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": key, "value": value})
}
