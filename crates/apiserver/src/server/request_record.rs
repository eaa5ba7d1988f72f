use crate::audit::{AuditRecord, AuditedChange, Phases};
use crate::caller::{Caller, MASTERS, Via};
use crate::flow::Class;
use crate::metrics::{RequestOutcome, ServerMetrics};
use crate::request::{RequestInfo, query};
use axum::body::Body;
use http::header::HeaderName;
use http::{HeaderMap, Method, Request, Response};
use runtime::trace::{RemoteParent, RootSpan, Tracer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The code for a request whose client closed it before the response, as nginx logs it.
const CLIENT_CLOSED_REQUEST: u16 = 499;
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What goes into metrics, audit log and trace when a request ends, in whatever way.
pub(super) struct RequestRecord {
    metrics: Arc<ServerMetrics>,
    pub(super) audit_id: Arc<str>,
    peer: SocketAddr,
    method: Method,
    /// Whether it is a dry run.
    dry_run: bool,
    validation: Option<&'static str>,
    pub(super) started: Instant,
    pub(super) phases: Phases,
    info: Option<RequestInfo>,
    class: Class,
    pub(super) caller: Option<Arc<Caller>>,
    pub(super) impersonated: Option<Arc<Caller>>,
    /// What a write has changed, as reported by its handler.
    pub(super) outcome: Option<AuditedChange>,
    /// The trace of this request, if it is traced.
    pub(super) trace: Option<RootSpan>,
    is_finished: bool,
}

impl RequestRecord {
    pub(super) fn start<B>(
        request: &Request<B>,
        audit_id: Arc<str>,
        peer: SocketAddr,
        metrics: &Arc<ServerMetrics>,
        tracer: &Tracer,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            audit_id,
            peer,
            method: request.method().clone(),
            validation: validation(request),
            dry_run: request.uri().query().is_some_and(|query| query.contains("dryRun=")),
            started: Instant::now(),
            phases: Phases::default(),
            info: None,
            class: Class::Exempt,
            caller: None,
            impersonated: None,
            outcome: None,
            trace: tracer.begin(|| parent(request.headers())),
            is_finished: false,
        }
    }

    pub(super) fn set_caller(&mut self, caller: &Arc<Caller>) {
        self.caller = Some(Arc::clone(caller));
        self.phases.authenticated = self.started.elapsed();
        // kube-apiserver has sampled the requests that it forwards. Of other callers, only masters may request a trace.
        if let Some(trace) = &mut self.trace
            && (caller.via == Via::FrontProxy || caller.in_group(MASTERS))
        {
            trace.trust();
        }
    }

    pub(super) fn set_request(&mut self, info: &RequestInfo, class: Class) {
        self.info = Some(info.clone());
        self.class = class;
    }

    pub(super) fn set_authorized(&mut self) {
        self.phases.authorized = self.started.elapsed();
    }

    pub(super) fn finish(&mut self, response: &Response<Body>) {
        self.is_finished = true;
        let (code, took) = (response.status().as_u16(), self.started.elapsed());
        let size = http_body::Body::size_hint(response.body()).exact();
        let is_stream = self.class == Class::Stream;
        let outcome = RequestOutcome { code, took, size, validation: self.validation, is_stream };
        self.metrics.record_response(self.info.as_ref(), self.dry_run, &outcome);
        self.write(code, took);
    }

    fn write(&mut self, code: u16, took: Duration) {
        let logged = AuditRecord {
            audit_id: &self.audit_id,
            peer: self.peer,
            caller: self.caller.as_deref(),
            impersonated: self.impersonated.as_deref(),
            info: self.info.as_ref(),
            class: self.class,
            code,
            took,
            phases: self.phases,
            change: self.outcome.as_ref(),
        }
        .log();
        if logged {
            self.metrics.audit_events.inc();
        }
        if let Some(trace) = &mut self.trace {
            trace.name(name(&self.method, self.info.as_ref()));
            trace.set("http.request.method", self.method.as_str());
            trace.set("http.response.status_code", code);
            trace.set("audit-id", &*self.audit_id);
            if let Some(info) = &self.info {
                trace.set("url.path", info.path());
                trace.set("k8s.verb", info.verb());
            }
            if code >= 500 {
                trace.failed();
            }
        }
    }
}

impl Drop for RequestRecord {
    /// Without a response, the client has left. A write may have been stored, so it must be in the audit log.
    fn drop(&mut self) {
        if !self.is_finished {
            self.metrics.aborts.inc();
            self.write(CLIENT_CLOSED_REQUEST, self.started.elapsed());
        }
    }
}

fn parent(headers: &HeaderMap) -> Option<RemoteParent> {
    let text = |name| headers.get(name)?.to_str().ok();
    RemoteParent::parse(text(TRACEPARENT)?, text(TRACESTATE).unwrap_or_default())
}

/// `fieldValidation` of a write with a body, as the label of the metric.
fn validation<B>(request: &Request<B>) -> Option<&'static str> {
    if !matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
        return None;
    }
    let value =
        query::first(request.uri().query().unwrap_or_default(), "fieldValidation").unwrap_or_default();
    Some(["", "Ignore", "Warn", "Strict"].into_iter().find(|known| *known == value).unwrap_or("invalid"))
}

/// The name of the trace: the request without names of objects, so that equal requests have equal names.
fn name(method: &Method, info: Option<&RequestInfo>) -> String {
    let Some(request) = info.and_then(RequestInfo::resource) else { return method.to_string() };
    let mut name = format!("{method} /apis/{}/{}", request.group, request.version);
    if !request.namespace.is_empty() {
        name.push_str("/namespaces/{:namespace}");
    }
    let object = if request.name.is_empty() { "" } else { "{:name}" };
    for part in [request.resource.as_str(), object, &request.subresource] {
        if !part.is_empty() {
            name.push('/');
            name.push_str(part);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_by_what_is_asked_and_not_of_whom() {
        for (method, url, want) in [
            ("GET", "/apis/g/v1/widgets?watch=1", "GET /apis/g/v1/widgets"),
            (
                "PUT",
                "/apis/g/v1/namespaces/box/widgets/a/status",
                "PUT /apis/g/v1/namespaces/{:namespace}/widgets/{:name}/status",
            ),
            ("GET", "/readyz", "GET"),
        ] {
            let method: Method = method.parse().unwrap();
            let info = RequestInfo::parse(&method, &url.parse().unwrap()).unwrap();
            assert_eq!(name(&method, Some(&info)), want);
        }
        assert_eq!(name(&Method::POST, None), "POST");
    }
}
