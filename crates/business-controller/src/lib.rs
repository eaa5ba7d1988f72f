//! The controller of `business.tkestack.io/v1`: it brings member clusters to what our objects ask for, and our
//! objects' status to what there is. It sees the world only through kube-apiserver and the member clusters, and
//! holds no truth: killing it loses nothing.
//!
//! Modules stand in the order in which a change travels.
#![expect(missing_docs, reason = "no library is published: names and types speak")]

pub mod config;
/// Puts the parts together.
pub mod run;
/// What may be written at this moment.
pub mod fence;
/// The shares of the work, and who has which.
pub mod shares;
/// How member clusters are dialled.
pub mod dial;
/// The tunnel's server beside.
pub mod tunnel;
/// The member clusters: which there are, and what the API server is told of them.
pub mod directory;
/// What we have written into a member cluster, sealed.
pub mod seal;
/// One member cluster.
pub mod member;
/// The member clusters that the directory has accepted.
pub mod members;
/// The table of controllers.
pub mod controllers;
/// What a kind of ours says of itself.
pub mod kinds;
/// One kind's objects as last seen.
pub mod cache;
/// The objects that existed when a share was acquired, to recognize a cache that is behind.
pub mod acquisition;
/// Our objects as last seen: a cache for each kind.
pub mod objects;
/// Every watch on our kinds.
pub mod watches;
/// Objects to look at.
pub mod queue;
/// Gives each object its pass.
pub mod dispatch;
/// What every pass is given.
pub mod context;
/// What is done when a share comes and goes.
pub mod share_callbacks;
/// What a controller of one kind does.
pub mod controller;
/// The controller of projects.
pub mod project;
/// The controller of namespaces.
pub mod namespace;
/// The controller of emigrations.
pub mod nsemigration;
/// When figures in a status may be written again.
pub mod throttle;
/// Writes what is new of a status.
pub mod status;
/// The controller of tenants.
pub mod tenant;
/// The controller of member clusters.
pub mod member_cluster;
/// The controller of templates.
pub mod namespace_template;
/// The controller of image namespaces and chart groups.
pub mod registry;
/// Calls to our API.
pub mod business;
/// Who is named in what is written.
pub mod field_managers;
/// Digests of what was written.
pub mod digest;
/// The difference of two documents.
pub mod merge;
/// Kubernetes events.
pub mod events;
/// The slow full pass over the member clusters.
pub mod audit;
/// Certificates for people.
pub mod issuer;
/// Namespaces of member clusters that nobody manages.
pub mod adoption;
/// What namespaces say of their clusters.
pub mod descriptions;
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
