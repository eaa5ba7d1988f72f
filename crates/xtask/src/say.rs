//! Lines for a person: what happens, how long it took. Standard output only; logs go to files.

use std::fmt::Display;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Prints one line. A closed standard output is no reason to stop.
pub(crate) fn line(text: impl Display) {
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints what is about to be done and takes a while.
pub(crate) fn begin(what: &str) {
    line(format_args!("  …  {what}"));
}

/// Runs one step and prints its outcome and time.
pub(crate) fn step<T>(what: &str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    let outcome = run();
    let mark = if outcome.is_ok() { "ok  " } else { "FAIL" };
    line(format_args!("{mark} {:>7}  {what}", seconds(start.elapsed())));
    outcome
}

/// A duration as a person reads it.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
