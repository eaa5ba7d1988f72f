//! The runtime of both programs: supervised tasks, shutdown, backoff, telemetry, metrics and an admin port. It does not
//! depend on Kubernetes or PostgreSQL.

/// Supervised tasks with names.
pub mod tasks;
/// Graceful shutdown on signals.
pub mod shutdown;
/// A clock that tests can control.
pub mod clock;
/// Exponential backoff.
pub mod backoff;
/// Errors with their causes as text.
mod error_chain;
/// Logs.
pub mod telemetry;
/// Traces over OTLP.
pub mod trace;
/// Metrics of the process.
mod process;
/// The metrics registry.
pub mod metrics;
/// The expiry of a certificate as a metric.
pub mod certificate_expiry;
/// Health checks.
pub mod health;
/// The admin port: liveness, readiness and metrics.
pub mod admin;

pub use backoff::Backoff;
pub use certificate_expiry::CertificateExpiry;
pub use clock::Clock;
pub use error_chain::error_chain;
pub use health::Health;
pub use metrics::{MetricDescription, Metrics};
pub use tasks::Tasks;
