//! Creates and reads over HTTPS: directly, through kube-apiserver, and the rivals, in turn.

use crate::load::{AsyncStep, Sample, closed_loop, median};
use crate::table::{Table, progress};
use crate::{Target, objects, rival};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use kit::{Connection, Endpoint};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Objects of one project; it may have 10,000.
const PROJECT_OBJECTS: u64 = 8_000;
/// Projects that are made ready for a run.
const PROJECTS: u64 = 40;

/// Creates an object under a new name with every step.
#[derive(Clone)]
struct Create {
    /// The collection and the object of a number.
    make: Arc<dyn Fn(u64) -> (String, Value) + Send + Sync>,
    made: Arc<AtomicU64>,
}

impl Create {
    fn new(make: impl Fn(u64) -> (String, Value) + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), made: Arc::default() }
    }

    fn next(&self) -> (String, Value) {
        (self.make)(self.made.fetch_add(1, Ordering::Relaxed))
    }
}

impl AsyncStep<Connection> for Create {
    async fn step(&self, connection: &mut Connection, _client: usize, _number: usize) -> Result<()> {
        let (path, object) = self.next();
        let (status, answer) = connection.call(Method::POST, &path, Bytes::from(object.to_string())).await?;
        ensure!(
            status == http::StatusCode::CREATED,
            "create: {status}: {}",
            String::from_utf8_lossy(&answer)
        );
        Ok(())
    }
}

/// Reads one object again and again.
#[derive(Clone)]
struct Get(String);

impl AsyncStep<Connection> for Get {
    async fn step(&self, connection: &mut Connection, _client: usize, _number: usize) -> Result<()> {
        let (status, answer) = connection.call(Method::GET, &self.0, Bytes::new()).await?;
        ensure!(status.is_success(), "get: {status}: {}", String::from_utf8_lossy(&answer));
        Ok(())
    }
}

/// One of the servers under test.
struct Contender {
    name: &'static str,
    endpoint: Endpoint,
    create: Create,
    samples: Vec<Sample>,
    reads: Vec<Sample>,
}

/// Measures and prints.
pub(crate) async fn run(target: &Target, connections: usize) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    progress("installing the rivals");
    rival::install_crd(&kube).await?;
    rival::install_empty_backend(&kube).await?;
    let cluster = crate::job::first_member(&target.members)?;
    let _paused = Paused::new(&["business-controller", "kube-controller-manager"])?;
    let run = objects::fresh("bench");
    for number in 0..PROJECTS {
        let body = objects::project(&format!("{run}-{number}"), std::slice::from_ref(&cluster));
        tenant.connect().await?.json(Method::POST, &format!("{}/projects", objects::OURS), &body).await?;
    }
    let ours = {
        let run = run.clone();
        Create::new(move |number| {
            let project = format!("{run}-{}", number / PROJECT_OBJECTS);
            let name = format!("{run}-{number}");
            let object =
                objects::namespace("business.tkestack.io/v1", "Namespace", &project, &cluster, &name);
            (objects::namespaces_path(&project), object)
        })
    };
    let made = |path: String, api_version: String, kind: &'static str| {
        let run = run.clone();
        Create::new(move |number| {
            let name = format!("{run}-{number}");
            (path.clone(), objects::namespace(&api_version, kind, "rival", "c", &name))
        })
    };
    let crd = made(rival::crd_path(), format!("{}/v1", rival::CRD), "Rival");
    let empty = made(rival::empty_path(), format!("{}/v1", rival::EMPTY), "Thing");
    let mut contenders = [
        contender("direct", &tenant, ours.clone()),
        contender("through kube-apiserver", &kube, ours),
        contender("custom resource", &kube, crd),
        contender("empty backend through the aggregator", &kube, empty),
    ];
    for round in 1..=target.rounds {
        for contender in &mut contenders {
            progress(&format!("round {round}: {}", contender.name));
            measure(contender, connections, Duration::from_secs(target.seconds)).await?;
        }
    }
    print(contenders, connections);
    Ok(())
}

fn contender(name: &'static str, endpoint: &Endpoint, create: Create) -> Contender {
    Contender { name, endpoint: endpoint.clone(), create, samples: Vec::new(), reads: Vec::new() }
}

async fn measure(contender: &mut Contender, connections: usize, duration: Duration) -> Result<()> {
    let endpoint = contender.endpoint.clone();
    let start = |_| {
        let endpoint = endpoint.clone();
        async move { endpoint.connect().await }
    };
    contender.samples.push(closed_loop(connections, duration, start, contender.create.clone()).await?);
    let (path, object) = contender.create.next();
    endpoint.connect().await?.json(Method::POST, &path, &object).await?;
    let get = Get(format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default()));
    contender.reads.push(closed_loop(connections, duration / 2, start, get).await?);
    Ok(())
}

fn print(contenders: [Contender; 4], connections: usize) {
    let [direct, through, crd, empty] = contenders.map(|c| (median(c.samples), median(c.reads)));
    let mut table = Table::default();
    let ratio = |a: &Sample, b: &Sample| Some(a.rate / b.rate.max(1e-9));
    let label = |what: &str| format!("{what}, {connections} connections");
    table.row(
        &label("create, direct / custom resource"),
        direct.0.text(),
        crd.0.text(),
        ratio(&direct.0, &crd.0),
        "≥ 8 ×, p99 ≤ 25 ms",
    );
    table.row(
        &label("create, through / aggregator's ceiling"),
        through.0.text(),
        empty.0.text(),
        ratio(&through.0, &empty.0),
        "≥ 0.85 ×",
    );
    table.row(
        &label("create, through / custom resource"),
        through.0.text(),
        crd.0.text(),
        ratio(&through.0, &crd.0),
        "≥ 2.2 ×",
    );
    table.row(
        &label("GET by name, direct / custom resource"),
        direct.1.text(),
        crd.1.text(),
        ratio(&direct.1, &crd.1),
        "≥ 4 ×",
    );
    table.print();
}

/// Programs that stand still while others are measured.
struct Paused(Vec<String>);

impl Paused {
    fn new(programs: &[&str]) -> Result<Self> {
        let mut pids = Vec::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let program =
                command.split('\0').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            if programs.contains(&program) {
                pids.extend(entry.file_name().into_string());
            }
        }
        signal("-STOP", &pids);
        Ok(Self(pids))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(signal: &str, pids: &[String]) {
    if !pids.is_empty() {
        drop(std::process::Command::new("kill").arg(signal).args(pids).status());
    }
}
