//! The whole platform on this machine, as `cargo xtask up`, acceptance and measurements need it.
//!
//! ```text
//! layout, state, ports, process ─▶ supervisor ─▶ postgres ─┐
//! pki, token, kubeconfig ─▶ kubectl, manifests ────────────┼─▶ platform ─▶ job, up
//!   controlplane, programs, patroni, registry, identity ───┘
//! ```

#![expect(missing_docs, reason = "tests of this workspace are its only users")]

/// Waiting for conditions.
pub mod wait;
/// Directories and files.
pub mod layout;
/// Processes by pid and start time.
pub mod process;
/// The state file of a run.
pub mod state;
/// Ports that stay the same.
pub mod ports;
/// Supervised child processes.
pub mod supervisor;
/// Certificates.
pub mod pki;
/// Tokens of tenants.
pub mod token;
/// Kubeconfig files.
pub mod kubeconfig;
/// kubectl.
pub mod kubectl;
/// A private PostgreSQL.
pub mod postgres;
/// Backup and restore of it.
pub mod backup;
/// PostgreSQL on three nodes.
pub mod patroni;
/// A network that can be cut.
pub mod cable;
/// Several controllers before many clusters.
pub mod fleet;
/// Our objects.
mod objects;
/// A local Kubernetes control plane.
pub mod controlplane;
/// deploy/ on this machine.
pub mod manifests;
/// business-api and business-controller.
pub mod programs;
/// An OCI registry.
pub mod registry;
/// The identity provider.
pub mod identity;
/// All of it, in order.
pub mod platform;
/// Users for tests.
pub mod people;
/// The main use case.
pub mod job;
/// The demo data of `up`.
pub mod demo;
/// `up` and `down`.
pub mod up;

pub use platform::{HOST_CLUSTER, Instance, Options};
