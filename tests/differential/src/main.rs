//! The same requests through us and through custom resources with the same schema on a real kube-apiserver.
//!
//! Without a command: random schemas and random histories of managers through server-side apply; objects and
//! managedFields must be equal but for times. `requests`: random HTTP requests of every verb; whole answers must be
//! equal but for what must differ and for the differences that are listed with their reasons.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it does not hold")]

mod shape;
mod custom;
mod value;
mod history;
mod ours;
mod compare;
mod requests;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// How much.
#[derive(Debug, Parser)]
#[command(about, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Kubeconfig of a cluster administrator.
    #[arg(long, default_value = ".dev/kubeconfig")]
    kubeconfig: PathBuf,
    /// Histories in all.
    #[arg(long, default_value_t = 300)]
    histories: u64,
    /// Steps of a history.
    #[arg(long, default_value_t = 8)]
    steps: usize,
    /// Schemas; each is a custom resource of its own.
    #[arg(long, default_value_t = 4)]
    schemas: u64,
    /// Histories at a time.
    #[arg(long, default_value_t = 8)]
    parallel: usize,
    /// Seed of everything.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// HTTP requests of every verb, answer by answer.
    Requests(requests::Args),
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let failures = match &args.command {
        Some(Command::Requests(args)) => requests::run(args).await?,
        None => {
            let failures = compare::run(&args).await?;
            say(&format!("{} histories, {failures} differ", args.histories));
            failures
        }
    };
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tells the person who waits.
#[expect(clippy::print_stdout, reason = "the program's result")]
fn say(text: &str) {
    println!("{text}");
}
