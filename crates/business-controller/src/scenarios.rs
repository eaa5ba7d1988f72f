//! Whole passes against a server in memory.

/// The life of a namespace: each scenario is the exact list of calls that are made.
mod lives;
/// What the audit finds.
mod audits;
/// What the owner of a cluster namespace tries.
mod attacks;
/// The same at random.
mod owner;
/// Objects that were imported.
mod imports;
/// What is held without an object.
mod ledger;
