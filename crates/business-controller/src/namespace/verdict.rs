//! What a pass over a namespace comes to: values only.

use crate::member::{ClusterNamespace, ClusterQuota};
use business_types::condition::reason;
use meta::quantity::ResourceList;
use std::sync::Arc;

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This, which may be nothing.
    Proceed(Plan),
    /// Nothing now: something else must happen first.
    Wait(Situation),
    /// Nothing, until a person changes something.
    Refuse(Refusal),
    /// The quota was written from a later generation than ours: either we are behind, or the mark is false.
    Recheck,
}

/// Steps in a member cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For the namespace.
    pub namespace: NamespaceStep,
    /// For the quota.
    pub quota: QuotaStep,
}

impl Plan {
    /// Whether nothing has to be done.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self { namespace: NamespaceStep::Keep, quota: QuotaStep::Keep { .. } })
    }
}

/// What to do with the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceStep {
    /// It is right.
    Keep,
    /// It is missing.
    Create,
    /// It is ours, but its labels are missing.
    Restore {
        /// The version read.
        from: Arc<ClusterNamespace>,
    },
    /// It was there before us, and consent is given.
    Adopt {
        /// The version read.
        from: Arc<ClusterNamespace>,
    },
}

/// What to do with the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaStep {
    /// It is right.
    Keep {
        /// The version seen.
        seen: Arc<ClusterQuota>,
    },
    /// It is missing.
    Create,
    /// It is not what is asked for.
    Update {
        /// The version read.
        from: Arc<ClusterQuota>,
        /// It was right before: somebody else has changed it.
        drift: bool,
    },
}

/// Why a namespace cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One word.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

impl Refusal {
    /// The member cluster has declined a write.
    pub fn by_cluster(cluster: &str, code: u16, message: &str) -> Self {
        Self { reason: reason::REFUSED, message: format!("cluster {cluster} refused with {code}: {message}") }
    }

    pub(super) fn conflict(message: String) -> Verdict {
        Verdict::Refuse(Self { reason: reason::NAMESPACE_CONFLICT, message })
    }
}

/// What a pass has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The cluster does not answer or is not known.
    Unreachable {
        /// One word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// The namespace in the cluster is being deleted although nobody asked us.
    NotActive {
        /// For a person.
        message: String,
    },
    /// It cannot be.
    Refused(Refusal),
    /// Namespace and quota are as asked for.
    InPlace {
        /// The quota.
        quota: Arc<ClusterQuota>,
        /// The lower charge that is confirmed with it.
        charge: Option<ResourceList>,
    },
    /// Being deleted, and something is left in the cluster.
    Deleting {
        /// One word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// Being deleted, and seen gone from the cluster: nothing is charged any more.
    Gone,
}
