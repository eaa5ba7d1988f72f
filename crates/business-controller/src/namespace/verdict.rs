//! The decision of a pass over a namespace, and its parts: values only.

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
    /// Carry out this plan, which may be empty.
    Proceed(Plan),
    /// Wait: something else must happen first.
    Wait(StatusInput),
    /// Refuse, until somebody changes something.
    Refuse(NamespaceRefusal),
    /// Adopt a namespace that existed before us, with consent. It goes on record before anything is written to it.
    Adopt { uid: String },
    /// Take over a namespace that existed before its object was imported, and has the object's labels. It goes on
    /// record, with its provenance.
    TakeOver { uid: String, provenance: Provenance },
    /// Delete exactly this namespace, which replaced ours: an operator has consented.
    DeleteReplaced { there: Arc<ClusterNamespace> },
    /// Ask the API for a newer object: the quota was written from a later generation or with more than is charged, or
    /// nothing shows that the namespace is ours.
    Recheck,
    /// Report an excess: the object is the newest, and the cluster may admit more than it is charged. The database has
    /// lost history, or the cluster was restored.
    Ahead { message: String },
}

/// The steps in a member cluster.
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

    /// Whether the plan only undoes what somebody else has done. A difference from the template counts as that if the
    /// template was applied before.
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
    /// Write our marks.
    Mark { from: Arc<ClusterNamespace>, cause: MarkCause },
}

/// Why marks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkCause {
    /// Somebody has changed or removed them.
    Drift,
    /// Somebody has replaced our namespace by this one.
    Replacement,
    /// The object ends, and the namespace stays.
    Release,
    /// The object was moved from another project.
    Transfer,
    /// Labels and annotations differ from the template.
    Template,
    /// The seal could be newer.
    Reseal,
}

/// What to do with the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaStep {
    /// It is right.
    Keep { seen: Arc<ClusterQuota> },
    /// It is missing.
    Create,
    /// It differs from what is asked for.
    Update { from: Arc<ClusterQuota>, cause: QuotaUpdateCause },
}

/// Why a quota is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaUpdateCause {
    /// The object asks for something else.
    SpecChanged,
    /// Somebody else has changed it.
    Drift,
    /// The seal could be newer.
    Reseal,
}

/// Why a namespace cannot be provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRefusal {
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// The record of the namespace that is in the way.
    pub record: Option<ClusterNamespaceRecord>,
}

impl NamespaceRefusal {
    /// The member cluster has refused a write.
    pub fn by_cluster(cluster: &str, code: u16, message: &str) -> Self {
        let message = format!("cluster {cluster} refused with {code}: {message}");
        Self { reason: reason::REFUSED, message, record: None }
    }

    pub fn conflict(message: String) -> Self {
        Self { reason: reason::NAMESPACE_CONFLICT, message, record: None }
    }
}

/// Whose the namespace at an object's place is. Marks do not decide this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceOwner {
    /// The object's, and how it came to be there.
    Ours(Origin),
    /// Somebody has made it in the place of ours.
    Replaced,
    /// Somebody else's: nothing was ever made for the object.
    Foreign,
    /// Unknown: nothing is on record, and a write whose answer was lost may have made it.
    Unclear,
}

/// What the status is computed from. Without a `record`, the recorded one stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusInput {
    pub state: NamespaceState,
    pub record: Option<ClusterNamespaceRecord>,
    /// The state of the `RoleBindings`.
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
        // The record of the replaced namespace stays.
        Origin::Replaced => return None,
    };
    Some(ClusterNamespaceRecord { uid: uid.to_owned(), provenance })
}

/// The state of a namespace in its cluster, as a pass has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// The cluster does not answer, or is not known.
    Unreachable { reason: &'static str, message: String },
    /// The cluster's namespace is being deleted, although the object is not.
    NotActive { message: String },
    /// It cannot be provisioned.
    Refused { reason: &'static str, message: String },
    /// The cluster enforces more than the object is charged.
    Ahead { message: String },
    /// Namespace and quota are as asked for.
    Provisioned(Provisioned),
    /// Another namespace is in the place of ours; it has our quota.
    Replaced { quota: Provisioned, message: String },
    /// The object is being deleted, and something is left in the cluster.
    Deleting { reason: &'static str, message: String },
    /// The object is being deleted, and its namespace is gone from the cluster: nothing is charged any more.
    Gone,
}

/// How far the cluster's admission enforces what the object asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Not yet, or something else.
    Pending,
    /// Exactly that. The charge stays higher until the cluster has counted again what is in use.
    AwaitingRecount,
    /// Exactly that.
    Enforced,
}

/// A namespace and quota that are in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisioned {
    pub quota: Arc<ClusterQuota>,
    pub enforced: Enforcement,
    /// The lower charge to confirm.
    pub charge: Option<ResourceList>,
    /// The marks are ours, and no write under way can bring back those of another project.
    pub marked: bool,
    /// Who else has access, by bindings that are not ours; `None` if that is not known yet.
    pub others: Option<OtherAccess>,
    /// The state of the template.
    pub template: TemplateState,
    /// Whether the pull credential is revoked.
    pub revokes_pull: bool,
}
