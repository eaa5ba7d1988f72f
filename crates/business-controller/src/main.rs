//! The controller of `business.tkestack.io/v1`.

use business_controller::config::{Cli, Command};
use clap::Parser as _;
use std::process::ExitCode;

/// A third of the time of a large project's status was glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Run(config) = Cli::parse().command;
    runtime::telemetry::init(config.log_format, &config.log_filter);
    match business_controller::run::run(*config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "ended");
            ExitCode::FAILURE
        }
    }
}
