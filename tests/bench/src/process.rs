//! Running programs, by name.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// A running program.
struct Process {
    pid: String,
    folder: PathBuf,
}

/// Every running program with one of these names.
fn find(programs: &[&str]) -> Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let program = command.split('\0').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        if let (true, Ok(pid)) = (programs.contains(&program), entry.file_name().into_string()) {
            found.push(Process { pid, folder: entry.path() });
        }
    }
    Ok(found)
}

/// Bytes of resident memory of every running program of this name.
pub(crate) fn resident(program: &str) -> Result<Vec<f64>> {
    let size = |process: &Process| {
        let status = std::fs::read_to_string(process.folder.join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kibibytes.with_context(|| format!("the memory of {program} is not told"))? * 1024.0)
    };
    find(&[program])?.iter().map(size).collect()
}

/// Programs that stand still while others are measured.
pub(crate) struct Paused(Vec<String>);

impl Paused {
    /// Whatever changes objects by itself.
    pub(crate) fn controllers() -> Result<Self> {
        let found = find(&["business-controller", "kube-controller-manager"])?;
        let pids: Vec<String> = found.into_iter().map(|process| process.pid).collect();
        signal("-STOP", &pids);
        Ok(Self(pids))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(signal: &str, pids: &[String]) {
    if !pids.is_empty() {
        drop(std::process::Command::new("kill").arg(signal).args(pids).status());
    }
}
