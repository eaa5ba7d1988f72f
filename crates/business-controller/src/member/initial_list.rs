//! How the first list of something gets on that nothing has waited for.

use crate::error::ListFailure;
use std::time::Duration;
use tokio::time::Instant;

/// One that has run for so long without an end is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why it is not there yet.
#[derive(Debug, Default)]
pub(super) struct InitialList {
    begun: Option<Instant>,
    error: Option<ListFailure>,
    /// It has run for too long, and was said to.
    told: bool,
}

impl InitialList {
    pub(super) fn begin(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    /// Whether that is news.
    pub(super) fn fail(&mut self, error: &ListFailure) -> bool {
        self.error.replace(error.clone()).as_ref() != Some(error)
    }

    pub(super) fn end(&mut self) {
        self.error = None;
    }

    pub(super) fn is_forbidden(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.is_forbidden)
    }

    /// Why it is not to be waited for.
    pub(super) fn failure(&self) -> Option<ListFailure> {
        let late = || ListFailure { text: "the list has no end yet".to_owned(), is_forbidden: false };
        self.error.clone().or_else(|| self.is_overdue().then(late))
    }

    /// Whether it is not to be waited for from now on, by the time alone: nothing else says so. It is said once.
    pub(super) fn became_overdue(&mut self) -> bool {
        let is_news = self.is_overdue() && self.error.is_none() && !self.told;
        self.told |= is_news;
        is_news
    }

    fn is_overdue(&self) -> bool {
        self.begun.is_some_and(|begun| begun.elapsed() > PATIENCE)
    }
}
