//! Running the programs that do the work.

use crate::{transcript, workspace};
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};
use terminal::caller;
use terminal::say::{self, Count};

const POLL: Duration = Duration::from_millis(50);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on SIGINT, SIGTERM and SIGHUP are forwarded, and this program ends after its child.
pub(crate) fn listen_for_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    Ok(())
}

pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// From this moment on programs are ended like by SIGTERM. The first call counts.
pub(crate) fn set_deadline(deadline: Instant) {
    DEADLINE.get_or_init(|| deadline);
}

pub(crate) fn is_out_of_time() -> bool {
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= *deadline)
}

/// Replaces this process with one of our programs (exec).
pub(crate) fn become_program(program: &Path, args: impl IntoIterator<Item = OsString>) -> Result<Infallible> {
    let error = Command::new(program).args(args).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}

/// Runs one of our programs as a step of `test`.
pub(crate) fn level(name: &str, program: &str, words: &[&str]) -> Result<Count> {
    let outcome = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
    let mut command = Command::new(workspace::built(false)?.join(program));
    command.args(words).args(caller::level(name, &outcome, say::output()));
    let status = transcript::record(command, run)?;
    let heard = caller::read_outcome(&outcome);
    let removed = std::fs::remove_file(&outcome);
    removed.with_context(|| format!("{program} ended with {status}"))?;
    heard
}

/// Runs a program, which gets SIGTERM when this one does, or is out of time.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    let name = command.get_program().to_owned();
    let child = command.spawn().with_context(|| format!("start {}", name.display()))?;
    let program = Pid::from_raw(i32::try_from(child.id())?);
    wait_forwarding_signals(child, program)
}

/// Runs a program in a process group of its own, which gets the signals, since the program does not forward them.
pub(crate) fn run_as_group(command: &mut Command) -> Result<ExitStatus> {
    let name = command.get_program().to_owned();
    let child = command.process_group(0).spawn().with_context(|| format!("start {}", name.display()))?;
    let group = Pid::from_raw(-i32::try_from(child.id())?);
    wait_forwarding_signals(child, group)
}

fn wait_forwarding_signals(mut child: Child, target: Pid) -> Result<ExitStatus> {
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if (interrupted() || is_out_of_time()) && !std::mem::replace(&mut is_told, true) {
            kill(target, Signal::SIGTERM)?;
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Stdio;

    #[test]
    fn what_a_told_program_has_called_ends_with_it() {
        let mut command = Command::new("sh");
        // The pipe is closed when the last of both has ended.
        command.args(["-c", "sleep 600 & echo begun; wait"]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let mut lines = child.stdout.take().unwrap();
        lines.read_exact(&mut [0; 6]).unwrap();
        INTERRUPTED.store(true, Ordering::Relaxed);
        let group = Pid::from_raw(-i32::try_from(child.id()).unwrap());
        assert!(!wait_forwarding_signals(child, group).unwrap().success());
        assert_eq!(lines.read_to_end(&mut Vec::new()).unwrap(), 0);
        INTERRUPTED.store(false, Ordering::Relaxed);
    }
}
