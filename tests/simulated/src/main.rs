//! Serves simulated member clusters until it is told to end.

use clap::Parser;
use simulated::{Settings, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let settings = Settings::parse();
    runtime::telemetry::init(runtime::telemetry::LogFormat::Text, "info");
    let served = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(settings)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the program's last word")]
fn say(text: &str) {
    eprintln!("{text}");
}
