//! The writes to a registry. Like those to a member cluster each ends within the lease, whatever happens, and counts as
//! under way until it is answered.

use crate::error::{CallFailure, Error};
use crate::fence::{Fence, InFlightWrites};
use std::sync::Arc;
use std::time::Duration;

/// Leave to write to a registry, and what is under way there.
#[derive(Debug)]
pub struct RegistryWrites {
    fence: Arc<Fence>,
    open: InFlightWrites,
}

impl RegistryWrites {
    /// As this fence allows.
    pub fn new(fence: Arc<Fence>) -> Self {
        Self { fence, open: InFlightWrites::default() }
    }

    /// Sends a write. Nothing of it may be sent before it is polled.
    pub async fn send<T>(&self, write: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let open = self.fence.begin_write(&self.open)?;
        let deadline = self.fence.write_deadline();
        let result = match tokio::time::timeout(deadline, write).await {
            Ok(result) => result,
            Err(_elapsed) => Err(Error::Registry(CallFailure::deadline(deadline))),
        };
        if !matches!(result, Err(Error::Registry(CallFailure::Unavailable(_)))) {
            open.answered();
        }
        result
    }

    /// Whether nothing can come any more that is not seen yet, neither a former holder's nor of ours without an answer.
    /// Else the time to wait.
    pub fn have_ended(&self) -> Result<(), Duration> {
        self.fence.may_confirm(&self.open)
    }
}
