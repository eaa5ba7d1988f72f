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
use std::time::Instant;
use test::Count;

const EXIT_CODES: &str = "Exit codes: 0 everything worked, 1 something did not, 2 the command line is wrong.";

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Developer and CI commands.", after_help = EXIT_CODES)]
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
    Accept {
        /// Whom to talk to.
        #[arg(short, long, value_enum, default_value_t)]
        output: say::Output,
    },
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

impl Command {
    /// What the last document says it was, and whom the run talks to.
    fn told(&self) -> (&'static str, say::Output) {
        match self {
            Self::Up(up) => ("up --check", up.output),
            Self::Test(test) => ("test", test.output),
            Self::Accept { output } => ("accept", *output),
            _ => ("", say::Output::Text),
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let (what, output) = command.told();
    say::to(output);
    let start = Instant::now();
    let outcome = run(command);
    say::ended(what, start.elapsed(), &outcome);
    match outcome {
        Ok(count) if count.unwrap_or_default().failed == 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// What was counted, where something is.
fn run(command: Command) -> Result<Option<Count>> {
    match command {
        Command::Up(args) => up::up(&args)?,
        Command::Down { wipe } => up::down(wipe)?,
        Command::Test(args) => return test::test(&args).map(Some),
        Command::Accept { .. } => return test::only(&["accept"]).map(Some),
        Command::Bench(args) => bench::bench(&args)?,
        Command::Layers => layers::check()?,
        Command::Tidy => tidy::check()?,
        Command::FetchPostgresql { dir } => postgres::fetch(&dir)?,
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_command_line_is_told_from_a_step_that_fails() {
        for wrong in [&["up", "-o", "json"][..], &["test", "everything"], &["accept", "-o", "yaml"]] {
            let line = std::iter::once("xtask").chain(wrong.iter().copied());
            assert_eq!(Cli::try_parse_from(line).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
        for right in
            [&["up", "--check", "-o", "json"][..], &["test", "fmt", "unit", "--output=json"], &["up"]]
        {
            Cli::try_parse_from(std::iter::once("xtask").chain(right.iter().copied())).unwrap();
        }
    }
}
