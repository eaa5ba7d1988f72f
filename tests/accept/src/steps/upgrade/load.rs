//! Creates, patches and deletes objects in every cluster during an upgrade, through all endpoints at once.

use anyhow::{Context, Result, bail, ensure};
use http::{Method, StatusCode};
use instance::job::{Hard, namespace};
use kit::{Connection, Endpoint};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::task::JoinSet;

pub(super) const SMALL: Hard<'_> = &[("cpu", "10m"), ("memory", "1Mi")];
/// Writers a way.
const WRITERS: usize = 2;
/// Between two requests of a writer, and after one that failed.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for an answer: kube-apiserver gives up earlier.
const DEADLINE: Duration = Duration::from_secs(90);
/// One of so many stays: those that do are looked at in the end, and take time to go. In each of two clusters some do.
const STAYS: u64 = 3;
/// A client tries again after these.
pub(super) const RETRIABLE: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// What is written.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) project: &'static str,
    pub(super) clusters: Vec<String>,
    /// Loads of one project are told apart by it.
    pub(super) turn: usize,
}

impl Plan {
    pub(super) fn name(&self, rest: &str) -> String {
        format!("load-{}-{rest}", self.turn)
    }
}

/// Namespaces that were acknowledged, and that nobody deletes.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged(Arc<Mutex<BTreeSet<String>>>);

impl Acknowledged {
    fn add(&self, name: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    }

    pub(super) fn there(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Requests under way, until [`Load::end`].
pub(super) struct Load {
    end: Arc<AtomicBool>,
    running: Option<JoinHandle<Result<WriteResults>>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

/// The results of all requests.
#[derive(Debug, Default)]
pub(super) struct WriteResults {
    /// Refused, or deleted with an acknowledgement.
    gone: BTreeSet<String>,
    /// Of what was created and patched.
    revisions: BTreeSet<u64>,
    successes: u64,
    /// Retriable results, by status.
    retriable: BTreeMap<String, u64>,
}

impl WriteResults {
    pub(super) fn revisions(&self) -> &BTreeSet<u64> {
        &self.revisions
    }

    /// Compares what was acknowledged with these, which are there; gives a line for a person.
    pub(super) fn judge(&self, acknowledged: &Acknowledged, items: &[Value]) -> Result<String> {
        let names: BTreeSet<&str> =
            items.iter().filter_map(|item| item.pointer("/spec/namespace")?.as_str()).collect();
        let there = acknowledged.there();
        let lost: Vec<_> = there.iter().filter(|name| !names.contains(name.as_str())).collect();
        let back: Vec<_> = names.iter().filter(|name| self.gone.contains(**name)).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        ensure!(back.is_empty(), "refused or deleted, and there: {back:?}");
        ensure!(self.successes > 0, "no request succeeded");
        let retriable: Vec<String> =
            self.retriable.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        Ok(format!(
            "{} answers, to be tried again: {}",
            self.successes,
            if retriable.is_empty() { "none".to_owned() } else { retriable.join(", ") }
        ))
    }
}

impl Load {
    /// Begins, by each of these ways.
    pub(super) fn begin(ways: Vec<Endpoint>, plan: Plan, acknowledged: Acknowledged) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&end);
        let running = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(write_all(ways, plan, acknowledged, told))
        });
        Self { end, running: Some(running) }
    }

    /// Ends it, and gives what was answered.
    pub(super) fn end(mut self) -> Result<WriteResults> {
        self.end.store(true, Ordering::Relaxed);
        let running = self.running.take().context("it was ended before")?;
        let Ok(written) = running.join() else { bail!("the load died") };
        written
    }
}

async fn write_all(
    ways: Vec<Endpoint>,
    plan: Plan,
    acknowledged: Acknowledged,
    end: Arc<AtomicBool>,
) -> Result<WriteResults> {
    let mut writers = JoinSet::new();
    for (number, way) in ways.iter().flat_map(|way| vec![way; WRITERS]).enumerate() {
        let writer = Writer {
            way: way.clone(),
            connection: None,
            plan: plan.clone(),
            acknowledged: acknowledged.clone(),
            written: WriteResults::default(),
        };
        writers.spawn(writer.run(number, Arc::clone(&end)));
    }
    let mut all = WriteResults::default();
    while let Some(done) = writers.join_next().await {
        let written = done??;
        all.gone.extend(written.gone);
        all.revisions.extend(written.revisions);
        all.successes += written.successes;
        for (what, count) in written.retriable {
            *all.retriable.entry(what).or_default() += count;
        }
    }
    Ok(all)
}

struct Writer {
    way: Endpoint,
    connection: Option<Connection>,
    plan: Plan,
    acknowledged: Acknowledged,
    written: WriteResults,
}

/// The outcome of one request.
enum WriteOutcome {
    Done,
    /// Certainly not done.
    Refused,
    Unknown,
}

impl Writer {
    async fn run(mut self, writer: usize, end: Arc<AtomicBool>) -> Result<WriteResults> {
        let project = self.plan.project;
        let collection = format!("/apis/business.tkestack.io/v1/namespaces/{project}/namespaces");
        let clusters = self.plan.clusters.clone();
        for (number, cluster) in (0_u64..).zip(clusters.iter().cycle()) {
            if end.load(Ordering::Relaxed) {
                break;
            }
            let name = self.plan.name(&format!("{writer}-{number}"));
            let object = namespace(project, cluster, &name, SMALL);
            match self.send(Method::POST, &collection, &object).await? {
                WriteOutcome::Done => {
                    let path = format!("{collection}/{cluster}-{name}");
                    self.go_on(&path, name, number).await?;
                }
                WriteOutcome::Refused => drop(self.written.gone.insert(name)),
                WriteOutcome::Unknown => {}
            }
        }
        Ok(self.written)
    }

    /// Patches what was created, and deletes most.
    async fn go_on(&mut self, path: &str, name: String, number: u64) -> Result<()> {
        let patch = json!({"metadata": {"labels": {"turn": number.to_string()}}});
        self.send(Method::PATCH, path, &patch).await?;
        if number % STAYS == STAYS - 1 {
            self.acknowledged.add(name);
        } else if matches!(self.send(Method::DELETE, path, &Value::Null).await?, WriteOutcome::Done) {
            self.written.gone.insert(name);
        }
        Ok(())
    }

    async fn send(&mut self, method: Method, path: &str, body: &Value) -> Result<WriteOutcome> {
        tokio::time::sleep(PAUSE).await;
        let answer = tokio::time::timeout(DEADLINE, self.answer(method.clone(), path, body)).await;
        let (outcome, told) = match answer {
            Ok(Ok((status, text))) if status.is_success() => {
                self.written.successes += 1;
                if method != Method::DELETE {
                    let revision = revision(&text).with_context(|| format!("{method} {path}: {text}"))?;
                    self.written.revisions.insert(revision);
                }
                return Ok(WriteOutcome::Done);
            }
            Ok(Ok((status, _))) if status == StatusCode::TOO_MANY_REQUESTS => {
                (WriteOutcome::Refused, status.as_str().to_owned())
            }
            // What a proxy answers with these may have been done behind it.
            Ok(Ok((status, _))) if RETRIABLE.contains(&status) => {
                (WriteOutcome::Unknown, status.as_str().to_owned())
            }
            Ok(Ok((status, text))) => bail!("{method} {path}: {status}: {text}"),
            Ok(Err(_)) | Err(_) => (WriteOutcome::Unknown, "no answer".to_owned()),
        };
        if matches!(outcome, WriteOutcome::Unknown) {
            self.connection = None;
        }
        *self.written.retriable.entry(told).or_default() += 1;
        Ok(outcome)
    }

    async fn answer(&mut self, method: Method, path: &str, body: &Value) -> Result<(StatusCode, String)> {
        if self.connection.is_none() {
            self.connection = Some(self.way.connect().await?);
        }
        let connection = self.connection.as_mut().context("a connection")?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = connection.call(method, path, body.into()).await?;
        Ok((status, String::from_utf8_lossy(&answer).into_owned()))
    }
}

/// Of an object.
fn revision(object: &str) -> Result<u64> {
    let object: Value = serde_json::from_str(object)?;
    let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    revision.context("no revision")?.parse::<u64>().context("its revision")
}
