use super::verify::verify_history;
use super::{CALL_DEADLINE, DatabaseState, outcome};
use crate::batch::{Batch, BatchAnswer, Rules, Unapplied};
use crate::cache::inner::CacheInner;
use crate::connect::{self, StatementFailure};
use crate::model::Write;
use crate::{Error, Revision};
use tokio::sync::Semaphore;

/// Such batches of a process at once: each has a connection of its own.
const TOGETHER_MAX: usize = 2;

static PLACES: Semaphore = Semaphore::const_new(TOGETHER_MAX);

/// What becomes of all writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// They are made, or none of them.
    Make,
    /// They are decided, and rolled back.
    Rehearse,
}

/// Decides writes as one batch, in one statement that makes all of them or none: a replica that stalls afterwards
/// holds no lock. The answers are in the order of the writes; if one is refused, the others were not made either.
pub(crate) async fn write_together(
    url: &str,
    cache: &CacheInner,
    database: &DatabaseState,
    rules: &Rules,
    writes: &[Write],
    together: Together,
) -> Result<Vec<Result<Revision, Error>>, Error> {
    let _place = PLACES.acquire().await.map_err(|closed| Error::Unavailable(closed.to_string()))?;
    let batch = Batch::new(writes, &rules.standings)?;
    let mut connection = connect::connect(url, "store batch").await.map_err(connect::unavailable)?;
    // The same check that the writer makes. The writer's own connection may still be to the previous server; it checks
    // for itself.
    let last = database.server();
    let verified = verify_history(cache, last.as_ref(), &mut connection);
    connect::in_time(CALL_DEADLINE, verified).await.map_err(Error::Unavailable)?;
    let call = async {
        match together {
            Together::Make => batch.together(&mut connection, rules).await,
            Together::Rehearse => batch.rehearse(&mut connection, rules).await,
        }
    };
    let answer = answered(tokio::time::timeout(CALL_DEADLINE, call).await)?;
    Ok(outcome::results_of_batch(writes, &answer))
}

/// Without an answer nobody knows whether they were made.
fn answered(
    called: Result<Result<BatchAnswer, Unapplied>, tokio::time::error::Elapsed>,
) -> Result<BatchAnswer, Error> {
    match called {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Unapplied::Unsaid(error))) => Err(error),
        Ok(Err(Unapplied::Database(error))) => Err(match StatementFailure::of(&error) {
            StatementFailure::Lost(_) => Error::Unknown,
            failure => failure.into_error(),
        }),
        Err(_elapsed) => Err(Error::Unknown),
    }
}
