//! Whole passes against a server in memory.

/// The life of a namespace: each scenario is the exact list of calls.
mod lifecycle;
/// Namespaces that are created again.
mod recreation;
/// Objects that are moved to another project.
mod transfers;
/// Image namespaces and chart groups in an OCI registry.
mod registry;
/// The OCI backend against a real registry.
mod real_registry;
/// Image namespaces and chart groups in TKE's registry.
mod tke_registry;
/// What the audit finds.
mod audits;
/// What becomes of a namespace that was adopted, after its object.
mod releases;
/// What the owner of a cluster's namespace may try.
mod attacks;
/// Random actions of such an owner.
mod owner;
/// Who may use a namespace.
mod access;
/// Imported objects.
mod imports;
/// A simulation of holds in business-api.
mod ledger;
/// Member clusters, from their first answer to their end.
mod member_clusters;
/// What templates put into namespaces.
mod templates;
/// Pull secrets.
mod pull_secrets;
/// The status of tenants.
mod tenants;
/// Shares that are gained and lost.
mod shares;
