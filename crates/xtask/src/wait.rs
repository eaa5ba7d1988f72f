//! Waiting for a condition, with a deadline, the last seen state in the error, and an ear for Ctrl-C.

use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

const POLL: Duration = Duration::from_millis(100);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP end every wait instead of the program.
pub(crate) fn listen_for_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate, mut hangup) = runtime.block_on(async {
        std::io::Result::Ok((
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ))
    })?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            INTERRUPTED.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        });
    });
    Ok(())
}

pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// What one look at a condition found.
#[derive(Debug)]
pub(crate) enum Seen<T> {
    /// It holds.
    Yes(T),
    /// Not yet, and this is how things stand.
    NotYet(String),
}

/// Looks until the condition holds. `look`'s own error ends the wait at once.
pub(crate) fn until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    loop {
        let last = match look()? {
            Seen::Yes(found) => return Ok(found),
            Seen::NotYet(last) => last,
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

/// Sleeps until somebody asks the program to end or `again` says so.
pub(crate) fn until_interrupted(mut again: impl FnMut() -> Result<()>) -> Result<()> {
    while !interrupted() {
        again()?;
        std::thread::sleep(POLL);
    }
    Ok(())
}
