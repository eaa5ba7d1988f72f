//! What an object means to the quota ledger, and why the ledger refuses a write. Pure.
//!
//! A *scope* is a budget: it has limits by domain and key. An object *pays* at most one scope, one level above. What it
//! *costs* counts against the limits of that scope. What it *grants* are the limits of another scope, usually its own.
//! A write changes the ledger by the difference between the object's accounts before and after it.

/// What an object means to the ledger.
pub mod account;
/// Holds: amounts that count without an object.
pub mod hold;
/// Why a write was refused.
pub mod violation;

pub use account::{ANCESTORS_MAX, Account, Amounts, Claim, Grants, Keys, Limits, Scope, ScopeKind, Undercut};
pub use hold::{HoldChange, HoldState};
pub use violation::{Shortage, Violation};
