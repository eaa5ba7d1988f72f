use super::{CALL_DEADLINE, outcome};
use crate::batch::{ApplyError, Batch, WriterConfig};
use crate::connect::{self, StatementFailure};
use crate::model::Write;
use crate::{Error, Revision};
use tokio::sync::Semaphore;

/// Most dry runs of a process at a time: each has a connection of its own.
const DRY_RUNS_MAX: usize = 4;

static DRY_RUNS: Semaphore = Semaphore::const_new(DRY_RUNS_MAX);

/// Decides a write as if it were a batch of its own, in one statement that ends with an error and so is rolled back. A
/// replica that stalls after the statement holds no lock.
pub(crate) async fn dry_run_write(
    url: &str,
    config: &WriterConfig,
    write: &Write,
) -> Result<Revision, Error> {
    let _permit = DRY_RUNS.acquire().await.map_err(|closed| Error::Unavailable(closed.to_string()))?;
    let batch = Batch::new([write], &config.scope_roles)?;
    let mut connection = connect::connect(url, "store rehearsal").await.map_err(connect::unavailable)?;
    let called = tokio::time::timeout(CALL_DEADLINE, batch.dry_run(&mut connection, config)).await;
    let called = called.map_err(|_elapsed| Error::Unavailable("PostgreSQL does not answer".to_owned()))?;
    let answer = called.map_err(|unapplied| match unapplied {
        ApplyError::Invalid(error) => error,
        ApplyError::Database(error) => match StatementFailure::of(&error) {
            StatementFailure::Lost(text) => Error::Unavailable(text),
            failure => failure.into_error(),
        },
    })?;
    outcome::result_of(write, &answer, 0)
}
