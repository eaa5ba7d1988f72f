//! Identifies processes by pid and start time, because the system reuses pids.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::process::Command;
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
    fn a_process_is_stopped_and_a_stopped_one_is_not_alive() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessIdentity::of(child.id()).unwrap();
        id.stop(Signal::SIGTERM, Duration::from_secs(5), || drop(child.try_wait())).unwrap();
        assert!(!id.alive());
    }
}
