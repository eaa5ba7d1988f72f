//! The writer: the one task of a replica that writes. It collects the waiting writes into a batch, calls `apply_batch`
//! once, and answers all callers. It never guesses the outcome of a batch whose connection was lost.

/// Collects waiting writes into batches.
mod collect;
/// The connection, and the outcome of a batch whose connection was lost.
mod connection;
/// Turns the function's answer into the result and the events of each write.
mod outcome;
/// Checks that a server has the history that this replica knows.
mod verify;
/// A write that is decided and rolled back.
mod dry_run;
/// Writes that are all made, or none of them.
mod together;

use crate::batch::{ApplyError, Batch, BatchAnswer, BatchMode, WriterConfig, needs_checked_retry};
use crate::connect::StatementFailure;
use crate::model::Write;
use crate::pending::PendingWrite;
use crate::tail::handover::{CommittedBatch, Handover};
use crate::{Error, Revision};
use collect::WriteQueue;
use connection::BatchOutcome;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use runtime::{Metrics, Tasks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use connection::{DatabaseHealth, WriterConnection};
pub(crate) use dry_run::dry_run_write;
pub(crate) use together::write_together;

/// Most writes that wait. Further ones are refused with [`Error::Busy`].
const QUEUE_WRITES_MAX: usize = 4096;
/// How long a caller waits for an answer.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long a call of the function may take before its connection counts as lost. It is longer than the server's
/// statement timeout.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// How often a batch is sent at most, if it certainly was not committed.
const SENDS_MAX: usize = 3;
/// How often an idle writer checks whether the database takes writes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The callers' handle of the writer.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<PendingWrite>,
}

#[derive(Clone, Debug)]
struct WriterMetrics {
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
        connection: WriterConnection,
        handover: Arc<Handover>,
        config: WriterConfig,
        tasks: &Tasks,
        metrics: &Metrics,
    ) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_WRITES_MAX);
        let task = WriterTask {
            queue: WriteQueue::new(receiver),
            connection,
            handover,
            config,
            seq: 0,
            checked_left: 0,
            metrics: WriterMetrics::new(metrics),
        };
        tasks.spawn_thread("store-writer", task.run(tasks.token()));
        Self { queue }
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Revision, Error> {
        let sent = Arc::new(AtomicBool::new(false));
        let (reply, mut answer) = oneshot::channel();
        let pending = PendingWrite { write, sent: Arc::clone(&sent), reply };
        self.queue.try_send(pending).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Unavailable("the server ends".to_owned()),
        })?;
        match tokio::time::timeout(WRITE_DEADLINE, &mut answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_dropped)) => Err(abandoned_error(&sent)),
            Err(_elapsed) => {
                answer.close();
                answer.try_recv().unwrap_or_else(|_empty| Err(abandoned_error(&sent)))
            }
        }
    }
}

/// The error of a write that got no answer.
fn abandoned_error(sent: &AtomicBool) -> Error {
    if sent.load(Ordering::SeqCst) {
        Error::Unknown
    } else {
        Error::Unavailable("the write waited too long for its turn".to_owned())
    }
}

struct WriterTask {
    queue: WriteQueue,
    connection: WriterConnection,
    handover: Arc<Handover>,
    config: WriterConfig,
    seq: i64,
    /// How many of the next batches are [`BatchMode::Checked`].
    checked_left: u32,
    metrics: WriterMetrics,
}

/// Why a batch has no answer.
enum BatchError {
    /// The batch certainly was not committed.
    NotCommitted(StatementFailure),
    /// The batch may have been committed.
    Unknown,
}

impl WriterTask {
    async fn run(mut self, token: CancellationToken) {
        self.connection.probe().await;
        loop {
            tokio::select! {
                biased;
                () = token.cancelled(), if !self.queue.is_closed() => self.queue.close(),
                open = self.queue.wait() => {
                    if !open {
                        return;
                    }
                    let batch = self.queue.take_batch();
                    self.commit(batch).await;
                }
                () = tokio::time::sleep(PROBE_INTERVAL) => self.connection.probe().await,
            }
        }
    }

    /// Commits a batch and answers its callers. If the statement itself fails, tries the two halves of the batch, so
    /// that one bad write harms no other.
    async fn commit(&mut self, batch: Vec<PendingWrite>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            // Boxed: the task's future would be larger otherwise.
            match Box::pin(self.transact(&part)).await {
                Ok(answer) => self.answer(part, &answer),
                Err(BatchError::NotCommitted(StatementFailure::Fault(text))) if part.len() > 1 => {
                    tracing::warn!(writes = part.len(), error = text, "a batch failed; its halves are tried");
                    let second = part.split_off(part.len() / 2);
                    parts.push(second);
                    parts.push(part);
                }
                Err(BatchError::NotCommitted(failure)) => {
                    tracing::warn!(writes = part.len(), ?failure, "writes failed");
                    for pending in part {
                        pending.answer(Err(failure.clone().into_error()));
                    }
                }
                Err(BatchError::Unknown) => {
                    tracing::error!(writes = part.len(), "the outcome of a batch could not be learnt");
                    self.metrics.unresolved.inc();
                    for pending in part {
                        pending.answer(Err(Error::Unknown));
                    }
                }
            }
        }
    }

    async fn transact(&mut self, writes: &[PendingWrite]) -> Result<BatchAnswer, BatchError> {
        let fault = |error: Error| BatchError::NotCommitted(StatementFailure::Fault(error.to_string()));
        let writes = writes.iter().map(|pending| &pending.write);
        let batch = Batch::new(writes, &self.config.scope_roles).map_err(fault)?;
        let begun = Instant::now();
        for _ in 0..SENDS_MAX {
            let connection = self.connection.get().await.map_err(BatchError::NotCommitted)?;
            self.seq += 1;
            let mode = if self.checked_left == 0 { BatchMode::Optimistic } else { BatchMode::Checked };
            self.checked_left = self.checked_left.saturating_sub(1);
            let call = batch.apply(connection, &self.config, self.seq, mode);
            let lost = match tokio::time::timeout(CALL_DEADLINE, call).await {
                Ok(Ok(answer)) => {
                    self.metrics.batches.inc();
                    self.metrics.batch_seconds.observe(begun.elapsed().as_secs_f64());
                    return Ok(answer);
                }
                Ok(Err(ApplyError::Invalid(error))) => return Err(fault(error)),
                Ok(Err(ApplyError::Database(error)))
                    if mode == BatchMode::Optimistic && needs_checked_retry(&error) =>
                {
                    self.checked_left = self.config.checked_batches.max(1);
                    self.metrics.mistaken.inc();
                    continue;
                }
                Ok(Err(ApplyError::Database(error))) => match StatementFailure::of(&error) {
                    StatementFailure::Lost(text) => text,
                    failure => {
                        self.connection.report_failure(&failure);
                        return Err(BatchError::NotCommitted(failure));
                    }
                },
                Err(_elapsed) => "the call took too long".to_owned(),
            };
            tracing::warn!(seq = self.seq, error = lost, "the connection was lost during a batch");
            self.connection.drop_connection(&lost);
            match self.connection.resolve_outcome(self.config.writer, self.seq).await {
                BatchOutcome::Committed(answer) => return Ok(answer),
                BatchOutcome::NotCommitted => {}
                BatchOutcome::Unknown => return Err(BatchError::Unknown),
            }
        }
        let text = "the connection was lost again and again; the write was not made".to_owned();
        Err(BatchError::NotCommitted(StatementFailure::Unavailable(text)))
    }

    /// Answers the callers, and gives the committed events to the tail.
    fn answer(&mut self, part: Vec<PendingWrite>, answer: &BatchAnswer) {
        let writes = part.len();
        self.queue.expect_callers(writes);
        let mut events = Vec::with_capacity(writes);
        self.metrics.batch_writes.observe(f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
        let entries: usize = part.iter().map(|pending| pending.write.change.revision_count()).sum();
        let results = outcome::results_of_batch(part.iter().map(|pending| &pending.write), answer);
        let connection = self.handover.current_connection();
        // Before any caller is answered: after a failover, the new server must have the acknowledged writes.
        let newest = part.iter().zip(&results).rev().find_map(|(pending, result)| {
            Some(outcome::acknowledged_write(&pending.write, *result.as_ref().ok()?, connection))
        });
        if let Some(newest) = newest {
            self.handover.acknowledge(newest);
        }
        for (pending, result) in part.into_iter().zip(results) {
            self.metrics.writes.inc();
            let revision = result.as_ref().ok().copied();
            if revision.is_none() {
                self.metrics.refused.inc();
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

impl WriterMetrics {
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
