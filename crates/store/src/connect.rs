//! Connections to PostgreSQL, and what its errors mean.

use crate::Error;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use std::borrow::Cow;
use std::str::FromStr as _;
use std::time::Duration;

/// The channel on which a committed batch announces its last revision. Nothing relies on these notifications.
pub const NOTIFY_CHANNEL: &str = "store";

/// A connection that is not open after this time counts as refused.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a session. The server cancels a statement after 10 s, and waits at most 5 s for a lock. It ends a
/// session that hangs in a transaction or whose client has vanished, so that its locks are released. Servers before 17
/// have no `transaction_timeout`. The isolation level comes first: a standby refuses serializable transactions, and
/// this would be one where they are the default.
pub(crate) const SESSION: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET statement_timeout = '10s'; SET lock_timeout = '5s'; \
     SET idle_in_transaction_session_timeout = '5s'; SET tcp_user_timeout = '10s'; \
     SET tcp_keepalives_idle = '10s'; SET tcp_keepalives_interval = '3s'; SET tcp_keepalives_count = 3; \
     SET default_transaction_isolation = 'read committed'; SET synchronous_commit = on; \
     SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'";

/// Begins a transaction in a session that a proxy may share among clients.
pub(crate) const BEGIN_POOLED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '10s'; \
     SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '5s'; \
     SET LOCAL synchronous_commit = on";

/// Opens a connection for one of the store's tasks. The server shows the task's name.
pub async fn connect(url: &str, task: &str) -> Result<PgConnection, sqlx::Error> {
    let options = PgConnectOptions::from_str(url)?
        .application_name(task)
        .extra_float_digits(None)
        .disable_statement_logging();
    let opening = async {
        let mut connection = PgConnection::connect_with(&options).await?;
        sqlx::raw_sql(SESSION).execute(&mut connection).await?;
        Ok(connection)
    };
    within(CONNECT_TIMEOUT, opening).await
}

/// The result of some work; an I/O error if it takes longer than the deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(deadline, work)
        .await
        .unwrap_or_else(|_elapsed| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}

/// The result of some work on a new connection; a text that says so if it takes longer than the deadline.
pub(crate) async fn with_timeout<T>(
    deadline: Duration,
    asked: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    tokio::time::timeout(deadline, asked)
        .await
        .unwrap_or_else(|_elapsed| Err("PostgreSQL does not answer on a new connection".to_owned()))
}

/// The SQLSTATE of an error, if it comes from PostgreSQL.
pub(crate) fn sqlstate(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}

/// Whether an error has this SQLSTATE.
pub(crate) fn has_code(error: &sqlx::Error, code: &str) -> bool {
    sqlstate(error).is_some_and(|own| own == code)
}

/// Why a statement has failed, and whether its transaction may be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatementFailure {
    /// The connection is gone: the statement may or may not have been committed.
    Lost(String),
    /// Nothing was written, for a reason outside of the statement.
    Unavailable(String),
    /// As [`Self::Unavailable`], until somebody frees or repairs something: the server has no disk space or memory
    /// left, or its files fail.
    Exhausted(String),
    /// As [`Self::Unavailable`], and another connection may succeed: this server takes no writes, or the session has
    /// lost its prepared statements.
    Unfit(String),
    /// Nothing was written, because the statement or its data is wrong.
    Fault(String),
}

impl StatementFailure {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = error else {
            return Self::Lost(error.to_string());
        };
        let code = database.code().unwrap_or_default();
        let text = format!("{} (SQLSTATE {code})", database.message());
        match (code.get(..2).unwrap_or_default(), &*code) {
            (_, "57P01" | "57P02" | "57P03") | ("08", _) => Self::Lost(text),
            (_, "25006") => Self::Unfit(format!("PostgreSQL is read-only: {text}")),
            (_, "42883" | "42P01" | "42703" | "3F000") => {
                Self::Unavailable(format!("the schema is not migrated to this version: {text}"))
            }
            (_, "0A000" | "26000") => Self::Unfit(text),
            (_, "57014") => Self::Unavailable(format!("PostgreSQL is too slow: {text}")),
            (_, "55P03") => Self::Unavailable(format!("somebody holds a lock: {text}")),
            (_, "53100") => Self::Exhausted(format!("PostgreSQL's disk is full: {text}")),
            (_, "53300") => Self::Unavailable(format!("PostgreSQL has too many connections: {text}")),
            ("53" | "58", _) => Self::Exhausted(text),
            ("21" | "22" | "23" | "42" | "54" | "P0" | "XX", _) => Self::Fault(text),
            _ => Self::Unavailable(text),
        }
    }

    /// The error for a caller when it is certain that nothing was written.
    pub(crate) fn into_error(self) -> Error {
        let is_fault = matches!(self, Self::Fault(_));
        let text = self.into_text();
        if is_fault { Error::Corrupt(text) } else { Error::Unavailable(text) }
    }

    fn into_text(self) -> String {
        let (Self::Lost(text)
        | Self::Unavailable(text)
        | Self::Exhausted(text)
        | Self::Unfit(text)
        | Self::Fault(text)) = self;
        text
    }
}

/// The text of [`StatementFailure`] for an error.
pub(crate) fn failure_text(error: &sqlx::Error) -> String {
    StatementFailure::of(error).into_text()
}

/// The error for a caller whose read has failed, or whose write was rolled back.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn unavailable(error: sqlx::Error) -> Error {
    match &error {
        sqlx::Error::Database(_) => StatementFailure::of(&error).into_error(),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Error::Corrupt(error.to_string()),
        _ => Error::Unavailable(error.to_string()),
    }
}
