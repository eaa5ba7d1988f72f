//! `kubectl business`: projects, namespaces and their budgets on the command line. Every act is a call of the public
//! API with the rights of the caller.

/// The command line.
mod cli;
/// The server that the program talks to.
mod connection;
/// Calls of the API.
mod api;
/// Credential plugins.
mod plugin;
/// Paths of the API.
mod paths;
/// Objects of the API.
mod objects;
/// Errors and exit codes.
mod failure;
/// The levels of a budget.
mod level;
/// Error messages for people.
mod refusal;
/// Parsing and formatting amounts.
mod amount;
/// The `--dry-run` flag.
mod dry_run;
/// Files that hold secrets, and kubeconfigs.
mod files;
/// The kubeconfigs of a call.
mod kubeconfigs;
/// The OpenID Connect client.
mod oidc;
/// Output for people.
mod screen;
/// Output for programs.
mod output;
/// Waiting for a condition.
mod wait;
/// A project or namespace as flags or a file describe it.
mod desired;
/// The commands.
mod commands;

use clap::{Command, CommandFactory as _, Parser as _};
use cli::Cli;
use screen::Screen;
use std::process::ExitCode;

/// The command line, for programs that describe it.
pub fn command() -> Command {
    Cli::command()
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let screen = Screen::of_stdout(cli.color);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(commands::run(cli, screen));
            // A task that still runs, such as a credential plugin that hangs, does not block the exit.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(failure::Failure::Other(error.to_string())),
    };
    match outcome {
        Ok(failure::Outcome::Done) => ExitCode::from(failure::EXIT_DONE),
        Ok(failure::Outcome::No) => ExitCode::from(failure::EXIT_NO),
        Err(failure) => {
            screen::note(refusal::render(&failure, Screen::of_stderr(screen)).trim_end());
            ExitCode::from(failure.exit_code())
        }
    }
}
