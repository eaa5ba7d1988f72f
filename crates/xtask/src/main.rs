//! Developer and CI commands: `cargo xtask help` lists them.

/// Lines for a person.
mod say;
/// Waiting for conditions.
mod wait;
/// Where things lie.
mod layout;
/// Processes by pid and start time.
mod process;
/// What a run leaves behind.
mod state;
/// Ports that stay the same.
mod ports;
/// Children that are looked after.
mod supervisor;
/// Certificates.
mod pki;
/// Tokens of tenants.
mod token;
/// Kubeconfig files.
mod kubeconfig;
/// kubectl.
mod kubectl;
/// A private PostgreSQL.
mod postgres;
/// A local Kubernetes control plane.
mod controlplane;
/// deploy/ on this machine.
mod manifests;
/// business-api and business-controller.
mod programs;
/// All of it, in order.
mod instance;
/// The main job.
mod job;
/// `up` and `down`.
mod up;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Developer and CI commands.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole platform on this machine.
    Up(up::Up),
    /// Stop what `up` started.
    Down {
        /// Delete all data, too.
        #[arg(long)]
        wipe: bool,
    },
    /// Fetch PostgreSQL's programs into a directory; `up` calls this by itself.
    #[command(hide = true)]
    FetchPostgresql { dir: PathBuf },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::line(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Up(args) => up::up(&args),
        Command::Down { wipe } => up::down(wipe),
        Command::FetchPostgresql { dir } => postgres::fetch(&dir),
    }
}
