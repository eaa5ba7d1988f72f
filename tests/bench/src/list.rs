//! Whole lists, a selector that matches few, and one tenant of many.

use crate::load::Sample;
use crate::table::{Table, progress};
use crate::{Target, objects, process, rival};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use kit::{Connection, Endpoint};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// Clients that fill a collection.
const CLIENTS: usize = 64;

/// A collection and what it is filled with.
struct Fill {
    /// What is listed; the objects are made here, too, unless they are spread over projects.
    path: String,
    spread: bool,
    api_version: String,
    kind: &'static str,
    project: String,
    cluster: String,
    total: usize,
}

impl Fill {
    async fn make(&self, connection: &mut Connection, index: usize) -> Result<()> {
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

    fn project_of(&self, index: usize) -> String {
        format!("{}-{}", self.project, index / objects::PER_PROJECT)
    }
}

/// Measures and prints.
pub(crate) async fn run(target: &Target, total: usize) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    rival::install_crd(&kube).await?;
    let cluster = crate::job::first_member(&target.members)?;
    let _paused = process::Paused::controllers()?;
    let ours = Fill {
        path: format!("{}/namespaces", objects::OURS),
        spread: true,
        api_version: "business.tkestack.io/v1".to_owned(),
        kind: "Namespace",
        project: "bench-list".to_owned(),
        cluster: cluster.clone(),
        total,
    };
    for index in (0..total).step_by(objects::PER_PROJECT) {
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
        total,
    };
    let (our_path, their_path) = (ours.path.clone(), theirs.path.clone());
    fill(&tenant, ours).await?;
    fill(&kube, theirs).await?;

    let mut table = Table::default();
    let (mine, bytes) = timed(&tenant, &our_path, target.rounds).await?;
    let (crd, _) = timed(&kube, &their_path, target.rounds).await?;
    let measure = format!("list of {total} × 1.5 kB ({} MB), whole, JSON", bytes / 1_000_000);
    table.row(
        &measure,
        text(&mine),
        text(&crd),
        Some(crd.quantile_ms(0.5) / mine.quantile_ms(0.5)),
        "≤ 0.5 s at 100,000",
    );
    let selected = "?labelSelector=rare%3Dyes";
    let (mine, _) = timed(&tenant, &format!("{our_path}{selected}"), 20).await?;
    let (crd, _) = timed(&kube, &format!("{their_path}{selected}"), target.rounds).await?;
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

/// Makes what is not there yet.
async fn fill(endpoint: &Endpoint, fill: Fill) -> Result<()> {
    progress(&format!("filling {}", fill.path));
    let (fill, next) = (Arc::new(fill), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut connection = endpoint.connect().await?;
        let (fill, next) = (Arc::clone(&fill), Arc::clone(&next));
        clients.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= fill.total {
                    return anyhow::Ok(());
                }
                if index > 0 && index.is_multiple_of(10_000) {
                    progress(&format!("{index} of {}", fill.total));
                }
                fill.make(&mut connection, index).await?;
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(())
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
