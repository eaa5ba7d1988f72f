use super::{Pending, outcome};
use crate::batch::{Batch, Look, Rules};
use crate::connect::{self, Failure};
use crate::model::Write;
use crate::{Error, Revision};
use sqlx::Connection as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::{Semaphore, oneshot};

/// Rehearsals of a process at once: each has a connection of its own, and holds the revision counter while it is decided.
const REHEARSALS_MAX: usize = 4;

static REHEARSALS: Semaphore = Semaphore::const_new(REHEARSALS_MAX);

/// Decides a write as a batch of its own would, and takes everything back.
pub(crate) async fn rehearse(url: &str, rules: &Rules, write: Write) -> Result<Revision, Error> {
    let _place = REHEARSALS.acquire().await.map_err(|closed| Error::Unavailable(closed.to_string()))?;
    let (reply, _nobody) = oneshot::channel();
    let writes = [Pending { write, taken: Arc::new(AtomicBool::new(true)), reply }];
    let batch = Batch::new(&writes, &rules.standings)?;
    let deciding = async {
        let mut connection = connect::connect(url, "store rehearsal").await?;
        let mut transaction = connection.begin().await?;
        let answer = batch.call(&mut transaction, rules, 1, Look::First).await?;
        transaction.rollback().await?;
        Ok(answer)
    };
    let answer = deciding.await.map_err(|error: sqlx::Error| match Failure::of(&error) {
        Failure::Lost(text) => Error::Unavailable(text),
        failure => failure.into_error(),
    })?;
    let [pending] = &writes;
    outcome::of(&pending.write, &answer, 0, &rules.standings)
}
