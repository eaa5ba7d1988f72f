//! Whole lists, a selector that matches few, and one tenant of many.

use crate::load::{AsyncStep, Sample, closed_loop};
use crate::table::{Table, progress};
use crate::{Target, objects, process, rival};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use kit::{Connection, Endpoint};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Objects of one project; it may have 10,000.
const PROJECT_OBJECTS: usize = 8_000;

/// Fills a collection, sharing the numbers among the clients.
#[derive(Clone)]
struct Fill {
    /// What is listed; the objects are made here, too, unless they are spread over projects.
    path: String,
    spread: bool,
    api_version: String,
    kind: &'static str,
    project: String,
    cluster: String,
    clients: usize,
    total: usize,
}

impl AsyncStep<Connection> for Fill {
    async fn step(&self, connection: &mut Connection, client: usize, number: usize) -> Result<()> {
        let index = number * self.clients + client;
        if index >= self.total {
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Ok(());
        }
        let (project, path) = if self.spread {
            let project = self.project_of(index);
            let path = objects::namespaces_path(&project);
            (project, path)
        } else {
            (self.project.clone(), self.path.clone())
        };
        let mut object =
            objects::namespace(&self.api_version, self.kind, &project, &self.cluster, &format!("l{index}"));
        if index < 10 {
            object["metadata"]["labels"]["rare"] = Value::from("yes");
        }
        connection.ensure(&path, &object).await
    }
}

impl Fill {
    fn project_of(&self, index: usize) -> String {
        format!("{}-{}", self.project, index / PROJECT_OBJECTS)
    }
}

/// Measures and prints.
pub(crate) async fn run(target: &Target, total: usize) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    rival::install_crd(&kube).await?;
    let cluster = crate::job::first_member(&target.members)?;
    let _paused = process::Paused::new(&["business-controller", "kube-controller-manager"])?;
    let ours = Fill {
        path: format!("{}/namespaces", objects::OURS),
        spread: true,
        api_version: "business.tkestack.io/v1".to_owned(),
        kind: "Namespace",
        project: "bench-list".to_owned(),
        cluster: cluster.clone(),
        clients: 64,
        total,
    };
    for index in (0..total).step_by(PROJECT_OBJECTS) {
        let body = objects::project(&ours.project_of(index), std::slice::from_ref(&cluster));
        tenant.connect().await?.ensure(&format!("{}/projects", objects::OURS), &body).await?;
    }
    let theirs = Fill {
        path: rival::crd_path(),
        spread: false,
        api_version: format!("{}/v1", rival::CRD),
        kind: "Rival",
        project: "rival".to_owned(),
        cluster: "c".to_owned(),
        ..ours.clone()
    };
    fill(&tenant, &ours).await?;
    fill(&kube, &theirs).await?;

    let mut table = Table::default();
    let (mine, bytes) = timed(&tenant, &ours.path, target.rounds).await?;
    let (crd, _) = timed(&kube, &theirs.path, target.rounds).await?;
    let measure = format!("list of {total} × 1.5 kB ({} MB), whole, JSON", bytes / 1_000_000);
    table.row(
        &measure,
        text(&mine),
        text(&crd),
        Some(crd.quantile_ms(0.5) / mine.quantile_ms(0.5)),
        "≤ 0.5 s at 100,000",
    );
    let selected = "?labelSelector=rare%3Dyes";
    let (mine, _) = timed(&tenant, &format!("{}{selected}", ours.path), 20).await?;
    let (crd, _) = timed(&kube, &format!("{}{selected}", theirs.path), target.rounds).await?;
    let measure = format!("list with a selector that matches 10 of {total}");
    table.row(
        &measure,
        text(&mine),
        text(&crd),
        Some(crd.quantile_ms(0.5) / mine.quantile_ms(0.5)),
        "≤ 10 ms",
    );
    table.print();
    Ok(())
}

fn text(sample: &Sample) -> String {
    format!("{:.1} ms", sample.quantile_ms(0.5))
}

async fn fill(endpoint: &Endpoint, fill: &Fill) -> Result<()> {
    progress(&format!("filling {}", fill.path));
    loop {
        let start = |_| {
            let endpoint = endpoint.clone();
            async move { endpoint.connect().await }
        };
        // A tenant is not told how many are left behind a page.
        let list = endpoint.connect().await?.json(Method::GET, &fill.path, &Value::Null).await?;
        if list["items"].as_array().is_some_and(|items| items.len() >= fill.total) {
            return Ok(());
        }
        closed_loop(fill.clients, Duration::from_secs(20), start, fill.clone()).await?;
    }
}

/// Lists `rounds` times; the bytes are those of the last answer.
async fn timed(endpoint: &Endpoint, path: &str, rounds: usize) -> Result<(Sample, usize)> {
    let mut connection = endpoint.connect().await?;
    let mut latencies = Vec::new();
    let mut bytes = 0;
    let begin = Instant::now();
    for _ in 0..rounds.max(1) {
        let sent = Instant::now();
        let response = connection.open(Method::GET, path, Bytes::new()).await?;
        ensure!(response.status().is_success(), "list {path}: {}", response.status());
        let mut body = response.into_body();
        bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        latencies.push(u64::try_from(sent.elapsed().as_micros())?);
    }
    Ok((Sample::new(latencies, begin.elapsed()), bytes))
}
