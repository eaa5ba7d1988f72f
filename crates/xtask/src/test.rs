//! `cargo xtask test`: all tests and checks. CI runs exactly this.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::{
    book, build, call, cargo, image, layers, postgres, releases, stress, tidy, transcript, up, web_test,
    workspace,
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches};
use std::io::{BufRead as _, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};
use terminal::line;
use terminal::say::{self, Count};

type TestStep = fn() -> Result<Count>;

/// In this order: quick steps, and steps that build for others, come first.
const STEPS: [(&str, TestStep); 19] = [
    ("fmt", || cargo(&["fmt", "--all", "--check"], &[])),
    ("layers", || layers::check().map(|()| Count::ONE)),
    ("tidy", || tidy::check().map(|()| Count::ONE)),
    ("clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], &[])),
    ("doc", || cargo(&["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])),
    ("deny", deny),
    ("unit", unit),
    ("book", book::level),
    ("stress", || cargo(STRESS, &[])),
    ("manifests", || on_real_parts("manifests", "accept", &["manifests"])),
    ("chart", chart),
    ("check", check),
    ("failover", || stress::FAILOVER.short()),
    ("drill", || stress::DRILL.short()),
    ("fleet", || stress::FLEET.short()),
    ("image", image::level),
    ("elsewhere", || on_real_parts("elsewhere", "accept", &["elsewhere"])),
    ("web", web_test::level),
    ("accept", accept),
];

/// The environment variable with the minutes after which what is left of a run is skipped, for a place that would end
/// the run as failed.
const MINUTES: &str = "XTASK_TEST_MINUTES";

/// The short form of the crash test.
const STRESS: &[&str] =
    &["run", "--quiet", "--package", "stress", "--", "run", "--operations", "15000", "--kills", "60"];

/// `test` and its flags.
pub(crate) fn command() -> clap::Command {
    let steps = Arg::new("step")
        .value_name("STEP")
        .action(ArgAction::Append)
        .value_parser(PossibleValuesParser::new(STEPS.map(|(name, _)| name)))
        .help("Only the steps with these names.");
    clap::Command::new("test").about("Run every check and test, as CI does.").args([steps, line::output()])
}

/// Runs the chosen steps; by default all.
pub(crate) fn test(matches: &ArgMatches) -> Result<Count> {
    let chosen: Vec<&str> =
        matches.get_many::<String>("step").into_iter().flatten().map(String::as_str).collect();
    only(&chosen)
}

/// Runs all steps, even if one fails; the last line is the sum. A step that is under way when time is out is skipped.
pub(crate) fn only(only: &[&str]) -> Result<Count> {
    call::listen_for_signals()?;
    let start = Instant::now();
    if let Some(time) = time_limit()? {
        call::set_deadline(start + time);
    }
    let mut sum = Count::default();
    let (mut bad, mut skipped) = (Vec::new(), Vec::new());
    for (name, run) in STEPS.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        transcript::clear();
        let recorded = || run().inspect_err(|error| transcript::keep(&format!("{error:#}")));
        let count = if call::is_out_of_time() { Count::default() } else { say::level(name, recorded) };
        if call::is_out_of_time() {
            skipped.push(*name);
            continue;
        }
        sum.add(count);
        if count.failed > 0 {
            bad.push((*name, transcript::excerpt()));
        }
        if call::interrupted() {
            bail!("interrupted");
        }
    }
    say::line(format_args!("all steps took {}", say::seconds(start.elapsed())));
    for (name, excerpt) in &bad {
        say::line(format_args!("failed: {name}"));
        for line in excerpt {
            say::line(format_args!("    {line}"));
        }
    }
    if !skipped.is_empty() {
        say::line(format_args!("out of time, so skipped: {}", skipped.join(", ")));
    }
    let also = if skipped.is_empty() { String::new() } else { format!(", {} skipped", skipped.len()) };
    say::line(format_args!("{} passed, {} failed{also}", sum.passed, sum.failed));
    Ok(sum)
}

fn time_limit() -> Result<Option<Duration>> {
    let Some(minutes) = std::env::var_os(MINUTES) else { return Ok(None) };
    let minutes = minutes.to_str().and_then(|minutes| minutes.parse().ok());
    Ok(Some(Duration::from_mins(minutes.with_context(|| format!("{MINUTES} is no number"))?)))
}

fn command_of(args: &[&str]) -> Command {
    let mut command = cargo::cargo();
    command.args(args);
    command
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<Count> {
    let mut command = command_of(args);
    command.envs(env.iter().copied());
    let status = transcript::record(command, call::run_as_group)?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(Count::ONE)
}

/// Unit and integration tests, with PostgreSQL's programs on PATH.
fn unit() -> Result<Count> {
    let path = std::env::join_paths(std::iter::once(postgres::programs()?).chain(workspace::path()))?;
    let (output, to_output) = std::io::pipe().context("make a pipe")?;
    let mut command = command_of(&["test", "--workspace", "--no-fail-fast"]);
    command.env("PATH", path).stdout(to_output);
    let tests = std::thread::spawn(move || call::run_as_group(&mut command));
    let mut sum = Count::default();
    let mut is_message = false;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some(count) = result(&line) {
            sum.add(count);
        } else if is_message || tells_of_failure(&line) {
            transcript::keep(&line);
            say::line(&line);
        }
        is_message = line.contains("panicked at");
    }
    let status =
        tests.join().map_err(|_panic| anyhow!("the thread that waits for cargo test has failed"))??;
    ensure!(status.success() || sum.failed > 0, "cargo test failed before any test did");
    say::line(format_args!("{} tests passed, {} failed", sum.passed, sum.failed));
    Ok(sum)
}

/// Whether a line names a test that has failed, or where it did. Backtraces are long, and their last lines say nothing.
fn tells_of_failure(line: &str) -> bool {
    let is_indented = line.starts_with("    ") && !line.trim_start().starts_with("at ");
    line.contains("FAILED") || line.contains("panicked") || is_indented
}

/// The numbers in `test result: ok. 3 passed; 0 failed; …`.
fn result(line: &str) -> Option<Count> {
    let rest = line.strip_prefix("test result: ")?;
    let number = |word: &str| {
        let before = rest.split(word).next()?;
        before.trim_end().rsplit(' ').next()?.parse().ok()
    };
    Some(Count { passed: number(" passed")?, failed: number(" failed")? })
}

/// Runs one of our programs on an instance of its own.
fn on_real_parts(level: &str, program: &str, words: &[&str]) -> Result<Count> {
    up::prepare(&[Programs::ACCEPT], &ControlPlane::whole())?;
    call::level(level, program, words)
}

/// The chart, with the real Helm.
fn chart() -> Result<Count> {
    build::delivery()?;
    build::build(&[Programs::DIST], None)?;
    on_real_parts("chart", "accept", &["chart"])
}

/// `up --check`, and that a plain `cargo build` has nothing left to compile.
fn check() -> Result<Count> {
    let count = on_real_parts("check", "instance", &["up", "--check"])?;
    say::step("`cargo build` compiles nothing again", || {
        let output = command_of(&["build"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && !said.contains("Compiling"), "{said}");
        Ok(())
    })?;
    Ok(count)
}

fn accept() -> Result<Count> {
    releases::build()?;
    build::build(&[Programs::ACCEPT, Programs::CLIENTS], None)?;
    build::tunnel()?;
    on_real_parts("accept", "accept", &["steps"])
}

/// Bans, licences and sources of all dependencies.
fn deny() -> Result<Count> {
    let Some(program) = cargo::tool("cargo-deny", &["cargo-deny"])? else {
        say::skipped("cargo-deny is not installed and cannot be");
        return Ok(Count::default());
    };
    let status = Command::new(program)
        .current_dir(workspace::root())
        .args(["--log-level", "error", "check", "bans", "licenses", "sources"])
        .stdout(say::lines())
        .status()?;
    ensure!(status.success(), "cargo deny found something");
    Ok(Count::ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_test_run_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(result(line), Some(Count { passed: 12, failed: 3 }));
        assert_eq!(result("test result"), None);
        for said in ["test a::b ... FAILED", "thread 'a::b' (7) panicked at src/a.rs:3:9:", "    a::b"] {
            assert!(tells_of_failure(said), "{said}");
        }
        for other in ["test a::c ... ok", "             at ./src/a.rs:3:9", "failures:"] {
            assert!(!tells_of_failure(other), "{other}");
        }
    }
}
