//! An instance of our own for measurements, each of which is a process of its own.

use anyhow::{Result, ensure};
use instance::layout::{self, Layout};
use instance::{Instance, Options, up, wait};
use std::process::Command;

/// What is to be measured, and on what.
#[derive(Debug, clap::Args)]
pub(crate) struct Platform {
    /// Names of measurements.
    #[arg(required = true)]
    what: Vec<String>,
    /// Member clusters besides the host cluster.
    #[arg(long, default_value_t = 1)]
    clusters: u8,
    /// Replicas of business-api.
    #[arg(long, default_value_t = 1)]
    replicas: u8,
    /// What each measurement is told.
    #[arg(last = true)]
    args: Vec<String>,
}

impl Platform {
    pub(crate) fn run(&self) -> Result<()> {
        wait::listen_for_signals()?;
        let layout = Layout::of_bench();
        up::clear(&layout)?;
        let options = Options { members: self.clusters, replicas: self.replicas, ..Options::default() };
        let instance = Instance::start(&layout, &options)?;
        let outcome = self.what.iter().try_for_each(|what| self.measure(&instance, what));
        instance.stop()?;
        outcome?;
        up::clear(&layout)
    }

    fn measure(&self, instance: &Instance, what: &str) -> Result<()> {
        let layout = &instance.layout;
        let status = Command::new(std::env::current_exe()?)
            .arg(what)
            .arg("--kubeconfig")
            .arg(layout.path("kubeconfig"))
            .arg("--tenant-kubeconfig")
            .arg(layout.path("tenant.kubeconfig"))
            .arg("--members")
            .arg(layout.path("members"))
            .args(&self.args)
            .env("DATABASE_URL", &instance.database_url)
            .env("POSTGRES_BIN", layout::postgresql()?)
            .env("BIN", layout::bin())
            .status()?;
        ensure!(status.success(), "the measurement failed");
        Ok(())
    }
}
