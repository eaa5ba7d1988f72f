//! New credentials that are listed in place of those in use, and the result of trying them.

use super::listing::ListedCluster;
use kube::Client;
use tokio::time::Instant;

/// New credentials that are listed in place of those in use.
#[derive(Debug)]
pub struct NewCredentials {
    pub(super) listed: ListedCluster,
    pub(super) trial: TrialState,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TrialState {
    Due,
    UnderWay,
    /// The last trial failed.
    Ended(Instant),
}

/// The result of trying new credentials.
pub struct CredentialTrial {
    pub(super) name: String,
    pub(super) fingerprint: String,
    pub(super) client: Client,
    pub(super) verdict: Result<(), String>,
}

impl std::fmt::Debug for CredentialTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialTrial")
            .field("name", &self.name)
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}
