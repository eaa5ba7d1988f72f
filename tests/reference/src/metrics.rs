use crate::table::{Table, code};
use anyhow::{Context, Result, bail};
use business_api::config::{Cli, Command, Serve};
use business_api::serve::{Listeners, Program, serve_with_metrics};
use business_controller::issuer::{serve, worker};
use business_controller::metrics::ControllerMetrics;
use business_controller::tunnel;
use clap::Parser as _;
use runtime::admin::{self, Admin};
use runtime::{Health, MetricDescription, Metrics, Tasks};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;

const INTRODUCTION: &str = "# Metrics

What `/metrics` on the admin port shows, in the text form of OpenMetrics. A metric with labels appears when something has been counted.
Names that begin with `apiserver_` are those of `k8s.io/apiserver`, labels included. [What is seen](../operations.md#what-is-seen) says
which to look at first, and [the alerts](../runbooks/README.md) which are watched.
";
/// Nobody answers there.
const NOWHERE: &str = "127.0.0.1:1";
const DEADLINE: Duration = Duration::from_mins(1);

/// The page of both programs.
pub(crate) async fn page() -> Result<String> {
    let mut text = INTRODUCTION.to_owned();
    for (name, metrics) in
        [("business-api", of_api().await?), ("business-controller", of_controller().await?)]
    {
        let mut table = Table::new(&["metric", "type", "tells"]);
        for MetricDescription { name, kind, help } in all(&metrics) {
            table.row([code(&name), kind, help]);
        }
        text.extend([format!("\n## {name}\n\n{}", table.as_str())]);
    }
    Ok(text)
}

/// Serves without Kubernetes, database or collector until everything is set up, which is when it ends: it was told to before.
async fn of_api() -> Result<Metrics> {
    let directory = Directory::new()?;
    let settings = settings(&directory.0)?;
    let (metrics, tasks) = (Metrics::of_process(), Tasks::new());
    tasks.cancel();
    let listeners = Listeners::bind(&settings).await?;
    let served = serve_with_metrics(&settings, listeners, Program::default(), metrics.clone(), tasks);
    tokio::time::timeout(DEADLINE, served).await.context("business-api does not end")??;
    Ok(metrics)
}

fn settings(directory: &Path) -> Result<Box<Serve>> {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
    std::fs::write(&certificate, pair.cert.pem())?;
    std::fs::write(&key, pair.signing_key.serialize_pem())?;
    let line = [
        "business-api".to_owned(),
        "serve".to_owned(),
        "--no-kubernetes".to_owned(),
        "--bind=127.0.0.1:0".to_owned(),
        "--admin-bind=127.0.0.1:0".to_owned(),
        format!("--database-url=postgres://nobody@{NOWHERE}/nothing"),
        format!("--otlp-endpoint=http://{NOWHERE}"),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
    ];
    match Cli::try_parse_from(line)?.command {
        Command::Serve(settings) => Ok(settings),
        other => bail!("{other:?} is not serve"),
    }
}

/// Its admin port adds the health checks.
async fn of_controller() -> Result<Metrics> {
    let (metrics, tasks) = (Metrics::of_process(), Tasks::new());
    let _of_certificates =
        (worker::register(&metrics), serve::register(&metrics), tunnel::register(&metrics));
    let _of_work = ControllerMetrics::register(&metrics);
    let ready = Health::new();
    ready.add("kubernetes", || Ok(()));
    let (live, individual) = (Health::new(), Health::new());
    let admin = Admin { live, ready, individual, metrics: metrics.clone() };
    tasks.cancel();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    admin::serve(listener, admin, tasks).await;
    Ok(metrics)
}

/// What was registered, and what describes itself when it is printed.
fn all(metrics: &Metrics) -> Vec<MetricDescription> {
    let mut found: BTreeMap<String, MetricDescription> =
        printed(&metrics.encode()).into_iter().map(|one| (one.name.clone(), one)).collect();
    found.extend(metrics.descriptions().into_iter().map(|one| (one.name.clone(), one)));
    found.into_values().collect()
}

fn printed(text: &str) -> Vec<MetricDescription> {
    let told = |word: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(word)?.split_once(' '));
        lines.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
    };
    let mut helps = told("# HELP ");
    let described = told("# TYPE ").into_iter().map(|(name, kind)| {
        let help = helps.remove(&name).unwrap_or_default();
        let name = if kind == "counter" { format!("{name}_total") } else { name };
        MetricDescription { name, kind, help: help.trim_end_matches('.').to_owned() }
    });
    described.collect()
}

/// A directory that goes with this.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("business-reference-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_alerts_ask_for_is_described() {
        let (api, controller) = (all(&of_api().await.unwrap()), all(&of_controller().await.unwrap()));
        let has = |all: &[MetricDescription], name: &str| all.iter().any(|one| one.name == name);
        for name in [
            "apiserver_request_total",
            "store_cache_lag_revisions",
            "business_growth_held",
            "business_issuer_client_certificate_expiration_timestamp_seconds",
        ] {
            assert!(has(&api, name), "{name}");
        }
        for name in [
            "business_controller_members",
            "business_controller_seen_bytes",
            "business_controller_issuer_certificate_expiration_timestamp_seconds",
            "kubernetes_healthcheck",
            "process_cpu_seconds_total",
        ] {
            assert!(has(&controller, name), "{name}");
        }
    }
}
