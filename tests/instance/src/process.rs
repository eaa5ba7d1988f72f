//! Identifies processes by pid and start time, because the system reuses pids. Runs commands with a deadline.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// One process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// When it started, in whatever form this system tells it.
    pub started: String,
}

impl ProcessIdentity {
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)? })
    }

    pub fn current() -> Option<Self> {
        Self::of(std::process::id())
    }

    pub fn alive(&self) -> bool {
        started(self.pid).is_some_and(|now| now == self.started)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        if !self.alive() {
            return Ok(());
        }
        let pid = Pid::from_raw(i32::try_from(self.pid).context("pid out of range")?);
        match kill(pid, signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(errno) => Err(errno).with_context(|| format!("send {signal} to process {pid}")),
        }
    }

    /// Asks the process to end, waits, and kills it when it does not.
    pub fn stop(&self, signal: Signal, patience: Duration, mut reap: impl FnMut()) -> Result<()> {
        self.signal(signal)?;
        let deadline = Instant::now() + patience;
        while self.alive() && Instant::now() < deadline {
            reap();
            std::thread::sleep(POLL);
        }
        self.signal(Signal::SIGKILL)?;
        let deadline = Instant::now() + patience;
        while self.alive() && Instant::now() < deadline {
            reap();
            std::thread::sleep(POLL);
        }
        anyhow::ensure!(!self.alive(), "process {} does not end", self.pid);
        Ok(())
    }
}

/// Runs a command to its end with `input` on its stdin. One that does not end in time is killed, and is an error.
pub fn output_within(command: &mut Command, input: Option<&str>, deadline: Duration) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {program}"))?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        let text = text.to_owned();
        std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    }
    let identity = ProcessIdentity::of(child.id());
    // Nothing is sent: the sender is dropped when the command has ended.
    let (ended, running) = mpsc::sync_channel::<()>(1);
    let watchdog = std::thread::spawn(move || {
        let is_late = running.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout);
        if let (true, Some(identity)) = (is_late, identity) {
            drop(identity.signal(Signal::SIGKILL));
        }
        is_late
    });
    let output = child.wait_with_output();
    drop(ended);
    let is_late = watchdog.join().unwrap_or_default();
    let output = output?;
    let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(!is_late, "{program} did not end within {} s: {}", deadline.as_secs(), said());
    Ok(output)
}

/// Start time of a living process; a zombie is not alive.
fn started(pid: u32) -> Option<String> {
    if cfg!(target_os = "linux") {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        return fields.nth(18).map(str::to_owned);
    }
    let output = Command::new("ps").args(["-o", "stat=,lstart=", "-p", &pid.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (state, started) = text.trim().split_once(' ')?;
    (!state.starts_with('Z')).then(|| started.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_another_start_time_is_another_process() {
        let me = ProcessIdentity::current().unwrap();
        assert!(me.alive());
        assert!(!ProcessIdentity { started: "0".to_owned(), ..me }.alive());
    }

    #[test]
    fn a_command_gets_its_input_and_one_that_is_late_is_killed() {
        let copied = output_within(&mut Command::new("cat"), Some("text"), Duration::from_mins(1)).unwrap();
        assert!(copied.status.success());
        assert_eq!(copied.stdout, b"text");
        let late = output_within(Command::new("sleep").arg("600"), None, Duration::from_millis(50));
        assert!(late.unwrap_err().to_string().contains("sleep did not end"));
    }

    #[test]
    fn a_process_is_stopped_and_a_stopped_one_is_not_alive() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessIdentity::of(child.id()).unwrap();
        id.stop(Signal::SIGTERM, Duration::from_secs(5), || drop(child.try_wait())).unwrap();
        assert!(!id.alive());
    }
}
