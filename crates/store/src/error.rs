use crate::model::Revision;
use quota::Violation;

/// Every way the store can fail. Retry is worth it for `Unavailable`, `Held`, `Importing` and `Busy`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing (visible to the caller) at the key.
    #[error("object not found")]
    NotFound,
    /// A create of a key that is taken.
    #[error("object already exists")]
    AlreadyExists {
        /// Whether the object at the key is being deleted.
        deleting: bool,
    },
    /// The object is not at the expected revision, or has another uid.
    #[error("object is at another revision")]
    Conflict,
    /// A write that may only lower what its object costs or grants would raise it: a defect of the caller.
    #[error("the write may not grow what its object costs or grants")]
    NotAdmitted,
    /// The quota rules refuse the write.
    #[error("refused by {} quota rules", .0.len())]
    Refused(Vec<Violation>),
    /// The tenant has as many objects or bytes as a tenant may, whatever its quota.
    #[error("tenant {tenant:?} may keep {most} {word} here, and {asked} more would be too many")]
    Full {
        /// The tenant.
        tenant: String,
        /// What the write adds.
        asked: u64,
        /// What a tenant may keep.
        most: u64,
        /// The unit: objects, or bytes of them.
        word: &'static str,
    },
    /// After a divergence of history, growth waits for the audit.
    #[error("growth is held until the audit has compared the member clusters")]
    Held,
    /// An import is under way, or was killed.
    #[error(
        "an import is under way: it ends when `business-api import --apply` is through; call it again if it was killed"
    )]
    Importing,
    /// The revision, or the continue token's, was compacted. `current` is for the message.
    #[error("revision {asked} is compacted, current is {current}")]
    Expired {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The snapshot of a continue token was compacted. `continue_token` goes on at the newest state.
    #[error("the continue token is too old")]
    ContinueExpired {
        /// A fresh token for an inconsistent rest.
        continue_token: String,
    },
    /// The revision lies in the future for longer than the store waits.
    #[error("revision {asked} is ahead of {current}")]
    TooFarAhead {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The continue token is not one of ours.
    #[error("invalid continue token: {0}")]
    BadContinue(String),
    /// The cache is not filled yet.
    #[error("the cache is not ready")]
    Starting,
    /// The write queue or the watcher limit is full.
    #[error("too many requests are waiting")]
    Busy,
    /// PostgreSQL cannot be reached, is read-only, full or too slow. Nothing was written.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The outcome of a write could not be learnt before the deadline. It may or may not have happened.
    #[error("the outcome of the write is unknown")]
    Unknown,
    /// The schema of the database is not one that this program can bring to its own version.
    #[error("the schema does not fit: {0}")]
    Schema(String),
    /// A stored body or row is not what was written.
    #[error("corrupt data: {0}")]
    Corrupt(String),
}
