use crate::access::Access;
use crate::audit::require_operator;
use crate::connect::unavailable;
use crate::divergence::begin_epoch_after;
use crate::error::Error;
use crate::model::Revision;
use crate::store::Store;
use crate::tail::sql;
use uuid::Uuid;

impl Store {
    /// Begins a new epoch because an operator says that the database was restored. This is for a restore that nothing
    /// in the database shows. As after a divergence, watches end, and growth is held until the audit. Returns the
    /// revision that the epoch begins with, or a later one. [`Store::until_filled`] waits until the cache has it.
    pub async fn declare_restored(&self, access: &Access) -> Result<Revision, Error> {
        require_operator(access)?;
        let mut connection = self.operator_connection().await?;
        let epoch: Uuid = sqlx::query_scalar("SELECT epoch FROM rev ORDER BY v DESC LIMIT 1")
            .fetch_one(&mut connection)
            .await
            .map_err(unavailable)?;
        // If another replica has begun a new epoch meanwhile, that has the same effect.
        begin_epoch_after(&self.cache().0, &mut connection, Revision::default(), epoch)
            .await
            .map_err(unavailable)?;
        let revision: i64 = sqlx::query_scalar("SELECT v FROM rev ORDER BY v DESC LIMIT 1")
            .fetch_one(&mut connection)
            .await
            .map_err(unavailable)?;
        let revision = sql::as_revision(revision);
        tracing::warn!(actor = access.actor(), %revision, "the database was restored: a new epoch begins");
        Ok(revision)
    }
}
