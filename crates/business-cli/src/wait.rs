//! Waiting for a condition, with a deadline and progress messages.

use crate::failure::Failure;
use crate::screen::{note, sanitize_line};
use std::time::Duration;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The result of one check.
#[derive(Clone, Debug)]
pub(crate) enum Progress<T> {
    Done(T),
    /// Not done yet, and why.
    Pending(String),
}

/// Checks until it is done or the timeout has passed. Prints the reason for waiting whenever it changes.
pub(crate) async fn until<T>(
    what: &str,
    timeout: Duration,
    mut check: impl AsyncFnMut() -> Result<Progress<T>, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    let (mut pause, mut last) = (FIRST_PAUSE, String::new());
    loop {
        let progress = match check().await {
            // A server that restarts is no reason to stop waiting.
            Err(failure) if failure.is_transient() => Progress::Pending(failure.to_string()),
            progress => progress?,
        };
        match progress {
            Progress::Done(found) => return Ok(found),
            Progress::Pending(why) if why != last => {
                note(progress_line(what, &why));
                last = why;
            }
            Progress::Pending(_) => {}
        }
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(Failure::TimedOut { what: what.to_owned(), after: timeout, last });
        }
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A progress line. The reason may come from a member cluster.
fn progress_line(what: &str, why: &str) -> String {
    format!("waiting: {what}: {}", sanitize_line(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Failure {
        Failure::Unreachable { server: "s".to_owned(), why: "refused".to_owned() }
    }

    #[tokio::test]
    async fn a_server_that_is_away_for_a_while_is_waited_for() {
        let mut checks = 0;
        let found = until("it is so", Duration::from_mins(1), async || {
            checks += 1;
            match checks {
                1 => Err(busy()),
                2 => Ok(Progress::Pending("soon".to_owned())),
                _ => Ok(Progress::Done(checks)),
            }
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[test]
    fn what_a_cluster_says_does_not_act_on_the_terminal() {
        assert_eq!(
            progress_line("it is so", "Failed: \x1b[2Ja\nb"),
            "waiting: it is so: Failed: \u{fffd}[2Ja b"
        );
    }

    #[tokio::test]
    async fn waiting_ends_with_the_deadline_and_what_was_seen_last() {
        let never = async || Ok(Progress::<()>::Pending("Pending".to_owned()));
        let failure = until("it is so", Duration::ZERO, never).await.unwrap_err();
        assert_eq!(failure.to_string(), "it is so: not within 0s; the last that was seen: Pending");
        let gone = async || -> Result<Progress<()>, Failure> { Err(Failure::Other("no".to_owned())) };
        assert!(matches!(until("it is so", Duration::from_secs(5), gone).await, Err(Failure::Other(_))));
    }
}
