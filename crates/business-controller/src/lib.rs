//! The controller of `business.tkestack.io/v1`: it brings member clusters to what our objects ask for, and our
//! objects' status to what there is. It sees the world only through kube-apiserver and the member clusters, and
//! holds no truth: killing it loses nothing.
//!
//! Modules stand in the order in which a change travels.

/// The command line.
pub mod config;
/// Puts the parts together.
pub mod run;
/// Who may work, and until when.
pub mod leader;
/// The member clusters.
pub mod directory;
/// One member cluster.
pub mod member;
/// Our objects as last seen.
pub mod objects;
/// Every watch on our kinds, and whom a change wakes.
pub mod watches;
/// Objects to look at.
pub mod queue;
/// Gives each object its pass.
pub mod controller;
/// What every pass is given.
pub mod context;
/// The controller of projects.
pub mod project;
/// The controller of namespaces.
pub mod namespace;
/// Calls to our API.
pub mod business;
/// Kubernetes events.
pub mod events;
/// The slow full pass over the member clusters.
pub mod audit;
/// How a pass ended, and the metrics.
pub mod outcome;
/// What can go wrong.
pub mod error;

/// Objects for tests.
#[cfg(test)]
mod fixtures;

/// Whole passes against a server in memory.
#[cfg(test)]
mod scenarios;
