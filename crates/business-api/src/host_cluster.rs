use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use runtime::Backoff;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The namespace whose uid tells clusters apart.
const KUBE_SYSTEM: &str = "kube-system";
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY_FLOOR: Duration = Duration::from_secs(1);
/// Short, because as long as the uid is unknown any member may be the host cluster, and more claims are refused than
/// needed.
const RETRY_CEILING: Duration = Duration::from_secs(10);

/// The cluster that the API is aggregated in, identified by the uid of its `kube-system`. Clones share it. The default
/// stands for no cluster.
#[derive(Clone, Debug, Default)]
pub struct HostCluster {
    uid: Arc<OnceLock<String>>,
    /// Whether there is a host cluster.
    exists: bool,
}

impl HostCluster {
    /// A cluster whose uid is not known until [`HostCluster::resolve`] has read it.
    pub fn pending() -> Self {
        Self { exists: true, ..Self::default() }
    }

    /// The cluster with this uid.
    #[cfg(test)]
    pub(crate) fn resolved(uid: &str) -> Self {
        Self { uid: Arc::new(OnceLock::from(uid.to_owned())), exists: true }
    }

    /// Whether this is known to be its uid.
    pub fn has_uid(&self, uid: &str) -> bool {
        self.uid.get().is_some_and(|own| own == uid)
    }

    /// Whether there is a host cluster whose uid is not known yet.
    pub fn is_pending(&self) -> bool {
        self.exists && self.uid.get().is_none()
    }

    /// Reads the uid, and tries again until that succeeds.
    pub async fn resolve(self, client: Client) {
        let namespaces = Api::<Namespace>::all(client);
        let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        let mut has_warned = false;
        loop {
            let answer = tokio::time::timeout(DEADLINE, namespaces.get_metadata(KUBE_SYSTEM)).await;
            let why = match answer.map(|answer| answer.map(|found| found.metadata.uid)) {
                Ok(Ok(Some(uid))) => {
                    self.uid.get_or_init(|| uid);
                    return;
                }
                Ok(Ok(None)) => "it has no uid".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer in time".to_owned(),
            };
            if !std::mem::replace(&mut has_warned, true) {
                tracing::warn!(
                    why,
                    "kube-system cannot be read: nobody knows which member is the host cluster"
                );
            }
            backoff.wait().await;
        }
    }
}
