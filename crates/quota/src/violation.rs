use crate::account::{Claim, Scope};
use meta::quantity::Quantity;
use uuid::Uuid;

/// Why the ledger refused a write. All violations of one write are returned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The amount does not fit into the scope.
    DoesNotFit(Shortage),
    /// A scope's new limit is below what is allocated to its children.
    BelowAllocated(Shortage),
    /// The scope limits this key in a mandatory domain, so the child must carry it.
    KeyMissing {
        /// The scope.
        scope: Scope,
        /// The domain.
        domain: String,
        /// The key that the child lacks.
        key: String,
    },
    /// The write limits a key that some children of the scope do not carry.
    ChildrenLackKey {
        /// The scope.
        scope: Scope,
        /// The domain.
        domain: String,
        /// The key.
        key: String,
        /// How many children use the domain without the key.
        children: i64,
    },
    /// The scope does not list the domain.
    DomainNotListed {
        /// The scope.
        scope: Scope,
        /// The domain.
        domain: String,
    },
    /// The write removes a domain of the scope that children use.
    DomainInUse {
        /// The scope.
        scope: Scope,
        /// The domain.
        domain: String,
        /// How many children use it.
        children: i64,
    },
    /// The scope does not exist.
    ScopeMissing {
        /// The scope.
        scope: Scope,
    },
    /// The scope belongs to another tenant. The client is told that it does not exist.
    ScopeForeign {
        /// The scope.
        scope: Scope,
    },
    /// The scope is being deleted.
    ScopeTerminating {
        /// The scope.
        scope: Scope,
    },
    /// An operator has locked the scope.
    ScopeLocked {
        /// The scope.
        scope: Scope,
    },
    /// An ancestor of the scope does not exist.
    AncestorMissing {
        /// The missing ancestor.
        scope: Scope,
    },
    /// The ancestors form a cycle, or there are too many of them.
    Cycle {
        /// The scope that closes the cycle.
        scope: Scope,
    },
    /// The scope has as many children as it may have.
    TooManyChildren {
        /// The scope.
        scope: Scope,
        /// The limit.
        children_max: i64,
    },
    /// The scope cannot be moved: its children have more than its limits.
    ScopeOverdrawn {
        /// The scope.
        scope: Scope,
    },
    /// The scope still has children or holds and cannot be deleted.
    ScopeInUse {
        /// The scope.
        scope: Scope,
        /// How many children and holds.
        children: i64,
    },
    /// Another object claims the place.
    ClaimTaken {
        /// The place.
        claim: Claim,
        /// The uid of the object that has the claim. It is never shown to another tenant.
        holder: Uuid,
    },
}

/// An amount that exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The scope whose limit it is.
    pub scope: Scope,
    /// The domain.
    pub domain: String,
    /// The key.
    pub key: String,
    /// The requested amount: the child's whole charge, or the scope's new limit.
    pub requested: Quantity,
    /// The limit.
    pub hard: Quantity,
    /// What is allocated to all children of the scope, including this one.
    pub allocated: Quantity,
    /// The largest amount that would have been accepted in place of `requested` (for a limit: the smallest).
    pub would_fit: Quantity,
}
