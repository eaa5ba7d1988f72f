//! A write on its way to its batch.

use crate::Error;
use crate::model::{Revision, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// A write that waits for its batch.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) write: Write,
    /// Set before the write goes out; from then on a caller who gives up does not know its outcome.
    pub(crate) taken: Arc<AtomicBool>,
    pub(crate) reply: oneshot::Sender<Result<Revision, Error>>,
}

impl Pending {
    /// Whether somebody still waits for the answer; if so, the write goes out now.
    pub(crate) fn take(&self) -> bool {
        self.taken.store(true, Ordering::SeqCst);
        !self.reply.is_closed()
    }

    /// Answers the caller; the write comes back.
    pub(crate) fn answer(self, result: Result<Revision, Error>) -> Write {
        if self.reply.send(result).is_err() {
            tracing::debug!("nobody waits for the outcome of a write any more");
        }
        self.write
    }
}
