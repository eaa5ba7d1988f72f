//! Random schemas and random histories of managers, through our server-side apply and through a custom
//! resource with the same schema on the real kube-apiserver. Objects and managedFields must be equal but for times.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it does not hold")]

mod shape;
mod custom;
mod value;
mod history;
mod ours;
mod compare;

use anyhow::Result;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// How much.
#[derive(Debug, Parser)]
#[command(about)]
struct Args {
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

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let failures = compare::run(&args).await?;
    say(&format!("{} histories, {failures} differ", args.histories));
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tells the person who waits.
#[expect(clippy::print_stdout, reason = "the program's result")]
fn say(text: &str) {
    println!("{text}");
}
