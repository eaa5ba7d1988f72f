//! A write that waits for its batch.

use crate::Error;
use crate::model::{Revision, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// A write that waits for its batch.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    pub(crate) write: Write,
    /// Set before the write is sent to the database. From then on, a caller that stops waiting does not know the
    /// outcome.
    pub(crate) sent: Arc<AtomicBool>,
    pub(crate) reply: oneshot::Sender<Result<Revision, Error>>,
}

impl PendingWrite {
    /// Marks the write as sent. Returns whether its caller still waits; only then must it be sent.
    pub(crate) fn start_send(&self) -> bool {
        self.sent.store(true, Ordering::SeqCst);
        !self.reply.is_closed()
    }

    /// Answers the caller and returns the write.
    pub(crate) fn answer(self, result: Result<Revision, Error>) -> Write {
        if self.reply.send(result).is_err() {
            tracing::debug!("nobody waits for the outcome of a write any more");
        }
        self.write
    }
}
