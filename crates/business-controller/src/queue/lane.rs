//! Priority lanes of the work queue.

/// How urgent a key is. Within a group, three keys of a lane are processed before one of a later lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Somebody may have to lose access. Earlier failures and later lanes do not delay it.
    Access,
    /// Somebody waits for the result.
    Urgent,
    /// It can wait: a copy of usage figures, a periodic check.
    Later,
}
