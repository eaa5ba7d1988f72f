use super::{CALL_DEADLINE, outcome};
use crate::batch::{Batch, Rules, Unapplied};
use crate::connect::{self, StatementFailure};
use crate::model::Write;
use crate::{Error, Revision};
use tokio::sync::Semaphore;

/// Rehearsals of a process at once: each has a connection of its own.
const REHEARSALS_MAX: usize = 4;

static REHEARSALS: Semaphore = Semaphore::const_new(REHEARSALS_MAX);

/// Decides a write as a batch of its own would, in one statement that ends with an error: a replica that stalls
/// afterwards holds no lock.
pub(crate) async fn rehearse(url: &str, rules: &Rules, write: &Write) -> Result<Revision, Error> {
    let _place = REHEARSALS.acquire().await.map_err(|closed| Error::Unavailable(closed.to_string()))?;
    let batch = Batch::new([write], &rules.standings)?;
    let mut connection = connect::connect(url, "store rehearsal").await.map_err(connect::unavailable)?;
    let called = tokio::time::timeout(CALL_DEADLINE, batch.rehearse(&mut connection, rules)).await;
    let called = called.map_err(|_elapsed| Error::Unavailable("PostgreSQL does not answer".to_owned()))?;
    let answer = called.map_err(|unapplied| match unapplied {
        Unapplied::Unsaid(error) => error,
        Unapplied::Database(error) => match StatementFailure::of(&error) {
            StatementFailure::Lost(text) => Error::Unavailable(text),
            failure => failure.into_error(),
        },
    })?;
    outcome::result_of(write, &answer, 0)
}
