use crate::model::Revision;
use quota::Violation;

/// Every way in which the store can fail. Whatever asks the database may fail with `Unavailable`. What concerns all
/// tenants, such as an audit, fails with `NotFound` for a caller who does not see all of them. A retry may help after
/// `Starting`, `Unavailable`, `Held`, `Importing` and `Busy`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no object at the key that the caller may see.
    #[error("object not found")]
    NotFound,
    /// The key to create is taken.
    #[error("object already exists")]
    AlreadyExists {
        /// Whether the object at the key is being deleted.
        deleting: bool,
    },
    /// The object is not at the expected revision, or has another uid.
    #[error("object is at another revision")]
    Conflict,
    /// A write that may only lower what its object costs or grants would raise it. This is a bug of the caller.
    #[error("the write may not grow what its object costs or grants")]
    NotAdmitted,
    /// The quota rules refuse the write.
    #[error("refused by {} quota rules", .0.len())]
    Refused(Vec<Violation>),
    /// The tenant has as many objects or bytes as a tenant may have, whatever its quota.
    #[error("tenant {tenant:?} may keep {most} {word} here, and {asked} more would be too many")]
    Full {
        /// The tenant.
        tenant: String,
        /// How many the write adds.
        asked: u64,
        /// How many a tenant may keep.
        most: u64,
        /// The unit of both: objects, or bytes of them.
        word: &'static str,
    },
    /// Growth is held: after a divergence of history or an import until the audit, or by an operator.
    #[error("growth is held until the audit has compared the member clusters")]
    Held,
    /// An import is under way, or was killed.
    #[error(
        "an import is under way: it ends when `business-api import --apply` is through; call it again if it was killed"
    )]
    Importing,
    /// The revision is compacted.
    #[error("revision {asked} is compacted, current is {current}")]
    Expired {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The snapshot of a continue token is compacted.
    #[error("the continue token is too old")]
    ContinueExpired {
        /// A token that goes on at the newest state, which is another snapshot.
        continue_token: String,
    },
    /// The revision is newer than the database's, and did not come while the store waited.
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
    /// The outcome of a write could not be found out before the deadline. It may or may not have been made.
    #[error("the outcome of the write is unknown")]
    Unknown,
    /// This program cannot migrate the schema of the database to its own version.
    #[error("the schema does not fit: {0}")]
    Schema(String),
    /// Stored data, or the data of a write, is wrong.
    #[error("corrupt data: {0}")]
    Corrupt(String),
}
