//! Calls of the programs that do the work.

use crate::workspace;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use terminal::caller;
use terminal::say::{self, Count};

const POLL: Duration = Duration::from_millis(50);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on SIGINT, SIGTERM and SIGHUP are passed on, and this program ends after what it has called.
pub(crate) fn listen_for_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    Ok(())
}

pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Becomes one of our programs: signals are its own from here on.
pub(crate) fn become_program(
    name: &str,
    release: bool,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Infallible> {
    let program = workspace::built(release)?.join(name);
    let error = Command::new(&program).args(args).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}

/// Runs one of our programs as a level of `test`.
pub(crate) fn level(name: &str, program: &str, words: &[&str]) -> Result<Count> {
    let outcome = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
    let mut command = Command::new(workspace::built(false)?.join(program));
    command.args(words).args(caller::level(name, &outcome, say::output()));
    let status = wait(command.spawn().with_context(|| format!("start {program}"))?)?;
    let heard = caller::heard(&outcome);
    let removed = std::fs::remove_file(&outcome);
    removed.with_context(|| format!("{program} ended with {status}"))?;
    heard
}

/// Waits for a program, which is told when this one is told to end.
pub(crate) fn wait(mut child: Child) -> Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupted() && !std::mem::replace(&mut told, true) {
            kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        }
        std::thread::sleep(POLL);
    }
}
