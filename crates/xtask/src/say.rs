//! What happens and how long it took: lines for a person, or a JSON document a line for a program. Logs go to files.

use crate::test::Count;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whom a run talks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// A person.
    #[default]
    Text,
    /// A program: one JSON document a line on standard output, everything else on standard error.
    Json,
}

/// What the next document needs to know.
#[derive(Debug)]
struct Told {
    output: Output,
    /// The level of `test` that is running.
    level: Option<&'static str>,
    /// Why the running step does nothing.
    skipped: Option<String>,
}

static TOLD: Mutex<Told> = Mutex::new(Told { output: Output::Text, level: None, skipped: None });

/// One line for a program. docs/operations.md promises these names.
#[derive(Debug, Default, Serialize)]
struct Document<'a> {
    /// `step`, `level` of `test`, or, at last, `run`.
    r#type: &'static str,
    step: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'static str>,
    ok: bool,
    seconds: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    count: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn told() -> MutexGuard<'static, Told> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom everything is told from now on.
pub(crate) fn to(output: Output) {
    told().output = output;
}

fn is_json() -> bool {
    told().output == Output::Json
}

/// Where the lines of other programs go that a step runs.
pub(crate) fn lines() -> Stdio {
    if is_json() { std::io::stderr().into() } else { Stdio::inherit() }
}

/// Prints one line for a person. A closed output is no reason to stop.
pub(crate) fn line(text: impl Display) {
    if is_json() {
        let _closed = writeln!(std::io::stderr(), "{text}");
        return;
    }
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn document(document: &Document<'_>) {
    let mut out = std::io::stdout().lock();
    let text = serde_json::to_string(document).unwrap_or_default();
    let _closed = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints what is about to be done and takes a while.
pub(crate) fn begin(what: &str) {
    line(format_args!("  …  {what}"));
}

/// The step that is running has nothing to do here.
pub(crate) fn skipped(reason: &str) {
    line(format_args!("      skipped: {reason}"));
    told().skipped = Some(reason.to_owned());
}

/// Runs one step and tells its outcome and time.
pub(crate) fn step<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let outcome = run();
    let took = start.elapsed();
    let (level, skipped) = {
        let mut told = told();
        (told.level, told.skipped.take())
    };
    if is_json() {
        let (ok, error) = (outcome.is_ok(), outcome.as_ref().err().map(|error| format!("{error:#}")));
        let (r#type, seconds, count) = ("step", rounded(took), None);
        document(&Document { r#type, step: what, level, ok, seconds, skipped, error, count });
    } else {
        let mark = if outcome.is_ok() { "ok  " } else { "FAIL" };
        line(format_args!("{mark} {:>7}  {what}", seconds(took)));
    }
    outcome
}

/// Runs one level of `test` and tells its outcome and time.
pub(crate) fn level(name: &'static str, run: impl FnOnce() -> Result<Count>) -> Count {
    line(format_args!("---- {name}"));
    told().level = Some(name);
    let start = Instant::now();
    let outcome = run();
    let took = start.elapsed();
    let skipped = {
        let mut told = told();
        told.level = None;
        told.skipped.take()
    };
    let error = outcome.as_ref().err().map(|error| format!("{error:#}"));
    let count = outcome.unwrap_or(Count { passed: 0, failed: 1 });
    let verdict = match &error {
        None if count.failed == 0 => "ok".to_owned(),
        None => "FAILED".to_owned(),
        Some(error) => format!("FAILED\n{error}"),
    };
    line(format_args!("---- {name}: {verdict} ({})", seconds(took)));
    if is_json() {
        document(&Document {
            r#type: "level",
            step: name,
            ok: count.failed == 0,
            seconds: rounded(took),
            count: Some(count),
            skipped,
            error,
            ..Document::default()
        });
    }
    count
}

/// The end of the run, which a program is told in its last document.
pub(crate) fn ended(what: &str, took: Duration, outcome: &Result<Option<Count>>) {
    if let Err(error) = outcome {
        line(format_args!("error: {error:#}"));
    }
    if !is_json() {
        return;
    }
    let (count, error) = match outcome {
        Ok(count) => (*count, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let ok = error.is_none() && count.is_none_or(|count| count.failed == 0);
    let seconds = rounded(took);
    document(&Document { r#type: "run", step: what, ok, seconds, count, error, ..Document::default() });
}

/// A duration as a person reads it.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Seconds as a program reads them, to the millisecond.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_finds_the_names_that_are_promised() {
        let text = |document: &Document<'_>| serde_json::to_string(document).unwrap();
        let seconds = rounded(Duration::from_micros(1_234_567));
        let step =
            Document { r#type: "step", step: "PostgreSQL ready", ok: true, seconds, ..Document::default() };
        assert_eq!(text(&step), r#"{"type":"step","step":"PostgreSQL ready","ok":true,"seconds":1.235}"#);
        let failed = Document {
            r#type: "step",
            step: "a tree",
            level: Some("accept"),
            error: Some("it is\nstuck".to_owned()),
            ..Document::default()
        };
        assert_eq!(
            text(&failed),
            r#"{"type":"step","step":"a tree","level":"accept","ok":false,"seconds":0.0,"error":"it is\nstuck"}"#
        );
        let count = Some(Count { passed: 3, failed: 1 });
        let run = Document { r#type: "run", step: "test", count, ..Document::default() };
        assert_eq!(
            text(&run),
            r#"{"type":"run","step":"test","ok":false,"seconds":0.0,"passed":3,"failed":1}"#
        );
    }
}
