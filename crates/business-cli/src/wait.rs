//! Waiting for a condition, with a deadline and progress messages.

use crate::failure::Failure;
use crate::screen::{harmless_line, note};
use std::time::Duration;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The result of a look.
#[derive(Clone, Debug)]
pub(crate) enum Look<T> {
    Yes(T),
    /// Not yet; what stands in the way.
    NotYet(String),
}

/// Looks until the condition holds. The obstacle is shown whenever it changes.
pub(crate) async fn until<T>(
    what: &str,
    timeout: Duration,
    mut look: impl AsyncFnMut() -> Result<Look<T>, Failure>,
) -> Result<T, Failure> {
    let begun = Instant::now();
    let (mut pause, mut last) = (FIRST_PAUSE, String::new());
    loop {
        let seen = match look().await {
            // A server that restarts is no reason to stop waiting.
            Err(failure) if failure.is_passing() => Look::NotYet(failure.to_string()),
            seen => seen?,
        };
        match seen {
            Look::Yes(found) => return Ok(found),
            Look::NotYet(why) if why != last => {
                note(told(what, &why));
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

/// A line of progress. The obstacle may be a text of a member cluster.
fn told(what: &str, why: &str) -> String {
    format!("waiting: {what}: {}", harmless_line(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Failure {
        Failure::Unreachable { server: "s".to_owned(), why: "refused".to_owned() }
    }

    #[tokio::test]
    async fn a_server_that_is_away_for_a_while_is_waited_for() {
        let mut looks = 0;
        let found = until("it is so", Duration::from_secs(5), async || {
            looks += 1;
            match looks {
                1 => Err(busy()),
                2 => Ok(Look::NotYet("soon".to_owned())),
                _ => Ok(Look::Yes(looks)),
            }
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[test]
    fn what_a_cluster_says_does_not_act_on_the_terminal() {
        assert_eq!(told("it is so", "Failed: \x1b[2Ja\nb"), "waiting: it is so: Failed: \u{fffd}[2Ja b");
    }

    #[tokio::test]
    async fn waiting_ends_with_the_deadline_and_what_was_seen_last() {
        let never = async || Ok(Look::<()>::NotYet("Pending".to_owned()));
        let failure = until("it is so", Duration::ZERO, never).await.unwrap_err();
        assert_eq!(failure.to_string(), "it is so: not within 0s; the last that was seen: Pending");
        let gone = async || -> Result<Look<()>, Failure> { Err(Failure::Stopped("no".to_owned())) };
        assert!(matches!(until("it is so", Duration::from_secs(5), gone).await, Err(Failure::Stopped(_))));
    }
}
