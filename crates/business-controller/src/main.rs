//! The controller of `business.tkestack.io/v1`.

use business_controller::adoption::adopt::{self, Adopted};
use business_controller::adoption::{discover, report};
use business_controller::config::{Cli, Command, Output};
use clap::Parser as _;
use std::process::ExitCode;

/// A third of the time of a large project's status was glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit code: the file is refused, and nothing is done.
const REFUSED: u8 = 2;

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
            Ok(found) => say(&report::discovered(&found, settings.output), ExitCode::SUCCESS),
            Err(error) => fail(&error.text()),
        },
        Command::Adopt(settings) => match adopt::run(&settings).await {
            Ok(adopted) => {
                let text = report::adopted(&settings, &adopted);
                match (adopted, settings.output) {
                    (Adopted::All(_), _) => say(&text, ExitCode::SUCCESS),
                    (Adopted::None(_), Output::Json) => say(&text, ExitCode::from(REFUSED)),
                    (Adopted::None(_), Output::Text) => complain(&text, ExitCode::from(REFUSED)),
                }
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

fn fail(text: &str) -> ExitCode {
    complain(text, ExitCode::FAILURE)
}

#[expect(clippy::print_stderr, reason = "a command tells its operator what is wrong")]
fn complain(text: &str, code: ExitCode) -> ExitCode {
    eprintln!("{text}");
    code
}
