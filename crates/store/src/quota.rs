//! Quota, as a write brings it to the batch.
//!
//! A *scope* (for us: a project) holds hard limits by cluster and resource. A *child* (a project or a
//! namespace) is charged to one scope. The writer states its old and its new charge in full; that the old
//! one is true is guaranteed by the compare-and-swap on the object that it was read from. Everything else
//! is decided in the batch, from rows read after the revision counter's lock.

use meta::quantity::Quantity;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Amounts by cluster and resource. A cluster with no resources is listed all the same.
pub type Amounts = BTreeMap<String, BTreeMap<String, Quantity>>;

/// What a write does to quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaChange {
    /// The charge before, absent for a create.
    pub before: Option<Charge>,
    /// The charge after, absent for a delete.
    pub after: Option<Charge>,
    /// Whether the write is admitted by the rules (a main write), or only accounted (status, finalize,
    /// delete). An accounted write can only lower charges.
    pub admit: bool,
    /// Limits of the object itself, when it is a scope.
    pub limits: Option<LimitsChange>,
    /// The place in a member cluster that the object claims for itself. It is taken by the create and given
    /// back by the delete; an update cannot change it.
    pub claim: Option<Claim>,
    /// On a delete: keep the remaining charge and the claim as a hold with this reason.
    pub abandon: Option<String>,
}

/// What one child costs its scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Name of the scope. Empty: a root, which is charged to nobody.
    pub scope: String,
    /// The amounts that count: for a namespace its high-water mark, for a project its hard limits.
    pub amounts: Amounts,
    /// The keys that the child's spec carries, by cluster. A limit of the scope demands its key here.
    pub keys: BTreeMap<String, Vec<String>>,
}

/// The hard limits of a scope before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsChange {
    /// Absent for a create.
    pub before: Option<Amounts>,
    /// Absent for a delete, which is refused while children or holds are left.
    pub after: Option<Amounts>,
}

/// A namespace of a member cluster: two objects never share one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Name of the member cluster.
    pub cluster: String,
    /// Name of the namespace in it.
    pub namespace: String,
}

/// Why the batch refused a write. All violations of one write are reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The amount does not fit into the scope.
    DoesNotFit(Shortage),
    /// A scope's new limit is below what it has already given away.
    BelowAllocated(Shortage),
    /// The scope limits this resource, so the child must carry it.
    KeyMissing {
        /// The scope.
        scope: String,
        /// The member cluster.
        cluster: String,
        /// The resource that the child lacks.
        resource: String,
    },
    /// A scope wants to limit a resource that some of its children do not carry.
    ChildrenLackKey {
        /// The scope.
        scope: String,
        /// The member cluster.
        cluster: String,
        /// The resource.
        resource: String,
        /// How many children use the cluster without the key.
        children: i64,
    },
    /// The scope does not list the cluster.
    ClusterNotListed {
        /// The scope.
        scope: String,
        /// The member cluster.
        cluster: String,
    },
    /// A scope wants to drop a cluster that children use.
    ClusterInUse {
        /// The scope.
        scope: String,
        /// The member cluster.
        cluster: String,
        /// How many children use it.
        children: i64,
    },
    /// The scope does not exist.
    ScopeMissing {
        /// The scope.
        scope: String,
    },
    /// The scope is another tenant's; told to the client as missing.
    ScopeForeign {
        /// The scope.
        scope: String,
    },
    /// The scope is being deleted.
    ScopeTerminating {
        /// The scope.
        scope: String,
    },
    /// An operator has locked the scope.
    ScopeLocked {
        /// The scope.
        scope: String,
    },
    /// An ancestor of the scope does not exist.
    AncestorMissing {
        /// The missing ancestor.
        scope: String,
    },
    /// The ancestors form a circle.
    Cycle {
        /// The scope that closes the circle.
        scope: String,
    },
    /// The scope has as many children as it may have.
    TooManyChildren {
        /// The scope.
        scope: String,
        /// The limit.
        children_max: i64,
    },
    /// The scope still has children or holds and cannot be deleted.
    ScopeInUse {
        /// The scope.
        scope: String,
        /// How many.
        children: i64,
    },
    /// Another object claims the place.
    ClaimTaken {
        /// The place.
        claim: Claim,
        /// Who has it. Never shown to another tenant.
        holder: Uuid,
    },
}

/// An amount against a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The scope whose limit it is.
    pub scope: String,
    /// The member cluster.
    pub cluster: String,
    /// The resource.
    pub resource: String,
    /// What was asked for: the child's whole charge, or the scope's new limit.
    pub requested: Quantity,
    /// The limit.
    pub hard: Quantity,
    /// What the scope's children hold, this child's own part included.
    pub allocated: Quantity,
    /// The largest amount that would have been accepted in place of `requested`
    /// (for a limit: the smallest).
    pub would_fit: Quantity,
}
