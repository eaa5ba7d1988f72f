//! The state of the first list of optional objects: nothing waits for it without end.

use crate::error::ListFailure;
use std::time::Duration;
use tokio::time::Instant;

/// A first list that takes longer than this is no longer waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state of the first list.
#[derive(Debug, Default)]
pub(super) struct InitialList {
    begun: Option<Instant>,
    error: Option<ListFailure>,
    /// It was already reported as overdue.
    told: bool,
}

impl InitialList {
    pub(super) fn begin(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    /// Records a failure. Returns whether it is new.
    pub(super) fn fail(&mut self, error: &ListFailure) -> bool {
        self.error.replace(error.clone()).as_ref() != Some(error)
    }

    pub(super) fn end(&mut self) {
        self.error = None;
    }

    pub(super) fn is_forbidden(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.is_forbidden)
    }

    /// Why it is not to be waited for: it failed, or it is overdue.
    pub(super) fn failure(&self) -> Option<ListFailure> {
        let late = || ListFailure { text: "the list has no end yet".to_owned(), is_forbidden: false };
        self.error.clone().or_else(|| self.is_overdue().then(late))
    }

    /// Whether it has become overdue without a failure since the last call. Returns `true` once.
    pub(super) fn became_overdue(&mut self) -> bool {
        let is_news = self.is_overdue() && self.error.is_none() && !self.told;
        self.told |= is_news;
        is_news
    }

    fn is_overdue(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() > PATIENCE)
    }
}
