//! Creates, patches and deletes that go on while releases change, by every way at once.

use anyhow::{Context, Result, bail, ensure};
use http::{Method, StatusCode};
use instance::HOST_CLUSTER;
use instance::job::{Hard, namespace};
use kit::{Connection, Endpoint};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::task::JoinSet;

const SMALL: Hard<'_> = &[("cpu", "10m"), ("memory", "1Mi")];
/// Writers a way.
const WRITERS: usize = 2;
/// Between two requests of a writer, and after one that failed.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for an answer: kube-apiserver gives up earlier.
const DEADLINE: Duration = Duration::from_secs(90);
/// A client tries again after these.
const RETRIABLE: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// Requests under way, until [`Load::end`].
pub(super) struct Load {
    end: Arc<AtomicBool>,
    running: JoinHandle<Result<Written>>,
    project: &'static str,
}

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Acknowledged, and not deleted since.
    there: BTreeSet<String>,
    /// Refused, or deleted with an acknowledgement.
    gone: BTreeSet<String>,
    successes: u64,
    /// What a client tries again, by what it was told.
    retriable: BTreeMap<String, u64>,
}

impl Load {
    /// Begins, by each of these kubeconfigs.
    pub(super) fn begin(ways: Vec<Endpoint>, project: &'static str) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&end);
        let running = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(write_all(ways, project, told))
        });
        Self { end, running, project }
    }

    /// Ends it, and compares what was acknowledged with what is there: `listed` is the project's list of namespaces.
    pub(super) fn end(self, list: impl FnOnce() -> Result<Value>) -> Result<String> {
        self.end.store(true, Ordering::Relaxed);
        let Ok(written) = self.running.join() else { bail!("the load of {} died", self.project) };
        let written = written?;
        let list = list()?;
        let items = list.pointer("/items").and_then(Value::as_array).context("no list")?;
        let names: BTreeSet<&str> =
            items.iter().filter_map(|item| item.pointer("/spec/namespace")?.as_str()).collect();
        let lost: Vec<_> = written.there.iter().filter(|name| !names.contains(name.as_str())).collect();
        let back: Vec<_> = items
            .iter()
            .filter(|item| item.pointer("/metadata/deletionTimestamp").is_none())
            .filter_map(|item| item.pointer("/spec/namespace")?.as_str())
            .filter(|name| written.gone.contains(*name))
            .collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        ensure!(back.is_empty(), "refused or deleted, and there: {back:?}");
        ensure!(written.successes > 0, "no request succeeded");
        let retriable: Vec<String> =
            written.retriable.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        Ok(format!(
            "{} answers, to be tried again: {}",
            written.successes,
            if retriable.is_empty() { "none".to_owned() } else { retriable.join(", ") }
        ))
    }
}

async fn write_all(ways: Vec<Endpoint>, project: &'static str, end: Arc<AtomicBool>) -> Result<Written> {
    let mut writers = JoinSet::new();
    for (number, way) in ways.iter().flat_map(|way| vec![way; WRITERS]).enumerate() {
        let writer = Writer { way: way.clone(), connection: None, written: Written::default() };
        writers.spawn(writer.run(project, number, Arc::clone(&end)));
    }
    let mut all = Written::default();
    while let Some(done) = writers.join_next().await {
        let written = done??;
        all.there.extend(written.there);
        all.gone.extend(written.gone);
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
    written: Written,
}

/// What one request came to.
enum Outcome {
    Done,
    /// Certainly not done.
    Refused,
    Unknown,
}

impl Writer {
    async fn run(mut self, project: &'static str, writer: usize, end: Arc<AtomicBool>) -> Result<Written> {
        let collection = format!("/apis/business.tkestack.io/v1/namespaces/{project}/namespaces");
        for number in 0_u64.. {
            if end.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("load-{writer}-{number}");
            let object = namespace(project, HOST_CLUSTER, &name, SMALL);
            match self.send(Method::POST, &collection, &object).await? {
                Outcome::Done => self.go_on(&collection, name, number).await?,
                Outcome::Refused => drop(self.written.gone.insert(name)),
                Outcome::Unknown => {}
            }
        }
        Ok(self.written)
    }

    /// Patches what was created, and deletes every other one.
    async fn go_on(&mut self, collection: &str, name: String, number: u64) -> Result<()> {
        let path = format!("{collection}/{HOST_CLUSTER}-{name}");
        let patch = json!({"metadata": {"labels": {"turn": number.to_string()}}});
        self.send(Method::PATCH, &path, &patch).await?;
        let deleted = if number.is_multiple_of(2) {
            self.send(Method::DELETE, &path, &Value::Null).await?
        } else {
            Outcome::Refused
        };
        match deleted {
            Outcome::Done => drop(self.written.gone.insert(name)),
            Outcome::Refused => drop(self.written.there.insert(name)),
            Outcome::Unknown => {}
        }
        Ok(())
    }

    async fn send(&mut self, method: Method, path: &str, body: &Value) -> Result<Outcome> {
        tokio::time::sleep(PAUSE).await;
        let answer = tokio::time::timeout(DEADLINE, self.answer(method.clone(), path, body)).await;
        let (outcome, told) = match answer {
            Ok(Ok((status, _))) if status.is_success() => {
                self.written.successes += 1;
                return Ok(Outcome::Done);
            }
            Ok(Ok((status, _))) if status == StatusCode::TOO_MANY_REQUESTS => {
                (Outcome::Refused, status.as_str().to_owned())
            }
            // What a proxy answers with these may have been done behind it.
            Ok(Ok((status, _))) if RETRIABLE.contains(&status) => {
                (Outcome::Unknown, status.as_str().to_owned())
            }
            Ok(Ok((status, text))) => bail!("{method} {path}: {status}: {text}"),
            Ok(Err(_)) | Err(_) => (Outcome::Unknown, "no answer".to_owned()),
        };
        if matches!(outcome, Outcome::Unknown) {
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
