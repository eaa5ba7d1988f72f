//! The server that the history is on, and its tables there, as the database remembers them.
//!
//! A replica that serves while the server changes compares the new history with what it has seen. A replica that
//! starts afterwards has seen nothing: all it can know of a restore or a failover is that the database remembers
//! another server, timeline or table, and nobody can tell how much was lost. So a replica that has compared writes
//! down the new home. If none does, history has diverged.

use crate::cache::inner::CacheInner;
use crate::tail::sql;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

/// The server and its timeline: NULL while it recovers or is a standby, for its timeline may still end. Not every
/// PostgreSQL tells them. And the OIDs of the database and its table `rev`: a table that is made anew has a new OID,
/// and so has a database that is copied. A standby, a crash and a recovery keep both.
const TELL: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN system_identifier::text || '/' || \
       substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END, \
       d.oid::text || '/' || to_regclass('rev')::oid::text \
     FROM pg_control_system() CROSS JOIN pg_database d WHERE d.datname = current_database()";

const REMEMBER: &str = "UPDATE server SET identity = told.identity, relation = told.relation FROM ( \
       SELECT system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS identity, \
         d.oid::text || '/' || to_regclass('rev')::oid::text AS relation \
       FROM pg_control_system() CROSS JOIN pg_database d WHERE d.datname = current_database()) told \
     WHERE server.id = 1 AND \
       (server.identity IS DISTINCT FROM told.identity OR server.relation IS DISTINCT FROM told.relation)";

const RECALL: &str = "SELECT s.identity, s.relation, r.epoch \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN server s WHERE s.id = 1";

/// The home of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The server and its timeline.
    identity: String,
    /// The database and the table; `None` while there is no table.
    relation: Option<String>,
}

/// What the database remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The server that its history was on; `None` in a new database.
    identity: Option<String>,
    /// The database and the table there; `None` also where only an earlier release has looked.
    relation: Option<String>,
    /// The history.
    pub(crate) epoch: Uuid,
}

impl Memory {
    /// Whether it is of another home than this one.
    pub(crate) fn differs(&self, home: &Home) -> bool {
        let is_other = |(remembered, told): (&String, &String)| remembered != told;
        self.identity.as_ref().is_some_and(|identity| *identity != home.identity)
            || self.relation.as_ref().zip(home.relation.as_ref()).is_some_and(is_other)
    }

    /// Whether something of it has never been written down.
    pub(crate) fn has_gaps(&self) -> bool {
        self.identity.is_none() || self.relation.is_none()
    }
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its identity.
    Server(Home),
    /// It takes no writes yet, or never will.
    Recovering,
    /// It does not tell.
    Nothing,
}

impl Told {
    /// The server, if it tells.
    pub(crate) fn server(self) -> Option<Home> {
        match self {
            Self::Server(server) => Some(server),
            Self::Recovering | Self::Nothing => None,
        }
    }
}

/// Asks a server who it is.
pub(crate) async fn ask(cache: &CacheInner, connection: &mut PgConnection) -> Result<Told, sqlx::Error> {
    match home(connection, cache.config.prepared).await {
        Ok(home) => Ok(home.map_or(Told::Recovering, Told::Server)),
        Err(sqlx::Error::Database(error)) => {
            tracing::debug!(%error, "the server does not tell its identity");
            Ok(Told::Nothing)
        }
        Err(error) => Err(error),
    }
}

/// The home that a connection leads to; `None` while the server recovers. A database's error means that the server
/// does not tell.
pub(crate) async fn home(connection: &mut PgConnection, prepared: bool) -> Result<Option<Home>, sqlx::Error> {
    let rows = sql::rows(connection, prepared, TELL, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let (identity, relation): (Option<String>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(identity.map(|identity| Home { identity, relation }))
}

/// What the database remembers.
pub(crate) async fn recall(cache: &CacheInner, connection: &mut PgConnection) -> Result<Memory, sqlx::Error> {
    let rows = sql::rows(connection, cache.config.prepared, RECALL, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Memory { identity: row.try_get(0)?, relation: row.try_get(1)?, epoch: row.try_get(2)? })
}

/// Writes down that the history is on this server.
pub(crate) async fn remember(cache: &CacheInner, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sql::rows(connection, cache.config.prepared, REMEMBER, &[]).await.map(drop)
}
