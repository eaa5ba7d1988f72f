//! The server that the history is on, as the database remembers it.
//!
//! A replica that serves while the server changes compares what it has seen. One that starts afterwards has seen nothing: that
//! the database remembers another server or timeline is all it can know of a restore or of a failover, and how much was
//! lost nobody can tell. So replicas that have compared write down the new server, and if nobody does, history has diverged.

use crate::cache::inner::CacheInner;
use crate::tail::sql;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

/// Which server this is, and on which timeline: NULL while it recovers or is a standby, for its timeline may end yet.
/// Not every PostgreSQL tells.
const TELL: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN system_identifier::text || '/' || \
       substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END FROM pg_control_system()";

const REMEMBER: &str = "UPDATE server SET identity = told.identity FROM ( \
       SELECT system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS identity \
       FROM pg_control_system()) told \
     WHERE server.id = 1 AND server.identity IS DISTINCT FROM told.identity";

const RECALL: &str = "SELECT s.identity, r.epoch \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN server s WHERE s.id = 1";

/// What the database remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The server that its history was on; `None` in a new database.
    pub(crate) identity: Option<String>,
    /// The history.
    pub(crate) epoch: Uuid,
}

impl Memory {
    /// Whether it is of another server than this one.
    pub(crate) fn differs(&self, identity: &str) -> bool {
        self.identity.as_deref().is_some_and(|remembered| remembered != identity)
    }
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its identity and timeline.
    Server(String),
    /// It takes no writes yet, or never will.
    Recovering,
    /// It does not tell.
    Nothing,
}

impl Told {
    /// Who it is, where that is known.
    pub(crate) fn server(self) -> Option<String> {
        match self {
            Self::Server(server) => Some(server),
            Self::Recovering | Self::Nothing => None,
        }
    }
}

/// Asks a server who it is.
pub(crate) async fn ask(cache: &CacheInner, connection: &mut PgConnection) -> Result<Told, sqlx::Error> {
    match sql::rows(connection, cache.config.prepared, TELL, &[]).await {
        Ok(rows) => {
            let server: Option<String> = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
            Ok(server.map_or(Told::Recovering, Told::Server))
        }
        Err(sqlx::Error::Database(error)) => {
            tracing::debug!(%error, "the server does not tell its identity");
            Ok(Told::Nothing)
        }
        Err(error) => Err(error),
    }
}

/// What the database remembers.
pub(crate) async fn recall(cache: &CacheInner, connection: &mut PgConnection) -> Result<Memory, sqlx::Error> {
    let rows = sql::rows(connection, cache.config.prepared, RECALL, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Memory { identity: row.try_get(0)?, epoch: row.try_get(1)? })
}

/// Writes down that the history is on this server.
pub(crate) async fn remember(cache: &CacheInner, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sql::rows(connection, cache.config.prepared, REMEMBER, &[]).await.map(drop)
}
