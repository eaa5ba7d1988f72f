//! LISTEN, so that the tail polls before the next regular poll. Nothing depends on it.

use crate::cache::inner::CacheInner;
use crate::connect::{NOTIFY_CHANNEL, SESSION, within};
use crate::model::Revision;
use runtime::Backoff;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The statement of the check. Not another LISTEN: the listener keeps each one, and sends all of them again whenever it
/// reconnects.
const CHECK: &str = "SELECT 1";
/// Longest time that the server may take to answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
const BACKOFF_FLOOR: Duration = Duration::from_millis(200);
const BACKOFF_CEILING: Duration = Duration::from_secs(10);

/// Listens until the program ends.
pub(crate) async fn run(cache: Arc<CacheInner>, options: PgConnectOptions) {
    let mut backoff = Backoff::new(BACKOFF_FLOOR, BACKOFF_CEILING);
    while let Err(error) = listen(&cache, &pool(options.clone()), &mut backoff).await {
        tracing::debug!(%error, "LISTEN failed; changes are found by polling");
        backoff.wait().await;
    }
}

/// A pool for one listener. It is not used for the next one: a listener whose connection hangs keeps its place until the
/// system gives the connection up, which takes a quarter of an hour.
fn pool(options: PgConnectOptions) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(1).after_connect(|connection, _| {
        Box::pin(async { sqlx::raw_sql(SESSION).execute(connection).await.map(drop) })
    });
    pool.connect_lazy_with(options)
}

/// Whether this writer has sent a notification. Its payload is a revision and the writer's id.
fn is_from(payload: &str, writer: Uuid) -> bool {
    payload.split_once(' ').is_some_and(|(_, sender)| sender.parse() == Ok(writer))
}

fn revision(payload: &str) -> Option<Revision> {
    payload.split_once(' ')?.0.parse().ok().map(Revision)
}

async fn listen(cache: &CacheInner, pool: &PgPool, backoff: &mut Backoff) -> Result<(), sqlx::Error> {
    let writer = cache.handover.writer();
    let mut listener = PgListener::connect_with(pool).await?;
    within(ANSWER_DEADLINE, listener.listen(NOTIFY_CHANNEL)).await?;
    loop {
        match tokio::time::timeout(cache.config.listen_check, listener.try_recv()).await {
            // The tail gets this replica's own writes from its writer.
            Ok(Ok(Some(notification))) if is_from(notification.payload(), writer) => {
                backoff.reset();
                continue;
            }
            // Also after a lost connection was restored: a notification may have been missed.
            Ok(received) => {
                let notification = received?;
                if let Some(revision) = notification.and_then(|notification| revision(notification.payload()))
                {
                    cache.note_committed(revision);
                }
            }
            // Nothing happens, or the server is gone: find out which.
            Err(_) => {
                within(ANSWER_DEADLINE, sqlx::raw_sql(CHECK).execute(&mut listener)).await?;
            }
        }
        backoff.reset();
        cache.handover.notify_changes();
    }
}
