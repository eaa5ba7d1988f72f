use super::{AttributeValue, SpanKind, SpanRecord, TraceSettings};
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

/// The maximum number of traces that wait to be sent; more are dropped.
const QUEUE_LENGTH_MAX: usize = 1024;
/// A batch with this many spans or more is sent at once.
const BATCH_SPANS_MAX: usize = 512;
/// How long a batch waits for more spans.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// How long a request to the collector may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// The path for traces, below a collector's base URL.
const PATH: &str = "/v1/traces";

/// The collector's URL is invalid.
#[derive(Debug, thiserror::Error)]
#[error("collector of traces {endpoint}: {why}")]
pub struct InvalidEndpoint {
    endpoint: String,
    why: String,
}

/// A bounded queue of traces for a collector. If the collector is slow or gone, traces are dropped; requests are not
/// delayed.
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
        let (queue, received) = mpsc::channel(QUEUE_LENGTH_MAX);
        let dropped =
            metrics.register("trace_spans_dropped", "Spans that no collector took", Counter::default());
        let sender = Sender {
            queue: received,
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

    /// Queues a finished trace. Drops it if the queue is full.
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
    queue: mpsc::Receiver<Vec<SpanRecord>>,
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
                first = self.queue.recv() => first,
                () = stop.cancelled() => break,
            };
            // No tracer is left. The task must not end before shutdown: that would end all others.
            let Some(batch) = first else { return stop.cancelled().await };
            let batch = self.fill_batch(batch, &stop).await;
            self.send(batch).await;
        }
        // Sends the remaining traces in one batch, so that shutdown does not wait long for a collector.
        let mut rest = Vec::new();
        while let Ok(spans) = self.queue.try_recv() {
            rest.extend(spans);
        }
        if !rest.is_empty() {
            self.send(rest).await;
        }
    }

    async fn fill_batch(&mut self, mut batch: Vec<SpanRecord>, stop: &CancellationToken) -> Vec<SpanRecord> {
        let until = Instant::now() + BATCH_WAIT;
        while batch.len() < BATCH_SPANS_MAX {
            let next = tokio::select! {
                next = timeout_at(until, self.queue.recv()) => next,
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
        let outcome = timeout(REQUEST_TIMEOUT, self.post(&batch)).await;
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
        // The response is read to its end, so that the connection can be reused.
        let read = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
        read.map_err(|error| error.to_string())?;
        if status.is_success() { Ok(()) } else { Err(status.to_string()) }
    }
}

/// A span in the JSON format of OTLP: ids are hexadecimal, 64-bit integers are strings.
fn span(record: &SpanRecord) -> serde_json::Value {
    let parent =
        if record.parent_span_id == 0 { String::new() } else { format!("{:016x}", record.parent_span_id) };
    let attributes: Vec<_> = record.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    json!({
        "traceId": format!("{:032x}", record.trace),
        "spanId": format!("{:016x}", record.id),
        "parentSpanId": parent,
        "traceState": record.state,
        "name": record.name,
        "kind": match record.kind { SpanKind::Internal => 1, SpanKind::Server => 2 },
        "startTimeUnixNano": record.start.as_nanos().to_string(),
        "endTimeUnixNano": (record.start + record.duration).as_nanos().to_string(),
        "attributes": attributes,
        "status": if record.failed { json!({"code": 2}) } else { json!({}) },
    })
}

fn attribute(key: &str, value: &AttributeValue) -> serde_json::Value {
    let value = match value {
        AttributeValue::Text(text) => json!({"stringValue": text}),
        AttributeValue::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": key, "value": value})
}
