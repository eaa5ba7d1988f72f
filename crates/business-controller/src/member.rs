//! One member cluster: what is seen of it, whether it answers, and calls to it.

/// What is seen of it.
pub mod observed;
/// Its namespaces, trimmed.
pub mod namespace;
/// Its quotas, trimmed.
pub mod quota;
/// Its bindings, trimmed, and whom they name.
pub mod binding;
/// Marks of ours on all of these.
pub mod marks;
/// Objects of one kind, as its watch has told of them.
pub mod watch_store;
/// How far the use that its quotas show is to be believed.
pub mod recount;
/// Its bindings that are not ours.
pub mod others;
/// How much memory that takes.
pub(crate) mod weight;
/// How much of it all clusters together may take.
pub mod memory_budget;
/// Whether it has to go for that.
mod eviction;
/// What templates have set of namespaces.
pub mod template_metadata;
/// What templates have put into namespaces.
pub mod template_objects;
/// Watches of that.
mod template_watches;
/// Objects of one kind, as far as they are known.
pub mod shared_store;
/// Pull secrets, and who may use them.
pub mod pull_objects;
/// Watches of those.
mod pull_watches;
/// Lists in pages that can be read.
pub(crate) mod pages;
/// Lists that nothing waits for.
mod initial_list;
/// Calls to a member cluster, each with a deadline.
pub mod api;
/// Whether it answers, and its watches.
pub mod session;
/// How those get on.
mod watch_health;
/// What is new of it.
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
    /// It was not asked yet, or its lists are not complete yet.
    Connecting,
    /// It answers, and everything of ours in it was listed.
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
    /// Which tenure of its share it is followed in.
    pub term: u64,
    /// Calls to it.
    pub api: MemberApi,
    /// What is seen of it.
    pub observed: Observed,
    reach: RwLock<Reach>,
    /// It had to go when more was seen of all clusters than is kept, and was not seen whole since.
    evicted: AtomicBool,
    /// Its namespaces at a moment of the tenure, once they were read.
    acquisition: OnceLock<AcquisitionSnapshot>,
    /// A call to it has failed: look now whether it still answers.
    pub probe_request: Notify,
    /// Other credentials are used from now on.
    credentials_changed: Notify,
    /// Of its namespaces that have lost their objects the last that people were taken out of.
    last_cleared_lost: Mutex<String>,
}

impl Member {
    /// A member cluster that was not asked yet, and counts use again within a time.
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

    /// These were its namespaces at a moment of the tenure.
    pub fn set_acquisition_snapshot(&self, acquisition: AcquisitionSnapshot) {
        self.acquisition.get_or_init(|| acquisition);
    }

    /// Whether it is known which namespaces it had at a moment of the tenure.
    pub fn has_acquisition_snapshot(&self) -> bool {
        self.acquisition.get().is_some()
    }

    /// Whether an object of our view may be decided from: it was not changed, and has not gone, before the tenure has begun.
    pub fn is_up_to_date(&self, object: &NamespaceView, progress: CacheProgress) -> bool {
        let acquisition = self.acquisition.get();
        acquisition
            .is_some_and(|acquisition| acquisition.is_up_to_date::<BusinessNamespace>(object, progress))
    }

    /// Whether nobody can have written for an object that was made at this revision but in this tenure.
    pub fn is_sole_writer_for(&self, revision: u64) -> bool {
        self.acquisition.get().is_some_and(|acquisition| acquisition.is_older_than(revision))
            && self.api.former_holders_writes_ended()
    }

    /// Goes on with another client of the same cluster. What is seen of it stays; its watches begin anew.
    pub fn set_client(&self, client: Client) {
        self.api.set_client(client);
        self.credentials_changed.notify_one();
    }

    /// Asks whether it is still this cluster that answers: what another one says, or does not have, counts for nothing.
    pub async fn verify_identity(&self) -> Result<(), CallFailure> {
        self.check_uid(&self.api.cluster_uid().await?)
    }

    /// The same, and how far its history has come.
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

    /// Of its namespaces that have lost their objects the last that people were taken out of.
    pub fn last_cleared_lost(&self) -> String {
        self.last_cleared_lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is this one's turn.
    pub fn set_last_cleared_lost(&self, namespace: &str) {
        namespace.clone_into(&mut self.last_cleared_lost.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether it had to go when more was seen of all clusters than is kept, and was not seen whole since.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The same, from now on.
    fn set_evicted(&self, is: bool) {
        self.evicted.store(is, Ordering::Relaxed);
    }

    /// Whether it answers.
    pub fn reach(&self) -> Reach {
        self.reach.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets whether it answers; `true` if that is a change.
    pub fn set_reach(&self, reach: Reach) -> bool {
        let mut held = self.reach.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *held != reach;
        *held = reach;
        changed
    }
}
