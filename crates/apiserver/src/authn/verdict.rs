use super::opinion::Opinion;
use crate::caller::Caller;
use std::sync::Arc;

/// The verdict on the chain of a connection under one generation of trust.
#[derive(Debug)]
pub(crate) struct ChainVerdict {
    pub(super) generation: u64,
    /// The leaf's end; trust ends then, even if the connection goes on.
    pub(super) until_unix_seconds: i64,
    pub(super) proxy: Result<(), String>,
    pub(super) client: Result<Option<Arc<Caller>>, String>,
}

impl ChainVerdict {
    /// Whether the peer is the front proxy.
    pub(crate) fn proxy(&self) -> Result<(), &str> {
        self.proxy.as_ref().copied().map_err(String::as_str)
    }

    /// The caller by the peer's own certificate.
    pub(crate) fn client(&self) -> Opinion {
        match &self.client {
            Ok(Some(caller)) => Opinion::Known(Arc::clone(caller)),
            Ok(None) => Opinion::None,
            Err(why) => Opinion::invalid(format!("client certificate: {why}")),
        }
    }
}
