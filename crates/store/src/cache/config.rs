//! How the cache follows the database.

use super::ring::RingLimits;
use std::time::Duration;

/// How long changes are kept at least, unless they are too many or have twice the bytes that the ring should have.
/// Bookmarks are a minute apart: a client that comes back with the last one finds what followed.
const AGE_MIN: Duration = Duration::from_secs(75);

/// Where the cache listens for NOTIFY. It has to be a direct connection: a transaction-pooling proxy forgets LISTEN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// At the server that makes the history.
    #[default]
    Same,
    /// Elsewhere: `postgres://…`
    At(String),
    /// Nowhere: poll alone.
    Off,
}

/// How the cache follows the database.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The server that takes the writes, where the cache reads from a standby of it: `postgres://…`. It alone says what is
    /// committed and whose history counts; objects and events come from the standby, but for events beyond the ring.
    pub primary: Option<String>,
    /// LISTEN only makes changes arrive sooner.
    pub listen: Listen,
    /// Whether statements may stay prepared in a session; not through a transaction-pooling proxy.
    pub prepared: bool,
    /// Longest time between two looks at the database.
    pub poll: Duration,
    /// Most changes in the ring.
    pub ring_changes: usize,
    /// Bytes in the ring; twice as many while changes come so fast that a watch that comes back within 75 s would not
    /// find its place.
    pub ring_bytes: usize,
    /// How long history is kept.
    pub retention: Duration,
    /// Bytes of objects in the history: an event with more bytes after it is given up sooner.
    pub retention_bytes: u64,
    /// How long history is kept whatever its size, so that interrupted watches can go on.
    pub retention_min: Duration,
    /// How long the outcome of a batch is remembered: far longer than anybody asks for it.
    pub batches_kept: Duration,
    /// How often history is compacted.
    pub compact_every: Duration,
    /// Most watches at a time.
    pub watches: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            primary: None,
            listen: Listen::Same,
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
            shortest: AGE_MIN,
            age: AGE_MIN.max(self.retention + self.compact_every),
        }
    }
}
