//! How often a write is tried when others change its object.

use runtime::Backoff;
use std::time::Duration;
use store::read::At;

/// Tries after conflicts. With the waits between them a write gives up after some two seconds: by then it is not a
/// race any more.
const TRIES_MAX: u32 = 32;
const WAIT_FLOOR: Duration = Duration::from_millis(1);
const WAIT_CEILING: Duration = Duration::from_millis(100);

/// The tries of one write. The first try reads the cache as it is, which saves asking the database for its revision.
/// If it ends in a refusal or without a change, the newest state is looked at before that is answered.
pub(crate) struct Tries {
    at: At,
    made: u32,
    backoff: Backoff,
}

impl Tries {
    /// A dry run reads the newest state: nothing is written, so nothing else would notice that the state was an older
    /// one.
    pub(crate) fn new(dry_run: bool) -> Self {
        let at = if dry_run { At::Latest } else { At::Any };
        Self { at, made: 0, backoff: Backoff::new(WAIT_FLOOR, WAIT_CEILING) }
    }

    /// How fresh the object of this try must be.
    pub(crate) fn at(&self) -> At {
        self.at
    }

    /// Whether there is a newer state to look at before an answer is given.
    pub(crate) fn look_again(&mut self) -> bool {
        self.at != At::Latest && {
            self.at = At::Latest;
            true
        }
    }

    /// Waits for the next try after a conflict; `false` when there were enough.
    pub(crate) async fn again(&mut self) -> bool {
        let Some(delay) = self.next_delay() else { return false };
        Box::pin(tokio::time::sleep(delay)).await;
        true
    }

    fn next_delay(&mut self) -> Option<Duration> {
        self.made += 1;
        (self.made < TRIES_MAX).then(|| self.backoff.next_delay())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_always_conflicts_gives_up_after_a_few_seconds() {
        let mut tries = Tries::new(false);
        assert!(tries.look_again() && !tries.look_again());
        let delays: Vec<Duration> = std::iter::from_fn(|| tries.next_delay()).collect();
        assert_eq!(delays.len() + 1, 32, "the first try waits for nothing");
        let all: Duration = delays.iter().sum();
        assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&all), "{all:?}");
    }
}
