use crate::cache::inner::CacheInner;
use crate::connect::told;
use crate::divergence::{self, HistoryVerdict};
use crate::server::{self, Home, Told};
use sqlx::PgConnection;

/// Refuses a server whose history lacks what was granted before: the tail has to declare it first, and growth then
/// waits for the audit. A replica that has seen nothing yet takes the history of the remembered server.
///
/// `last` is the server that the writer was last connected to. Returns the one that answers now, if it tells.
pub(super) async fn recognize(
    cache: &CacheInner,
    last: Option<&Home>,
    connection: &mut PgConnection,
) -> Result<Option<Home>, String> {
    let told_of = server::ask(cache, connection).await.map_err(|error| told(&error))?;
    if told_of == Told::Recovering {
        return Err("the database takes no writes: it is a standby or still recovers".to_owned());
    }
    let server = told_of.server();
    let moved = server.as_ref().zip(last).is_some_and(|(server, last)| server != last);
    if cache.progress.borrow().synced {
        match divergence::compare(cache, connection, moved).await.map_err(|error| told(&error))? {
            HistoryVerdict::Same => {}
            HistoryVerdict::Other => return Err("another history begins, and is being read".to_owned()),
            HistoryVerdict::Diverged(why) => {
                cache.handover.request_poll();
                return Err(format!("the history of this server is to be compared first: {why}"));
            }
        }
    } else if let Some(server) = &server {
        let memory = server::recall(cache, connection).await.map_err(|error| told(&error))?;
        if memory.differs(server) {
            return Err(
                "the history is to be compared first: this server or database is not the one it was on"
                    .to_owned(),
            );
        }
        // A history that nobody has read yet needs a home, too, so that a copy of it on another server is noticed.
        if memory.has_gaps() {
            server::remember(cache, connection).await.map_err(|error| told(&error))?;
        }
    }
    Ok(server)
}
