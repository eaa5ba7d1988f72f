//! Findings: what the plan reports about objects. Pure.

use super::record::ObjectRef;
use serde::Serialize;

/// What becomes of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// It is not imported.
    LeftOut,
    /// It is imported with changes.
    Changed,
    /// More is granted than its limit, or something is granted without limit. It is imported, and growth is refused.
    Overcommitted,
    /// For information: nothing needs a decision.
    Told,
}

impl Effect {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::LeftOut, Self::Changed, Self::Overcommitted, Self::Told];

    /// The heading of a list of findings.
    pub fn title(self) -> &'static str {
        match self {
            Self::LeftOut => "Left out",
            Self::Changed => "Changed",
            Self::Overcommitted => "Given away beyond a limit: what is there stays, and growth is refused",
            Self::Told => "Good to know",
        }
    }

    /// Whether somebody should decide before the plan is applied.
    pub fn needs_decision(self) -> bool {
        self != Self::Told
    }
}

/// One finding about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportFinding {
    /// What becomes of the object.
    pub effect: Effect,
    /// The rule that applies.
    pub rule: Rule,
    /// The object.
    pub object_ref: ObjectRef,
    /// The reason, for people.
    pub why: String,
}

impl ImportFinding {
    /// A finding of a rule about an object.
    pub fn new(rule: Rule, object_ref: &ObjectRef, why: impl Into<String>) -> Self {
        Self { effect: rule.effect(), rule, object_ref: object_ref.clone(), why: why.into() }
    }
}

/// The rules that lead to findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// It is no record of TKE, or its kind is not served.
    NotServed,
    /// It cannot be read as its kind.
    Unreadable,
    /// Its key, its metadata or its spec is refused by our validation.
    Invalid,
    /// Another object has its uid or its name, or an amount that is held has its uid.
    Taken,
    /// Its project is not imported.
    ProjectGone,
    /// Another object, or an amount that is held, has its claim: the namespace of a cluster, the prefix of the
    /// registry, or the tenant's one platform.
    PlaceTaken,
    /// An object of the registry has another tenant than its project.
    OtherTenant,
    /// A part of its metadata would mean something else here.
    Metadata,
    /// Its finalizer was lost.
    Finalizer,
    /// Its spec lacked a required value or had a meaningless one, and was corrected.
    Mended,
    /// Its status has values that do not exist here or are impossible.
    Status,
    /// Its parent is missing, belongs to another tenant, or is below it.
    Parent,
    /// It has another tenant than its project.
    Tenant,
    /// A move to another project was not finished.
    Emigration,
    /// Its children use a cluster that it does not list.
    ClusterNotListed,
    /// More is granted than its limit.
    AboveLimit,
    /// It sets no amount for a resource that its project or parent limits.
    KeyMissing,
    /// It replaces the program's own platform, which names administrators that it does not name.
    AdministratorsLost,
    /// It replaces the program's own platform.
    Replaces,
    /// It makes these users administrators.
    Administrators,
    /// Its tenant here.
    Owner,
    /// It failed permanently in TKE, and is retried here.
    Retried,
    /// It has ended, and is not imported.
    Ended,
    /// More is charged than it asks for.
    Charge,
    /// TKE's own sums differ.
    Figures,
}

impl Rule {
    fn effect(self) -> Effect {
        match self {
            Self::NotServed
            | Self::Unreadable
            | Self::Invalid
            | Self::Taken
            | Self::ProjectGone
            | Self::PlaceTaken
            | Self::OtherTenant => Effect::LeftOut,
            Self::Metadata
            | Self::Finalizer
            | Self::Mended
            | Self::Status
            | Self::Parent
            | Self::Tenant
            | Self::Emigration
            | Self::ClusterNotListed
            | Self::AdministratorsLost => Effect::Changed,
            Self::AboveLimit | Self::KeyMissing => Effect::Overcommitted,
            Self::Replaces
            | Self::Administrators
            | Self::Owner
            | Self::Retried
            | Self::Ended
            | Self::Charge
            | Self::Figures => Effect::Told,
        }
    }
}
