//! Creates, grows, shrinks and deletes namespaces in every cluster, all the time.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use instance::job::{namespace, project};
use instance::wait;
use kit::{Connection, Endpoint};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const PROJECTS: &str = "/apis/business.tkestack.io/v1/projects";
/// The namespaces of a cluster are spread over so many projects.
const PROJECT_COUNT: usize = 4;
/// What a project may have of each cluster.
const PLENTY: &str = "1000000";
const WORKERS: usize = 4;
/// So many pass over the first namespaces.
const MAKERS: usize = 8;
/// A worker has no more of those that come and go.
const EXTRAS_MAX: usize = 200;

/// What there is to be changed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clusters: Arc<[String]>,
    /// In each cluster, all the while.
    pub(crate) namespaces: usize,
}

/// What callers were told.
#[derive(Debug, Default)]
pub(crate) struct ChangeCounts {
    pub(crate) done: AtomicUsize,
    /// 404 and 409: another was faster.
    pub(crate) passed_by: AtomicUsize,
    pub(crate) other: AtomicUsize,
}

fn project_name(number: usize) -> String {
    format!("fleet-{}", number % PROJECT_COUNT)
}

fn namespaces_path(number: usize) -> String {
    format!("/apis/business.tkestack.io/v1/namespaces/{}/namespaces", project_name(number))
}

impl Plan {
    /// Projects with plenty in every cluster.
    pub(crate) async fn make_projects(&self, endpoint: &Endpoint) -> Result<()> {
        let plenty = &[("pods", PLENTY)][..];
        let clusters: Vec<_> = self.clusters.iter().map(|name| (name.as_str(), plenty)).collect();
        let mut connection = endpoint.connect().await?;
        for number in 0..PROJECT_COUNT {
            let body = project(&project_name(number), None, &clusters);
            connection.json(Method::POST, PROJECTS, &body).await?;
        }
        Ok(())
    }

    /// The namespaces that are there all the while.
    pub(crate) async fn make_namespaces(&self, endpoint: &Endpoint) -> Result<()> {
        let mut makers = JoinSet::new();
        for maker in 0..MAKERS {
            let (plan, endpoint) = (self.clone(), endpoint.clone());
            makers.spawn(async move {
                let mut connection = endpoint.connect().await?;
                for number in (0..plan.namespaces).skip(maker).step_by(MAKERS) {
                    ensure!(!wait::interrupted(), "interrupted");
                    for cluster in plan.clusters.iter() {
                        let body = namespace(&project_name(number), cluster, &base(number), &[("pods", "5")]);
                        connection.json(Method::POST, &namespaces_path(number), &body).await?;
                    }
                }
                anyhow::Ok(())
            });
        }
        while let Some(made) = makers.join_next().await {
            made??;
        }
        Ok(())
    }
}

fn base(number: usize) -> String {
    format!("base-{number}")
}

/// Changes that go on until they are told to stop.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) counts: Arc<ChangeCounts>,
    stop: Arc<AtomicBool>,
    workers: JoinSet<Result<()>>,
}

impl Load {
    /// So many changes a second, in one cluster after the other.
    pub(crate) fn begin(plan: &Plan, endpoints: &[Endpoint], a_second: u32, seed: u64) -> Self {
        let mut load = Self { counts: Arc::default(), stop: Arc::default(), workers: JoinSet::new() };
        let turn = Arc::new(AtomicUsize::new(0));
        let pace = Duration::from_secs(1) * u32::try_from(WORKERS).unwrap_or(1) / a_second.max(1);
        for (number, endpoint) in (0..WORKERS).zip(endpoints.iter().cycle()) {
            let worker = Worker {
                plan: plan.clone(),
                endpoint: endpoint.clone(),
                connection: None,
                turn: Arc::clone(&turn),
                counts: Arc::clone(&load.counts),
                random: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64)),
                number,
                made: 0,
                extras: VecDeque::new(),
            };
            load.workers.spawn(worker.run(pace, Arc::clone(&load.stop)));
        }
        load
    }

    /// Whether anybody has given up is told; who goes on goes on.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.workers.try_join_next() {
            Some(ended) => ended?.context("a caller has given up"),
            None => Ok(()),
        }
    }

    /// Everybody finishes what he is at.
    pub(crate) async fn end(mut self) -> Result<Arc<ChangeCounts>> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.workers.join_next().await {
            ended??;
        }
        Ok(self.counts)
    }
}

struct Worker {
    plan: Plan,
    endpoint: Endpoint,
    connection: Option<Connection>,
    /// Whose cluster is next.
    turn: Arc<AtomicUsize>,
    counts: Arc<ChangeCounts>,
    random: StdRng,
    number: usize,
    made: usize,
    /// Cluster and name of those that it has made, the oldest first.
    extras: VecDeque<(String, String)>,
}

impl Worker {
    async fn run(mut self, pace: Duration, stop: Arc<AtomicBool>) -> Result<()> {
        let mut ticks = tokio::time::interval(pace);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.load(Ordering::Relaxed) {
            ticks.tick().await;
            self.step().await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let clusters = &self.plan.clusters;
        let cluster = clusters.get(turn % clusters.len()).context("no cluster")?.clone();
        let roll = self.random.random_range(0..100);
        let pods = self.random.random_range(1..50).to_string();
        let (method, path, body) = match roll {
            55..75 if self.extras.len() < EXTRAS_MAX => {
                let name = format!("extra-{}-{}", self.number, self.made);
                self.made += 1;
                self.extras.push_back((cluster.clone(), name.clone()));
                let body = namespace(&project_name(self.number), &cluster, &name, &[("pods", &pods)]);
                (Method::POST, namespaces_path(self.number), body)
            }
            75.. if !self.extras.is_empty() => {
                let (cluster, name) = self.extras.pop_front().context("none is left")?;
                (Method::DELETE, format!("{}/{cluster}-{name}", namespaces_path(self.number)), Value::Null)
            }
            _ => {
                let number = self.random.random_range(0..self.plan.namespaces);
                let path = format!("{}/{cluster}-{}", namespaces_path(number), base(number));
                (Method::PATCH, path, json!({"spec": {"hard": {"pods": pods}}}))
            }
        };
        let counted = match self.ask(method, &path, &body).await? {
            200..300 => &self.counts.done,
            404 | 409 => &self.counts.passed_by,
            _ => &self.counts.other,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn ask(&mut self, method: Method, path: &str, body: &Value) -> Result<u16> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.endpoint.connect().await?,
        };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let (status, answer) = connection.call(method, path, body).await?;
        self.connection = Some(connection);
        let text = || String::from_utf8_lossy(&answer).into_owned();
        ensure!(!matches!(status.as_u16(), 400 | 401 | 403 | 422), "{path}: {status}: {}", text());
        Ok(status.as_u16())
    }
}
