use crate::cache::inner::CacheInner;
use crate::connect::failure_text;
use crate::divergence::{self, HistoryComparison};
use crate::identity::{self, DatabaseIdentity, IdentityAnswer};
use sqlx::PgConnection;

/// Refuses a server whose history lacks acknowledged writes: the tail must begin a new epoch first, and growth then
/// waits for the audit. A replica that has seen no history yet accepts the history of the recorded server only.
///
/// `last` is the server that the writer was last connected to. Returns the identity of the current one, if it is known.
pub(super) async fn verify_history(
    cache: &CacheInner,
    last: Option<&DatabaseIdentity>,
    connection: &mut PgConnection,
) -> Result<Option<DatabaseIdentity>, String> {
    let answer = identity::query(cache, connection).await.map_err(|error| failure_text(&error))?;
    if answer == IdentityAnswer::Recovering {
        return Err("the database takes no writes: it is a standby or still recovers".to_owned());
    }
    let server = answer.identity();
    let moved = server.as_ref().zip(last).is_some_and(|(server, last)| server != last);
    if cache.progress.borrow().synced {
        match divergence::compare(cache, connection, moved).await.map_err(|error| failure_text(&error))? {
            HistoryComparison::Same => {}
            HistoryComparison::NewEpoch => return Err("another history begins, and is being read".to_owned()),
            HistoryComparison::Diverged(why) => {
                cache.handover.request_poll();
                return Err(format!("the history of this server is to be compared first: {why}"));
            }
        }
    } else if let Some(server) = &server {
        let recorded = identity::recorded(cache, connection).await.map_err(|error| failure_text(&error))?;
        if recorded.differs_from(server) {
            return Err(
                "the history is to be compared first: this server or database is not the one it was on"
                    .to_owned(),
            );
        }
        // A history that nobody has read yet needs a recorded identity, too: otherwise nobody notices that it was
        // copied to another server.
        if recorded.is_incomplete() {
            identity::record(cache, connection).await.map_err(|error| failure_text(&error))?;
        }
    }
    Ok(server)
}
