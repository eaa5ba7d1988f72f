//! Running programs, by name.

use anyhow::{Context, Result};
use std::path::PathBuf;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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

/// Processes that are stopped (SIGSTOP) while others are measured.
pub(crate) struct PausedProcesses(Vec<String>);

impl PausedProcesses {
    /// Pauses the controllers, which change objects on their own.
    pub(crate) fn controllers() -> Result<Self> {
        let found = find(&["business-controller", "kube-controller-manager"])?;
        let pids: Vec<String> = found.into_iter().map(|process| process.pid).collect();
        signal("-STOP", &pids);
        Ok(Self(pids))
    }
}

impl Drop for PausedProcesses {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

/// A program's port for probes and metrics.
pub(crate) struct AdminPort {
    pub(crate) program: String,
    pub(crate) port: u16,
}

/// Of every running program with one of these names, as its command line says.
pub(crate) fn admin_ports(programs: &[&str]) -> Result<Vec<AdminPort>> {
    let mut ports = Vec::new();
    for process in find(programs)? {
        let command = std::fs::read_to_string(process.folder.join("cmdline")).unwrap_or_default();
        let mut words = command.split('\0');
        let program = words.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
        let bind = words.find_map(|word| word.strip_prefix("--admin-bind="));
        if let Some(port) = bind.and_then(|bind| bind.rsplit_once(':')?.1.parse().ok()) {
            ports.push(AdminPort { program, port });
        }
    }
    Ok(ports)
}

/// What a program exports.
pub(crate) async fn metrics(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Sends a signal to the kube-apiserver of this port.
pub(crate) fn signal_server(name: &str, port: &str) -> Result<()> {
    let wanted = format!("--secure-port={port}");
    let found = find(&["kube-apiserver"])?.into_iter().find(|process| {
        let command = std::fs::read_to_string(process.folder.join("cmdline")).unwrap_or_default();
        command.split('\0').any(|word| word == wanted)
    });
    let process = found.with_context(|| format!("no kube-apiserver of port {port}"))?;
    signal(name, &[process.pid]);
    Ok(())
}

fn signal(signal: &str, pids: &[String]) {
    if !pids.is_empty() {
        drop(std::process::Command::new("kill").arg(signal).args(pids).status());
    }
}
