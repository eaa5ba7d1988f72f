//! What both programs are built on: named supervised tasks, shutdown, backoff, telemetry, metrics and an admin port.
//! It knows nothing of Kubernetes or PostgreSQL.

/// Named tasks whose end is noticed.
pub mod tasks;
/// From a signal to an orderly end.
pub mod shutdown;
/// The clock, so that a test can own time.
pub mod clock;
/// Waiting times between tries.
pub mod backoff;
/// Errors with their causes.
mod causes;
/// Logs.
pub mod telemetry;
/// Traces over OTLP.
pub mod trace;
/// The resources of the process, as metrics.
mod process;
/// The metrics registry.
pub mod metrics;
/// When a certificate ends, as a metric.
pub mod certificate_end;
/// Health checks by name.
pub mod health;
/// Liveness, readiness and metrics on a port of their own.
pub mod admin;

pub use backoff::Backoff;
pub use causes::chain;
pub use certificate_end::CertificateEnd;
pub use clock::Clock;
pub use health::Health;
pub use metrics::{MetricDescription, Metrics};
pub use tasks::Tasks;
