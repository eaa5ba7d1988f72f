//! What an object means to the quota ledger, and why the ledger refuses a write. Pure.
//!
//! A *scope* holds limits by domain and key. Every object *pays* at most one scope, one level up; what it *costs* there
//! counts against the scope's limits, and what it *grants* are the limits of a scope itself. The ledger is changed by
//! the difference of two accounts of an object, before and after a write.

/// What an object means to the ledger.
pub mod account;
/// Amounts that count without an object.
pub mod hold;
/// Why a write was refused.
pub mod violation;

pub use account::{Account, Amounts, Claim, Grants, Keys, Limits, Scope, ScopeKind, Undercut};
pub use hold::{HoldChange, HoldState};
pub use violation::{Shortage, Violation};
