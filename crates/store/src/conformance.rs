//! Tests a server for everything that the store relies on: two sessions do to one another what two writers do, and
//! the store itself works in a schema of its own, which is dropped afterwards.

/// What the server says of itself.
mod server;
/// What two transactions do to one another.
mod locks;
/// The store in a schema of its own.
mod trial;

use crate::{Error, connect};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use std::time::Duration;
use uuid::Uuid;

/// A server that does not answer a step within this time has failed the check.
const DEADLINE: Duration = Duration::from_secs(15);
/// A statement that is not done after this time waits for a lock.
const STILL_WAITING: Duration = Duration::from_millis(300);

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it has to be.
    Holds,
    /// The store works, and something is not promised as it could be.
    Doubtful,
    /// A promise of the store does not hold on this server, or the store does not work there.
    Broken,
    /// It could not be tried: another check has failed, or something in between does not let it.
    Skipped,
}

/// One check and what was found.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is tried.
    pub name: &'static str,
    /// What relies on it.
    pub carries: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was seen.
    pub found: String,
}

/// What one check saw.
#[derive(Clone, Debug)]
struct Sight {
    verdict: Verdict,
    found: String,
}

impl Sight {
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

    fn called(self, name: &'static str, carries: &'static str) -> Check {
        Check { name, carries, verdict: self.verdict, found: self.found }
    }
}

impl From<sqlx::Error> for Sight {
    fn from(error: sqlx::Error) -> Self {
        Self::broken(error.to_string())
    }
}

/// Two sessions and a schema that only they know.
struct Bench {
    url: String,
    schema: String,
    one: PgConnection,
    two: PgConnection,
}

/// Tries the server at a URL. Its other schemas are not touched. An error says that there is nothing to try.
pub async fn check(url: &str) -> Result<Vec<Check>, Error> {
    let open = || async { connect::connect(url, "check").await.map_err(connect::unavailable) };
    let schema = format!("store_check_{}", Uuid::new_v4().simple());
    let mut bench = Bench { url: url.to_owned(), schema, one: open().await?, two: open().await? };
    let mut checks = bench.server().await;
    let reason = obstacle(&checks);
    checks.extend(match &reason {
        Some(reason) => locks::skipped(reason),
        None => bench.locks().await,
    });
    let reason = obstacle(&checks);
    checks.extend(match &reason {
        Some(reason) => trial::skipped(reason),
        None => bench.trial().await,
    });
    let dropped = execute(&mut bench.one, &format!("DROP SCHEMA IF EXISTS {} CASCADE", bench.schema)).await;
    if let Err(error) = dropped.filter_read_only() {
        return Err(connect::unavailable(error));
    }
    Ok(checks)
}

/// What keeps further checks from being tried.
fn obstacle(checks: &[Check]) -> Option<String> {
    let broken =
        checks.iter().find(|check| check.verdict == Verdict::Broken && server::is_obstacle(check))?;
    Some(format!("not tried: {}", broken.name))
}

trait FilterReadOnly {
    /// A server that takes no writes is no failure here: nothing was made on it.
    fn filter_read_only(self) -> Self;
}

impl FilterReadOnly for Result<(), sqlx::Error> {
    fn filter_read_only(self) -> Self {
        match self {
            Err(error) if connect::has_code(&error, "25006") => Ok(()),
            other => other,
        }
    }
}

/// Statements as plain text, since a pool may hand each to another session.
async fn execute(connection: &mut PgConnection, text: &str) -> Result<(), sqlx::Error> {
    changed(connection, text).await.map(drop)
}

/// The same; tells how many rows the last one changed.
async fn changed(connection: &mut PgConnection, text: &str) -> Result<u64, sqlx::Error> {
    let done = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection);
    connect::within(DEADLINE, done).await.map(|done| done.rows_affected())
}

/// The first column of the first row.
async fn text(connection: &mut PgConnection, query: &str) -> Result<Option<String>, sqlx::Error> {
    let asked = sqlx::raw_sql(AssertSqlSafe(format!("SELECT ({query})::text"))).fetch_one(connection);
    connect::within(DEADLINE, asked).await?.try_get(0)
}

async fn number(connection: &mut PgConnection, query: &str) -> Result<i64, sqlx::Error> {
    let told = text(connection, query).await?.unwrap_or_default();
    told.parse().map_err(|error: std::num::ParseIntError| sqlx::Error::Decode(Box::new(error)))
}
