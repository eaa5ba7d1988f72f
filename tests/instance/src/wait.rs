//! Waits for a condition with a deadline. The error has the last seen state. Ctrl-C ends the wait.

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on SIGINT, SIGTERM and SIGHUP end every wait instead of the program.
pub fn listen_for_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    Ok(())
}

/// Whether somebody has asked the program to end.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The result of one check of a condition.
#[derive(Debug)]
pub enum Progress<T> {
    /// It holds.
    Done(T),
    /// It does not hold yet; this is the current state.
    Pending(String),
}

/// Polls until the condition holds. An error of `look` ends the wait at once.
pub fn until<T>(what: &str, deadline: Duration, mut check: impl FnMut() -> Result<Progress<T>>) -> Result<T> {
    let end = Instant::now() + deadline;
    loop {
        let last = match check()? {
            Progress::Done(found) => return Ok(found),
            Progress::Pending(last) => last,
        };
        if interrupted() {
            bail!("interrupted while waiting for {what}");
        }
        if Instant::now() >= end {
            bail!("{what}: not within {} s; last seen: {last}", deadline.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

/// Sleeps until somebody asks the program to end.
pub fn until_interrupted() {
    while !interrupted() {
        std::thread::sleep(POLL);
    }
}
