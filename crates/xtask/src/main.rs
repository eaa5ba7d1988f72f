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
/// Files of the working tree.
mod tree;
/// What may know what.
mod layers;
/// What a compiler does not look at.
mod tidy;
/// What the platform promises.
mod accept;
/// deploy/ on a real kube-apiserver.
mod install;
/// Everything CI runs.
mod test;
/// Measurements.
mod bench;

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
    /// Run every check and test, as CI does.
    Test(test::Test),
    /// Try what the platform promises on real parts.
    Accept,
    /// Measure beside the rivals.
    Bench(bench::Bench),
    /// Check that crates and modules use only what they may.
    Layers,
    /// Check what a compiler does not look at.
    Tidy,
    /// Fetch PostgreSQL's programs into a directory; `up` calls this by itself.
    #[command(hide = true)]
    FetchPostgresql { dir: PathBuf },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            say::line(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(args) => up::up(&args)?,
        Command::Down { wipe } => up::down(wipe)?,
        Command::Test(args) => return test::test(&args),
        Command::Accept => return test::only(&["accept"]),
        Command::Bench(args) => bench::bench(&args)?,
        Command::Layers => layers::check()?,
        Command::Tidy => tidy::check()?,
        Command::FetchPostgresql { dir } => postgres::fetch(&dir)?,
    }
    Ok(ExitCode::SUCCESS)
}
