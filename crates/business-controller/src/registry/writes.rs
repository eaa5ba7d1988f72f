//! The writes to a registry. As to a member cluster, each ends within the lease, and counts as under way until it is
//! answered.

use crate::error::{CallFailure, Error};
use crate::fence::{Fence, InFlightWrites};
use std::sync::Arc;
use std::time::Duration;

/// Sends writes to a registry, and knows which are under way.
#[derive(Debug)]
pub struct RegistryWrites {
    fence: Arc<Fence>,
    open: InFlightWrites,
}

impl RegistryWrites {
    /// Writes as this fence permits.
    pub fn new(fence: Arc<Fence>) -> Self {
        Self { fence, open: InFlightWrites::default() }
    }

    /// Sends a write. The future must not send anything before it is polled.
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

    /// Whether no write can arrive any more that was not seen yet, neither of a former holder nor one of ours without
    /// an answer. Otherwise the time to wait.
    pub fn have_ended(&self) -> Result<(), Duration> {
        self.fence.may_confirm(&self.open)
    }
}
