//! Compaction: events older than the retention are forgotten.
//!
//! Any replica may do it, all of them at once if need be: the mark only moves forward, in one conditional
//! update, and only what lies below the mark is deleted. The newest event stays: it is what a replica
//! recognizes its history by.

use crate::cache::inner::CacheInner;
use crate::model::Revision;
use crate::tail::sql::{self, Arg};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Revisions deleted in one statement.
const BATCH: i64 = 1000;
/// Longest time that one statement may take.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(30);

/// A revision that the counter has not come to was a lost history's.
const MARK: &str = "UPDATE compaction SET compacted = $1 WHERE id = 1 AND compacted < $1 \
       AND $1 <= (SELECT v FROM rev ORDER BY v DESC LIMIT 1) \
     RETURNING compacted";
const OLDEST: &str = "SELECT rv FROM events ORDER BY rv LIMIT 1";
const DELETE: &str = "DELETE FROM events WHERE rv >= $1 AND rv < $2 \
       AND rv <= (SELECT compacted FROM compaction WHERE id = 1) \
       AND rv < (SELECT max(rv) FROM events) \
     RETURNING 1";
/// A batch whose number lies so far back is asked for by nobody. Its age is told by the revision counter and this
/// program's own watch, never by a clock that somebody may set.
const BATCHES: &str = "DELETE FROM batches WHERE base < $1 \
       AND $1 <= (SELECT v FROM rev ORDER BY v DESC LIMIT 1)";

/// Compacts until the program ends.
#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let (mut samples, mut batches) = (Samples::default(), Samples::default());
    let mut epoch = cache.read().epoch;
    let mut every = tokio::time::interval(cache.config.compact_every);
    loop {
        let now = every.tick().await;
        let before = std::mem::replace(&mut epoch, cache.read().epoch);
        if before != epoch {
            (samples, batches) = (Samples::default(), Samples::default());
        }
        if let Some(revision) = batches.take(now, cache.newest(), cache.config.batches_kept)
            && let Err(error) = run_one(&cache, BATCHES, &[revision.into()]).await
        {
            tracing::warn!(%error, "forget old batches");
        }
        let Some(revision) = samples.take(now, cache.newest(), cache.config.retention) else { continue };
        match compact(&cache, revision).await {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(%revision, deleted, "history is compacted"),
            Err(error) => tracing::warn!(%error, "compact history"),
        }
    }
}

/// When which revision was the newest, as far back as the retention.
#[derive(Debug, Default)]
struct Samples(VecDeque<(Instant, Revision)>);

impl Samples {
    /// Notes the newest revision; the one that was the newest a retention ago comes back.
    fn take(&mut self, now: Instant, newest: Option<Revision>, retention: Duration) -> Option<Revision> {
        self.0.extend(newest.map(|revision| (now, revision)));
        let mut found = None;
        while let Some((since, revision)) = self.0.front().copied() {
            if now.duration_since(since) < retention {
                break;
            }
            found = Some(revision);
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
pub(crate) async fn compact(cache: &CacheInner, revision: Revision) -> Result<u64, sqlx::Error> {
    let moved = run_one(cache, MARK, &[revision.into()]).await?;
    if moved.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut from = oldest(cache).await?;
    while let Some(first) = from.filter(|first| *first <= revision) {
        let start = i64::try_from(first.0).unwrap_or(i64::MAX);
        let deleted =
            run_one(cache, DELETE, &[Arg::Int(start), Arg::Int(start.saturating_add(BATCH))]).await?;
        total += u64::try_from(deleted.len()).unwrap_or_default();
        let next = Revision(first.0.saturating_add(BATCH.unsigned_abs()));
        // Numbers may be missing by the million: an empty stretch is skipped.
        from = if deleted.is_empty() {
            oldest(cache).await?.filter(|oldest| *oldest > first)
        } else {
            Some(next)
        };
    }
    Ok(total)
}

async fn oldest(cache: &CacheInner) -> Result<Option<Revision>, sqlx::Error> {
    run_one(cache, OLDEST, &[]).await?.first().map(|row| sql::revision(row, 0)).transpose()
}

async fn run_one(
    cache: &CacheInner,
    statement: &'static str,
    args: &[Arg],
) -> Result<Vec<sqlx::postgres::PgRow>, sqlx::Error> {
    let work = async {
        let mut connection = cache.authority().acquire().await?;
        sql::rows(&mut connection, cache.config.prepared, statement, args).await
    };
    tokio::time::timeout(STATEMENT_DEADLINE, work)
        .await
        .unwrap_or(Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
