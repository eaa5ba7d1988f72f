use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use runtime::Backoff;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The namespace whose uid tells clusters apart.
const KUBE_SYSTEM: &str = "kube-system";
/// Longest time that an answer takes.
const ANSWER: Duration = Duration::from_secs(10);
const RETRY_FLOOR: Duration = Duration::from_secs(1);
/// Until it is known, claims are refused that are none of its business.
const RETRY_CEILING: Duration = Duration::from_secs(10);

/// Which cluster the API is aggregated in, once that is known. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct HostCluster {
    uid: Arc<OnceLock<String>>,
    /// There is a cluster that can be asked.
    is_sought: bool,
}

impl HostCluster {
    /// One that is going to be asked for. The default is none.
    pub fn sought() -> Self {
        Self { is_sought: true, ..Self::default() }
    }

    /// The cluster whose `kube-system` has this uid.
    #[cfg(test)]
    pub(crate) fn of(uid: &str) -> Self {
        Self { uid: Arc::new(OnceLock::from(uid.to_owned())), is_sought: true }
    }

    /// Whether it is the cluster whose `kube-system` has this uid.
    pub fn is(&self, uid: &str) -> bool {
        self.uid.get().is_some_and(|own| own == uid)
    }

    /// Whether there is one, and nobody knows yet which.
    pub fn is_awaited(&self) -> bool {
        self.is_sought && self.uid.get().is_none()
    }

    /// Asks until it is known: it does not change.
    pub async fn find(self, client: Client) {
        let namespaces = Api::<Namespace>::all(client);
        let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
        let mut is_told = false;
        loop {
            let asked = tokio::time::timeout(ANSWER, namespaces.get_metadata(KUBE_SYSTEM)).await;
            let why = match asked.map(|answer| answer.map(|found| found.metadata.uid)) {
                Ok(Ok(Some(uid))) => {
                    self.uid.get_or_init(|| uid);
                    return;
                }
                Ok(Ok(None)) => "it has no uid".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer in time".to_owned(),
            };
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(
                    why,
                    "kube-system cannot be read: nobody knows which member is the host cluster"
                );
            }
            backoff.wait().await;
        }
    }
}
