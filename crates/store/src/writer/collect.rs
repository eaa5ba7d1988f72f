use crate::model::Key;
use crate::pending::PendingWrite;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Most writes in a batch.
const BATCH_WRITES_MAX: usize = 512;
/// Most bytes of bodies in a batch, unless its first write alone is larger.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long a small batch waits for the callers that were just answered, as they may write again. Without the wait,
/// the callers would form two groups whose batches alternate, and each caller would wait for two commits.
const LINGER_MAX: Duration = Duration::from_micros(500);
/// A batch of so many writes does not wait: its callers are served while the batch of the other group is in the
/// database.
const LINGER_WRITES_MAX: usize = 24;
/// When no write has come for so long, the batch stops waiting.
const SILENCE_MAX: Duration = Duration::from_micros(60);

/// The writes that wait for a batch: those in the channel, and those taken out of it.
#[derive(Debug)]
pub(super) struct WriteQueue {
    receiver: mpsc::Receiver<PendingWrite>,
    writes: Vec<PendingWrite>,
    /// The number of writes that a batch waits for: one for each caller of the last batch, and those that waited
    /// already when it was answered.
    expected_callers: usize,
}

impl WriteQueue {
    pub(super) fn new(receiver: mpsc::Receiver<PendingWrite>) -> Self {
        Self { receiver, writes: Vec::with_capacity(BATCH_WRITES_MAX), expected_callers: 0 }
    }

    /// Accepts no more writes. Those in the queue are still written.
    pub(super) fn close(&mut self) {
        self.receiver.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.receiver.is_closed()
    }

    /// Waits for writes. False if the queue is closed and empty. Cancelling the wait loses nothing.
    pub(super) async fn wait(&mut self) -> bool {
        if self.writes.is_empty() {
            let room = BATCH_WRITES_MAX;
            if self.receiver.recv_many(&mut self.writes, room).await == 0 {
                return false;
            }
        }
        self.linger();
        true
    }

    /// Waits without sleeping: the task has a thread of its own, and nothing else to do there.
    fn linger(&mut self) {
        let begun = Instant::now();
        let mut last_write = begun;
        while self.writes.len() < self.expected_callers && begun.elapsed() < LINGER_MAX {
            if self.drain_channel() {
                last_write = Instant::now();
            } else if last_write.elapsed() > SILENCE_MAX {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Notes that so many callers are about to be answered, and may write again.
    pub(super) fn expect_callers(&mut self, count: usize) {
        self.drain_channel();
        self.expected_callers = self.writes.len().saturating_add(count).min(LINGER_WRITES_MAX);
    }

    /// Takes the writes out of the channel. False if there were none.
    fn drain_channel(&mut self) -> bool {
        let before = self.writes.len();
        while self.writes.len() < BATCH_WRITES_MAX
            && let Ok(pending) = self.receiver.try_recv()
        {
            self.writes.push(pending);
        }
        self.writes.len() > before
    }

    /// The next batch: in order of arrival, with each key at most once. The other writes stay. Writes whose callers no
    /// longer wait are dropped.
    pub(super) fn take_batch(&mut self) -> Vec<PendingWrite> {
        let mut batch = Vec::with_capacity(self.writes.len());
        let mut keys: HashSet<Key> = HashSet::with_capacity(self.writes.len());
        let mut bytes = 0_usize;
        let mut later = Vec::new();
        for pending in self.writes.drain(..) {
            if pending.reply.is_closed() {
                continue;
            }
            let size = pending.write.change.state().body.len();
            let touched = [Some(&pending.write.key), pending.write.change.destination()];
            let fits = batch.is_empty() || bytes.saturating_add(size) <= BATCH_BYTES_MAX;
            // Both keys of a move count, even if it stays in the queue: later writes to them come after it.
            let new = touched.into_iter().flatten().filter(|key| keys.insert((*key).clone())).count();
            let is_first = new == pending.write.change.revision_count();
            if !fits || !is_first {
                later.push(pending);
            } else if pending.start_send() {
                bytes = bytes.saturating_add(size);
                batch.push(pending);
            }
        }
        self.writes = later;
        batch
    }
}
