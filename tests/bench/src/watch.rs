//! From a POST to the event at each of many watchers.

use crate::load::Sample;
use crate::table::{Table, progress};
use crate::{Target, objects};
use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kit::{Connection, Endpoint};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// One open watch.
pub(crate) struct Stream {
    body: Incoming,
    buffer: BytesMut,
    // The body ends with its connection.
    _connection: Connection,
}

impl Stream {
    /// Opens a watch at a path that already has its query.
    pub(crate) async fn open(endpoint: &Endpoint, path: &str) -> Result<Self> {
        let mut connection = endpoint.connect().await?;
        let response = connection.open(Method::GET, path, Bytes::new()).await?;
        ensure!(response.status().is_success(), "watch {path}: {}", response.status());
        Ok(Self { body: response.into_body(), buffer: BytesMut::new(), _connection: connection })
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(serde_json::from_slice(&line)?);
            }
            let frame = self.body.frame().await.context("the watch ended")??;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }
}

type SentTimes = Arc<Mutex<HashMap<String, Instant>>>;

/// Measures and prints.
pub(crate) async fn run(target: &Target, watchers: usize, rate: u64) -> Result<()> {
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    let cluster = crate::job::first_member(&target.members)?;
    let project = objects::fresh("watch");
    let body = objects::project(&project, std::slice::from_ref(&cluster));
    let mut connection = tenant.connect().await?;
    connection.json(Method::POST, &format!("{}/projects", objects::OURS), &body).await?;
    let path = objects::namespaces_path(&project);
    let list = connection.json(Method::GET, &format!("{path}?limit=1"), &Value::Null).await?;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();

    let count = usize::try_from(rate * target.seconds)?;
    let sent: SentTimes = Arc::default();
    let mut readers = JoinSet::new();
    for _ in 0..watchers {
        let stream = Stream::open(&tenant, &format!("{path}?watch=1&resourceVersion={revision}")).await?;
        readers.spawn(read(stream, Arc::clone(&sent), count));
    }
    progress(&format!("{watchers} watchers, {rate} writes/s for {} s", target.seconds));
    write(&tenant, &project, &cluster, &sent, count, rate).await?;

    let mut latencies = Vec::new();
    let begin = Instant::now();
    while let Some(done) = readers.join_next().await {
        latencies.extend(done??);
    }
    let sample = Sample::new(latencies, Duration::from_secs(target.seconds) + begin.elapsed());
    let mut table = Table::default();
    let measure = format!("POST to the event at each of {watchers} watchers, {rate} writes/s");
    table.row(&measure, sample.text(), "–".to_owned(), None, "p99 ≤ 10 ms, none lost or out of order");
    table.print();
    Ok(())
}

async fn read(mut stream: Stream, sent: SentTimes, count: usize) -> Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(count);
    let mut last = 0;
    while latencies.len() < count {
        let event = tokio::time::timeout(Duration::from_mins(1), stream.next())
            .await
            .context("an event is missing")??;
        let arrived = Instant::now();
        if event["type"] != "ADDED" {
            continue;
        }
        let meta = &event["object"]["metadata"];
        let revision: u64 = meta["resourceVersion"].as_str().unwrap_or_default().parse()?;
        ensure!(revision > last, "out of order: {revision} after {last}");
        last = revision;
        let name = meta["name"].as_str().unwrap_or_default();
        let begun = sent.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        let begun = begun.with_context(|| format!("an event for {name} that nobody wrote"))?;
        latencies.push(u64::try_from((arrived - begun).as_micros())?);
    }
    Ok(latencies)
}

async fn write(
    tenant: &Endpoint,
    project: &str,
    cluster: &str,
    sent: &SentTimes,
    count: usize,
    rate: u64,
) -> Result<()> {
    const WRITERS: usize = 16;
    let path = objects::namespaces_path(project);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (endpoint, path, sent) = (tenant.clone(), path.clone(), Arc::clone(sent));
        let (project, cluster) = (project.to_owned(), cluster.to_owned());
        writers.spawn(async move {
            let mut connection = endpoint.connect().await?;
            let period =
                Duration::from_secs_f64(f64::from(u32::try_from(WRITERS)?) / f64::from(u32::try_from(rate)?));
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for number in (writer..count).step_by(WRITERS) {
                ticks.tick().await;
                let object = objects::namespace(
                    "business.tkestack.io/v1",
                    "Namespace",
                    &project,
                    &cluster,
                    &format!("w{number}"),
                );
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                sent.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Instant::now());
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
