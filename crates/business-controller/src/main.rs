//! The controller of `business.tkestack.io/v1`.

use business_controller::adoption::adopt::{self, Adopted};
use business_controller::adoption::discover;
use business_controller::config::{Cli, Command};
use clap::Parser as _;
use std::process::ExitCode;

/// A third of the time of a large project's status was glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(config) => {
            runtime::telemetry::init(config.log_format, &config.log_filter);
            match business_controller::run::run(*config).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "ended");
                    ExitCode::FAILURE
                }
            }
        }
        Command::Discover(settings) => match discover::run(&settings).await {
            Ok(file) => say(file.trim_end(), ExitCode::SUCCESS),
            Err(error) => fail(&error.text()),
        },
        Command::Adopt(settings) => match adopt::run(&settings).await {
            Ok(Adopted::All(number)) if settings.dry_run => {
                say(&format!("{number} namespaces would be adopted"), ExitCode::SUCCESS)
            }
            Ok(Adopted::All(number)) => say(&format!("{number} namespaces are adopted"), ExitCode::SUCCESS),
            Ok(Adopted::None(wrong)) => {
                let file = settings.file.display();
                let lines: Vec<String> = wrong.iter().map(|wrong| format!("{file}:{wrong}")).collect();
                fail(&format!("{}\nnothing is adopted", lines.join("\n")))
            }
            Err(error) => fail(&error.text()),
        },
    }
}

#[expect(clippy::print_stdout, reason = "the answer is what the command is for")]
fn say(text: &str, code: ExitCode) -> ExitCode {
    println!("{text}");
    code
}

#[expect(clippy::print_stderr, reason = "a command tells its operator what is wrong")]
fn fail(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::FAILURE
}
