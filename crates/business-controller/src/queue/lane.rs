//! How urgent work is.

/// How urgent a key is. Within a group three keys of a lane go before one of a later lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Somebody may have to lose his access. A failure before does not hold it up, nor what comes after.
    Access,
    /// Somebody waits for it.
    Urgent,
    /// It has time: a copy of figures, a check without cause.
    Later,
}
