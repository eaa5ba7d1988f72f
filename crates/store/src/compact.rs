//! Compaction: deletes events that are older than the retention, and earlier those after which too many bytes have
//! come.
//!
//! Any replica may compact, and several may do so at once. The compacted revision only moves forward, in one
//! conditional update, and only events up to it are deleted. The newest event always stays, as a replica recognizes its
//! history by it.
//!
//! Compaction has a connection of its own, so that it goes on while many watches read old events.

use crate::cache::connection::ReusableConnection;
use crate::cache::inner::CacheInner;
use crate::connect;
use crate::model::Revision;
use crate::tail::sql::{self, Arg};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Most revisions that one statement deletes: even with bodies of 3 MiB each it must end before its deadline.
const DELETE_RANGE: i64 = 250;
/// Longest time that one statement may take.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(30);

/// Moves the compacted revision forward. A revision beyond the counter belongs to a lost history, and changes nothing.
const SET_COMPACTED: &str = "UPDATE compaction SET compacted = $1 WHERE id = 1 AND compacted < $1 \
       AND $1 <= (SELECT v FROM rev ORDER BY v DESC LIMIT 1) \
     RETURNING compacted";
const OLDEST_EVENT: &str = "SELECT rv FROM events ORDER BY rv LIMIT 1";
const DELETE_EVENTS: &str = "DELETE FROM events WHERE rv >= $1 AND rv < $2 \
       AND rv <= (SELECT compacted FROM compaction WHERE id = 1) \
       AND rv < (SELECT max(rv) FROM events) \
     RETURNING 1";
/// Deletes batches that are so old that no writer asks for them any more. Their age is known from the revision counter
/// and a monotonic clock, never from a clock that somebody may set.
const DELETE_BATCHES: &str = "DELETE FROM batches WHERE base < $1 \
       AND $1 <= (SELECT v FROM rev ORDER BY v DESC LIMIT 1)";

/// Compacts until the program ends.
#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let config = &cache.config;
    let event_retention = Retention {
        age_max: config.retention,
        bytes: config.retention_bytes,
        age_min: config.retention_min.min(config.retention),
    };
    let batch_retention =
        Retention { age_max: config.batches_kept, bytes: u64::MAX, age_min: config.batches_kept };
    let (mut samples, mut batches) = (Samples::default(), Samples::default());
    let mut epoch = cache.read().epoch;
    let mut connection = ReusableConnection::default();
    // Less often than events: no index finds old batches, so each time all are read.
    let batches_every = (config.batches_kept / 12).max(config.compact_every);
    let mut batches_due = Instant::now();
    let mut every = tokio::time::interval(config.compact_every);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Not the time that the tick returns, at which it was due: a late sample says nothing about that time.
        every.tick().await;
        let now = Instant::now();
        let before = std::mem::replace(&mut epoch, cache.read().epoch);
        if before != epoch {
            (samples, batches) = (Samples::default(), Samples::default());
        }
        let newest = cache.revision_if_healthy();
        let bytes = cache.event_bytes.load(Ordering::Relaxed);
        if now >= batches_due {
            batches_due = now + batches_every;
            if let Some(revision) = batches.add(now, newest, bytes, batch_retention)
                && let Err(error) = execute(&cache, &mut connection, DELETE_BATCHES, &[revision.into()]).await
            {
                tracing::warn!(%error, "forget old batches");
            }
        }
        let Some(revision) = samples.add(now, newest, bytes, event_retention) else { continue };
        match compact(&cache, &mut connection, revision).await {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(%revision, deleted, "history is compacted"),
            Err(error) => tracing::warn!(%error, "compact history"),
        }
    }
}

/// How much of something is kept.
#[derive(Clone, Copy, Debug)]
struct Retention {
    /// Nothing older is kept.
    age_max: Duration,
    /// What has more bytes after it is not kept, if it is older than `age_min`.
    bytes: u64,
    /// Everything younger is kept.
    age_min: Duration,
}

/// Samples of the newest revision over time, as far back as something is kept.
#[derive(Debug, Default)]
struct Samples(VecDeque<Sample>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    since: Instant,
    revision: Revision,
    /// Bytes of all events up to this sample.
    bytes: u64,
}

impl Samples {
    /// Adds a sample: the newest revision and the bytes of all events so far. Returns the newest revision that need not
    /// be kept.
    fn add(
        &mut self,
        now: Instant,
        newest: Option<Revision>,
        bytes: u64,
        retention: Retention,
    ) -> Option<Revision> {
        self.0.extend(newest.map(|revision| Sample { since: now, revision, bytes }));
        let mut found = None;
        while let Some(oldest) = self.0.front().copied() {
            let age = now.duration_since(oldest.since);
            let is_much = bytes.saturating_sub(oldest.bytes) > retention.bytes;
            if age < retention.age_max && !(is_much && age >= retention.age_min) {
                break;
            }
            found = Some(oldest.revision);
            self.0.pop_front();
        }
        found
    }
}

impl CacheInner {
    /// The cache's revision, if the cache is filled and the database answers.
    fn revision_if_healthy(&self) -> Option<Revision> {
        let progress = self.progress.borrow();
        (progress.ready && progress.trouble.is_none()).then_some(progress.revision)
    }
}

/// Moves the compacted revision to `revision`. If this call has moved it, deletes the events up to it. Returns how
/// many.
async fn compact(
    cache: &CacheInner,
    connection: &mut ReusableConnection,
    revision: Revision,
) -> Result<u64, sqlx::Error> {
    let moved = execute(cache, connection, SET_COMPACTED, &[revision.into()]).await?;
    if moved.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut from = oldest_event(cache, connection).await?;
    while let Some(first) = from.filter(|first| *first <= revision) {
        let start = i64::try_from(first.0).unwrap_or(i64::MAX);
        let range = [Arg::Int(start), Arg::Int(start.saturating_add(DELETE_RANGE))];
        let deleted = execute(cache, connection, DELETE_EVENTS, &range).await?;
        total += u64::try_from(deleted.len()).unwrap_or_default();
        let next = Revision(first.0.saturating_add(DELETE_RANGE.unsigned_abs()));
        // Millions of revisions may have no event: an empty range is skipped.
        from = if deleted.is_empty() {
            oldest_event(cache, connection).await?.filter(|oldest| *oldest > first)
        } else {
            Some(next)
        };
    }
    Ok(total)
}

async fn oldest_event(
    cache: &CacheInner,
    connection: &mut ReusableConnection,
) -> Result<Option<Revision>, sqlx::Error> {
    execute(cache, connection, OLDEST_EVENT, &[]).await?.first().map(|row| sql::revision(row, 0)).transpose()
}

async fn execute(
    cache: &CacheInner,
    connection: &mut ReusableConnection,
    statement: &'static str,
    args: &[Arg],
) -> Result<Vec<sqlx::postgres::PgRow>, sqlx::Error> {
    let work = async {
        let prepared = cache.config.prepared;
        let mut open = connection.take(cache.primary_options(), prepared).await?;
        let rows = sql::rows(&mut open, prepared, statement, args).await?;
        connection.put_back(open);
        Ok(rows)
    };
    connect::within(STATEMENT_DEADLINE, work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_given_up_by_age_and_earlier_by_what_came_after_it_but_never_at_once() {
        const RETENTION: Retention =
            Retention { age_max: Duration::from_mins(5), bytes: 1000, age_min: Duration::from_secs(75) };
        let start = Instant::now();
        let run = |bytes_each: u64, seconds: u64| {
            let mut samples = Samples::default();
            let mut found = None;
            for second in (0..=seconds).step_by(15) {
                let now = start + Duration::from_secs(second);
                found =
                    samples.add(now, Some(Revision(second)), second / 15 * bytes_each, RETENTION).or(found);
            }
            found.map(|revision| revision.0)
        };
        assert_eq!(run(10, 285), None, "few bytes");
        assert_eq!(run(10, 600), Some(300), "five minutes");
        assert_eq!(run(100, 600), Some(435), "eleven of a hundred bytes came after it");
        assert_eq!(run(10_000, 600), Some(525), "who comes back within 75 s finds it");
    }
}
