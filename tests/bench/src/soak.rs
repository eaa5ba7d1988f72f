//! A fleet's day in one run: reads, watches, applies that change nothing, creates and deletes at a steady rate, while a
//! member cluster comes and goes. What is looked at is whether anything grows, and how long requests take; a custom
//! resource on the same kube-apiserver takes a share of the same requests, so that runs of two machines can be compared.

/// What the requests are, and who sends them.
mod traffic;
/// Watches that stay open.
mod watchers;
/// What the programs take.
mod upkeep;
/// What a run leaves, and how two runs compare.
mod report;

use crate::table::progress;
use crate::{Servers, objects, process, rival};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use kit::Endpoint;
use report::Report;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use traffic::{LoadTarget, TargetEndpoints, Traffic};

/// Between two looks at what programs take.
const LOOK: Duration = Duration::from_secs(5);
/// A member is silent for so long …
const SILENCE: Duration = Duration::from_secs(20);
/// … once in so long.
const FLAP: Duration = Duration::from_mins(2);
/// Of all clients, one in so many sends to the custom resource.
const RIVAL_SHARE: usize = 5;

/// How a run is made.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Soak {
    #[command(flatten)]
    settings: Settings,
    /// Writes what was measured to this file, for later runs to be compared with.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Runs as this file says, and compares with it. Exits with 1 if something became worse by half, for its rival's worth.
    #[arg(long)]
    against: Option<PathBuf>,
}

/// What makes two runs comparable.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// How long it runs.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Requests a second.
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// Connections that send them.
    #[arg(long, default_value_t = 40)]
    clients: usize,
    /// Namespaces that are there all the time.
    #[arg(long, default_value_t = 1000)]
    namespaces: usize,
    /// Projects that they are in.
    #[arg(long, default_value_t = 20)]
    projects: usize,
    /// Open watches, each of a project's namespaces.
    #[arg(long, default_value_t = 200)]
    watches: usize,
}

impl Soak {
    /// Runs, prints, and compares. The error: something grows, or is worse than before.
    pub(crate) async fn run(self, target: &Servers) -> Result<()> {
        let before = self.against.as_deref().map(Report::read).transpose()?;
        let settings = before.as_ref().map_or(&self.settings, |report| &report.settings).clone();
        let report = soak(target, settings).await?;
        report.print();
        if let Some(file) = &self.save {
            report.write(file)?;
        }
        let worse = before.map(|before| report.compare(&before)).unwrap_or_default();
        let wrong: Vec<String> = worse.into_iter().chain(report.grown()).collect();
        ensure!(wrong.is_empty(), "{}", wrong.join(", "));
        Ok(())
    }
}

async fn soak(target: &Servers, settings: Settings) -> Result<Report> {
    let operator = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let tenant = Endpoint::from_kubeconfig(&target.tenant_kubeconfig)?;
    let member = crate::job::other_member(&target.members)?;
    progress("installing the rival");
    rival::install_crd(&operator).await?;
    let run = objects::fresh("soak");
    let ours = LoadTarget::ours(&run, &member, &settings);
    let rival = LoadTarget::rival(&run, &operator, &settings).await?;
    for number in 0..settings.projects {
        let body = objects::project(&format!("{run}-{number}"), std::slice::from_ref(&member));
        tenant.connect().await?.json(Method::POST, &format!("{}/projects", objects::OURS), &body).await?;
    }
    progress(&format!("making {} namespaces", settings.namespaces));
    let parties = [
        TargetEndpoints { party: Arc::new(ours), endpoints: vec![tenant.clone(), operator.clone()] },
        TargetEndpoints { party: Arc::new(rival), endpoints: vec![operator.clone()] },
    ];
    for share in &parties {
        share.fill(settings.namespaces).await?;
    }
    progress(&format!("{} requests/s for {} minutes", settings.rate, settings.minutes));
    let end = Instant::now() + Duration::from_mins(settings.minutes);
    let mut running = JoinSet::new();
    running.spawn(flap(target.members.join(format!("{member}.kubeconfig")), end));
    let watching = watchers::WatchCounters::default();
    for number in 0..settings.watches {
        let path = objects::namespaces_path(&format!("{run}-{}", number % settings.projects.max(1)));
        running.spawn(watchers::watch(tenant.clone(), path, number, end, watching.clone()));
    }
    let traffic = Traffic::default();
    for client in 0..settings.clients {
        let [ours, rival] = &parties;
        let share = if client.is_multiple_of(RIVAL_SHARE) { rival } else { ours };
        running.spawn(traffic::send(share.clone(), traffic.clone(), settings.clone(), client, end));
    }
    let mut upkeep = upkeep::ResourceUsage::default();
    let begin = Instant::now();
    let mut told = begin;
    while Instant::now() < end {
        tokio::time::sleep(LOOK.min(end.saturating_duration_since(Instant::now()))).await;
        upkeep.look(&["business-api", "business-controller"]).await?;
        if told.elapsed() > Duration::from_mins(1) {
            told = Instant::now();
            let (minutes, answers) = (begin.elapsed().as_secs() / 60, traffic.told());
            progress(&format!("{minutes} min: {answers}; {}", upkeep.told()));
        }
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    clean(&tenant, &run, settings.projects).await?;
    Ok(Report::new(settings, &traffic, &watching, &upkeep))
}

/// The member does not answer for a while, again and again.
async fn flap(kubeconfig: PathBuf, end: Instant) -> Result<()> {
    let text = tokio::fs::read_to_string(&kubeconfig).await?;
    let port = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("server:")?.rsplit_once(':'))
        .map(|(_, port)| port.trim_matches(|sign: char| !sign.is_ascii_digit()).to_owned())
        .context("the member's kubeconfig names no port")?;
    let mut silent = false;
    loop {
        let length = if silent { SILENCE } else { FLAP.saturating_sub(SILENCE) };
        let left = end.saturating_duration_since(Instant::now());
        tokio::time::sleep(length.min(left)).await;
        if left <= length {
            break;
        }
        silent = !silent;
        process::signal_server(if silent { "-STOP" } else { "-CONT" }, &port)?;
    }
    process::signal_server("-CONT", &port)
}

async fn clean(tenant: &Endpoint, run: &str, projects: usize) -> Result<()> {
    for number in 0..projects {
        let path = format!("{}/projects/{run}-{number}", objects::OURS);
        tenant.connect().await?.call(Method::DELETE, &path, Bytes::new()).await?;
    }
    Ok(())
}
