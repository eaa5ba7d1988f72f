//! LISTEN, which makes changes arrive sooner than the next look would find them. Nothing depends on it.

use crate::cache::inner::CacheInner;
use crate::connect::{NOTIFY_CHANNEL, SESSION, within};
use crate::model::Revision;
use runtime::Backoff;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// After so long without a notification the server is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(30);
/// How long it may take to say so.
const ANSWER: Duration = Duration::from_secs(5);
const BACKOFF_FLOOR: Duration = Duration::from_millis(200);
const BACKOFF_CEILING: Duration = Duration::from_secs(10);

/// Listens until the program ends.
pub(crate) async fn run(cache: Arc<CacheInner>, options: PgConnectOptions) {
    let mut backoff = Backoff::new(BACKOFF_FLOOR, BACKOFF_CEILING);
    let pool = PgPoolOptions::new().max_connections(1).after_connect(|connection, _| {
        Box::pin(async { sqlx::raw_sql(SESSION).execute(connection).await.map(drop) })
    });
    let pool = pool.connect_lazy_with(options);
    while let Err(error) = listen(&cache, &pool, &mut backoff).await {
        tracing::debug!(%error, "LISTEN failed; changes are found by polling");
        backoff.wait().await;
    }
}

/// A notification's payload is a revision and who made it.
fn is_from(payload: &str, writer: Uuid) -> bool {
    payload.split_once(' ').is_some_and(|(_, made_by)| made_by.parse() == Ok(writer))
}

fn revision(payload: &str) -> Option<Revision> {
    payload.split_once(' ')?.0.parse().ok().map(Revision)
}

async fn listen(cache: &CacheInner, pool: &sqlx::PgPool, backoff: &mut Backoff) -> Result<(), sqlx::Error> {
    let writer = cache.handover.writer();
    let mut listener = PgListener::connect_with(pool).await?;
    within(ANSWER, listener.listen(NOTIFY_CHANNEL)).await?;
    loop {
        match tokio::time::timeout(SILENCE, listener.try_recv()).await {
            // This replica's own writes come from its writer.
            Ok(Ok(Some(told))) if is_from(told.payload(), writer) => {
                backoff.reset();
                continue;
            }
            // A connection that was lost and restored counts, too: something may have been missed.
            Ok(received) => {
                if let Some(revision) = received?.and_then(|told| revision(told.payload())) {
                    cache.show(revision);
                }
            }
            // Nothing happens, or nobody is there any more.
            Err(_) => within(ANSWER, listener.listen(NOTIFY_CHANNEL)).await?,
        }
        backoff.reset();
        cache.handover.notify_changes();
    }
}
