//! Developer and CI commands: `cargo xtask help` lists them. This program builds what a command needs and calls it;
//! it depends on next to nothing, so that a fresh checkout says within seconds what is going on.

/// Directories of the workspace.
mod workspace;
/// Calling cargo.
mod cargo;
/// The programs of the control plane.
mod control_plane;
/// Other Go programs.
mod go_programs;
/// PostgreSQL's programs.
mod postgres;
/// Patroni.
mod patroni;
/// Building the console.
mod web;
/// Browser tests of the console.
mod web_test;
/// Concurrent builds.
mod build;
/// A running build tool.
mod tool;
/// Building Go modules.
mod go;
/// Calling git.
mod git;
/// The releases before and after this one.
mod releases;
/// Running programs.
mod call;
/// `up` and `down`.
mod up;
/// The files of the working tree.
mod tree;
/// Dependencies in Cargo.toml files.
mod manifest;
/// The krew manifest.
mod krew;
/// Rules for dependencies.
mod layers;
/// Import cycles.
mod cycles;
/// Parsing Markdown.
mod markdown;
/// Checks of files and documentation.
mod tidy;
/// The documentation as a site.
mod book;
/// Everything CI runs.
mod test;
/// What a step has printed.
mod transcript;
/// Tests under faults.
mod stress;
/// Measurements.
mod bench;
/// Images and releases.
mod image;
/// The profile that programs are optimised by.
mod execution_profile;
/// Making that profile.
mod pgo;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::process::ExitCode;
use std::time::Instant;
use stress::Stress;
use terminal::line::{self, Up};
use terminal::say::{self, Count, Output};

const EXIT_CODES: &str = "Exit codes: 0 everything worked, 1 something did not, 2 the command line is wrong.";

fn command() -> Command {
    let wipe = Arg::new("wipe").long("wipe").action(ArgAction::SetTrue).help("Delete all data, too.");
    let accept = Command::new("accept").about(
        "Try what the platform promises on real parts, by kubectl. In a browser, `test web` does; `test` runs both.",
    );
    Command::new("xtask")
        .bin_name("cargo xtask")
        .about("Developer and CI commands.")
        .after_help(EXIT_CODES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Up::command(),
            Command::new("down").about("Stop what `up` started.").arg(wipe),
            Command::new("login").about("Write a kubeconfig for somebody who logs in.").arg(line::person()),
            test::command(),
            accept.arg(line::output()),
            bench::command(),
            pgo::command(),
            image::command(),
            image::release_command(),
            Command::new("web")
                .about("Build the console's page, which the next build of business-api takes in."),
            krew::command(),
            book::command(),
            book::reference_command(),
            Command::new("layers").about("Check that crates and modules use only what they may."),
            Command::new("tidy").about("Check what a compiler does not look at."),
        ])
        .subcommands(stress::ALL.iter().map(Stress::command))
}

fn main() -> ExitCode {
    let begun = Instant::now();
    let matches = command().get_matches();
    let Some((name, matches)) = matches.subcommand() else { return ExitCode::from(2) };
    let what = if name == "up" { "up --check" } else { name };
    if matches!(name, "up" | "test" | "accept" | "image" | "release") {
        say::to(line::output_of(matches));
    }
    let outcome = run(name, matches, begun);
    if say::output() == Output::Json || outcome.is_err() {
        say::ended(what, begun.elapsed(), &outcome);
    }
    say::exit_code(&outcome)
}

/// Runs a command. Returns the count of tests, if it has one.
fn run(name: &str, matches: &ArgMatches, begun: Instant) -> Result<Option<Count>> {
    match name {
        "up" => match up::up(&Up::of(matches), begun)? {},
        "down" | "login" => match up::instance()? {},
        "test" => return test::test(matches).map(Some),
        "accept" => return test::only(&["accept"]).map(Some),
        "bench" => bench::bench(matches)?,
        "pgo" => pgo::pgo()?,
        "image" => image::image(matches)?,
        "release" => image::release(matches)?,
        "web" => web::web()?,
        "krew" => krew::krew(matches)?,
        "book" => book::book(matches)?,
        "reference" => book::reference()?,
        "layers" => layers::check()?,
        "tidy" => tidy::check()?,
        other => match stress::ALL.iter().find(|stress| stress.name == other) {
            Some(stress) => stress.long(matches)?,
            None => anyhow::bail!("there is no command {other}"),
        },
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_command_line_is_told_from_a_step_that_fails() {
        for wrong in [&["up", "-o", "json"][..], &["test", "everything"], &["accept", "-o", "yaml"], &[]] {
            let line = std::iter::once("xtask").chain(wrong.iter().copied());
            assert_eq!(command().try_get_matches_from(line).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
        for right in [
            &["up", "--check", "-o", "json"][..],
            &["test", "fmt", "unit", "--output=json"],
            &["up"],
            &["bench", "http", "--", "--rounds", "1"],
            &["failover", "--", "--faults", "switchover"],
            &["drill", "--", "--restores", "cold"],
            &["fleet", "--", "--simulated", "10", "-o", "json"],
            &["image", "--check", "--platform", "linux/amd64", "-o", "json"],
            &["book", "--open", "--source", "https://code.example.org/blob/main"],
            &["reference"],
            &["release", "--version", "0.1.0", "--registry", "registry.example.com"],
        ] {
            command().try_get_matches_from(std::iter::once("xtask").chain(right.iter().copied())).unwrap();
        }
    }
}
