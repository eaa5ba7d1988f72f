//! Checks a server for everything that the store relies on. Two sessions conflict as two writers do, and the store
//! itself runs in a schema of its own, which is dropped afterwards.

/// The server's version and settings.
mod server;
/// How two transactions affect each other.
mod locks;
/// The store in a schema of its own.
mod trial;

use crate::{Error, connect};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use std::time::Duration;
use uuid::Uuid;

/// A server that does not answer a statement within this time has failed the check.
const DEADLINE: Duration = Duration::from_secs(15);
/// A statement that takes longer than this waits for a lock.
const STILL_WAITING: Duration = Duration::from_millis(300);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The server does what the store needs.
    Holds,
    /// The store works on this server, but something is weaker than it could be.
    Doubtful,
    /// The store cannot keep a promise on this server, or does not work there.
    Broken,
    /// The check could not run: another one has failed, or a proxy prevents it.
    Skipped,
}

/// One check and its result.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// What relies on it.
    pub carries: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// What was observed.
    pub found: String,
}

/// The result of one check, without its name.
#[derive(Clone, Debug)]
struct Finding {
    verdict: Verdict,
    found: String,
}

impl Finding {
    fn holds(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Holds, found: found.into() }
    }

    fn doubtful(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Doubtful, found: found.into() }
    }

    fn broken(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Broken, found: found.into() }
    }

    fn skipped(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped, found: found.into() }
    }

    fn into_check(self, name: &'static str, carries: &'static str) -> Check {
        Check { name, carries, verdict: self.verdict, found: self.found }
    }
}

impl From<sqlx::Error> for Finding {
    fn from(error: sqlx::Error) -> Self {
        Self::broken(error.to_string())
    }
}

/// Two sessions, and a schema that only they use.
struct Sessions {
    url: String,
    schema: String,
    one: PgConnection,
    two: PgConnection,
}

/// Checks the server at a URL. Other schemas are not touched. An error means that nothing could be checked.
pub async fn check(url: &str) -> Result<Vec<Check>, Error> {
    let open = || async { connect::connect(url, "check").await.map_err(connect::unavailable) };
    let schema = format!("store_check_{}", Uuid::new_v4().simple());
    let mut sessions = Sessions { url: url.to_owned(), schema, one: open().await?, two: open().await? };
    let mut checks = sessions.server().await;
    let reason = obstacle(&checks);
    checks.extend(match &reason {
        Some(reason) => locks::skipped(reason),
        None => sessions.locks().await,
    });
    let reason = obstacle(&checks);
    checks.extend(match &reason {
        Some(reason) => trial::skipped(reason),
        None => sessions.trial().await,
    });
    let dropped =
        execute(&mut sessions.one, &format!("DROP SCHEMA IF EXISTS {} CASCADE", sessions.schema)).await;
    match dropped {
        // A server that takes no writes is no failure here: nothing was made on it.
        Err(error) if !connect::has_code(&error, "25006") => Err(connect::unavailable(error)),
        Ok(()) | Err(_) => Ok(checks),
    }
}

/// Why further checks are not possible, if they are not.
fn obstacle(checks: &[Check]) -> Option<String> {
    let broken =
        checks.iter().find(|check| check.verdict == Verdict::Broken && server::is_obstacle(check))?;
    Some(format!("not tried: {}", broken.name))
}

/// Runs statements as plain text: a proxy may give each of them another session.
async fn execute(connection: &mut PgConnection, text: &str) -> Result<(), sqlx::Error> {
    execute_counting(connection, text).await.map(drop)
}

/// The same. Returns how many rows the last statement has changed.
async fn execute_counting(connection: &mut PgConnection, text: &str) -> Result<u64, sqlx::Error> {
    let done = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection);
    connect::within(DEADLINE, done).await.map(|done| done.rows_affected())
}

/// The value of an expression as text.
async fn query_text(connection: &mut PgConnection, query: &str) -> Result<Option<String>, sqlx::Error> {
    let fetching = sqlx::raw_sql(AssertSqlSafe(format!("SELECT ({query})::text"))).fetch_one(connection);
    connect::within(DEADLINE, fetching).await?.try_get(0)
}

async fn query_number(connection: &mut PgConnection, query: &str) -> Result<i64, sqlx::Error> {
    let number = query_text(connection, query).await?.unwrap_or_default();
    number.parse().map_err(|error: std::num::ParseIntError| sqlx::Error::Decode(Box::new(error)))
}
