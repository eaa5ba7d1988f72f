use std::time::Duration;

/// Longest time that a poll may take; after it the connection is closed.
pub(super) const POLL_DEADLINE: Duration = Duration::from_secs(5);

/// Why a session cannot follow the database.
#[derive(Debug, thiserror::Error)]
pub(super) enum TailError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("no answer within {POLL_DEADLINE:?}")]
    Timeout,
    #[error("the database is a standby or still recovers: whose history it will have is not known yet")]
    Recovering,
    #[error("the standby that is read has another history than the primary")]
    OtherHistory,
}

/// The result of some work on a connection, or an error if it takes too long.
pub(super) async fn with_deadline<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, TailError>
where
    TailError: From<E>,
{
    match tokio::time::timeout(POLL_DEADLINE, work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(TailError::Timeout),
    }
}
