use super::sql;
use crate::cache::inner::CacheInner;
use crate::model::Revision;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use uuid::Uuid;

const HEAD: &str = "SELECT r.v, r.epoch, c.compacted FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r \
     CROSS JOIN compaction c WHERE c.id = 1";

/// The newest revision, the epoch and the compacted revision in one snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) epoch: Uuid,
    pub(crate) compacted: Revision,
}

impl Head {
    /// Reads `v, epoch, compacted` from the first columns.
    pub(crate) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            revision: sql::revision(row, 0)?,
            epoch: row.try_get(1)?,
            compacted: sql::revision(row, 2)?,
        })
    }

    /// Reads it from the database.
    pub(super) async fn query(
        cache: &CacheInner,
        connection: &mut PgConnection,
    ) -> Result<Self, sqlx::Error> {
        let rows = sql::rows(connection, cache.config.prepared, HEAD, &[]).await?;
        Self::read(rows.first().ok_or(sqlx::Error::RowNotFound)?)
    }
}
