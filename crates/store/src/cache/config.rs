//! How the cache follows the database.

use super::ring::RingLimits;
use std::time::Duration;

/// Changes are kept at least this long, unless there are too many or they have twice the bytes of the ring. Bookmarks
/// are a minute apart, so a client that comes back with its last bookmark finds all later changes.
const AGE_MIN: Duration = Duration::from_secs(75);

/// The server at which the cache listens for NOTIFY. The connection must be direct: a proxy that pools transactions
/// loses LISTEN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// The primary.
    #[default]
    Same,
    /// The server at this URL, `postgres://…`.
    At(String),
    /// None: the cache only polls.
    Off,
}

/// How the cache follows the database.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The primary, `postgres://…`, if the cache reads from a standby of it. Only the primary says what is committed
    /// and whose history counts. Objects and events come from the standby, except events that are older than the ring.
    pub primary: Option<String>,
    /// Where to LISTEN. It only makes changes arrive sooner.
    pub listen: Listen,
    /// After so long without a notification, the connection that listens is checked.
    pub listen_check: Duration,
    /// Whether statements may stay prepared in a session. Must be off for a proxy that pools transactions.
    pub prepared: bool,
    /// The longest time between two polls of the database.
    pub poll: Duration,
    /// The maximum number of changes in the ring.
    pub ring_changes: usize,
    /// The maximum number of bytes in the ring. It may have twice as many while changes come so fast that a watch that
    /// comes back within 75 s would not find its changes otherwise.
    pub ring_bytes: usize,
    /// How long history is kept.
    pub retention: Duration,
    /// The maximum number of bytes of objects in the history. An event with more bytes after it is deleted before its
    /// time.
    pub retention_bytes: u64,
    /// How long history is kept whatever its size, so that interrupted watches can go on.
    pub retention_min: Duration,
    /// How long the outcome of a batch is kept: far longer than any writer asks for it.
    pub batches_kept: Duration,
    /// How often history is compacted.
    pub compact_every: Duration,
    /// The maximum number of open watches. One more fails with [`crate::Error::Busy`].
    pub watches: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            primary: None,
            listen: Listen::Same,
            listen_check: Duration::from_secs(30),
            prepared: true,
            poll: Duration::from_millis(200),
            ring_changes: 100_000,
            ring_bytes: 64 << 20,
            retention: Duration::from_mins(5),
            retention_bytes: 2 << 30,
            retention_min: AGE_MIN,
            batches_kept: Duration::from_hours(1),
            compact_every: Duration::from_secs(15),
            watches: 100_000,
        }
    }
}

impl CacheConfig {
    pub(crate) fn ring_limits(&self) -> RingLimits {
        RingLimits {
            changes: self.ring_changes,
            bytes: self.ring_bytes,
            age_min: AGE_MIN,
            age_max: AGE_MIN.max(self.retention + self.compact_every),
        }
    }
}
