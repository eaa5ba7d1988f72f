//! Fills the cache from one snapshot of the tables.

use super::head::Head;
use super::sql::{self, Arg, stream};
use crate::cache::inner::CacheInner;
use crate::cache::state::{CacheState, CacheStateBuilder, Event, Snapshot};
use crate::connect;
use crate::model::Revision;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use std::time::Duration;

/// Most events that are read into the ring, so that watches which come back after a restart find theirs in memory.
/// [`RECENT_EVENTS`] has the number as a literal.
const RECENT_EVENTS_MAX: usize = 100_000;
/// Longest silence of the server while it sends a snapshot.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A statement timeout of the role would end the same read again and again. [`SILENCE_MAX`] is the limit instead.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL enable_seqscan = on; \
     SET LOCAL statement_timeout = 0; \
     SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'";
const OBJECTS: &str = "SELECT kind, namespace, name, uid, rv, body FROM objects";
/// The newest events, as long as the newer ones have less than `$1` bytes: the server sends no others.
const RECENT_EVENTS: &str = "SELECT kind, namespace, name, uid, rv, body, op::text, before \
     FROM (SELECT *, sum(octet_length(body)) OVER (ORDER BY rv DESC ROWS UNBOUNDED PRECEDING) - octet_length(body) AS bytes_after \
       FROM (SELECT * FROM events ORDER BY rv DESC LIMIT 100000) few) measured \
     WHERE bytes_after < $1 ORDER BY rv DESC";

/// Reads all objects and the newest events at one revision.
pub(crate) async fn load(
    cache: &CacheInner,
    connection: &mut PgConnection,
    generation: u64,
) -> Result<(Head, CacheState), sqlx::Error> {
    let prepared = cache.config.prepared;
    connect::within(SILENCE_MAX, sqlx::raw_sql(BEGIN).execute(&mut *connection)).await?;
    let head = connect::within(SILENCE_MAX, Head::query(cache, connection)).await?;
    let mut builder = CacheStateBuilder::default();
    let mut objects = stream(connection, prepared, OBJECTS, &[]);
    while let Some(row) = next(&mut objects).await? {
        if let Some(entry) = sql::entry(&cache.kinds, &row, 0)? {
            builder.add(entry);
        }
    }
    drop(objects);
    let (events, floor) = recent_events(cache, connection, head.compacted).await?;
    connect::within(SILENCE_MAX, sqlx::raw_sql("COMMIT").execute(connection)).await?;
    let snapshot = Snapshot { generation, epoch: head.epoch, revision: head.revision, floor };
    Ok((head, builder.build(snapshot, events, cache.config.ring_limits())))
}

/// The newest events in order, and the revision after which none is missing. The table has no times, so the ring takes
/// the events as new: no more are read than it may hold of new ones.
async fn recent_events(
    cache: &CacheInner,
    connection: &mut PgConnection,
    compacted: Revision,
) -> Result<(Vec<Event>, Revision), sqlx::Error> {
    let bytes_max = cache.config.ring_limits().bytes_limit().max(1);
    let args = [Arg::Int(i64::try_from(bytes_max).unwrap_or(i64::MAX))];
    let mut events = Vec::new();
    let (mut oldest, mut count, mut bytes) = (Revision::MAX, 0, 0);
    let mut rows = stream(connection, cache.config.prepared, RECENT_EVENTS, &args);
    while let Some(row) = next(&mut rows).await? {
        oldest = sql::revision(&row, 4)?;
        count += 1;
        bytes += row.try_get::<&str, _>(5)?.len();
        events.extend(sql::event(&cache.kinds, &row, 0)?);
    }
    let is_all = count < RECENT_EVENTS_MAX && bytes < bytes_max;
    let floor = if is_all { compacted } else { compacted.max(Revision(oldest.0.saturating_sub(1))) };
    events.reverse();
    Ok((events, floor))
}

async fn next(rows: &mut BoxStream<'_, Result<PgRow, sqlx::Error>>) -> Result<Option<PgRow>, sqlx::Error> {
    connect::within(SILENCE_MAX, rows.try_next()).await
}
