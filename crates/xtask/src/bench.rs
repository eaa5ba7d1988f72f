//! `cargo xtask bench`: the measurements beside their rivals. Those of the whole server get an instance of its own,
//! built for release; those of the store need a PostgreSQL only.

use crate::instance::{Instance, Options};
use crate::layout::{self, Layout};
use crate::{postgres, say, up, wait};
use anyhow::{Result, ensure};
use std::process::Command;

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bench {
    what: What,
    /// Member clusters besides the host cluster.
    #[arg(long, default_value_t = 1)]
    members: u8,
    /// Replicas of business-api.
    #[arg(long, default_value_t = 1)]
    replicas: u8,
    /// What the measuring program is told, for example `-- --rounds 1`; `-- --help` shows it.
    #[arg(last = true)]
    args: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Writes and reads of the store, beside pgbench.
    Store,
    /// Creates with quota in one project, beside pgbench.
    Quota,
    /// Creates, reads and applies over HTTPS, beside a custom resource and an empty backend.
    Http,
    /// From a POST to the event at each of many watchers.
    Watch,
    /// Whole lists, selectors, tenants.
    List,
    /// The main job, beside plain loops in the member cluster.
    Job,
    /// Memory of the programs when the platform is full.
    Memory,
    /// Everything but memory.
    All,
}

/// The points of the store's measurement that quota is about.
const QUOTA_POINTS: &str = "64 clients";

impl What {
    /// What the program for whole servers is called with.
    fn over_https(self) -> &'static [&'static str] {
        match self {
            Self::Store | Self::Quota => &[],
            Self::Http => &["http"],
            Self::Watch => &["watch"],
            Self::List => &["list"],
            Self::Job => &["job"],
            Self::Memory => &["memory"],
            Self::All => &["http", "watch", "list", "job"],
        }
    }
}

/// Measures and prints.
pub(crate) fn bench(args: &Bench) -> Result<()> {
    wait::listen_for_signals()?;
    match args.what {
        What::Quota => example("bench", &["--only".to_owned(), QUOTA_POINTS.to_owned()], &args.args)?,
        What::Store => example("bench", &[], &args.args)?,
        What::All => example("bench", &[], &[])?,
        _ => {}
    }
    if matches!(args.what, What::Store | What::All) {
        example("bench_read", &[], &[])?;
    }
    if args.what.over_https().is_empty() { Ok(()) } else { over_https(args) }
}

/// A program of the store's; it starts a PostgreSQL of its own.
fn example(name: &str, first: &[String], args: &[String]) -> Result<()> {
    let mut command = layout::cargo();
    command.args(["run", "--quiet", "--release", "--package", "store", "--example", name, "--"]);
    let status = command.args(first).args(args).status()?;
    ensure!(status.success(), "the measurement of the store failed");
    Ok(())
}

/// Starts everything, measures, stops everything.
fn over_https(args: &Bench) -> Result<()> {
    let layout = Layout::of_bench();
    up::clear(&layout)?;
    say::step("measuring program built", || {
        let built = layout::cargo().args(["build", "--quiet", "--release", "--package", "bench"]).status()?;
        ensure!(built.success(), "the measuring program does not build");
        Ok(())
    })?;
    let options =
        Options { members: args.members, replicas: args.replicas, release: true, ..Options::default() };
    let instance = Instance::start(&layout, &options)?;
    let outcome = args.what.over_https().iter().try_for_each(|what| measure(&instance, what, &args.args));
    instance.stop()?;
    outcome?;
    up::clear(&layout)
}

fn measure(instance: &Instance, what: &str, args: &[String]) -> Result<()> {
    let layout = &instance.layout;
    let status = Command::new(layout::built("bench", true)?)
        .arg(what)
        .arg("--kubeconfig")
        .arg(layout.path("kubeconfig"))
        .arg("--tenant-kubeconfig")
        .arg(layout.path("tenant.kubeconfig"))
        .arg("--members")
        .arg(layout.path("members"))
        .args(args)
        .env("DATABASE_URL", &instance.database_url)
        .env("POSTGRES_BIN", postgres::programs()?)
        .env("BIN", layout.path("bin"))
        .status()?;
    ensure!(status.success(), "the measurement failed");
    Ok(())
}
