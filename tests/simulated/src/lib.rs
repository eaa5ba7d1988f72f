//! Simulated member clusters: what business-controller uses of a Kubernetes API, kept in memory, many in one process.
//! Objects, patches, field ownership, selectors and refusals are those of the library that serves our own kinds (`meta`).
//! There is no etcd, no scheduler, no admission and no RBAC; of the controllers there are those of namespaces and quotas, and
//! the one that gives each namespace its service account. What is measured here says nothing of a real cluster's speed.
//!
//! ```text
//! serve ─▶ request ─▶ calls ─▶ faults ─▶ cluster ─▶ state
//!                       └────▶ audit        └─▶ follow (watches)
//! ```

#![expect(missing_docs, reason = "tests of this workspace are its only users")]

/// Kinds that a simulated cluster knows.
pub mod kinds;
/// What a request asks for.
pub mod request;
/// The objects of a cluster, with their history.
pub mod state;
/// One cluster: calls that change it, and what its own controllers do.
pub mod cluster;
/// Watches.
pub mod follow;
/// Answers that are late, or never come.
pub mod faults;
/// Who has written what, and when.
pub mod audit;
/// Calls of one cluster, from a request to its answer.
pub mod calls;
/// The server.
pub mod serve;

pub use faults::Faults;
pub use serve::{Settings, run};
