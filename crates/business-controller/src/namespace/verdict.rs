//! What a pass over a namespace comes to: values only.

use super::access_state::AccessState;
use super::template::state::TemplateState;
use crate::member::others::OtherAccess;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::seal::Origin;
use business_types::condition::reason;
use business_types::{ClusterNamespaceRecord, Provenance};
use meta::quantity::ResourceList;
use std::sync::Arc;

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceVerdict {
    /// This, which may be nothing.
    Proceed(Plan),
    /// Nothing now: something else must happen first.
    Wait(StatusInput),
    /// Nothing, until a person changes something.
    Refuse(NamespaceRefusal),
    /// It was there before us, and consent is given. That it is the object's now goes on record before anything is
    /// written to it.
    Adopt { uid: String },
    /// It was there before the object was imported, and bears its labels: it goes on record as the object's, and how it
    /// came to be there.
    TakeOver { uid: String, provenance: Provenance },
    /// Exactly this namespace, which stands in the place of ours, goes first: an operator has consented.
    DeleteReplaced { there: Arc<ClusterNamespace> },
    /// The quota was written from a later generation than ours, or nothing shows that what stands there is ours: we may be behind.
    Recheck,
    /// The object is the newest, and the cluster may let in more than it is charged: history was lost.
    Ahead { message: String },
}

/// Steps in a member cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub namespace: NamespaceStep,
    pub quota: QuotaStep,
    /// How the namespace came to be there.
    pub origin: Origin,
}

impl Plan {
    /// Whether nothing has to be done.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self { namespace: NamespaceStep::Keep { .. }, quota: QuotaStep::Keep { .. }, .. })
    }

    /// Whether it undoes what somebody else has done, and nothing that anybody asks for. What is not as the template says counts when
    /// it was so before.
    pub fn only_repairs(&self, was_template_applied: bool) -> bool {
        let marks = match self.namespace {
            NamespaceStep::Create => return false,
            NamespaceStep::Mark { cause: MarkCause::Drift, .. } => true,
            NamespaceStep::Mark { cause: MarkCause::Template, .. } => was_template_applied,
            NamespaceStep::Mark { .. } | NamespaceStep::Keep { .. } => false,
        };
        match self.quota {
            QuotaStep::Create | QuotaStep::Update { cause: QuotaUpdateCause::Drift, .. } => true,
            QuotaStep::Update { cause: QuotaUpdateCause::SpecChanged, .. } => false,
            QuotaStep::Update { cause: QuotaUpdateCause::Reseal, .. } | QuotaStep::Keep { .. } => marks,
        }
    }
}

/// What to do with the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceStep {
    /// It is right.
    Keep { uid: String },
    /// It is missing.
    Create,
    /// Our marks are put on it.
    Mark { from: Arc<ClusterNamespace>, cause: MarkCause },
}

/// Why marks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkCause {
    /// Somebody has changed them, or taken them away.
    Drift,
    /// Somebody has made it in the place of ours.
    Replacement,
    /// Its object is at its end, and it stays.
    Release,
    /// The object has come from another project.
    Transfer,
    /// Labels and annotations are not what the template says.
    Template,
    /// The seal is older than it could be.
    Reseal,
}

/// What to do with the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaStep {
    /// It is right.
    Keep { seen: Arc<ClusterQuota> },
    /// It is missing.
    Create,
    /// It is not what is asked for.
    Update { from: Arc<ClusterQuota>, cause: QuotaUpdateCause },
}

/// Why a quota is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaUpdateCause {
    /// Something else is asked for.
    SpecChanged,
    /// It was right before: somebody else has changed it.
    Drift,
    /// The seal is older than it could be.
    Reseal,
}

/// Why a namespace cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRefusal {
    /// One word.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
    /// What is known of the namespace that stands in the way.
    pub record: Option<ClusterNamespaceRecord>,
}

impl NamespaceRefusal {
    /// The member cluster has declined a write.
    pub fn by_cluster(cluster: &str, code: u16, message: &str) -> Self {
        let message = format!("cluster {cluster} refused with {code}: {message}");
        Self { reason: reason::REFUSED, message, record: None }
    }

    pub fn conflict(message: String) -> Self {
        Self { reason: reason::NAMESPACE_CONFLICT, message, record: None }
    }
}

/// Whose a namespace at an object's place is. Marks decide nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceOwner {
    /// The object's, and how it came to be.
    Ours(Origin),
    /// Somebody has made it in the place of ours.
    Replaced,
    /// Somebody else's: nothing was ever made for the object.
    Foreign,
    /// It cannot be told: nothing is on record, and a write whose answer was lost may have made it.
    Unclear,
}

/// What was found out, and what goes on record of the namespace in the cluster; `None` leaves the record as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusInput {
    pub state: NamespaceState,
    pub record: Option<ClusterNamespaceRecord>,
    /// Who may use the namespace.
    pub access: AccessState,
}

impl From<NamespaceState> for StatusInput {
    fn from(state: NamespaceState) -> Self {
        Self { state, record: None, access: AccessState::Unknown }
    }
}

/// The record of a namespace that is the object's.
pub fn record_of(uid: &str, origin: Origin) -> Option<ClusterNamespaceRecord> {
    let provenance = match origin {
        Origin::Made => Provenance::Made,
        Origin::Adopted => Provenance::Adopted,
        Origin::Released => Provenance::Released,
        // What was made for the object stays on record.
        Origin::Replaced => return None,
    };
    Some(ClusterNamespaceRecord { uid: uid.to_owned(), provenance })
}

/// What a pass has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// The cluster does not answer or is not known.
    Unreachable { reason: &'static str, message: String },
    /// The namespace in the cluster is being deleted although nobody asked us.
    NotActive { message: String },
    /// It cannot be.
    Refused { reason: &'static str, message: String },
    /// The cluster enforces more than the object is charged.
    Ahead { message: String },
    /// Namespace and quota are as asked for.
    Provisioned(Provisioned),
    /// Another namespace stands in the place of ours; it has our quota.
    Replaced { quota: Provisioned, message: String },
    /// Being deleted, and something is left in the cluster.
    Deleting { reason: &'static str, message: String },
    /// Being deleted, and seen gone from the cluster: nothing is charged any more.
    Gone,
}

/// How far a cluster's admission counts with what the object asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Not yet, or with something else.
    Pending,
    /// With exactly that. More stays charged until the cluster has counted again what is in use.
    AwaitingRecount,
    /// With exactly that.
    Enforced,
}

/// A quota that is in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisioned {
    pub quota: Arc<ClusterQuota>,
    pub enforced: Enforcement,
    /// The lower charge that is confirmed with it.
    pub charge: Option<ResourceList>,
    /// The marks are ours, and no write under way can bring those of another project.
    pub marked: bool,
    /// Who else may use the namespace, by bindings that are not ours; `None` when that is not known yet.
    pub others: Option<OtherAccess>,
    /// What the template has put there.
    pub template: TemplateState,
    /// Nothing may be pulled by what was issued for its pods.
    pub revokes_pull: bool,
}
