use super::outcome::AuthnOutcome;
use crate::caller::Caller;
use std::sync::Arc;

/// The result of verifying the certificate chain of a connection under one generation of trust.
#[derive(Debug)]
pub(crate) struct ChainVerdict {
    pub(super) generation: u64,
    /// The last second before a certificate of the chain begins or the leaf ends. Afterwards the chain is verified
    /// again, even on an open connection.
    pub(super) until_unix_seconds: i64,
    pub(super) proxy: Result<(), String>,
    pub(super) client: Result<Option<Arc<Caller>>, String>,
}

impl ChainVerdict {
    /// An error unless the peer is the front proxy.
    pub(crate) fn proxy(&self) -> Result<(), &str> {
        self.proxy.as_ref().copied().map_err(String::as_str)
    }

    /// The caller that the certificate identifies.
    pub(crate) fn client(&self) -> AuthnOutcome {
        match &self.client {
            Ok(Some(caller)) => AuthnOutcome::Authenticated(Arc::clone(caller)),
            Ok(None) => AuthnOutcome::NoCredentials,
            Err(why) => AuthnOutcome::invalid(format!("client certificate: {why}")),
        }
    }
}
