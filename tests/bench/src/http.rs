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

/// Creates an object under a new name with every step.
#[derive(Clone)]
struct Create {
    path: String,
    make: Arc<dyn Fn(&str) -> Value + Send + Sync>,
    run: String,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl AsyncStep<Connection> for Create {
    async fn step(&self, connection: &mut Connection, _client: usize, _number: usize) -> Result<()> {
        let name = format!("{}-{}", self.run, NEXT.fetch_add(1, Ordering::Relaxed));
        let body = Bytes::from((self.make)(&name).to_string());
        let (status, answer) = connection.call(Method::POST, &self.path, body).await?;
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
    let project = objects::fresh("bench");
    let body = objects::project(&project, std::slice::from_ref(&cluster));
    tenant.connect().await?.json(Method::POST, &format!("{}/projects", objects::OURS), &body).await?;

    let run = objects::fresh("n");
    let ours = {
        let (project, cluster) = (project.clone(), cluster.clone());
        let api_version = "business.tkestack.io/v1";
        Create {
            path: objects::namespaces_path(&project),
            make: Arc::new(move |name| {
                objects::namespace(api_version, "Namespace", &project, &cluster, name)
            }),
            run: run.clone(),
        }
    };
    let made = |path: String, api_version: String, kind: &'static str| Create {
        path,
        make: Arc::new(move |name| objects::namespace(&api_version, kind, "rival", "c", name)),
        run: run.clone(),
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
    let name = format!("{}-get-{}", contender.create.run, NEXT.fetch_add(1, Ordering::Relaxed));
    let object = (contender.create.make)(&name);
    endpoint.connect().await?.json(Method::POST, &contender.create.path, &object).await?;
    let stored = object["metadata"]["name"].as_str().unwrap_or_default();
    let get = Get(format!("{}/{stored}", contender.create.path));
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
