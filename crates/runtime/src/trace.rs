//! Traces: which part of a request took how long, sent to a collector over OTLP.
//!
//! A request that is traced carries its `Root` in a task-local value; `span` then times a part of it from anywhere
//! below, without knowing who asked. If nothing is traced, that costs one look at the task-local value.

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
/// Batches on their way to a collector.
mod export;

pub use context::Parent;
pub use export::InvalidEndpoint;

/// Spans kept of one trace; more are not recorded.
const SPANS_MAX: usize = 128;

/// Where traces go, and how many.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// Base URL of an OTLP collector over HTTP, such as `http://collector:4318`.
    pub endpoint: String,
    /// The part of all requests that is traced, from 0 to 1. A request of somebody trusted that comes with a sampled
    /// trace is traced in any case.
    pub ratio: f64,
    /// `service.name`.
    pub service: &'static str,
    /// `service.version`.
    pub version: &'static str,
}

/// Begins traces. The default one never does.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sampler>>);

#[derive(Debug)]
struct Sampler {
    /// Traces with a number below it are kept.
    threshold: u64,
    exporter: Exporter,
}

impl Tracer {
    /// Begins to send to a collector. The task ends with `tasks`, after it has sent what is finished.
    pub fn start(
        settings: &TraceSettings,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> Result<Self, InvalidEndpoint> {
        let exporter = Exporter::start(settings, tasks, metrics)?;
        Ok(Self(Some(Arc::new(Sampler { threshold: threshold(settings.ratio), exporter }))))
    }

    /// Begins the trace of a request, or continues the one that its `traceparent` names. `None` if it is not traced.
    pub fn begin(&self, parent: impl FnOnce() -> Option<Parent>) -> Option<Root> {
        let sampler = self.0.as_ref()?;
        let parent = parent();
        let id = parent.as_ref().map_or_else(rand::random, |parent| parent.trace);
        // The lower half of an id is random whoever made it.
        let chosen =
            sampler.threshold > 0 && (id & u128::from(u64::MAX)) >> 1 < u128::from(sampler.threshold);
        let (asked, refused) = parent.as_ref().map_or((false, false), |p| (p.sampled, !p.sampled));
        if refused || !(chosen || asked) {
            return None;
        }
        let (above, state) = parent.map_or((0, String::new()), |parent| (parent.span, parent.state));
        let trace = Arc::new(Trace { id, state, spans: Mutex::default() });
        let sending = Sending { trace: Arc::clone(&trace), kept: chosen, sampler: Arc::clone(sampler) };
        let span = Span::begin(Current { trace, above }, String::new(), SpanKind::Server);
        Some(Root { span, sending })
    }
}

/// Ids are compared by 63 bits, as OpenTelemetry's own samplers do.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a ratio between 0 and 1"
)]
fn threshold(ratio: f64) -> u64 {
    (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64
}

/// One trace's spans until its root ends.
#[derive(Debug)]
struct Trace {
    id: u128,
    /// `tracestate`, handed on.
    state: String,
    spans: Mutex<Vec<SpanRecord>>,
}

/// The place of this task in a trace.
#[derive(Clone, Debug)]
struct Current {
    trace: Arc<Trace>,
    /// The span above; 0 for none.
    above: u64,
}

tokio::task_local! {
    static CURRENT: Current;
}

/// Runs a part of a request in a span of its own.
pub fn span<F: Future>(name: &'static str, future: F) -> Spanned<F> {
    Spanned { name: Some(name), span: None, future }
}

pin_project! {
    /// A part of a request in a span, which begins when it is polled first. An `async fn` would have room for the
    /// part twice.
    #[must_use = "a future does nothing unless it is awaited"]
    #[derive(Debug)]
    pub struct Spanned<F> {
        name: Option<&'static str>,
        span: Option<Span>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Spanned<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some(name) = this.name.take()
            && let Ok(above) = CURRENT.try_with(Current::clone)
        {
            *this.span = Some(Span::begin(above, name.to_owned(), SpanKind::Internal));
        }
        let Some(span) = this.span else { return this.future.poll(cx) };
        let polled = CURRENT.sync_scope(span.current(), || this.future.poll(cx));
        if polled.is_ready() {
            *this.span = None;
        }
        polled
    }
}

/// `traceparent` for a request that this one makes.
pub fn traceparent() -> Option<String> {
    CURRENT.try_with(|at| context::traceparent(at.trace.id, at.above)).ok()
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanKind {
    Internal,
    Server,
}

/// The root of a request's trace. Its end sends the trace, or forgets it.
#[derive(Debug)]
pub struct Root {
    /// Before `sending`: a field is dropped before those below it, and the trace is sent with its root.
    span: Span,
    sending: Sending,
}

/// Sends a trace, or forgets it, when it is dropped.
#[derive(Debug)]
struct Sending {
    trace: Arc<Trace>,
    kept: bool,
    sampler: Arc<Sampler>,
}

impl Root {
    /// The place in the trace where the request's own future runs.
    pub fn at(&self) -> At {
        At(self.span.current())
    }

    /// Notes that the caller may decide what is traced: a trace that was only asked for is kept.
    pub fn trust(&mut self) {
        self.sending.kept = true;
    }

    /// Names the span.
    pub fn name(&mut self, name: String) {
        self.span.record.name = name;
    }

    /// Adds an attribute.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.span.record.attributes.push((key, value.into()));
    }

    /// Notes that the request failed.
    pub fn failed(&mut self) {
        self.span.record.failed = true;
    }

    /// The trace's id as 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.span.trace.id)
    }
}

/// A place in a trace.
#[derive(Clone, Debug)]
pub struct At(Current);

impl At {
    /// Runs a future there; [`span`] times its parts.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self.0, future).await
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.kept {
            let spans = std::mem::take(&mut *self.trace.spans.lock().unwrap_or_else(PoisonError::into_inner));
            self.sampler.exporter.send(spans);
        }
    }
}

/// A span under way; its end is recorded with its trace.
#[derive(Debug)]
struct Span {
    trace: Arc<Trace>,
    record: SpanRecord,
    began: Instant,
}

/// A finished span.
#[derive(Clone, Debug)]
struct SpanRecord {
    trace: u128,
    state: String,
    id: u64,
    /// 0 for none.
    above: u64,
    name: String,
    kind: SpanKind,
    /// Since 1970.
    began: Duration,
    took: Duration,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

impl Span {
    fn begin(at: Current, name: String, kind: SpanKind) -> Self {
        let record = SpanRecord {
            trace: at.trace.id,
            state: at.trace.state.clone(),
            id: rand::random::<u64>().max(1),
            above: at.above,
            name,
            kind,
            began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            took: Duration::ZERO,
            attributes: Vec::new(),
            failed: false,
        };
        Self { trace: at.trace, record, began: Instant::now() }
    }

    fn current(&self) -> Current {
        Current { trace: Arc::clone(&self.trace), above: self.record.id }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.record.took = self.began.elapsed();
        let mut spans = self.trace.spans.lock().unwrap_or_else(PoisonError::into_inner);
        // The root comes last and always has room.
        if spans.len() < SPANS_MAX || self.record.kind == SpanKind::Server {
            spans.push(self.record.clone());
        }
    }
}

#[cfg(test)]
mod tests;
