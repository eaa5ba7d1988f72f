//! What the programs of a step of `test` have printed last. It is shown again at the end of a run that has failed, since
//! a log is often read from there.

use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use terminal::say::{self, Output};

const LINES_KEPT: usize = 2000;
const LINES_SHOWN: usize = 12;
/// Of a step that has failed in a program: its name and its error.
const LINES_OF_FAILURE: usize = 3;
const CHARS_SHOWN: usize = 400;
/// How long the output of a program that has ended may stay open: what it has started may hold it.
const PATIENCE: Duration = Duration::from_secs(2);

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn lines() -> MutexGuard<'static, VecDeque<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all lines: another step begins.
pub(crate) fn clear() {
    lines().clear();
}

/// Records a line.
pub(crate) fn keep(line: &str) {
    let mut kept = lines();
    if kept.len() == LINES_KEPT {
        kept.pop_front();
    }
    kept.push_back(line.to_owned());
}

/// Runs a program whose output is passed on and recorded. On a terminal it is only passed on, since programs print in
/// another way there.
pub(crate) fn record<T>(mut command: Command, run: impl FnOnce(&mut Command) -> Result<T>) -> Result<T> {
    if say::output() == Output::Json || std::io::stdout().is_terminal() {
        return run(command.stdout(say::lines()));
    }
    let (output, to_output) = std::io::pipe().context("make a pipe")?;
    command.stdout(to_output.try_clone()?).stderr(to_output);
    let (at_end, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _at_end = at_end;
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            keep(&line);
            say::line(line);
        }
    });
    let outcome = run(&mut command);
    // Its copies of the pipe.
    drop(command);
    let _ended = ended.recv_timeout(PATIENCE);
    outcome
}

/// The lines that say most about what has failed.
pub(crate) fn excerpt() -> Vec<String> {
    excerpt_of(lines().make_contiguous())
}

fn excerpt_of(lines: &[String]) -> Vec<String> {
    let mut chosen = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("FAIL")) {
        let is_next = |line: &&String| line.starts_with("ok ") || line.starts_with("FAIL");
        let rest = lines.get(at + 1..).unwrap_or_default();
        chosen.extend(lines.get(at));
        chosen.extend(rest.iter().take_while(|line| !is_next(line)).take(LINES_OF_FAILURE - 1));
    }
    if chosen.is_empty() {
        chosen.extend(lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default());
    }
    chosen.into_iter().take(LINES_SHOWN).map(|line| line.chars().take(CHARS_SHOWN).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn an_excerpt_has_the_failed_steps_and_their_errors_or_else_the_end() {
        let lines = owned(&["ok  one", "FAIL two", "      why", "ok  three", "FAIL four", "ok  five", "end"]);
        assert_eq!(excerpt_of(&lines), owned(&["FAIL two", "      why", "FAIL four"]));
        let many: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        assert_eq!(excerpt_of(&many), many[30 - LINES_SHOWN..]);
        assert_eq!(excerpt_of(&owned(&[&"x".repeat(1000)])), ["x".repeat(CHARS_SHOWN)]);
        assert!(excerpt_of(&[]).is_empty());
    }

    #[test]
    fn both_outputs_of_a_program_are_recorded() {
        clear();
        let mut command = Command::new("sh");
        command.args(["-c", "echo to one; echo to the other >&2; exit 3"]);
        let status = record(command, call::run_as_group).unwrap();
        assert_eq!(status.code(), Some(3));
        let recorded = excerpt();
        let is_terminal = std::io::stdout().is_terminal();
        assert!(is_terminal || recorded == ["to one", "to the other"], "{recorded:?}");
    }
}
