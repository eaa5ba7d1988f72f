//! Events that are older than the ring, for watches that start from an old revision. They are read from the primary's
//! table of events. Nobody has compared the events of a standby with the primary, so they are not used here.
//!
//! One task reads for all watches, one segment of the history at a time, and a segment serves all watches whose
//! revision it covers. So when thousands of watches come back at once, the history is read once.

/// Segments that were read, and the watches that wait for one.
pub(crate) mod segments;

use crate::cache::connection::ReusableConnection;
use crate::cache::filter::Filter;
use crate::cache::inner::CacheInner;
use crate::cache::state::Event;
use crate::divergence::{self, HistoryComparison};
use crate::error::Error;
use crate::model::Revision;
use crate::read::WatchItem;
use crate::tail::head::Head;
use crate::tail::sql;
use crate::watch::frames::Frames;
use runtime::Backoff;
use segments::{LoadedSegment, Lookup, Segment};
use sqlx::Row;
use sqlx::postgres::PgRow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Longest time that reading one segment may take.
const SEGMENT_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait of a watch. Other watches may come first, and the server may not be known yet to have the history that
/// this replica follows.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// First pause after a failure.
const BACKOFF_FLOOR: Duration = Duration::from_millis(200);
/// Longest pause after a failure.
const BACKOFF_CEILING: Duration = Duration::from_secs(5);
/// The connection is closed when no watch has waited for this long.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// One segment: at most 500 events, and none after the one that reaches 1 MiB. So much of it is in memory.
const EVENTS: &str = "SELECT r.v, r.epoch, c.compacted, \
       e.kind, e.namespace, e.name, e.uid, e.rv, e.body, e.op::text, e.before, e.follow \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM (SELECT *, lead(rv) OVER (ORDER BY rv) IS NOT NULL OR count(*) OVER () = 500 AS follow, \
         sum(octet_length(body)) OVER (ORDER BY rv ROWS UNBOUNDED PRECEDING) - octet_length(body) AS bytes_before \
       FROM (SELECT * FROM events WHERE rv > $1 ORDER BY rv LIMIT 500) few) measured \
       WHERE bytes_before < 1048576) e ON true \
     WHERE c.id = 1";
/// The column of [`EVENTS`] at which those of the event begin.
const FIRST_OF_EVENT: usize = 3;

/// The events after `cursor` that a watch of this generation sees, and the revision after which the watch reads on.
/// `None` if the events are gone.
pub(crate) async fn read(
    cache: &CacheInner,
    generation: u64,
    filter: &Filter,
    cursor: Revision,
) -> Result<Option<(VecDeque<WatchItem>, Revision)>, Error> {
    let segment = match cache.history.get(generation, cursor) {
        Lookup::Cached(segment) => Some(segment),
        Lookup::Pending(answer) => match tokio::time::timeout(WAIT_MAX, answer).await {
            Ok(Ok(answer)) => answer.map_err(|why| Error::Unavailable(why.to_string()))?,
            Ok(Err(_)) | Err(_) => return Err(Error::Unavailable("no answer in time".to_owned())),
        },
    };
    // The history may have been lost meanwhile.
    let Some(segment) = segment.filter(|_| cache.read().generation == generation) else { return Ok(None) };
    let items = segment.after(cursor).filter_map(|change| Frames::default().item(change, filter));
    Ok(Some((items.collect(), segment.to.max(cursor))))
}

/// Reads for watches until the program ends.
#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let mut connection = ReusableConnection::default();
    let mut backoff = Backoff::new(BACKOFF_FLOOR, BACKOFF_CEILING);
    // Failed reads in a row.
    let mut failures: u32 = 0;
    loop {
        let generation = cache.read().generation;
        let Some(after) = cache.history.next_request(generation) else {
            if tokio::time::timeout(IDLE_MAX, cache.history.until_requested()).await.is_err() {
                connection.close();
                cache.history.evict_unread();
            }
            continue;
        };
        match tokio::time::timeout(SEGMENT_DEADLINE, read_segment(&cache, &mut connection, after)).await {
            Ok(Ok(ReadOutcome::Loaded(loaded))) => {
                cache.history.complete(after, &loaded);
                failures = 0;
                backoff.reset();
                continue;
            }
            Ok(Ok(ReadOutcome::EpochEnded(generation))) => {
                cache.history.discard_generation(generation);
                continue;
            }
            // The watches go on waiting: the tail compares the histories.
            Ok(Ok(ReadOutcome::Unverified(why))) if failures == 0 => {
                tracing::warn!(
                    why,
                    "the past is not read: this server's history is not the one that is known"
                );
            }
            Ok(Ok(ReadOutcome::Unverified(_))) => {}
            // One lost connection does not mean that the server is away: a new connection may work at once.
            Ok(Err(_)) if failures == 0 => {}
            Ok(Err(error)) => cache.history.fail_waiters(&error.to_string()),
            Err(_) => cache.history.fail_waiters("no answer in time"),
        }
        failures = failures.saturating_add(1);
        backoff.wait().await;
    }
}

enum ReadOutcome {
    Loaded(LoadedSegment),
    /// The epoch of this generation has ended.
    EpochEnded(u64),
    /// The server's history differs from this replica's, or is shorter, and no replica has begun a new epoch yet.
    Unverified(&'static str),
}

/// How far the cache has come in its history. No segment goes beyond `limit`: later events are not verified.
#[derive(Clone, Copy)]
struct CachePosition {
    generation: u64,
    epoch: Uuid,
    limit: Revision,
}

impl CachePosition {
    fn of(cache: &CacheInner) -> Self {
        let horizon = cache.horizon();
        let state = cache.read();
        Self { generation: state.generation, epoch: state.epoch, limit: state.revision.min(horizon) }
    }
}

/// Reads the events after a revision. Then checks that the server has the newest event of the cache, so that the
/// watches get events of the history that this replica follows.
async fn read_segment(
    cache: &CacheInner,
    reusable: &mut ReusableConnection,
    after: Revision,
) -> Result<ReadOutcome, sqlx::Error> {
    let prepared = cache.config.prepared;
    let position = CachePosition::of(cache);
    let mut connection = reusable.take(cache.primary_options(), prepared).await?;
    let rows = sql::rows(&mut connection, prepared, EVENTS, &[after.into()]).await?;
    cache.metrics.history_reads.inc();
    let head = Head::read(rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
    if head.epoch != position.epoch {
        return Ok(ReadOutcome::EpochEnded(position.generation));
    }
    match divergence::compare(cache, &mut connection, false).await? {
        HistoryComparison::Same => {}
        HistoryComparison::NewEpoch => return Ok(ReadOutcome::EpochEnded(position.generation)),
        HistoryComparison::Diverged(why) => return Ok(ReadOutcome::Unverified(why)),
    }
    reusable.put_back(connection);
    let segment = Arc::new(build_segment(cache, position, head, &rows, after)?);
    Ok(ReadOutcome::Loaded(LoadedSegment { segment, compacted: head.compacted }))
}

/// The segment that these rows cover completely. They are the rows after the revision `after`.
fn build_segment(
    cache: &CacheInner,
    position: CachePosition,
    head: Head,
    rows: &[PgRow],
    after: Revision,
) -> Result<Segment, sqlx::Error> {
    let mut events = Vec::with_capacity(rows.len());
    let (mut last, mut has_more) = (after, false);
    for row in rows {
        let Some(revision) = sql::event_revision(row, FIRST_OF_EVENT)? else { continue };
        if revision > last {
            last = revision;
            has_more = row.try_get::<Option<bool>, _>(11)?.unwrap_or_default();
        }
        if revision <= position.limit {
            events.extend(sql::event(&cache.kinds, row, FIRST_OF_EVENT)?);
        }
    }
    events.sort_by_key(|event| event.entry.revision);
    // Without more events, the rows cover everything up to the revision counter of their snapshot.
    let end = if has_more { last } else { head.revision };
    Ok(Segment {
        generation: position.generation,
        from: after.max(head.compacted),
        to: end.min(position.limit).max(after),
        changes: events.into_iter().map(Event::into_change).collect(),
    })
}
