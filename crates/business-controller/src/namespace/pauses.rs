//! How soon a namespace is looked at again.

use std::time::Duration;

/// Latest time to look again at something that should tell of itself.
pub(super) const RECHECK: Duration = Duration::from_secs(30);
/// How often to look for what was not known yet and has no event of its own.
pub(super) const SOON: Duration = Duration::from_secs(1);
