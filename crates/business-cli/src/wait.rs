//! Waiting for something to come true, with a deadline and a word now and then.

use crate::failure::Failure;
use crate::screen::note;
use std::time::Duration;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a look has found.
#[derive(Clone, Debug)]
pub(crate) enum Look<T> {
    Yes(T),
    /// Not yet; what stands in the way.
    NotYet(String),
}

/// Looks until it is so. What stands in the way is told whenever it changes.
pub(crate) async fn until<T>(
    what: &str,
    timeout: Duration,
    mut look: impl AsyncFnMut() -> Result<Look<T>, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    let (mut pause, mut last) = (FIRST_PAUSE, String::new());
    loop {
        match look().await? {
            Look::Yes(found) => return Ok(found),
            Look::NotYet(why) if why != last => {
                note(format_args!("waiting: {what}: {why}"));
                last = why;
            }
            Look::NotYet(_) => {}
        }
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(Failure::TimedOut { what: what.to_owned(), after: timeout, last });
        }
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
