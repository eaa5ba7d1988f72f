//! Statements of the read side. Their parameters are numbers and uuids only, so that they can be sent as plain text
//! through a proxy that gives each transaction another session.

use crate::cache::state::Event;
use crate::connect::SESSION;
use crate::kinds::Kinds;
use crate::model::{Attributes, Entry, Key, KindId, Revision};
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row};
use uuid::Uuid;

/// A prepared statement keeps the plan that was made when the tables were small, so the plan must use an index. The
/// timeout is for the server: the client stops waiting by itself, and the server must not work on for long then.
const BY_INDEX: &str = "SET statement_timeout = '30s'; SET enable_seqscan = off; SET enable_bitmapscan = off";

/// Opens a connection for these statements.
pub(crate) async fn connect(options: &PgConnectOptions, prepared: bool) -> Result<PgConnection, sqlx::Error> {
    let mut connection = options.connect().await?;
    if prepared {
        sqlx::raw_sql(SESSION).execute(&mut connection).await?;
        sqlx::raw_sql(BY_INDEX).execute(&mut connection).await?;
    }
    Ok(connection)
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg {
    Int(i64),
    Uuid(Uuid),
}

impl From<Revision> for Arg {
    fn from(revision: Revision) -> Self {
        Self::Int(i64::try_from(revision.0).unwrap_or(i64::MAX))
    }
}

impl std::fmt::Display for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Uuid(uuid) => write!(f, "'{uuid}'"),
        }
    }
}

/// Runs one statement and streams its rows.
pub(crate) fn stream<'c>(
    connection: &'c mut PgConnection,
    prepared: bool,
    sql: &'static str,
    args: &[Arg],
) -> BoxStream<'c, Result<PgRow, sqlx::Error>> {
    if prepared {
        let query = args.iter().fold(sqlx::query(sql), |query, arg| match *arg {
            Arg::Int(number) => query.bind(number),
            Arg::Uuid(uuid) => query.bind(uuid),
        });
        return query.fetch(connection);
    }
    let text = (1..)
        .zip(args)
        .fold(sql.to_owned(), |text, (number, arg)| text.replace(&format!("${number}"), &arg.to_string()));
    sqlx::raw_sql(AssertSqlSafe(text)).fetch(connection)
}

/// Runs one statement and collects its rows.
pub(crate) async fn rows(
    connection: &mut PgConnection,
    prepared: bool,
    sql: &'static str,
    args: &[Arg],
) -> Result<Vec<PgRow>, sqlx::Error> {
    stream(connection, prepared, sql, args).try_collect().await
}

pub(crate) fn revision(row: &PgRow, column: usize) -> Result<Revision, sqlx::Error> {
    Ok(as_revision(row.try_get(column)?))
}

pub(crate) fn as_revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// Reads `kind, namespace, name, uid, rv, body` from `first` on; `None` for a kind that is not served.
pub(crate) fn entry(kinds: &Kinds, row: &PgRow, first: usize) -> Result<Option<Entry>, sqlx::Error> {
    let id = KindId(row.try_get(first)?);
    let Some(kind) = kinds.get(id) else { return Ok(None) };
    let body: &str = row.try_get(first + 5)?;
    Ok(Some(Entry {
        key: Key::new(id, row.try_get(first + 1)?, row.try_get(first + 2)?),
        uid: row.try_get(first + 3)?,
        revision: revision(row, first + 4)?,
        body: Bytes::copy_from_slice(body.as_bytes()),
        attributes: kind.attributes(body.as_bytes()),
    }))
}

/// Reads the columns of [`entry`] and then `op, before`, from `first` on; `None` for a kind that is not served.
pub(crate) fn event(kinds: &Kinds, row: &PgRow, first: usize) -> Result<Option<Event>, sqlx::Error> {
    let Some(entry) = entry(kinds, row, first)? else { return Ok(None) };
    let op: &str = row.try_get(first + 6)?;
    let before: Option<&str> = row.try_get(first + 7)?;
    let before = before.map(|json| {
        serde_json::from_str(json).unwrap_or_else(|error| {
            tracing::warn!(%error, revision = %entry.revision, "attributes of an event are unreadable");
            Attributes::default()
        })
    });
    Ok(Some(Event { deleted: op == "d", before: before.filter(|_| op != "c"), entry }))
}

/// The revision of the event whose columns begin at `first`; `None` in a row without an event.
pub(crate) fn event_revision(row: &PgRow, first: usize) -> Result<Option<Revision>, sqlx::Error> {
    Ok(row.try_get::<Option<i64>, _>(first + 4)?.map(as_revision))
}

/// The bytes of the body of the event whose columns begin at `first`; 0 in a row without an event.
pub(crate) fn event_bytes(row: &PgRow, first: usize) -> Result<usize, sqlx::Error> {
    Ok(row.try_get::<Option<&str>, _>(first + 5)?.map_or(0, str::len))
}

/// Whether the row has an event, with its columns from `first` on, and that is a deletion.
pub(crate) fn is_deletion(row: &PgRow, first: usize) -> bool {
    row.try_get::<Option<&str>, _>(first + 6).ok().flatten() == Some("d")
}
