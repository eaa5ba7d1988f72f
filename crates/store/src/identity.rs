//! The identity of the server and of the tables that hold the history. The database records it in its table `server`.
//!
//! A replica that serves while the server changes compares the new history with what it has seen. A replica that
//! starts afterwards has seen nothing. All it can know of a restore or a failover is that the recorded server,
//! timeline or table is another one, and nobody can tell how much was lost. So a replica that has compared the
//! histories records the new identity. If no replica does, history has diverged.

use crate::cache::inner::CacheInner;
use crate::tail::sql;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

/// First the server and its timeline: NULL while it recovers or is a standby, for its timeline may still end. Not every
/// PostgreSQL lets us read them. Then the OIDs of the database and of its table `rev`: a table that is made anew has a
/// new OID, and so has a database that is copied. A standby, a crash and a recovery keep both OIDs.
const IDENTITY: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN system_identifier::text || '/' || \
       substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END, \
       d.oid::text || '/' || to_regclass('rev')::oid::text \
     FROM pg_control_system() CROSS JOIN pg_database d WHERE d.datname = current_database()";

const RECORD: &str = "UPDATE server SET identity = told.identity, relation = told.relation FROM ( \
       SELECT system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS identity, \
         d.oid::text || '/' || to_regclass('rev')::oid::text AS relation \
       FROM pg_control_system() CROSS JOIN pg_database d WHERE d.datname = current_database()) told \
     WHERE server.id = 1 AND \
       (server.identity IS DISTINCT FROM told.identity OR server.relation IS DISTINCT FROM told.relation)";

const RECORDED: &str = "SELECT s.identity, s.relation, r.epoch \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN server s WHERE s.id = 1";

/// The server and the tables that hold a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseIdentity {
    /// The server and its timeline.
    identity: String,
    /// The database and the table; `None` while there is no table.
    relation: Option<String>,
}

/// The identity that the database has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedIdentity {
    /// The server and its timeline; `None` in a new database.
    identity: Option<String>,
    /// The database and the table; `None` also where only an earlier release has recorded something.
    relation: Option<String>,
    /// The epoch of the history.
    pub(crate) epoch: Uuid,
}

impl RecordedIdentity {
    /// Whether a part that is recorded is another one there.
    pub(crate) fn differs_from(&self, current: &DatabaseIdentity) -> bool {
        let is_other = |(recorded, current): (&String, &String)| recorded != current;
        self.identity.as_ref().is_some_and(|identity| *identity != current.identity)
            || self.relation.as_ref().zip(current.relation.as_ref()).is_some_and(is_other)
    }

    /// Whether a part was never recorded.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.identity.is_none() || self.relation.is_none()
    }
}

/// A server's answer to the question for its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdentityAnswer {
    Known(DatabaseIdentity),
    /// The server recovers or is a standby: it takes no writes yet, or never will.
    Recovering,
    /// The server does not let us read its identity.
    Unsupported,
}

impl IdentityAnswer {
    /// The identity, if it is known.
    pub(crate) fn identity(self) -> Option<DatabaseIdentity> {
        match self {
            Self::Known(identity) => Some(identity),
            Self::Recovering | Self::Unsupported => None,
        }
    }
}

/// Asks a server for its identity.
pub(crate) async fn query(
    cache: &CacheInner,
    connection: &mut PgConnection,
) -> Result<IdentityAnswer, sqlx::Error> {
    match read_identity(connection, cache.config.prepared).await {
        Ok(identity) => Ok(identity.map_or(IdentityAnswer::Recovering, IdentityAnswer::Known)),
        Err(sqlx::Error::Database(error)) => {
            tracing::debug!(%error, "the server does not tell its identity");
            Ok(IdentityAnswer::Unsupported)
        }
        Err(error) => Err(error),
    }
}

/// The identity of the connected server; `None` while it recovers. A database error means that the server does not let
/// us read it.
pub(crate) async fn read_identity(
    connection: &mut PgConnection,
    prepared: bool,
) -> Result<Option<DatabaseIdentity>, sqlx::Error> {
    let rows = sql::rows(connection, prepared, IDENTITY, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let (identity, relation): (Option<String>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(identity.map(|identity| DatabaseIdentity { identity, relation }))
}

/// The identity that the database has recorded.
pub(crate) async fn recorded(
    cache: &CacheInner,
    connection: &mut PgConnection,
) -> Result<RecordedIdentity, sqlx::Error> {
    let rows = sql::rows(connection, cache.config.prepared, RECORDED, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(RecordedIdentity { identity: row.try_get(0)?, relation: row.try_get(1)?, epoch: row.try_get(2)? })
}

/// Records that the history is on this server.
pub(crate) async fn record(cache: &CacheInner, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sql::rows(connection, cache.config.prepared, RECORD, &[]).await.map(drop)
}
