//! The controller of `business.tkestack.io/v1`. It reconciles member clusters with the spec of our objects, and writes
//! their status. It talks to kube-apiserver and to the member clusters only, and keeps no state of its own: it can be
//! killed at any time.
//!
//! The modules are in the order in which a change passes through them.
#![expect(missing_docs, reason = "no library is published: names and types speak")]

pub mod config;
/// Starts the program and all its tasks.
pub mod run;
/// Fencing: which writes the holder of a share may send now.
pub mod fence;
/// Shares of the work, and leader election for each of them.
pub mod shares;
/// Clients of member clusters: direct, by proxy or through the tunnel.
pub mod dial;
/// A client that follows its kubeconfig.
pub mod reloading_client;
/// Liveness check of the tunnel's server in the container beside.
pub mod tunnel;
/// The directory of member clusters: which exist, and their registration.
pub mod directory;
/// Seals: HMACs on what we write into member clusters.
pub mod seal;
/// One member cluster.
pub mod member;
/// The member clusters that the directory has accepted.
pub mod members;
/// The table of controllers.
pub mod controllers;
/// Our kinds as traits, and the trimmed view of an object.
pub mod kinds;
/// The cache of the objects of one kind.
pub mod cache;
/// Snapshots taken when a share is acquired, to detect a cache that is behind.
pub mod acquisition;
/// The caches of all our kinds.
pub mod objects;
/// The watches that fill these caches.
pub mod watches;
/// The work queue.
pub mod queue;
/// Takes keys from the queue and calls the reconciler of their kind.
pub mod dispatch;
/// What every reconciler gets.
pub mod context;
/// What to do when a share is acquired or released.
pub mod share_callbacks;
/// The trait that the controller of a kind implements.
pub mod controller;
/// The controller of projects.
pub mod project;
/// The controller of namespaces.
pub mod namespace;
/// The controller of emigrations.
pub mod nsemigration;
/// Limits how often usage figures in a status are written.
pub mod throttle;
/// Writes the difference of two statuses.
pub mod status;
/// The controller of tenants.
pub mod tenant;
/// The controller of member clusters.
pub mod member_cluster;
/// The controller of templates.
pub mod namespace_template;
/// The controller of image namespaces and chart groups.
pub mod registry;
/// Calls to the API of our kinds.
pub mod business;
/// Field managers, as in `managedFields`.
pub mod field_managers;
/// Digests of what was written.
pub mod digest;
/// Merge patches (RFC 7386).
pub mod merge;
/// Kubernetes events.
pub mod events;
/// The audit: a full comparison of member clusters with our objects.
pub mod audit;
/// Certificates for people.
pub mod issuer;
/// Namespaces of member clusters that nobody manages.
pub mod adoption;
/// Copies a cluster's description into the spec of its namespaces.
pub mod descriptions;
/// The outcome of a reconciliation.
pub mod outcome;
/// The metrics of the controller.
pub mod metrics;
/// What can go wrong.
pub mod error;

/// Objects for tests.
#[cfg(test)]
mod fixtures;

/// Whole passes against a server in memory.
#[cfg(test)]
mod scenarios;

/// What programs and people may do in the host cluster.
#[cfg(test)]
mod host_rights;
