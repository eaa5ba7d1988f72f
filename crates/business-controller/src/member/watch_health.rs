//! The health of the lists and watches of a cluster.

use crate::error::watch_error_text;
use kube::runtime::watcher::{self, Event};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Failures of a watch that are further apart have separate causes. A watch request that is never answered fails after
/// five minutes, and the client waits up to one minute before the next.
const FAILURE_GAP_MAX: Duration = Duration::from_mins(7);

/// A list of more objects (a thousand pages) counts as stuck: it may have no end.
pub(super) const LIST_MAX: usize = 500_000;

/// Without these lists, nothing is known of a cluster.
pub(super) const REQUIRED: [&str; 2] = ["namespaces", "resourcequotas"];

/// The health of the watches of one cluster.
#[derive(Debug)]
pub(crate) struct WatchHealth {
    /// The last error of any watch.
    error: Mutex<Option<String>>,
    /// When a list last came further than ever before.
    grown: Mutex<Instant>,
    /// The kinds that cannot be listed or watched at present.
    failing: Mutex<BTreeMap<&'static str, Failing>>,
}

/// A list or watch that fails again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failing {
    since: Instant,
    last: Instant,
    by: WatchFailure,
}

/// Why a kind cannot be followed, the worse before the better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchFailure {
    /// It cannot be listed.
    CannotList(String),
    /// It can be listed but not watched: the client does not list it again, so the cache becomes stale.
    CannotWatch(String),
}

impl WatchHealth {
    pub(crate) fn new() -> Self {
        Self { error: Mutex::default(), grown: Mutex::new(Instant::now()), failing: Mutex::default() }
    }

    /// Records an event of a watch. A failure stands until the watch has delivered something: that a watch request was
    /// sent again does not end it.
    pub(crate) fn observe<K>(&self, what: &'static str, event: &watcher::Result<Event<K>>) {
        let by = match event {
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => {
                self.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
                return;
            }
            Err(failure @ watcher::Error::WatchStartFailed(_)) => {
                WatchFailure::CannotWatch(watch_error_text(failure))
            }
            Err(failure @ watcher::Error::InitialListFailed(_)) if REQUIRED.contains(&what) => {
                WatchFailure::CannotList(watch_error_text(failure))
            }
            // A watch that breaks off is restarted by the client, with a list if its event was too large.
            Ok(Event::Init | Event::InitApply(_)) | Err(_) => return,
        };
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let before = failing.get(what).filter(|before| now.duration_since(before.last) < FAILURE_GAP_MAX);
        let since = before.map_or(now, |before| before.since);
        failing.insert(what, Failing { since, last: now, by });
    }

    /// The worst failure that has lasted longer than `patience`.
    pub(crate) fn lasting_failure(&self, patience: Duration) -> Option<WatchFailure> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let lasting = failing.values().filter(|one| one.last.duration_since(one.since) > patience);
        lasting.map(|one| &one.by).min().cloned()
    }

    fn list_has_grown(&self) {
        *self.grown.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn since_progress(&self) -> Duration {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub(super) fn set_last_error(&self, text: String) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The progress of one list. A list that breaks off at the same place again and again makes none.
#[derive(Debug)]
pub(super) struct ListHealth<'a> {
    of: &'a WatchHealth,
    pub(super) now: usize,
    most: usize,
}

impl<'a> ListHealth<'a> {
    pub(super) fn new(of: &'a WatchHealth) -> Self {
        Self { of, now: 0, most: 0 }
    }

    pub(super) fn observe<K>(&mut self, event: &Result<Event<K>, watcher::Error>) {
        match event {
            Ok(Event::Init) => self.now = 0,
            Ok(Event::InitApply(_)) => {
                self.now = self.now.saturating_add(1);
                if self.now > self.most {
                    if self.now <= LIST_MAX {
                        self.of.list_has_grown();
                    } else if self.most == LIST_MAX {
                        self.of.set_last_error(format!(
                            "a list has more than {LIST_MAX} objects, and no end yet"
                        ));
                    }
                    self.most = self.now;
                }
            }
            _ => {}
        }
    }
}
