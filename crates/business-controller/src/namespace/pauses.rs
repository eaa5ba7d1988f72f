//! Requeue delays of namespaces.

use std::time::Duration;

/// Safety requeue for something that should cause an event.
pub(super) const RECHECK: Duration = Duration::from_secs(30);
/// Requeue for something that is not known yet and causes no event.
pub(super) const SOON: Duration = Duration::from_secs(1);
