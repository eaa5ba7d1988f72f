//! Whole passes against a server in memory.

/// The life of a namespace: each scenario is the exact list of calls that are made.
mod lives;
/// What is made anew where a namespace has gone.
mod anew;
/// Objects that go to another project.
mod moves;
/// Places in a registry.
mod registry;
/// The same against a registry that is none of ours.
mod real_registry;
/// Places in TKE's registry.
mod tke_registry;
/// What the audit finds.
mod audits;
/// What the owner of a cluster namespace tries.
mod attacks;
/// The same at random.
mod owner;
/// Who may use a namespace.
mod access;
/// Objects that were imported.
mod imports;
/// What is held without an object.
mod ledger;
/// Member clusters, from their first answer to their end.
mod member_clusters;
/// What templates put there.
mod templates;
/// What pods pull by.
mod pull_secrets;
/// What tenants are told.
mod tenants;
/// Shares that come and go.
mod shares;
