//! What the plan has to say of an object. Pure.

use super::record::Named;
use serde::Serialize;

/// What becomes of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// It does not come.
    LeftOut,
    /// It comes otherwise than it was.
    Changed,
    /// More is given away than there is, or something is given away without limit: it comes, and nothing more is given.
    Overcommitted,
    /// It is good to know, and nothing is to be decided.
    Told,
}

impl Effect {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::LeftOut, Self::Changed, Self::Overcommitted, Self::Told];

    /// Over a list of findings.
    pub fn title(self) -> &'static str {
        match self {
            Self::LeftOut => "Left out",
            Self::Changed => "Changed",
            Self::Overcommitted => "Given away beyond a limit: what is there stays, and growth is refused",
            Self::Told => "Good to know",
        }
    }

    /// Whether somebody should look at it before it is applied.
    pub fn is_to_be_decided(self) -> bool {
        self != Self::Told
    }
}

/// What was found of one object, what becomes of it, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportFinding {
    /// What becomes of the object.
    pub effect: Effect,
    /// The rule that says so.
    pub rule: Rule,
    /// The object.
    pub named: Named,
    /// The rule applied to this object.
    pub why: String,
}

impl ImportFinding {
    /// What a rule says of an object.
    pub fn new(rule: Rule, named: &Named, why: impl Into<String>) -> Self {
        Self { effect: rule.effect(), rule, named: named.clone(), why: why.into() }
    }
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// It is no record of TKE, or its kind is not served.
    NotServed,
    /// It cannot be read as its kind.
    Unreadable,
    /// Its key, its metadata or its spec is refused by our validation.
    Invalid,
    /// Its uid or its name is another object's.
    Taken,
    /// Its project does not come.
    ProjectGone,
    /// Another object has the same namespace of a cluster, the same prefix of the registry, or is its tenant's platform.
    PlaceTaken,
    /// It is of another tenant in the registry than its project.
    OtherTenant,
    /// Something in its metadata means something else here.
    Metadata,
    /// The token that keeps it until it is cleaned up was lost.
    Finalizer,
    /// Its spec lacks what is required, or has values that mean nothing.
    Mended,
    /// Its status has values that do not exist here, or that are impossible.
    Status,
    /// Its parent is not there, is another tenant's, or is below itself.
    Parent,
    /// Its tenant is not the one of its project.
    Tenant,
    /// A move to another project was begun and not ended.
    Emigration,
    /// Its children use a cluster that it does not list.
    ClusterNotListed,
    /// More is given away than its limit.
    AboveLimit,
    /// It lacks a resource that its project or parent limits.
    KeyMissing,
    /// It takes the place of the program's own object, which names administrators that it does not name.
    AdministratorsLost,
    /// It takes the place of the program's own.
    Replaces,
    /// The users that it makes administrators.
    Administrators,
    /// The tenant that owns it here.
    Owner,
    /// It failed for good in TKE, and is tried again.
    Retried,
    /// It has come to its end, and does not come.
    Ended,
    /// More is charged than it asks for.
    Charge,
    /// TKE's own sum is another one.
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
