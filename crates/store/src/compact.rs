//! Compaction: events older than the retention are deleted, and sooner those after which too many bytes have come.
//!
//! Any replica may do it, all of them at once if need be: the mark only moves forward, in one conditional
//! update, and only what lies below the mark is deleted. The newest event stays: it is what a replica
//! recognizes its history by.
//!
//! It has a connection of its own, so that history is also compacted while many watches read the past.

use crate::cache::inner::CacheInner;
use crate::cache::connection::ReusableConnection;
use crate::connect;
use crate::model::Revision;
use crate::tail::sql::{self, Arg};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Revisions deleted in one statement: bodies of 3 MiB each must not take longer than it may.
const BATCH: i64 = 250;
/// Longest time that one statement may take.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(30);

/// A revision beyond the counter belongs to a lost history.
const MARK: &str = "UPDATE compaction SET compacted = $1 WHERE id = 1 AND compacted < $1 \
       AND $1 <= (SELECT v FROM rev ORDER BY v DESC LIMIT 1) \
     RETURNING compacted";
const OLDEST: &str = "SELECT rv FROM events ORDER BY rv LIMIT 1";
const DELETE: &str = "DELETE FROM events WHERE rv >= $1 AND rv < $2 \
       AND rv <= (SELECT compacted FROM compaction WHERE id = 1) \
       AND rv < (SELECT max(rv) FROM events) \
     RETURNING 1";
/// Nobody asks for a batch whose number lies so far back. Its age is known from the revision counter and a monotonic
/// clock, never from a clock that somebody may set.
const BATCHES: &str = "DELETE FROM batches WHERE base < $1 \
       AND $1 <= (SELECT v FROM rev ORDER BY v DESC LIMIT 1)";

/// Compacts until the program ends.
#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let config = &cache.config;
    let history = Keep {
        longest: config.retention,
        bytes: config.retention_bytes,
        shortest: config.retention_min.min(config.retention),
    };
    let proofs = Keep { longest: config.batches_kept, bytes: u64::MAX, shortest: config.batches_kept };
    let (mut samples, mut batches) = (Samples::default(), Samples::default());
    let mut epoch = cache.read().epoch;
    let mut connection = ReusableConnection::default();
    // No index finds them by their number: all are read.
    let batches_every = (config.batches_kept / 12).max(config.compact_every);
    let mut batches_due = Instant::now();
    let mut every = tokio::time::interval(config.compact_every);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Not the time of the tick, which is when it was due: a late look says nothing about that time.
        every.tick().await;
        let now = Instant::now();
        let before = std::mem::replace(&mut epoch, cache.read().epoch);
        if before != epoch {
            (samples, batches) = (Samples::default(), Samples::default());
        }
        let newest = cache.newest();
        let bytes = cache.event_bytes.load(Ordering::Relaxed);
        if now >= batches_due {
            batches_due = now + batches_every;
            if let Some(revision) = batches.take(now, newest, bytes, proofs)
                && let Err(error) = run_one(&cache, &mut connection, BATCHES, &[revision.into()]).await
            {
                tracing::warn!(%error, "forget old batches");
            }
        }
        let Some(revision) = samples.take(now, newest, bytes, history) else { continue };
        match compact(&cache, &mut connection, revision).await {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(%revision, deleted, "history is compacted"),
            Err(error) => tracing::warn!(%error, "compact history"),
        }
    }
}

/// How much of something is kept.
#[derive(Clone, Copy, Debug)]
struct Keep {
    longest: Duration,
    /// Given up sooner when so many bytes have come after it,
    bytes: u64,
    /// but kept for so long in any case.
    shortest: Duration,
}

/// The newest revision at each time, as far back as history is kept.
#[derive(Debug, Default)]
struct Samples(VecDeque<Sample>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    since: Instant,
    revision: Revision,
    /// Bytes of all events up to then.
    bytes: u64,
}

impl Samples {
    /// Notes the newest revision and the bytes of all events so far. Returns the newest revision that need not be
    /// kept.
    fn take(&mut self, now: Instant, newest: Option<Revision>, bytes: u64, keep: Keep) -> Option<Revision> {
        self.0.extend(newest.map(|revision| Sample { since: now, revision, bytes }));
        let mut found = None;
        while let Some(oldest) = self.0.front().copied() {
            let age = now.duration_since(oldest.since);
            let is_much = bytes.saturating_sub(oldest.bytes) > keep.bytes;
            if age < keep.longest && !(is_much && age >= keep.shortest) {
                break;
            }
            found = Some(oldest.revision);
            self.0.pop_front();
        }
        found
    }
}

impl CacheInner {
    /// The cache's revision, if it has one and the database answers.
    fn newest(&self) -> Option<Revision> {
        let progress = self.progress.borrow();
        (progress.ready && progress.trouble.is_none()).then_some(progress.revision)
    }
}

/// Moves the mark to `revision`, and deletes if it was this replica that moved it.
async fn compact(
    cache: &CacheInner,
    connection: &mut ReusableConnection,
    revision: Revision,
) -> Result<u64, sqlx::Error> {
    let moved = run_one(cache, connection, MARK, &[revision.into()]).await?;
    if moved.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut from = oldest(cache, connection).await?;
    while let Some(first) = from.filter(|first| *first <= revision) {
        let start = i64::try_from(first.0).unwrap_or(i64::MAX);
        let stretch = [Arg::Int(start), Arg::Int(start.saturating_add(BATCH))];
        let deleted = run_one(cache, connection, DELETE, &stretch).await?;
        total += u64::try_from(deleted.len()).unwrap_or_default();
        let next = Revision(first.0.saturating_add(BATCH.unsigned_abs()));
        // Numbers may be missing by the million: an empty stretch is skipped.
        from = if deleted.is_empty() {
            oldest(cache, connection).await?.filter(|oldest| *oldest > first)
        } else {
            Some(next)
        };
    }
    Ok(total)
}

async fn oldest(
    cache: &CacheInner,
    connection: &mut ReusableConnection,
) -> Result<Option<Revision>, sqlx::Error> {
    run_one(cache, connection, OLDEST, &[]).await?.first().map(|row| sql::revision(row, 0)).transpose()
}

async fn run_one(
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
        const KEEP: Keep =
            Keep { longest: Duration::from_mins(5), bytes: 1000, shortest: Duration::from_secs(75) };
        let start = Instant::now();
        let run = |bytes_each: u64, seconds: u64| {
            let mut samples = Samples::default();
            let mut found = None;
            for second in (0..=seconds).step_by(15) {
                let now = start + Duration::from_secs(second);
                found = samples.take(now, Some(Revision(second)), second / 15 * bytes_each, KEEP).or(found);
            }
            found.map(|revision| revision.0)
        };
        assert_eq!(run(10, 285), None, "few bytes");
        assert_eq!(run(10, 600), Some(300), "five minutes");
        assert_eq!(run(100, 600), Some(435), "eleven of a hundred bytes came after it");
        assert_eq!(run(10_000, 600), Some(525), "who comes back within 75 s finds it");
    }
}
