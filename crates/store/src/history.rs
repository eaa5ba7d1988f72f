//! The past beyond the ring, read from the primary's table of events: what another connection finds at a standby has
//! not been compared with the primary.
//!
//! One task reads for all watches, a stretch at a time, and each stretch serves all watches that are within it. When
//! thousands come back at once, the past is read once.

/// Stretches that were read, and the watches that wait.
pub(crate) mod shelf;

use crate::cache::filter::Filter;
use crate::cache::inner::CacheInner;
use crate::cache::kept::KeptConnection;
use crate::cache::state::Event;
use crate::divergence::{self, HistoryVerdict};
use crate::error::Error;
use crate::model::Revision;
use crate::read::WatchItem;
use crate::tail::head::Head;
use crate::tail::sql;
use crate::watch::frames::Frames;
use runtime::Backoff;
use shelf::{Asked, Found, Stretch};
use sqlx::Row;
use sqlx::postgres::PgRow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Longest time that a stretch may take.
const STRETCH_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait of a watch: others may come first, and it may not be known yet whether the server has the history
/// that is followed.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The pause after a failure, at first and at most.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// When no watch has waited for so long, the connection is closed.
const IDLE: Duration = Duration::from_mins(1);

/// At most 500 events, and no more after 1 MiB of them: so much is in memory for each stretch.
const EVENTS: &str = "SELECT r.v, r.epoch, c.compacted, \
       e.kind, e.namespace, e.name, e.uid, e.rv, e.body, e.op::text, e.before, e.follow \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM (SELECT *, lead(rv) OVER (ORDER BY rv) IS NOT NULL OR count(*) OVER () = 500 AS follow, \
         sum(octet_length(body)) OVER (ORDER BY rv ROWS UNBOUNDED PRECEDING) - octet_length(body) AS bytes_before \
       FROM (SELECT * FROM events WHERE rv > $1 ORDER BY rv LIMIT 500) few) measured \
       WHERE bytes_before < 1048576) e ON true \
     WHERE c.id = 1";

/// The events after `cursor` that a watch of this generation sees, and where it reads on; `None` if they are gone.
pub(crate) async fn read(
    cache: &CacheInner,
    generation: u64,
    filter: &Filter,
    cursor: Revision,
) -> Result<Option<(VecDeque<WatchItem>, Revision)>, Error> {
    let stretch = match cache.past.ask(generation, cursor) {
        Asked::Here(stretch) => Some(stretch),
        Asked::Later(answer) => match tokio::time::timeout(WAIT_MAX, answer).await {
            Ok(Ok(answer)) => answer.map_err(|why| Error::Unavailable(why.to_string()))?,
            Ok(Err(_)) | Err(_) => return Err(Error::Unavailable("no answer in time".to_owned())),
        },
    };
    // The history may have been lost meanwhile.
    let Some(stretch) = stretch.filter(|_| cache.read().generation == generation) else { return Ok(None) };
    let items = stretch.after(cursor).filter_map(|change| Frames::default().item(change, filter));
    Ok(Some((items.collect(), stretch.to.max(cursor))))
}

/// Reads for watches until the program ends.
#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let mut connection = KeptConnection::default();
    let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
    // Looks in a row that have found nothing.
    let mut vain: u32 = 0;
    loop {
        let generation = cache.read().generation;
        let Some(after) = cache.past.next(generation) else {
            if tokio::time::timeout(IDLE, cache.past.wanted()).await.is_err() {
                connection.close();
                cache.past.tidy();
            }
            continue;
        };
        match tokio::time::timeout(STRETCH_DEADLINE, look(&cache, &mut connection, after)).await {
            Ok(Ok(Outcome::Found(found))) => {
                cache.past.answer(after, &found);
                vain = 0;
                backoff.reset();
                continue;
            }
            Ok(Ok(Outcome::Lost(generation))) => {
                cache.past.lose(generation);
                continue;
            }
            // The tail finds out what it is; the watches that wait are served then.
            Ok(Ok(Outcome::NotKnown(why))) if vain == 0 => {
                tracing::warn!(
                    why,
                    "the past is not read: this server's history is not the one that is known"
                );
            }
            Ok(Ok(Outcome::NotKnown(_))) => {}
            // A connection that is lost says nothing of the server: the next one may be had at once.
            Ok(Err(_)) if vain == 0 => {}
            Ok(Err(error)) => cache.past.fail(&error.to_string()),
            Err(_) => cache.past.fail("no answer in time"),
        }
        vain = vain.saturating_add(1);
        backoff.wait().await;
    }
}

enum Outcome {
    Found(Found),
    /// The epoch of this generation has ended.
    Lost(u64),
    /// The server has another history than this replica, or less of it, which nobody has declared.
    NotKnown(&'static str),
}

/// The cache's position. No stretch goes further: events beyond it have not been compared with anything.
#[derive(Clone, Copy)]
struct Known {
    generation: u64,
    epoch: Uuid,
    limit: Revision,
}

impl Known {
    fn of(cache: &CacheInner) -> Self {
        let horizon = cache.horizon();
        let state = cache.read();
        Self { generation: state.generation, epoch: state.epoch, limit: state.revision.min(horizon) }
    }
}

/// Reads the events after a revision, and makes sure that the server has the newest event that the cache knows: so
/// what the watches get belongs to the history that is followed.
async fn look(
    cache: &CacheInner,
    kept: &mut KeptConnection,
    after: Revision,
) -> Result<Outcome, sqlx::Error> {
    let prepared = cache.config.prepared;
    let known = Known::of(cache);
    let mut connection = kept.take(cache.authority(), prepared).await?;
    let rows = sql::rows(&mut connection, prepared, EVENTS, &[after.into()]).await?;
    cache.metrics.history_reads.inc();
    let head = Head::read(rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
    if head.epoch != known.epoch {
        return Ok(Outcome::Lost(known.generation));
    }
    match divergence::compare(cache, &mut connection, false).await? {
        HistoryVerdict::Same => {}
        HistoryVerdict::Other => return Ok(Outcome::Lost(known.generation)),
        HistoryVerdict::Diverged(why) => return Ok(Outcome::NotKnown(why)),
    }
    kept.put_back(connection);
    let stretch = Arc::new(stretch(cache, known, head, &rows, after)?);
    Ok(Outcome::Found(Found { stretch, compacted: head.compacted }))
}

/// The stretch that these rows after a revision cover completely.
fn stretch(
    cache: &CacheInner,
    known: Known,
    head: Head,
    rows: &[PgRow],
    after: Revision,
) -> Result<Stretch, sqlx::Error> {
    let mut events = Vec::with_capacity(rows.len());
    let (mut last, mut follow) = (after, false);
    for row in rows {
        let Some(revision) = row.try_get::<Option<i64>, _>(7)? else { continue };
        let revision = sql::as_revision(revision);
        if revision > last {
            last = revision;
            follow = row.try_get::<Option<bool>, _>(11)?.unwrap_or_default();
        }
        if revision <= known.limit {
            events.extend(sql::event(&cache.kinds, row, 3)?);
        }
    }
    events.sort_by_key(|event| event.entry.revision);
    // The last page reaches the counter of its snapshot.
    let end = if follow { last } else { head.revision };
    Ok(Stretch {
        generation: known.generation,
        from: after.max(head.compacted),
        to: end.min(known.limit).max(after),
        changes: events.into_iter().map(Event::into_change).collect(),
    })
}
