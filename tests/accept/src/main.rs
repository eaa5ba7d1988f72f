//! The program that `cargo xtask accept` and the `cargo xtask test` levels with real components run after the build.

/// Values of objects.
mod json;
/// The steps of the acceptance test.
mod steps;
/// deploy/ on a real kube-apiserver.
mod install;
/// deploy/chart: rendered, accepted, installed, and what it would run is run.
mod delivery;
/// The images.
mod images;
/// The console in a browser.
mod web;

use anyhow::Result;
use clap::{ArgMatches, Command};
use std::process::ExitCode;
use terminal::caller::Caller;
use terminal::line;
use terminal::say::Count;

type Work = fn() -> Result<Count>;

const PARTS: [(&str, Work); 6] = [
    ("steps", steps::run),
    ("manifests", || install::check().map(|()| Count::ONE)),
    ("chart", || delivery::check().map(|()| Count::ONE)),
    ("images", images::check),
    ("web", web::check),
    ("elsewhere", || install::elsewhere().map(|()| Count::ONE)),
];

fn command() -> Command {
    let parts = PARTS.map(|(name, _)| Caller::flags(Command::new(name)).arg(line::output()));
    Command::new("accept").subcommand_required(true).subcommands(parts)
}

fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    let part = PARTS.iter().find(|(part, _)| *part == name);
    part.map_or(ExitCode::FAILURE, |(_, work)| {
        Caller::of(matches).run(name, || {
            instance::wait::listen_for_signals()?;
            work().map(Some)
        })
    })
}

fn main() -> ExitCode {
    match command().get_matches().subcommand() {
        Some((name, matches)) => run(name, matches),
        None => ExitCode::FAILURE,
    }
}
