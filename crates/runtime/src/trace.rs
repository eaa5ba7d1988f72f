//! Traces of requests, sent to a collector over OTLP.
//!
//! The context of a traced request is in a task-local value. `span` times a part of the request from anywhere in its
//! call tree. For a request that is not traced, this costs one read of the task-local value.

use crate::{Metrics, Tasks};
use export::Exporter;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// W3C trace context.
mod context;
/// Sends batches of spans to a collector.
mod export;

pub use context::RemoteParent;
pub use export::InvalidEndpoint;

/// The maximum number of spans of a trace; more are not recorded.
const SPANS_MAX: usize = 128;

/// Where traces are sent, and how many.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// Base URL of an OTLP collector over HTTP, such as `http://collector:4318`.
    pub endpoint: String,
    /// The ratio of requests that are traced, from 0 to 1. A request of a trusted client with a sampled `traceparent`
    /// is always traced.
    pub ratio: f64,
    /// `service.name`.
    pub service: &'static str,
    /// `service.version`.
    pub version: &'static str,
}

/// Begins traces. The default tracer never does.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sampler>>);

#[derive(Debug)]
struct Sampler {
    /// A request is sampled if a random number of 63 bits is below it.
    threshold: u64,
    exporter: Exporter,
}

impl Tracer {
    /// Starts the task that sends traces to a collector. At shutdown it sends the finished traces before it ends.
    pub fn start(
        settings: &TraceSettings,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> Result<Self, InvalidEndpoint> {
        let exporter = Exporter::start(settings, tasks, metrics)?;
        Ok(Self(Some(Arc::new(Sampler { threshold: threshold(settings.ratio), exporter }))))
    }

    /// Begins the trace of a request, or continues that of its `traceparent`. `None` if the request is not traced.
    pub fn begin(&self, parent: impl FnOnce() -> Option<RemoteParent>) -> Option<RootSpan> {
        let sampler = self.0.as_ref()?;
        let parent = parent();
        let id = parent.as_ref().map_or_else(rand::random, |parent| parent.trace);
        // Not by the id: a caller chooses it, and would have each of its requests sampled.
        let is_sampled = rand::random::<u64>() >> 1 < sampler.threshold;
        let (asked, refused) = parent.as_ref().map_or((false, false), |p| (p.sampled, !p.sampled));
        if refused || !(is_sampled || asked) {
            return None;
        }
        let (span_id, state) = parent.map_or((0, String::new()), |parent| (parent.span, parent.state));
        let trace = Arc::new(Trace { id, state, spans: Mutex::default() });
        let sender =
            TraceSender { trace: Arc::clone(&trace), is_kept: is_sampled, sampler: Arc::clone(sampler) };
        let span = Span::begin(SpanContext { trace, span_id }, String::new(), SpanKind::Server);
        Some(RootSpan { span, sender })
    }
}

/// The threshold of a sampling ratio, for numbers of 63 bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a ratio between 0 and 1"
)]
fn threshold(ratio: f64) -> u64 {
    (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64
}

/// A trace and its finished spans, until its root span ends.
#[derive(Debug)]
struct Trace {
    id: u128,
    /// `tracestate`, which is propagated.
    state: String,
    spans: Mutex<Vec<SpanRecord>>,
}

/// A span of a trace, as the parent of further spans.
#[derive(Clone, Debug)]
struct SpanContext {
    trace: Arc<Trace>,
    /// 0 for none.
    span_id: u64,
}

tokio::task_local! {
    static CURRENT: SpanContext;
}

/// Runs a part of a request in a span.
pub fn span<F: Future>(name: &'static str, future: F) -> InSpan<F> {
    InSpan { name: Some(name), span: None, future }
}

pin_project! {
    /// A future that runs in a span. The span begins with the first poll. (An `async fn` would need memory for the
    /// inner future twice.)
    #[must_use = "a future does nothing unless it is awaited"]
    #[derive(Debug)]
    pub struct InSpan<F> {
        name: Option<&'static str>,
        span: Option<Span>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some(name) = this.name.take()
            && let Ok(context) = CURRENT.try_with(SpanContext::clone)
        {
            *this.span = Some(Span::begin(context, name.to_owned(), SpanKind::Internal));
        }
        let Some(span) = this.span else { return this.future.poll(cx) };
        let polled = CURRENT.sync_scope(span.context(), || this.future.poll(cx));
        if polled.is_ready() {
            *this.span = None;
        }
        polled
    }
}

/// The `traceparent` header of a request to another server.
pub fn traceparent() -> Option<String> {
    CURRENT.try_with(|context| context::traceparent(context.trace.id, context.span_id)).ok()
}

/// The value of a span's attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u16> for AttributeValue {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanKind {
    Internal,
    Server,
}

/// The root span of a request. When it is dropped, the trace is sent or dropped.
#[derive(Debug)]
pub struct RootSpan {
    /// Declared before `sender`, so that it is dropped first: the trace is sent with its root span.
    span: Span,
    sender: TraceSender,
}

/// Sends a trace when it is dropped, if the trace is to be kept.
#[derive(Debug)]
struct TraceSender {
    trace: Arc<Trace>,
    is_kept: bool,
    sampler: Arc<Sampler>,
}

impl RootSpan {
    /// The scope in which the request's future runs.
    pub fn scope(&self) -> SpanScope {
        SpanScope(self.span.context())
    }

    /// Marks the caller as trusted: a trace is then kept if its `traceparent` is sampled.
    pub fn trust(&mut self) {
        self.sender.is_kept = true;
    }

    /// Sets the name of the span.
    pub fn name(&mut self, name: String) {
        self.span.record.name = name;
    }

    /// Adds an attribute.
    pub fn set(&mut self, key: &'static str, value: impl Into<AttributeValue>) {
        self.span.record.attributes.push((key, value.into()));
    }

    /// Marks the request as failed.
    pub fn failed(&mut self) {
        self.span.record.failed = true;
    }

    /// The trace's id as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.span.trace.id)
    }
}

/// A scope in which futures run in a span.
#[derive(Clone, Debug)]
pub struct SpanScope(SpanContext);

impl SpanScope {
    /// Runs a future in this scope, so that [`span`] times its parts.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self.0, future).await
    }
}

impl Drop for TraceSender {
    fn drop(&mut self) {
        if self.is_kept {
            let spans = std::mem::take(&mut *self.trace.spans.lock().unwrap_or_else(PoisonError::into_inner));
            self.sampler.exporter.send(spans);
        }
    }
}

/// A span that has not ended. It is recorded in its trace when it is dropped.
#[derive(Debug)]
struct Span {
    trace: Arc<Trace>,
    record: SpanRecord,
    start: Instant,
}

/// A finished span.
#[derive(Clone, Debug)]
struct SpanRecord {
    trace: u128,
    state: String,
    id: u64,
    /// 0 for none.
    parent_span_id: u64,
    name: String,
    kind: SpanKind,
    /// The time since 1970.
    start: Duration,
    duration: Duration,
    attributes: Vec<(&'static str, AttributeValue)>,
    failed: bool,
}

impl Span {
    fn begin(context: SpanContext, name: String, kind: SpanKind) -> Self {
        let record = SpanRecord {
            trace: context.trace.id,
            state: context.trace.state.clone(),
            id: rand::random::<u64>().max(1),
            parent_span_id: context.span_id,
            name,
            kind,
            start: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            duration: Duration::ZERO,
            attributes: Vec::new(),
            failed: false,
        };
        Self { trace: context.trace, record, start: Instant::now() }
    }

    fn context(&self) -> SpanContext {
        SpanContext { trace: Arc::clone(&self.trace), span_id: self.record.id }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.record.duration = self.start.elapsed();
        let mut spans = self.trace.spans.lock().unwrap_or_else(PoisonError::into_inner);
        // The root span comes last and is always recorded.
        if spans.len() < SPANS_MAX || self.record.kind == SpanKind::Server {
            spans.push(self.record.clone());
        }
    }
}

#[cfg(test)]
mod tests;
