//! Whole lists, a selector that matches few, and one tenant of many.

use crate::load::Sample;
use crate::objects::ObjectFactory;
use crate::table::{Table, progress};
use crate::{Servers, objects, process, rival};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use kit::Endpoint;
use serde_json::Value;
use std::time::Instant;
use tokio::task::JoinSet;

/// Clients that fill a collection.
const CLIENTS: usize = 64;

/// Objects that the selector matches.
const RARE: usize = 10;

/// Measures and prints.
pub(crate) async fn run(target: &Servers, total: usize) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    rival::install_crd(&kube).await?;
    let cluster = crate::job::first_member(&target.members)?;
    let _paused = process::PausedProcesses::controllers()?;
    let project_of = |number: usize| format!("bench-list-{}", number / objects::PER_PROJECT);
    for number in (0..total).step_by(objects::PER_PROJECT) {
        let body = objects::project(&project_of(number), std::slice::from_ref(&cluster));
        tenant.connect().await?.ensure(&format!("{}/projects", objects::OURS), &body).await?;
    }
    let ours = ObjectFactory::new(move |number| {
        let project = project_of(number);
        let api_version = "business.tkestack.io/v1";
        (objects::namespaces_path(&project), listed(api_version, "Namespace", &project, &cluster, number))
    });
    let api_version = format!("{}/v1", rival::CRD);
    let theirs = ObjectFactory::new(move |number| {
        (rival::crd_path(), listed(&api_version, "Rival", "rival", "c", number))
    });
    let (our_path, their_path) = (format!("{}/namespaces", objects::OURS), rival::crd_path());
    progress(&format!("filling {our_path}"));
    fill(&tenant, &ours, total).await?;
    progress(&format!("filling {their_path}"));
    fill(&kube, &theirs, total).await?;

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
    let measure = format!("list with a selector that matches {RARE} of {total}");
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

fn listed(api_version: &str, kind: &str, project: &str, cluster: &str, number: usize) -> Value {
    let mut object = objects::namespace(api_version, kind, project, cluster, &format!("l{number}"));
    if number < RARE {
        object["metadata"]["labels"]["rare"] = Value::from("yes");
    }
    object
}

/// Makes what is not there yet.
async fn fill(endpoint: &Endpoint, maker: &ObjectFactory, total: usize) -> Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut connection = endpoint.connect().await?;
        let maker = maker.clone();
        clients.spawn(async move {
            loop {
                let (number, path, object) = maker.numbered();
                if number >= total {
                    return anyhow::Ok(());
                }
                if number > 0 && number.is_multiple_of(10_000) {
                    progress(&format!("{number} of {total}"));
                }
                connection.ensure(&path, &object).await?;
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
