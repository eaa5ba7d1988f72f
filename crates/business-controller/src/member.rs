//! One member cluster: its cache, its reachability, and calls to it.

/// The cache of its objects.
pub mod observed;
/// Its namespaces, trimmed.
pub mod namespace;
/// Its quotas, trimmed.
pub mod quota;
/// Its role bindings, trimmed, and their subjects.
pub mod binding;
/// Our labels and annotations on these objects.
pub mod marks;
/// A store of objects that is filled by a watch.
pub mod watch_store;
/// Whether a quota's usage was recounted since its limits changed.
pub mod recount;
/// Role bindings that are not ours.
pub mod others;
/// An estimate of memory use.
pub(crate) mod weight;
/// The memory budget of all clusters.
pub mod memory_budget;
/// Evicts a cluster that exceeds the budget.
mod eviction;
/// Labels and annotations that a template has set on a namespace.
pub mod template_metadata;
/// Objects that templates have created.
pub mod template_objects;
/// The watches of these.
mod template_watches;
/// A store behind a lock, with the reason why it could not be listed.
pub mod shared_store;
/// Pull secrets, and service accounts that use them.
pub mod pull_objects;
/// The watches of these.
mod pull_watches;
/// Lists and watches in pages of a size that can be read.
pub(crate) mod pages;
/// The first list of objects that are optional.
mod initial_list;
/// Calls to a member cluster, each with a deadline.
pub mod api;
/// Probes of the cluster, and its watches.
pub mod session;
/// The health of the watches.
pub(crate) mod watch_health;
/// Notes changes of the cluster and wakes what depends on it.
mod notify;

pub use api::{Identity, MemberApi};
pub use binding::ClusterBinding;
pub use namespace::ClusterNamespace;
pub use observed::Observed;
pub use quota::ClusterQuota;

use crate::acquisition::{AcquisitionSnapshot, CacheProgress};
use crate::error::CallFailure;
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::shares::ShareState;
use kube::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

/// Whether a member cluster answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It was not probed yet, or its first lists have not ended.
    Connecting,
    /// It answers, and its namespaces and quotas were listed.
    Reachable,
    /// It does not answer.
    Unreachable {
        /// Since when, RFC 3339.
        since: String,
        /// What the first failure said.
        reason: String,
    },
}

/// One member cluster.
#[derive(Debug)]
pub struct Member {
    /// Its name, as in `spec.clusterName`.
    pub name: String,
    /// The cluster that the name stands for: the uid of its `kube-system`.
    pub uid: String,
    /// The term of its share in which it is followed.
    pub term: u64,
    /// Calls to it.
    pub api: MemberApi,
    /// What is seen of it.
    pub observed: Observed,
    reach: RwLock<Reach>,
    /// It was evicted because the memory budget was exceeded, and was not listed completely since.
    evicted: AtomicBool,
    /// Our namespaces in it when the share was acquired, once they were listed.
    acquisition: OnceLock<AcquisitionSnapshot>,
    /// Asks for a probe now, because a call has failed.
    pub probe_request: Notify,
    /// The client was replaced: the watches have to be restarted.
    credentials_changed: Notify,
    /// The lost namespace from which roles were withdrawn last. The next audit goes on after it.
    last_cleared_lost: Mutex<String>,
}

impl Member {
    /// A member cluster that was not probed yet. It recounts its quotas within `recount`.
    pub fn new(name: &str, uid: &str, client: Client, state: &ShareState, recount: Duration) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            term: state.term(),
            api: MemberApi::new(client, uid, &state.fence),
            observed: Observed::new(recount),
            reach: RwLock::new(Reach::Connecting),
            evicted: AtomicBool::new(false),
            acquisition: OnceLock::new(),
            probe_request: Notify::new(),
            credentials_changed: Notify::new(),
            last_cleared_lost: Mutex::default(),
        })
    }

    /// Sets our namespaces in it at the time the share was acquired.
    pub fn set_acquisition_snapshot(&self, acquisition: AcquisitionSnapshot) {
        self.acquisition.get_or_init(|| acquisition);
    }

    /// Whether the namespaces at that time are known.
    pub fn has_acquisition_snapshot(&self) -> bool {
        self.acquisition.get().is_some()
    }

    /// Whether a cached object is at least as new as the acquisition of the share.
    pub fn is_up_to_date(&self, object: &NamespaceView, progress: CacheProgress) -> bool {
        let acquisition = self.acquisition.get();
        acquisition
            .is_some_and(|acquisition| acquisition.is_up_to_date::<BusinessNamespace>(object, progress))
    }

    /// Whether only this replica, in this term, can have written anything for an object that was created at this
    /// revision.
    pub fn is_sole_writer_for(&self, revision: u64) -> bool {
        self.acquisition.get().is_some_and(|acquisition| acquisition.is_older_than(revision))
            && self.api.former_holders_writes_ended()
    }

    /// Replaces the client by another one of the same cluster. The cache stays; the watches are restarted.
    pub fn set_client(&self, client: Client) {
        self.api.set_client(client);
        self.credentials_changed.notify_one();
    }

    /// Asks the cluster for its uid. If another cluster answers in its place, that is a failure.
    pub async fn verify_identity(&self) -> Result<(), CallFailure> {
        self.check_uid(&self.api.cluster_uid().await?)
    }

    /// The same, and the newest revision there.
    pub async fn probe(&self) -> Result<u64, CallFailure> {
        let Identity { uid, revision } = self.api.identity().await?;
        self.check_uid(&uid).map(|()| revision)
    }

    fn check_uid(&self, found: &str) -> Result<(), CallFailure> {
        let uid = &self.uid;
        if found == uid {
            return Ok(());
        }
        let message = format!("another cluster answers in its place: kube-system has uid {found}, not {uid}");
        Err(CallFailure::Unavailable(message))
    }

    /// The lost namespace from which roles were withdrawn last.
    pub fn last_cleared_lost(&self) -> String {
        self.last_cleared_lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that roles are being withdrawn from this one.
    pub fn set_last_cleared_lost(&self, namespace: &str) {
        namespace.clone_into(&mut self.last_cleared_lost.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether it was evicted because the memory budget was exceeded, and was not listed completely since.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Records whether it is evicted.
    fn set_evicted(&self, is: bool) {
        self.evicted.store(is, Ordering::Relaxed);
    }

    /// Whether it answers.
    pub fn reach(&self) -> Reach {
        self.reach.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets whether it answers. Returns `true` if that is a change.
    pub fn set_reach(&self, reach: Reach) -> bool {
        let mut held = self.reach.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *held != reach;
        *held = reach;
        changed
    }
}
