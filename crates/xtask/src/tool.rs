use crate::workspace;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines of the log that are shown if the tool fails.
const SHOWN_MAX: usize = 60;

/// The directory of the tools' logs.
pub(crate) fn logs() -> PathBuf {
    workspace::dev().join("logs/build")
}

/// The progress of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) done: usize,
    /// Zero if it is not known yet.
    pub(crate) total: usize,
}

#[derive(Debug)]
struct ToolState {
    progress: Progress,
    running: Option<Pid>,
    stopped: bool,
    log: File,
}

/// A running tool. Its output goes to a log, and its progress is parsed.
#[derive(Debug)]
pub(crate) struct Tool {
    what: &'static str,
    unit: &'static str,
    log: PathBuf,
    state: Mutex<ToolState>,
}

impl Display for Tool {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Progress { done, total } = self.state().progress;
        match total {
            0 => write!(f, "{}: downloading", self.what),
            _ => write!(f, "{}: {done} of {total} {}", self.what, self.unit),
        }
    }
}

impl Tool {
    /// `name` is that of the log; `unit` is what the progress counts.
    pub(crate) fn new(what: &'static str, unit: &'static str, name: &str) -> Result<Self> {
        std::fs::create_dir_all(logs())?;
        let path = logs().join(format!("{name}.log"));
        let log = File::create(&path).with_context(|| format!("write {}", path.display()))?;
        let state = ToolState { progress: Progress::default(), running: None, stopped: false, log };
        Ok(Self { what, unit, log: path, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, ToolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_progress(&self, progress: Progress) {
        self.state().progress = progress;
    }

    pub(crate) fn note(&self, line: &str) {
        // A log that cannot be written is no reason to stop.
        drop(writeln!(self.state().log, "{line}"));
    }

    /// Runs a command. `on_line` gets each line of its standard error.
    pub(crate) fn run(&self, command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = {
            let mut state = self.state();
            if state.stopped {
                bail!("{} stopped", self.what);
            }
            let child = command.spawn().with_context(|| format!("start {name}"))?;
            state.running = i32::try_from(child.id()).ok().map(Pid::from_raw);
            child
        };
        if let Some(errors) = child.stderr.take() {
            each_line(errors, |line| on_line(line))?;
        }
        let status = child.wait()?;
        self.state().running = None;
        if status.success() {
            return Ok(());
        }
        bail!("{name} failed ({status}); the end of {}:\n{}", self.log.display(), self.end_of_log())
    }

    /// Terminates the running command and starts no other.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        if let Some(pid) = state.running {
            // It may have ended by itself.
            let _gone = kill(pid, Signal::SIGTERM);
        }
    }

    /// The end of the log, from the first error if that is close.
    fn end_of_log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.iter().position(|line| line.starts_with("error")).unwrap_or(0);
        let from = first.max(lines.len().saturating_sub(SHOWN_MAX));
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

/// Calls `each` for every line that is not blank. Lines end with LF, or with CR for progress bars, and the last one
/// with the output.
fn each_line(mut input: impl Read, mut each: impl FnMut(&str)) -> Result<()> {
    let mut tell = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        if !text.trim().is_empty() {
            each(&text);
        }
    };
    let mut chunk = vec![0; 1 << 14];
    let mut line = Vec::new();
    loop {
        let count = input.read(&mut chunk)?;
        if count == 0 {
            tell(&line);
            return Ok(());
        }
        for &byte in chunk.iter().take(count) {
            if matches!(byte, b'\n' | b'\r') {
                tell(&line);
                line.clear();
            } else {
                line.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_written_over_are_lines() {
        let mut seen = Vec::new();
        let text = "one\r\ntwo\rthree  \r   \r\nfour\nand no end";
        each_line(text.as_bytes(), |line| seen.push(line.to_owned())).unwrap();
        assert_eq!(seen, ["one", "two", "three  ", "four", "and no end"]);
    }

    #[test]
    fn a_tool_that_fails_shows_the_end_of_its_log_and_a_stopped_one_runs_nothing() {
        let tool = Tool::new("a thing", "parts", "test-tool").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo 'error: no such thing' >&2; exit 3"]);
        let error = tool.run(&mut shell, |line| tool.note(line)).unwrap_err().to_string();
        assert!(error.contains("error: no such thing") && error.contains("test-tool.log"), "{error}");
        tool.stop();
        assert_eq!(tool.run(&mut Command::new("true"), |_| {}).unwrap_err().to_string(), "a thing stopped");
    }
}
