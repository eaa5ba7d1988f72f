//! Callers of the API: each sends changes to one replica, one at a time, and records the answers.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use instance::HOST_CLUSTER;
use instance::job::{namespace, project};
use kit::{Connection, Endpoint};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The budget that all callers draw from.
pub(crate) const ROOT: &str = "failover";
/// What it holds: less than they ask for together.
pub(crate) const ROOT_PODS: &str = "60";
pub(crate) const PROJECTS: &str = "/apis/business.tkestack.io/v1/projects";
/// A caller waits no longer: a server whose database hangs may not answer at all.
const DEADLINE: Duration = Duration::from_secs(40);
/// From one change of a caller to the next.
const PACE: Duration = Duration::from_millis(50);

/// The path of the namespaces of a project.
pub(crate) fn namespaces(project: &str) -> String {
    format!("/apis/business.tkestack.io/v1/namespaces/{project}/namespaces")
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    /// It is stored at this revision.
    Done(u64),
    /// It is not stored: a rule refuses it, or another was faster.
    Refused,
    /// It is not stored and may be retried: 429 or 503 with Retry-After.
    Retriable,
    /// The outcome is unknown: 504, or the connection broke.
    Unknown,
    /// An error of the server: another code, or a missing Retry-After.
    Wrong,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) name: String,
    pub(crate) ended: Instant,
    /// 0 where there was no answer.
    pub(crate) code: u16,
    pub(crate) result: CallResult,
    /// What a wrong answer says.
    pub(crate) message: String,
}

/// What all callers were told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    fn note(&self, call: Call) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// All of them, by the end.
    pub(crate) fn all(&self) -> Vec<Call> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        calls.sort_by_key(|call| call.ended);
        calls
    }

    /// How many changes were acknowledged since then.
    pub(crate) fn done_since(&self, since: Instant) -> usize {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = |call: &&Call| call.ended >= since && matches!(call.result, CallResult::Done(_));
        calls.iter().rev().take_while(|call| call.ended >= since).filter(done).count()
    }
}

/// One caller.
#[derive(Debug)]
pub(crate) struct Caller {
    endpoint: Endpoint,
    connection: Option<Connection>,
    calls: Calls,
    name: String,
    made: u32,
    random: StdRng,
    /// Projects that it made and has not given back.
    projects: Vec<String>,
    namespaces: Vec<String>,
}

impl Caller {
    /// A caller at one replica; its name is part of all it makes.
    pub(crate) fn new(endpoint: Endpoint, calls: &Calls, name: String, seed: u64) -> Self {
        Self {
            endpoint,
            connection: None,
            calls: calls.clone(),
            name,
            made: 0,
            random: StdRng::seed_from_u64(seed),
            projects: Vec::new(),
            namespaces: Vec::new(),
        }
    }

    /// Asks until told to stop.
    pub(crate) async fn run(mut self, stop: Arc<AtomicBool>) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.step().await?;
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }

    /// What was told last.
    pub(crate) fn last_call(&self) -> Option<Call> {
        self.calls.all().pop()
    }

    async fn step(&mut self) -> Result<()> {
        let roll = self.random.random_range(0..100);
        match (roll, self.projects.is_empty()) {
            (0..8, _) => self.create_namespace().await,
            (8..12, _) => self.delete_namespace().await,
            (12..55, _) | (_, true) => self.create_project().await,
            (55..75, false) => self.resize_project().await,
            (_, false) => self.delete_project().await,
        }
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        format!("{}-{}", self.name, self.made)
    }

    async fn create_project(&mut self) -> Result<()> {
        let name = self.fresh();
        let pods = self.random.random_range(1..=6).to_string();
        let body = project(&name, Some(ROOT), &[(HOST_CLUSTER, &[("pods", &pods)])]);
        let result = self.ask(Method::POST, PROJECTS.to_owned(), &name, &body).await?;
        if matches!(result, CallResult::Done(_) | CallResult::Unknown) {
            self.projects.push(name);
        }
        Ok(())
    }

    async fn resize_project(&mut self) -> Result<()> {
        let at = self.random.random_range(0..self.projects.len());
        let name = self.projects.get(at).context("no project")?.clone();
        let pods = self.random.random_range(1..=8).to_string();
        let body = json!({"spec": {"clusters": {HOST_CLUSTER: {"hard": {"pods": pods}}}}});
        self.ask(Method::PATCH, format!("{PROJECTS}/{name}"), &name, &body).await.map(drop)
    }

    async fn delete_project(&mut self) -> Result<()> {
        let at = self.random.random_range(0..self.projects.len());
        let name = self.projects.swap_remove(at);
        self.ask(Method::DELETE, format!("{PROJECTS}/{name}"), &name, &Value::Null).await.map(drop)
    }

    async fn create_namespace(&mut self) -> Result<()> {
        let body = namespace(ROOT, HOST_CLUSTER, &self.fresh(), &[("pods", "1")]);
        let name = body.pointer("/metadata/name").and_then(Value::as_str).context("no name")?.to_owned();
        let result = self.ask(Method::POST, namespaces(ROOT), &name, &body).await?;
        if matches!(result, CallResult::Done(_) | CallResult::Unknown) {
            self.namespaces.push(name);
        }
        Ok(())
    }

    async fn delete_namespace(&mut self) -> Result<()> {
        let Some(name) = self.namespaces.pop() else { return Ok(()) };
        let path = format!("{}/{name}", namespaces(ROOT));
        self.ask(Method::DELETE, path, &name, &Value::Null).await.map(drop)
    }

    /// Asks once, and notes the answer.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: String,
        name: &str,
        body: &Value,
    ) -> Result<CallResult> {
        let verb = match method {
            Method::POST => "create",
            Method::PATCH => "update",
            _ => "delete",
        };
        let resource = if path.starts_with(PROJECTS) { "projects" } else { "namespaces" };
        let answer = tokio::time::timeout(DEADLINE, self.answer(method, &path, body)).await;
        let (code, result, message) = if let Ok(Ok(answer)) = answer {
            answer.judge(verb)?
        } else {
            self.connection = None;
            (0, CallResult::Unknown, String::new())
        };
        let ended = Instant::now();
        self.calls.note(Call { verb, resource, name: name.to_owned(), ended, code, result, message });
        Ok(result)
    }

    async fn answer(&mut self, method: Method, path: &str, body: &Value) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.endpoint.connect().await?,
        };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let response = connection.open(method, path, body).await?;
        let (status, says_when) = (response.status(), response.headers().contains_key("retry-after"));
        let body = response.into_body().collect().await?.to_bytes();
        self.connection = Some(connection);
        Ok(Answer { status, says_when, body })
    }
}

struct Answer {
    status: StatusCode,
    says_when: bool,
    body: Bytes,
}

impl Answer {
    fn judge(&self, verb: &str) -> Result<(u16, CallResult, String)> {
        let code = self.status.as_u16();
        let result = match code {
            200..300 => return self.done(),
            // Whoever deletes what an unknown create has not made.
            404 if verb != "create" => CallResult::Refused,
            403 | 409 | 422 => CallResult::Refused,
            429 | 503 if self.says_when => CallResult::Retriable,
            504 => CallResult::Unknown,
            _ => CallResult::Wrong,
        };
        let message = String::from_utf8_lossy(&self.body).chars().take(300).collect();
        Ok((code, result, message))
    }

    /// A deletion that is done at once answers a Status, which has no revision.
    fn done(&self) -> Result<(u16, CallResult, String)> {
        let object: Value = serde_json::from_slice(&self.body)?;
        let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let revision = revision.map_or(Ok(0), str::parse).context("read the revision")?;
        Ok((self.status.as_u16(), CallResult::Done(revision), String::new()))
    }
}
