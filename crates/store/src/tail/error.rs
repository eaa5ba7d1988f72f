use std::time::Duration;

/// Longest time a look may take before the connection is given up.
pub(super) const LOOK_DEADLINE: Duration = Duration::from_secs(5);

/// Why the database cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum TailError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("no answer within {LOOK_DEADLINE:?}")]
    Silent,
    #[error("the database is a standby or still recovers: whose history it will have is not known yet")]
    Recovering,
    #[error("the standby that is read has another history than the primary")]
    OtherHistory,
}

/// Gives up work on a connection that takes too long.
pub(super) async fn in_time<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, TailError>
where
    TailError: From<E>,
{
    match tokio::time::timeout(LOOK_DEADLINE, work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(TailError::Silent),
    }
}
