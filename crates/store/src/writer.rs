//! The one task of a replica that writes. It takes what is waiting, asks `apply_batch` once, and answers
//! everybody; it never guesses the outcome of a batch whose connection was lost.

/// Which of the waiting writes go together.
mod collect;
/// The connection, and how it comes back.
mod link;
/// From the function's answer to each caller's.
mod outcome;
/// Whether a server has the history that is known.
mod verify;
/// A write that is decided and rolled back.
mod dry_run;
/// Writes that are made together or not at all.
mod together;

use crate::batch::{ApplyError, Batch, BatchAnswer, BatchMode, WriterConfig, needs_checked_retry};
use crate::connect::StatementFailure;
use crate::model::Write;
use crate::pending::Pending;
use crate::tail::handover::{CommittedBatch, Handover};
use crate::{Error, Revision};
use collect::Inbox;
use link::Fate;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::{Metrics, Tasks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use link::{DatabaseState, Link};
pub(crate) use dry_run::dry_run_write;
pub(crate) use together::write_together;

/// Writes that may wait; more are told to come back.
const QUEUE_WRITES_MAX: usize = 4096;
/// How long a caller waits for his answer.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long a call of the function may take before its connection counts as lost; longer than the server's
/// own statement timeout.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// How often a batch that certainly was not committed is sent again.
const SENDS_MAX: usize = 3;
/// How often an idle writer looks whether the database takes writes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The callers' end of the writer.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Pending>,
}

#[derive(Clone, Debug)]
struct Meters {
    batches: Counter,
    writes: Counter,
    refused: Counter,
    mistaken: Counter,
    unresolved: Counter,
    batch_seconds: Histogram,
    batch_writes: Histogram,
}

impl Writer {
    pub(crate) fn start(
        link: Link,
        handover: Arc<Handover>,
        config: WriterConfig,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_WRITES_MAX);
        let task = Task {
            inbox: Inbox::new(receiver),
            link,
            handover,
            config,
            seq: 0,
            checked_left: 0,
            meters: Meters::new(metrics),
        };
        tasks.spawn_thread("store-writer", task.run(tasks.token()));
        Self { queue }
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Revision, Error> {
        let taken = Arc::new(AtomicBool::new(false));
        let (reply, mut answer) = oneshot::channel();
        let pending = Pending { write, taken: Arc::clone(&taken), reply };
        self.queue.try_send(pending).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Unavailable("the server ends".to_owned()),
        })?;
        match tokio::time::timeout(WRITE_DEADLINE, &mut answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_dropped)) => Err(given_up(&taken)),
            Err(_elapsed) => {
                answer.close();
                answer.try_recv().unwrap_or_else(|_empty| Err(given_up(&taken)))
            }
        }
    }
}

fn given_up(taken: &AtomicBool) -> Error {
    if taken.load(Ordering::SeqCst) {
        Error::Unknown
    } else {
        Error::Unavailable("the write waited too long for its turn".to_owned())
    }
}

struct Task {
    inbox: Inbox,
    link: Link,
    handover: Arc<Handover>,
    config: WriterConfig,
    seq: i64,
    /// Batches that still look first.
    checked_left: u32,
    meters: Meters,
}

/// Why a batch has no answer.
enum Unanswered {
    /// It certainly was not committed.
    Failed(StatementFailure),
    /// It may have been.
    Unknown,
}

impl Task {
    async fn run(mut self, token: CancellationToken) {
        self.link.check().await;
        loop {
            tokio::select! {
                biased;
                () = token.cancelled(), if !self.inbox.is_closed() => self.inbox.close(),
                open = self.inbox.fill() => {
                    if !open {
                        return;
                    }
                    let batch = self.inbox.take_batch();
                    self.commit(batch).await;
                }
                () = tokio::time::sleep(CHECK_INTERVAL) => self.link.check().await,
            }
        }
    }

    /// Commits a batch and answers its callers. When something in it is wrong, its halves are tried, so that
    /// one bad write harms no other.
    async fn commit(&mut self, batch: Vec<Pending>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            // On the heap: a task has to be moved with all that it may wait for.
            match Box::pin(self.transact(&part)).await {
                Ok(answer) => self.answer(part, &answer),
                Err(Unanswered::Failed(StatementFailure::Fault(text))) if part.len() > 1 => {
                    tracing::warn!(writes = part.len(), error = text, "a batch failed; its halves are tried");
                    let second = part.split_off(part.len() / 2);
                    parts.push(second);
                    parts.push(part);
                }
                Err(Unanswered::Failed(failure)) => {
                    tracing::warn!(writes = part.len(), ?failure, "writes failed");
                    for pending in part {
                        pending.answer(Err(failure.clone().into_error()));
                    }
                }
                Err(Unanswered::Unknown) => {
                    tracing::error!(writes = part.len(), "the outcome of a batch could not be learnt");
                    self.meters.unresolved.inc();
                    for pending in part {
                        pending.answer(Err(Error::Unknown));
                    }
                }
            }
        }
    }

    async fn transact(&mut self, writes: &[Pending]) -> Result<BatchAnswer, Unanswered> {
        let fault = |error: Error| Unanswered::Failed(StatementFailure::Fault(error.to_string()));
        let writes = writes.iter().map(|pending| &pending.write);
        let batch = Batch::new(writes, &self.config.scope_roles).map_err(fault)?;
        let begun = Instant::now();
        for _ in 0..SENDS_MAX {
            let connection = self.link.get().await.map_err(Unanswered::Failed)?;
            self.seq += 1;
            let mode = if self.checked_left == 0 { BatchMode::Optimistic } else { BatchMode::Checked };
            self.checked_left = self.checked_left.saturating_sub(1);
            let call = batch.apply(connection, &self.config, self.seq, mode);
            let lost = match tokio::time::timeout(CALL_DEADLINE, call).await {
                Ok(Ok(answer)) => {
                    self.meters.batches.inc();
                    self.meters.batch_seconds.observe(begun.elapsed().as_secs_f64());
                    return Ok(answer);
                }
                Ok(Err(ApplyError::Invalid(error))) => return Err(fault(error)),
                Ok(Err(ApplyError::Database(error))) if mode == BatchMode::Optimistic && needs_checked_retry(&error) => {
                    self.checked_left = self.config.wary_batches.max(1);
                    self.meters.mistaken.inc();
                    continue;
                }
                Ok(Err(ApplyError::Database(error))) => match StatementFailure::of(&error) {
                    StatementFailure::Lost(text) => text,
                    failure => {
                        self.link.failed(&failure);
                        return Err(Unanswered::Failed(failure));
                    }
                },
                Err(_elapsed) => "the call took too long".to_owned(),
            };
            tracing::warn!(seq = self.seq, error = lost, "the connection was lost during a batch");
            self.link.lost(&lost);
            match self.link.fate(self.config.writer, self.seq).await {
                Fate::Committed(answer) => return Ok(answer),
                Fate::Never => {}
                Fate::Unknown => return Err(Unanswered::Unknown),
            }
        }
        let text = "the connection was lost again and again; the write was not made".to_owned();
        Err(Unanswered::Failed(StatementFailure::Unavailable(text)))
    }

    /// Answers the callers, and hands what was written to the tail.
    fn answer(&mut self, part: Vec<Pending>, answer: &BatchAnswer) {
        let writes = part.len();
        self.inbox.answering(writes);
        let mut events = Vec::with_capacity(writes);
        self.meters.batch_writes.observe(f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
        let entries: usize = part.iter().map(|pending| pending.write.change.revision_count()).sum();
        let results = outcome::results_of_batch(part.iter().map(|pending| &pending.write), answer);
        let connection = self.handover.current_connection();
        // Before anybody hears of it: a server that takes over is asked for the writes that were answered.
        let newest = part.iter().zip(&results).rev().find_map(|(pending, result)| {
            Some(outcome::acknowledged_write(&pending.write, *result.as_ref().ok()?, connection))
        });
        if let Some(newest) = newest {
            self.handover.acknowledge(newest);
        }
        for (pending, result) in part.into_iter().zip(results) {
            self.meters.writes.inc();
            let revision = result.as_ref().ok().copied();
            if revision.is_none() {
                self.meters.refused.inc();
            }
            let write = pending.answer(result);
            if let Some(revision) = revision {
                events.extend(outcome::written_events(write, revision));
            }
        }
        let base = Revision(u64::try_from(answer.base).unwrap_or_default());
        let end = Revision(base.0 + u64::try_from(entries).unwrap_or_default());
        self.handover.push(CommittedBatch { base, end, events, connection });
    }
}

impl Meters {
    fn new(metrics: &Metrics) -> Self {
        let seconds = Histogram::new(exponential_buckets(0.0005, 2.0, 15));
        let writes = Histogram::new(exponential_buckets(1.0, 2.0, 10));
        Self {
            batches: metrics.register("store_batches", "Batches that were committed", Counter::default()),
            writes: metrics.register("store_writes", "Writes that were decided", Counter::default()),
            refused: metrics.register(
                "store_writes_refused",
                "Writes that were decided against",
                Counter::default(),
            ),
            mistaken: metrics.register(
                "store_batches_mistaken",
                "Batches that were wrong about a row, and sent again to look first",
                Counter::default(),
            ),
            unresolved: metrics.register(
                "store_batches_unresolved",
                "Batches whose outcome could not be learnt",
                Counter::default(),
            ),
            batch_seconds: metrics.register(
                "store_batch_duration_seconds",
                "Time of a batch's call",
                seconds,
            ),
            batch_writes: metrics.register("store_batch_writes", "Writes in a batch", writes),
        }
    }
}
