use crate::model::Key;
use crate::pending::Pending;
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Writes in a batch at most.
const BATCH_WRITES_MAX: usize = 512;
/// Bytes of bodies in a batch at most, unless its first write alone is larger.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long a small batch waits for the callers that were just answered: they may come back. Otherwise the callers fall
/// into two groups whose batches alternate, and each caller waits for two commits.
const LINGER_MAX: Duration = Duration::from_micros(500);
/// A batch of so many waits for nobody: its callers are served while the batch of the other group is in the database.
const LINGER_WRITES_MAX: usize = 24;
/// When no write has come for so long, the batch waits for none any more.
const SILENCE_MAX: Duration = Duration::from_micros(60);

/// The writes that wait for a batch.
#[derive(Debug)]
pub(super) struct Inbox {
    queue: mpsc::Receiver<Pending>,
    waiting: Vec<Pending>,
    /// Callers that are waited for: those of the last batch, and those that waited already when it was answered.
    callers: usize,
}

impl Inbox {
    pub(super) fn new(queue: mpsc::Receiver<Pending>) -> Self {
        Self { queue, waiting: Vec::with_capacity(BATCH_WRITES_MAX), callers: 0 }
    }

    /// Takes no more writes; those in the queue are still served.
    pub(super) fn close(&mut self) {
        self.queue.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Waits for writes. False when there are none and never will be. Nothing is lost if the wait is given up.
    pub(super) async fn fill(&mut self) -> bool {
        if self.waiting.is_empty() {
            let room = BATCH_WRITES_MAX;
            if self.queue.recv_many(&mut self.waiting, room).await == 0 {
                return false;
            }
        }
        self.linger();
        true
    }

    /// Waits without sleeping: the task has a thread of its own, and nothing else to do there.
    fn linger(&mut self) {
        let begun = Instant::now();
        let mut heard = begun;
        while self.waiting.len() < self.callers && begun.elapsed() < LINGER_MAX {
            if self.receive() {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE_MAX {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Notes that so many callers are about to be answered, and may come back.
    pub(super) fn answering(&mut self, count: usize) {
        self.receive();
        self.callers = self.waiting.len().saturating_add(count).min(LINGER_WRITES_MAX);
    }

    /// Takes what is in the queue. False when nothing was.
    fn receive(&mut self) -> bool {
        let before = self.waiting.len();
        while self.waiting.len() < BATCH_WRITES_MAX
            && let Ok(pending) = self.queue.try_recv()
        {
            self.waiting.push(pending);
        }
        self.waiting.len() > before
    }

    /// The next batch: in order of arrival, each key at most once; the rest stays. Writes whose callers have given up
    /// are left out.
    pub(super) fn take_batch(&mut self) -> Vec<Pending> {
        let mut batch = Vec::with_capacity(self.waiting.len());
        let mut keys: HashSet<Key> = HashSet::with_capacity(self.waiting.len());
        let mut bytes = 0_usize;
        let mut later = Vec::new();
        for pending in self.waiting.drain(..) {
            if pending.reply.is_closed() {
                continue;
            }
            let size = pending.write.change.state().body.len();
            let places = [Some(&pending.write.key), pending.write.change.destination()];
            let fits = batch.is_empty() || bytes.saturating_add(size) <= BATCH_BYTES_MAX;
            // Both keys of a move count, even while it waits: later writes to them come after it.
            let new = places.into_iter().flatten().filter(|key| keys.insert((*key).clone())).count();
            let first = new == pending.write.change.revision_count();
            if !fits || !first {
                later.push(pending);
            } else if pending.take() {
                bytes = bytes.saturating_add(size);
                batch.push(pending);
            }
        }
        self.waiting = later;
        batch
    }
}
