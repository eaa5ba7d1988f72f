use crate::audit::{AuditLog, Event, MADE_AT, ObjectReference, ResponseStatus, User};
use crate::cluster::{Cluster, Operation};
use crate::faults::WriteFault;
use crate::follow::{Form, WatchStream};
use crate::request::{Query, Target, verb};
use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use meta::status::Status;
use runtime::Clock;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// The body of an answer.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

const VERSION: &str = "v1.36.3";
const ANONYMOUS: &str = "system:anonymous";

/// A cluster that is served.
#[derive(Debug)]
pub struct ServedCluster {
    pub cluster: Arc<Cluster>,
    audit: AuditLog,
    written: AtomicU64,
    clock: Clock,
}

/// A write on its way.
#[derive(Clone, Debug)]
pub struct Write {
    target: Target,
    operation: Operation,
    query: Query,
    body: Bytes,
    event: Event,
    begun: Instant,
}

/// What is to be done with a request.
#[derive(Debug)]
pub enum Call {
    /// It is answered.
    Answered(Response<Body>),
    /// It changes something.
    Write(Box<Write>),
}

impl ServedCluster {
    pub fn new(cluster: Arc<Cluster>, audit: AuditLog) -> Self {
        Self { cluster, audit, written: AtomicU64::new(0), clock: Clock::system() }
    }

    /// Reads a request; `path` is the rest of its path below the cluster's.
    pub fn read(&self, path: &str, parts: &Parts, body: Bytes) -> Call {
        match self.call(path, parts, body) {
            Ok(call) => call,
            Err(status) => Call::Answered(error_response(&status)),
        }
    }

    fn call(&self, path: &str, parts: &Parts, body: Bytes) -> Result<Call, Status> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Who somebody is, he says himself: nobody is kept out here.
        let user = header(AUTHORIZATION).strip_prefix("Bearer ").unwrap_or(ANONYMOUS);
        if path == "/version" {
            let version =
                json!({"major": "1", "minor": "36", "gitVersion": VERSION, "platform": "simulated"});
            return Ok(Call::Answered(json_response(200, &version)));
        }
        let target = Target::of(path).ok_or_else(Status::no_such_path)?;
        let query = Query::of(&parts.uri)?;
        let verb = verb(&parts.method, &target, &query).ok_or_else(Status::method_not_allowed)?;
        let form = Form::of(header(ACCEPT));
        let operation = match (verb, header(CONTENT_TYPE)) {
            ("get", _) => {
                let object = self.cluster.get(&target)?;
                return Ok(Call::Answered(json_response(200, &form.object(&object))));
            }
            ("list", _) => {
                let (revision, objects) = self.cluster.list(&target, &query);
                return Ok(Call::Answered(json_response(200, &form.list(&target, revision, &objects))));
            }
            ("watch", _) => {
                let body = WatchStream::new(&self.cluster, target, query, form)?.body();
                return Ok(Call::Answered(response(200, body)));
            }
            ("create", _) => Operation::Create,
            ("delete", _) => Operation::Delete,
            ("patch", "application/merge-patch+json") => Operation::Merge,
            ("patch", "application/apply-patch+yaml") => Operation::Apply,
            _ => {
                return Err(Status::unsupported_media_type(&[
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                ]));
            }
        };
        let user = User { username: user.to_owned(), ..User::default() };
        let event = Event {
            audit_id: self.written.fetch_add(1, Ordering::Relaxed).to_string(),
            request_uri: parts.uri.to_string(),
            verb: verb.to_owned(),
            user,
            user_agent: header(USER_AGENT).to_owned(),
            object_ref: Some(reference(&target, &body)),
            request_received_timestamp: self.now(),
            ..frame()
        };
        Ok(Call::Write(Box::new(Write { target, operation, query, body, event, begun: Instant::now() })))
    }

    /// Makes a write, as its fate has it, and notes it. `None` when nobody is to hear of it.
    pub async fn make(&self, write: Write, fault: WriteFault) -> Option<Response<Body>> {
        let Write { target, operation, query, body, mut event, begun } = write;
        let deadline = begun + query.timeout;
        tokio::time::sleep_until((begun + fault.before).min(deadline)).await;
        let mut outcome = None;
        if fault.before < query.timeout {
            outcome = Some(self.cluster.write(&target, &operation, &query, &body));
            if matches!(outcome, Some(Ok(_))) {
                event.annotations.insert(MADE_AT.to_owned(), self.now());
            }
            tokio::time::sleep_until((Instant::now() + fault.after).min(deadline)).await;
        }
        let in_time = Instant::now() < deadline;
        let answer = match outcome.filter(|_| in_time) {
            Some(Ok((code, body))) => json_response(code, &body),
            Some(Err(status)) => error_response(&status),
            None => error_response(&Status::timeout("request did not complete within its timeout", 1)),
        };
        event.stage_timestamp = self.now();
        event.response_status = Some(ResponseStatus { code: answer.status().as_u16() });
        if let Err(error) = self.audit.write(&event) {
            tracing::error!(%error, "the audit log cannot be written");
        }
        (!fault.unanswered).then_some(answer)
    }

    fn now(&self) -> String {
        meta::time::rfc3339_micro(self.clock.unix_micros())
    }
}

/// What all events have in common.
fn frame() -> Event {
    Event {
        kind: "Event".to_owned(),
        api_version: "audit.k8s.io/v1".to_owned(),
        level: "Metadata".to_owned(),
        stage: "ResponseComplete".to_owned(),
        ..Event::default()
    }
}

/// What a write is about; the name of what is made is in its body.
fn reference(target: &Target, body: &Bytes) -> ObjectReference {
    let mut name = target.name.clone();
    if name.is_empty() {
        let made: Value = serde_json::from_slice(body).unwrap_or_default();
        made.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().clone_into(&mut name);
    }
    ObjectReference {
        resource: target.kind.plural().to_owned(),
        namespace: target.namespace.clone(),
        name,
        api_group: target.kind.group().to_owned(),
        api_version: "v1".to_owned(),
        subresource: String::new(),
    }
}

/// A JSON answer.
pub fn json_response(code: u16, body: &Value) -> Response<Body> {
    response(code, Full::new(Bytes::from(body.to_string())).boxed_unsync())
}

/// A failure.
pub fn error_response(status: &Status) -> Response<Body> {
    json_response(status.code, &json!(status))
}

fn response(code: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
