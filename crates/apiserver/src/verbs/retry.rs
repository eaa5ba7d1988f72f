//! How often and how fast a write is retried after conflicts with other writes.

use runtime::Backoff;
use std::time::Duration;
use store::read::At;

/// Most attempts of a write. With the waits between them it gives up after some two seconds: by then the conflicts are
/// no coincidence.
const ATTEMPTS_MAX: u32 = 32;
const MIN_DELAY: Duration = Duration::from_millis(1);
const MAX_DELAY: Duration = Duration::from_millis(100);

/// The attempts of one write. The first reads the object from the cache as it is, which saves a query for the
/// database's revision. If it ends in a refusal or without a change, it is repeated with the newest state before the
/// client gets the answer. What was left as it is need not be repeated if it is the newest state.
pub(crate) struct Retries {
    at: At,
    attempts: u32,
    backoff: Backoff,
}

impl Retries {
    /// A dry run reads the newest state at once: it writes nothing, so the store would not notice an old state.
    pub(crate) fn new(dry_run: bool) -> Self {
        let at = if dry_run { At::Latest } else { At::Any };
        Self { at, attempts: 0, backoff: Backoff::new(MIN_DELAY, MAX_DELAY) }
    }

    /// How fresh the object of this attempt must be.
    pub(crate) fn at(&self) -> At {
        self.at
    }

    /// Whether this attempt read the cache. If so, the next attempt reads the newest state.
    pub(crate) fn retry_with_latest(&mut self) -> bool {
        self.at != At::Latest && {
            self.at = At::Latest;
            true
        }
    }

    /// Waits for the next attempt after a conflict; `false` if there have been enough.
    pub(crate) async fn wait(&mut self) -> bool {
        let Some(delay) = self.next_delay() else { return false };
        Box::pin(tokio::time::sleep(delay)).await;
        true
    }

    fn next_delay(&mut self) -> Option<Duration> {
        self.attempts += 1;
        (self.attempts < ATTEMPTS_MAX).then(|| self.backoff.next_delay())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_always_conflicts_gives_up_after_a_few_seconds() {
        let mut retries = Retries::new(false);
        assert!(retries.retry_with_latest() && !retries.retry_with_latest());
        let delays: Vec<Duration> = std::iter::from_fn(|| retries.next_delay()).collect();
        assert_eq!(delays.len() + 1, 32, "the first try waits for nothing");
        let all: Duration = delays.iter().sum();
        assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&all), "{all:?}");
    }
}
