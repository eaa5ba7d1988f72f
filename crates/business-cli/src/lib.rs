//! `kubectl business`: projects, namespaces and their budgets on the command line. Every act is a call of the public
//! API with the rights of the caller.

/// What one types.
mod line;
/// The server that the program talks to.
mod connection;
/// Calls of the API.
mod api;
/// Programs that credentials come from.
mod plugin;
/// Where things are in the API.
mod paths;
/// Objects as the API answers them.
mod objects;
/// Why something was not done.
mod failure;
/// The levels of a budget.
mod level;
/// A refusal as a person reads it.
mod refusal;
/// Amounts as people write them.
mod amount;
/// Asking whether something would be done.
mod dry_run;
/// Files that hold secrets.
mod files;
/// The kubeconfigs of a call.
mod kubeconfigs;
/// A login at an identity provider.
mod oidc;
/// Output for people.
mod screen;
/// Output for programs.
mod output;
/// Waiting for something to come true.
mod wait;
/// A project or a namespace that somebody wants.
mod wanted;
/// What each command does.
mod commands;

use clap::{Command, CommandFactory as _, Parser as _};
use line::Line;
use screen::Screen;
use std::process::ExitCode;

/// The command line, for programs that describe it.
pub fn command() -> Command {
    Line::command()
}

/// Does what the command line of this process says.
pub fn run() -> ExitCode {
    let line = Line::parse();
    let screen = Screen::of_stdout(line.color);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(commands::run(line, screen));
            // A task that nobody waits for any more, such as a credential plugin that does not end, does not block the
            // exit.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(failure::Failure::Stopped(error.to_string())),
    };
    match outcome {
        Ok(failure::Outcome::Done) => ExitCode::from(failure::EXIT_DONE),
        Ok(failure::Outcome::No) => ExitCode::from(failure::EXIT_NO),
        Err(failure) => {
            screen::note(refusal::told(&failure, Screen::of_stderr(screen)).trim_end());
            ExitCode::from(failure.exit_code())
        }
    }
}
