use anyhow::Result;
use std::ffi::OsStr;
use std::fmt::{Display, Write as _};
use std::io::{IsTerminal as _, Write as _};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Set to `never`, what is skipped has failed.
const SKIP: &str = "XTASK_SKIP";
const NEVER: &str = "never";
/// Between two lines about the same thing where none can be written over.
const PROGRESS: Duration = Duration::from_secs(10);

/// Whom a run talks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// A person.
    #[default]
    Text,
    /// A program: one JSON document a line on standard output, everything else on standard error.
    Json,
}

/// How many checks passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Those that worked.
    pub passed: usize,
    /// Those that did not.
    pub failed: usize,
}

impl Count {
    /// One check, which passed.
    pub const ONE: Self = Self { passed: 1, failed: 0 };

    /// Adds the checks of another one.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// What the next line or document needs to know.
#[derive(Debug)]
struct SayState {
    output: Output,
    /// The level of `test` that is running.
    level: Option<String>,
    /// Why the running step does nothing.
    skipped: Option<String>,
    /// How often something was left out that this machine lacks.
    lacking: usize,
    /// When progress was last told, and whether it stands on a line that is to be written over.
    progress: Option<Instant>,
    open: bool,
}

static STATE: Mutex<SayState> = Mutex::new(SayState {
    output: Output::Text,
    level: None,
    skipped: None,
    lacking: 0,
    progress: None,
    open: false,
});

/// One line for a program. docs/testing.md promises these names.
#[derive(Debug, Default)]
struct Document<'a> {
    /// `step`, `level` of `test`, or, at last, `run`.
    r#type: &'static str,
    step: &'a str,
    level: Option<String>,
    ok: bool,
    took: Duration,
    count: Option<Count>,
    skipped: Option<String>,
    error: Option<String>,
}

impl Display for Document<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{\"type\":{},\"step\":{}", json(self.r#type), json(self.step))?;
        let text = |f: &mut std::fmt::Formatter<'_>, name: &str, value: Option<&String>| {
            value.map_or(Ok(()), |value| write!(f, ",\"{name}\":{}", json(value)))
        };
        text(f, "level", self.level.as_ref())?;
        let seconds = (self.took.as_secs_f64() * 1000.0).round() / 1000.0;
        write!(f, ",\"ok\":{},\"seconds\":{seconds:?}", self.ok)?;
        if let Some(count) = self.count {
            write!(f, ",\"passed\":{},\"failed\":{}", count.passed, count.failed)?;
        }
        text(f, "skipped", self.skipped.as_ref())?;
        text(f, "error", self.error.as_ref())?;
        f.write_char('}')
    }
}

/// A string of JSON.
fn json(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\u{0}'..='\u{1f}' => out.extend(format!("\\u{:04x}", u32::from(c)).chars()),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn state() -> MutexGuard<'static, SayState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom everything is told from now on.
pub fn to(output: Output) {
    state().output = output;
}

/// Whom everything is told.
pub fn output() -> Output {
    state().output
}

fn is_json() -> bool {
    output() == Output::Json
}

/// From now on steps belong to this level of `test`.
pub fn enter(level: Option<&str>) {
    state().level = level.map(str::to_owned);
}

/// Where the lines of other programs go that a step runs.
pub fn lines() -> Stdio {
    if is_json() { std::io::stderr().into() } else { Stdio::inherit() }
}

/// Prints one line for a person. A closed output is no reason to stop.
pub fn line(text: impl Display) {
    close();
    if is_json() {
        let _closed = writeln!(std::io::stderr(), "{text}");
        return;
    }
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Ends the line of progress, which is worth nothing any more.
fn close() {
    if std::mem::take(&mut state().open) {
        let mut out = std::io::stdout().lock();
        let _closed = write!(out, "\r\x1b[K").and_then(|()| out.flush());
    }
}

/// Tells how far something has come: on a terminal in one line that changes, elsewhere in a line now and then.
pub fn progress(text: impl Display) {
    if !is_json() && std::io::stdout().is_terminal() {
        state().open = true;
        let mut out = std::io::stdout().lock();
        let _closed = write!(out, "\r\x1b[K  …  {text}").and_then(|()| out.flush());
        return;
    }
    let now = Instant::now();
    let due = state().progress.is_none_or(|last| now.duration_since(last) >= PROGRESS);
    if due {
        state().progress = Some(now);
        begin(text);
    }
}

fn document(document: &Document<'_>) {
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{document}").and_then(|()| out.flush());
}

/// Prints what is about to be done and takes a while.
pub fn begin(what: impl Display) {
    line(format_args!("  …  {what}"));
}

/// The step that is running cannot be done on this machine.
pub fn skipped(reason: &str) {
    needless(reason);
    state().lacking += 1;
}

/// The step that is running has nothing to do, on this machine as on any other.
pub fn needless(reason: &str) {
    line(format_args!("      skipped: {reason}"));
    state().skipped = Some(reason.to_owned());
}

/// How many failures what was skipped since the last call counts as: none, unless nothing may be skipped.
pub(crate) fn lacking() -> usize {
    let lacking = std::mem::take(&mut state().lacking);
    let failures = if may_be_skipped(std::env::var_os(SKIP).as_deref()) { 0 } else { lacking };
    if failures > 0 {
        line(format_args!("      skipped {failures} times, and {SKIP} is {NEVER}"));
    }
    failures
}

fn may_be_skipped(setting: Option<&OsStr>) -> bool {
    setting.is_none_or(|setting| setting != NEVER)
}

/// Runs one step and tells its outcome and time.
pub fn step<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let outcome = run();
    done(what, start.elapsed(), outcome.as_ref().err());
    outcome
}

/// Tells the outcome and time of a step.
pub fn done(what: &str, took: Duration, error: Option<&anyhow::Error>) {
    let (level, skipped) = {
        let mut told = state();
        (told.level.clone(), told.skipped.take())
    };
    if is_json() {
        let error = error.map(|error| format!("{error:#}"));
        let ok = error.is_none();
        document(&Document { r#type: "step", step: what, level, ok, took, skipped, error, count: None });
    } else {
        let mark = if error.is_none() { "ok  " } else { "FAIL" };
        line(format_args!("{mark} {:>7}  {what}", seconds(took)));
    }
}

/// Runs one level of `test` and tells its outcome and time.
pub fn level(name: &str, run: impl FnOnce() -> Result<Count>) -> Count {
    line(format_args!("---- {name}"));
    enter(Some(name));
    let start = Instant::now();
    let outcome = run();
    let took = start.elapsed();
    enter(None);
    let skipped = state().skipped.take();
    let error = outcome.as_ref().err().map(|error| format!("{error:#}"));
    let mut count = outcome.unwrap_or(Count { passed: 0, failed: 1 });
    count.failed += lacking();
    let verdict = match &error {
        None if count.failed == 0 => "ok".to_owned(),
        None => "FAILED".to_owned(),
        Some(error) => format!("FAILED\n{error}"),
    };
    line(format_args!("---- {name}: {verdict} ({})", seconds(took)));
    if is_json() {
        let (ok, count) = (count.failed == 0, Some(count));
        document(&Document { r#type: "level", step: name, level: None, ok, took, count, skipped, error });
    }
    count
}

/// The end of the run, which a program is told in its last document.
pub fn ended(what: &str, took: Duration, outcome: &Result<Option<Count>>) {
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
    document(&Document { r#type: "run", step: what, ok, took, count, error, ..Document::default() });
}

/// 0 when everything worked, 1 otherwise.
pub fn exit_code(outcome: &Result<Option<Count>>) -> ExitCode {
    match outcome {
        Ok(count) if count.unwrap_or_default().failed == 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A duration as a person reads it.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_fails_only_where_nothing_may_be() {
        assert!(may_be_skipped(None));
        assert!(may_be_skipped(Some(OsStr::new(""))));
        assert!(!may_be_skipped(Some(OsStr::new("never"))));
    }

    #[test]
    fn a_program_finds_the_names_that_are_promised() {
        let took = Duration::from_micros(1_234_567);
        let step =
            Document { r#type: "step", step: "PostgreSQL ready", ok: true, took, ..Document::default() };
        assert_eq!(
            step.to_string(),
            r#"{"type":"step","step":"PostgreSQL ready","ok":true,"seconds":1.235}"#
        );
        let failed = Document {
            r#type: "step",
            step: "a \"tree\"",
            level: Some("accept".to_owned()),
            error: Some("it is\n\tstuck in C:\\".to_owned()),
            ..Document::default()
        };
        assert_eq!(
            failed.to_string(),
            r#"{"type":"step","step":"a \"tree\"","level":"accept","ok":false,"seconds":0.0,"error":"it is\n\u0009stuck in C:\\"}"#
        );
        let count = Some(Count { passed: 3, failed: 1 });
        let run = Document { r#type: "run", step: "test", count, ..Document::default() };
        assert_eq!(
            run.to_string(),
            r#"{"type":"run","step":"test","ok":false,"seconds":0.0,"passed":3,"failed":1}"#
        );
    }
}
