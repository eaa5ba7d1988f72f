//! Crash test of the store. The parent starts PostgreSQL and replicas, kills whatever runs, and audits with
//! arithmetic of its own: no over-commit at any moment, no acknowledged write lost, no refused write applied,
//! no event missed, doubled or out of order, no difference between the ledger and the objects. `failover` does the same to
//! the whole platform, whose PostgreSQL fails over; `drill` restores its
//! PostgreSQL from a backup; `fleet` does it to its controllers.

mod world;
mod tree;
mod log;
mod replica;
mod writers;
mod watchers;
mod findings;
mod books;
mod replay;
mod follower;
mod audit;
mod faults;
mod plants;
mod proxy;
mod run;
mod flood;
mod failover;
mod drill;
mod fleet;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole test.
    Run(run::RunSettings),
    /// The whole test once for every planted bug: it must catch each.
    Plants(run::RunSettings),
    /// Updates without a pause, with compaction and a foreign snapshot: what a minute brings, and what it costs.
    Flood(flood::FloodSettings),
    /// The whole platform on PostgreSQL under Patroni, of which one part after another fails.
    Failover(failover::FailoverSettings),
    /// Base backups of the whole platform in use, and restores from them.
    Drill(drill::DrillSettings),
    /// Several controllers before many clusters, of which one controller after another fails.
    Fleet(fleet::FleetSettings),
    /// One replica; started by `run`.
    Replica(replica::ReplicaSettings),
}

fn main() -> ExitCode {
    let args = Args::parse();
    runtime::telemetry::init(runtime::telemetry::LogFormat::Text, "error");
    let outcome = match args.command {
        Command::Run(settings) => block_on(run::run(settings)),
        Command::Plants(settings) => block_on(run::plants(settings)),
        Command::Flood(settings) => block_on(flood::run(settings)).map(|()| true),
        Command::Failover(settings) => block_on(failover::run(settings)),
        Command::Drill(settings) => block_on(drill::run(settings)),
        Command::Fleet(settings) => block_on(fleet::run(settings)),
        Command::Replica(settings) => block_on(replica::run(settings)).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn block_on<T>(task: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(task)
}

/// Tells the person who waits.
#[expect(clippy::print_stdout, reason = "the program's result")]
fn say(text: &str) {
    println!("{text}");
}

/// Where a replica writes its log.
fn log_file(folder: &std::path::Path, replica: usize, life: usize) -> PathBuf {
    folder.join(format!("replica-{replica}-{life}.jsonl"))
}
