//! From a POST to the event at each of many watchers.

use crate::load::Sample;
use crate::table::{Table, progress};
use crate::{Servers, objects, process, rival};
use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kit::{Connection, Endpoint, SharedConnection};
use memchr::{memchr, memmem};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How the event of a create begins.
const ADDED: &[u8] = br#"{"type":"ADDED""#;

/// One open watch.
pub(crate) struct Stream {
    body: Incoming,
    buffer: BytesMut,
    // The body ends with its connection.
    _held: ConnectionGuard,
}

enum ConnectionGuard {
    Alone { _connection: Connection },
    Together { _connection: SharedConnection },
}

impl Stream {
    /// Opens a watch at a path that already has its query.
    pub(crate) async fn open(endpoint: &Endpoint, path: &str) -> Result<Self> {
        let mut connection = endpoint.connect().await?;
        let response = connection.open(Method::GET, path, Bytes::new()).await?;
        Self::of(response, path, ConnectionGuard::Alone { _connection: connection })
    }

    /// Opens a watch over a connection that has others.
    async fn open_over(connection: &SharedConnection, path: &str) -> Result<Self> {
        let mut connection = connection.clone();
        let response = connection.open(path).await?;
        Self::of(response, path, ConnectionGuard::Together { _connection: connection })
    }

    fn of(response: http::Response<Incoming>, path: &str, held: ConnectionGuard) -> Result<Self> {
        ensure!(response.status().is_success(), "watch {path}: {}", response.status());
        Ok(Self { body: response.into_body(), buffer: BytesMut::new(), _held: held })
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.next_line().await?)?)
    }

    /// The next event as it came.
    async fn next_line(&mut self) -> Result<BytesMut> {
        let mut searched = 0;
        loop {
            if let Some(end) = memchr(b'\n', self.buffer.get(searched..).unwrap_or_default()) {
                return Ok(self.buffer.split_to(searched + end + 1));
            }
            searched = self.buffer.len();
            let frame = self.body.frame().await.context("the watch ended")??;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }
}

/// A text member of an event. A reader that takes the whole event apart would be what is measured.
fn member<'a>(event: &'a [u8], start: &str) -> Result<&'a str> {
    let at = memmem::find(event, start.as_bytes()).with_context(|| format!("an event without {start}"))?;
    let rest = event.get(at + start.len()..).unwrap_or_default();
    let end = memchr(b'"', rest).context("a text without an end")?;
    Ok(std::str::from_utf8(rest.get(..end).unwrap_or_default())?)
}

/// The time at which each object was sent, by its number.
#[derive(Clone)]
struct SendTimes {
    begin: Instant,
    /// Microseconds since the beginning.
    at: Arc<[AtomicU64]>,
}

impl SendTimes {
    fn new(count: usize) -> Self {
        Self { begin: Instant::now(), at: (0..count).map(|_| AtomicU64::new(u64::MAX)).collect() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// An object is sent now.
    fn note(&self, number: usize) {
        if let Some(at) = self.at.get(number) {
            at.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Microseconds until now; `None` for what nobody has sent.
    fn since(&self, name: &str) -> Option<u64> {
        let now = self.now();
        let number: usize = name.rsplit_once('-')?.1.parse().ok()?;
        now.checked_sub(self.at.get(number)?.load(Ordering::Relaxed))
    }
}

/// How many watches there are, and how they come.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Watches {
    /// Watchers whose events are timed.
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// Writes a second meanwhile.
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// HTTP/2 connections that the watches share.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Watches without events, whose memory is measured; one user gets no more than half of a server's watches.
    #[arg(long, default_value_t = 4400)]
    idle: usize,
    /// Watches with events that are open with them.
    #[arg(long, default_value_t = 440)]
    busy: usize,
}

/// A collection that is written and watched.
struct WatchedCollection {
    endpoint: Endpoint,
    project: String,
    cluster: String,
    path: String,
}

impl WatchedCollection {
    async fn new(target: &Servers) -> Result<Self> {
        let endpoint = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
        let cluster = crate::job::first_member(&target.members)?;
        let project = objects::fresh("watch");
        let body = objects::project(&project, std::slice::from_ref(&cluster));
        let mut connection = endpoint.connect().await?;
        connection.json(Method::POST, &format!("{}/projects", objects::OURS), &body).await?;
        let path = objects::namespaces_path(&project);
        Ok(Self { endpoint, project, cluster, path })
    }

    /// The path of a watch from now on.
    async fn watch_path(&self) -> Result<String> {
        let path = &self.path;
        let mut connection = self.endpoint.connect().await?;
        let list = connection.json(Method::GET, &format!("{path}?limit=1"), &Value::Null).await?;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Ok(format!("{path}?watch=1&resourceVersion={revision}"))
    }
}

/// Connections for many watches.
async fn shared(endpoint: &Endpoint, count: usize) -> Result<Vec<SharedConnection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count.max(1) {
        connections.push(endpoint.share().await?);
    }
    Ok(connections)
}

/// Measures and prints.
pub(crate) async fn run(target: &Servers, watches: Watches) -> Result<()> {
    let _paused = process::PausedProcesses::controllers()?;
    let mut table = Table::default();
    // First: what a server has freed it would use again unseen.
    memory(target, watches, &mut table).await?;
    latency(target, watches, true, &mut table).await?;
    latency(target, watches, false, &mut table).await?;
    table.print();
    Ok(())
}

/// From a POST to the event at each watcher; one more watcher never reads.
async fn latency(target: &Servers, watches: Watches, together: bool, table: &mut Table) -> Result<()> {
    let Watches { watchers, rate, connections, .. } = watches;
    let watched = WatchedCollection::new(target).await?;
    let path = watched.watch_path().await?;
    let connections =
        if together { shared(&watched.endpoint, connections.min(watchers)).await? } else { Vec::new() };
    let count = usize::try_from(rate * target.seconds)?;
    let sent = SendTimes::new(count);
    let mut readers = JoinSet::new();
    let stuck = Stream::open(&watched.endpoint, &path).await?;
    let mut shared = connections.iter().cycle();
    for _ in 0..watchers {
        let stream = match shared.next() {
            Some(connection) => Stream::open_over(connection, &path).await?,
            None => Stream::open(&watched.endpoint, &path).await?,
        };
        readers.spawn(read(stream, sent.clone(), count));
    }
    progress(&format!("{watchers} watchers, {rate} writes/s for {} s", target.seconds));
    write(&watched, &sent, count, rate).await?;

    let mut latencies = Vec::new();
    let begin = Instant::now();
    while let Some(done) = readers.join_next().await {
        latencies.extend(done??);
    }
    drop(stuck);
    let sample = Sample::new(latencies, Duration::from_secs(target.seconds) + begin.elapsed());
    let how = if together { "over shared HTTP/2 connections" } else { "each over its own connection" };
    let measure = format!(
        "POST to the event at each of {watchers} watchers {how}, {rate} writes/s, one more never reads"
    );
    table.row(&measure, sample.text(), "–".to_owned(), None, "p99 ≤ 10 ms, none lost or out of order");
    Ok(())
}

/// What a server's memory grows by with idle and busy watches.
async fn memory(target: &Servers, watches: Watches, table: &mut Table) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    rival::install_crd(&kube).await?;
    let watched = WatchedCollection::new(target).await?;
    let busy = watched.watch_path().await?;
    let idle = format!("{}?watch=1", objects::namespaces_path("nobody-writes-here"));
    let ours = WatchMemoryTest { endpoint: watched.endpoint.clone(), idle, busy, program: "business-api" };
    let theirs = WatchMemoryTest {
        endpoint: kube,
        idle: format!("{}?watch=1", rival::crd_path_in("nobody-writes-here")),
        busy: format!("{}?watch=1", rival::crd_path()),
        program: "kube-apiserver",
    };
    let mine = ours.grown_by(watches, async || write(&watched, &SendTimes::new(200), 200, 50).await).await?;
    let crd = theirs.grown_by(watches, async || Ok(())).await?;
    table.row(
        &format!("memory for each of {} idle and {} busy watches", watches.idle, watches.busy),
        format!("{:.1} kB", mine / 1000.0),
        format!("{:.1} kB", crd / 1000.0),
        Some(crd / mine),
        "≤ 25 kB",
    );
    Ok(())
}

/// Measures the memory of watches at one server.
struct WatchMemoryTest {
    endpoint: Endpoint,
    idle: String,
    busy: String,
    program: &'static str,
}

impl WatchMemoryTest {
    /// Bytes that the program's memory grows by for each watch while all are open and `work` is done. The first third
    /// is not counted: it takes what the program had free.
    #[expect(clippy::cast_precision_loss, reason = "a count of watches")]
    async fn grown_by(&self, watches: Watches, work: impl AsyncFnOnce() -> Result<()>) -> Result<f64> {
        let count = watches.idle + watches.busy;
        let uncounted = count / 3;
        let mut before = resident(self.program)?;
        let connections = shared(&self.endpoint, watches.connections).await?;
        let (mut streams, mut readers) = (Vec::new(), JoinSet::new());
        for (number, connection) in (0..count).zip(connections.iter().cycle()) {
            if number == uncounted {
                before = resident(self.program)?;
            }
            if number < watches.idle {
                streams.push(Stream::open_over(connection, &self.idle).await?);
            } else {
                let mut stream = Stream::open_over(connection, &self.busy).await?;
                readers.spawn(async move { while stream.next_line().await.is_ok() {} });
            }
        }
        progress(&format!("{} watches at {}", streams.len() + readers.len(), self.program));
        work().await?;
        let grown = resident(self.program)? - before;
        readers.shutdown().await;
        Ok(grown / (count - uncounted).max(1) as f64)
    }
}

/// Resident memory of a program in bytes; of several with the name, the largest's.
fn resident(program: &str) -> Result<f64> {
    let sizes = process::resident(program)?;
    sizes.into_iter().max_by(f64::total_cmp).with_context(|| format!("{program} does not run"))
}

async fn read(mut stream: Stream, sent: SendTimes, count: usize) -> Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(count);
    let mut last = 0;
    while latencies.len() < count {
        let event = tokio::time::timeout(Duration::from_mins(1), stream.next_line())
            .await
            .context("an event is missing")??;
        if !event.starts_with(ADDED) {
            continue;
        }
        let name = member(&event, r#""name":""#)?;
        latencies.push(sent.since(name).with_context(|| format!("an event for {name} that nobody wrote"))?);
        let revision: u64 = member(&event, r#""resourceVersion":""#)?.parse()?;
        ensure!(revision > last, "out of order: {revision} after {last}");
        last = revision;
    }
    Ok(latencies)
}

async fn write(watched: &WatchedCollection, sent: &SendTimes, count: usize, rate: u64) -> Result<()> {
    const WRITERS: usize = 16;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (endpoint, path) = (watched.endpoint.clone(), watched.path.clone());
        let (project, cluster) = (watched.project.clone(), watched.cluster.clone());
        let sent = sent.clone();
        writers.spawn(async move {
            let mut connection = endpoint.connect().await?;
            let period =
                Duration::from_secs_f64(f64::from(u32::try_from(WRITERS)?) / f64::from(u32::try_from(rate)?));
            // One after another, not all at once.
            let turn = period.mul_f64(f64::from(u32::try_from(writer)?) / f64::from(u32::try_from(WRITERS)?));
            let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + turn, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for number in (writer..count).step_by(WRITERS) {
                ticks.tick().await;
                let object = objects::namespace(
                    "business.tkestack.io/v1",
                    "Namespace",
                    &project,
                    &cluster,
                    &format!("{project}-{number}"),
                );
                sent.note(number);
                connection.json(Method::POST, &path, &object).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}
