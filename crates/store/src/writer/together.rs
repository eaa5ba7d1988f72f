use super::verify::verify_history;
use super::{CALL_DEADLINE, DatabaseHealth, outcome};
use crate::batch::{ApplyError, Batch, BatchAnswer, WriterConfig};
use crate::cache::inner::CacheInner;
use crate::connect::{self, StatementFailure};
use crate::model::Write;
use crate::{Error, Revision};
use tokio::sync::Semaphore;

/// Most such batches of a process at a time: each has a connection of its own.
const TOGETHER_MAX: usize = 2;

static PERMITS: Semaphore = Semaphore::const_new(TOGETHER_MAX);

/// Decides writes as one batch, in one statement that makes all of them or none; with `dry_run` none in any case. A
/// replica that stalls after the statement holds no lock. The answers are in the order of the writes. If one write is
/// refused, the others were not made either.
pub(crate) async fn write_together(
    url: &str,
    cache: &CacheInner,
    database: &DatabaseHealth,
    config: &WriterConfig,
    writes: &[Write],
    dry_run: bool,
) -> Result<Vec<Result<Revision, Error>>, Error> {
    let _permit = PERMITS.acquire().await.map_err(|closed| Error::Unavailable(closed.to_string()))?;
    let batch = Batch::new(writes, &config.scope_roles)?;
    let mut connection = connect::connect(url, "store batch").await.map_err(connect::unavailable)?;
    // The writer makes the same check, but its connection may still lead to the previous server.
    let last = database.server();
    let verified = verify_history(cache, last.as_ref(), &mut connection);
    connect::with_timeout(CALL_DEADLINE, verified).await.map_err(Error::Unavailable)?;
    let call = async {
        if dry_run {
            batch.dry_run(&mut connection, config).await
        } else {
            batch.apply_all_or_nothing(&mut connection, config).await
        }
    };
    let answer = answer_of(tokio::time::timeout(CALL_DEADLINE, call).await)?;
    Ok(outcome::results_of_batch(writes, &answer))
}

/// The answer of the call. If there is none, nobody knows whether the writes were made.
fn answer_of(
    called: Result<Result<BatchAnswer, ApplyError>, tokio::time::error::Elapsed>,
) -> Result<BatchAnswer, Error> {
    match called {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ApplyError::Invalid(error))) => Err(error),
        Ok(Err(ApplyError::Database(error))) => Err(match StatementFailure::of(&error) {
            StatementFailure::Lost(_) => Error::Unknown,
            failure => failure.into_error(),
        }),
        Err(_elapsed) => Err(Error::Unknown),
    }
}
