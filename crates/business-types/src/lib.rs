//! The kinds of `business.tkestack.io/v1` and their pure rules.
//!
//! A tenant owns *projects*, which form a tree; a project holds hard quota by member cluster; a *namespace*
//! carves part of it out for one namespace of one cluster.

/// Names that both programs share: group, finalizers, labels, annotations.
pub mod names;
/// A member cluster as the controller makes it known.
pub mod cluster;
/// Who people are in member clusters.
pub mod access;
/// How a certificate for a member cluster is asked for.
pub mod issue;
/// What the programs tell each other of their audits.
pub mod audit;
/// `metav1.Condition`: one aspect of an object's state.
pub mod condition;
/// Which resources quota knows, and which amounts they take.
pub mod resources;
/// What objects mean to the quota ledger.
pub mod account;
/// The kind Project.
pub mod project;
/// The kind Namespace.
pub mod namespace;
/// The charge of a namespace: a high-water mark.
pub mod charge;
/// What is wrong with an object, beyond its shape.
pub mod validation;

pub use audit::{Comparison, Held, LedgerStatus, Orphan, OrphanState, Stranger};
pub use cluster::Cluster;
pub use condition::Condition;
pub use namespace::{
    ChargedNamespace, ClusterNamespaceRecord, NamespacePhase, NamespaceSpec, NamespaceStatus, Provenance,
};
pub use project::{ChargedProject, HardQuantity, ProjectPhase, ProjectSpec, ProjectStatus, UsedQuantity};
