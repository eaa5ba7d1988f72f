//! `cargo xtask bench`: an instance of its own, built for release, and the measurements against it.

use crate::instance::{Instance, Options};
use crate::layout::{self, Layout};
use crate::{postgres, say, up, wait};
use anyhow::{Result, ensure};
use std::process::Command;

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bench {
    /// Member clusters besides the host cluster.
    #[arg(long, default_value_t = 1)]
    members: u8,
    /// Replicas of business-api.
    #[arg(long, default_value_t = 1)]
    replicas: u8,
    /// What the measuring program is told; `-- --help` shows it.
    #[arg(last = true)]
    args: Vec<String>,
}

/// Starts everything, measures, stops everything.
pub(crate) fn bench(args: &Bench) -> Result<()> {
    wait::listen_for_signals()?;
    let layout = Layout::of_bench();
    up::clear(&layout)?;
    say::step("measuring program built", || {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .current_dir(layout::workspace())
            .args(["build", "--quiet", "--release", "--package", "bench"])
            .status()?;
        ensure!(built.success(), "the measuring program does not build");
        Ok(())
    })?;
    let options =
        Options { members: args.members, replicas: args.replicas, release: true, ..Options::default() };
    let instance = Instance::start(&layout, &options)?;
    let outcome = measure(&instance, &args.args);
    instance.stop()?;
    outcome?;
    up::clear(&layout)
}

fn measure(instance: &Instance, args: &[String]) -> Result<()> {
    let layout = &instance.layout;
    let status = Command::new(layout::built("bench", true)?)
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
