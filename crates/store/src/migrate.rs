//! The schema: run by one replica while others serve. Migrations only add; what goes away goes a release later.

use crate::{Error, connect, functions};
use runtime::Backoff;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqlSafeStr as _};
use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migrations = FILES.iter().map(|file| {
        let (sql, alone) = (file.sql.into_sql_str(), file.sql.starts_with("-- no-transaction"));
        Migration::new(file.version, file.description.into(), MigrationType::Simple, sql, alone)
    });
    Migrator::with_migrations(migrations.collect())
});

/// A file of `migrations/`.
struct File {
    version: i64,
    description: &'static str,
    sql: &'static str,
}

#[expect(clippy::unreadable_literal, reason = "versions are times, digit by digit")]
const FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// A lock that a migration waits for stops everybody who comes after it, so it waits a moment only, and comes back.
/// `pg_dump` holds locks for as long as it runs.
const SESSION: &str =
    "SET statement_timeout = 0; SET lock_timeout = '500ms'; SET idle_in_transaction_session_timeout = 0";
const RETRY_FLOOR: Duration = Duration::from_millis(100);
const RETRY_CEILING: Duration = Duration::from_secs(5);
/// How long a migration comes back.
const LOCK_DEADLINE: Duration = Duration::from_mins(30);

/// `server_version_num` of the oldest server that has all the schema needs.
pub(crate) const SERVER_VERSION_MIN: i64 = 130_000;

/// A number such as 150018, as people say it: 15.18.
pub(crate) struct ServerVersion(pub(crate) i64);

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10_000, self.0 % 10_000)
    }
}

/// What the server is.
pub(crate) async fn server_version(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let told = sqlx::raw_sql("SELECT current_setting('server_version_num')").fetch_one(connection).await?;
    let told: String = told.try_get(0)?;
    told.parse().map_err(|error: std::num::ParseIntError| sqlx::Error::Decode(Box::new(error)))
}

/// How the database keeps its texts.
pub(crate) async fn encoding(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    sqlx::raw_sql("SELECT current_setting('server_encoding')").fetch_one(connection).await?.try_get(0)
}

/// What is wrong with an encoding. An object may hold any character, and a write of one that the encoding lacks would fail.
pub(crate) fn encoding_trouble(encoding: &str) -> Option<String> {
    (encoding != "UTF8").then(|| {
        format!(
            "the encoding of the database is {encoding}: make one with ENCODING 'UTF8' TEMPLATE template0, for texts \
             may have any character"
        )
    })
}

/// Whether this server and this database can have the schema at all.
async fn suits(connection: &mut PgConnection) -> Result<(), Error> {
    let version = server_version(connection).await.map_err(connect::unavailable)?;
    if version < SERVER_VERSION_MIN {
        let (own, least) = (ServerVersion(version), ServerVersion(SERVER_VERSION_MIN));
        return Err(Error::Schema(format!("PostgreSQL {own} is too old: {least} is needed")));
    }
    let encoding = encoding(connection).await.map_err(connect::unavailable)?;
    encoding_trouble(&encoding).map_or(Ok(()), |trouble| Err(Error::Schema(trouble)))
}

/// Brings the schema to this version. Several replicas may call it at once; one works, the others wait. A schema
/// that is newer than this program is left alone, and said.
pub(crate) async fn migrate(url: &str) -> Result<(), Error> {
    run(&MIGRATIONS, url).await
}

/// The suffix of the functions of a release before this one, for tests.
#[cfg(feature = "testing")]
pub(crate) const FORMER: &str = "former";

/// Brings the schema to what a former release needs: its tables, and its functions under names of their own.
#[cfg(feature = "testing")]
pub(crate) async fn migrate_to_former(url: &str) -> Result<(), Error> {
    let mut connection = connect::connect(url, "migrate").await.map_err(connect::unavailable)?;
    MIGRATIONS.run(&mut connection).await.map_err(|error| told(error, &MIGRATIONS))?;
    let installed = functions::install_as(&mut connection, FORMER).await;
    close(connection).await;
    installed.map_err(connect::unavailable)
}

async fn run(migrations: &Migrator, url: &str) -> Result<(), Error> {
    let deadline = Instant::now() + LOCK_DEADLINE;
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    loop {
        let mut connection = connect::connect(url, "migrate").await.map_err(connect::unavailable)?;
        sqlx::raw_sql(SESSION).execute(&mut connection).await.map_err(connect::unavailable)?;
        suits(&mut connection).await?;
        let migrated = match migrations.run_direct(None, &mut connection, false).await {
            Err(MigrateError::VersionMissing(newer)) if newer > newest(migrations) => {
                let own = newest(migrations);
                tracing::warn!(newer, own, "the schema is newer than this program and stays as it is");
                Ok(())
            }
            outcome => outcome,
        };
        // The functions of this release lie beside those of a later one.
        let outcome = match migrated {
            Ok(()) => functions::install(&mut connection).await.map_err(MigrateError::Execute),
            failed => failed,
        };
        close(connection).await;
        match outcome {
            Err(error) if is_locked_out(&error) && Instant::now() < deadline => {
                tracing::warn!("somebody holds a lock that a migration needs");
                backoff.wait().await;
            }
            outcome => return outcome.map_err(|error| told(error, migrations)),
        }
    }
}

fn is_locked_out(error: &MigrateError) -> bool {
    let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else {
        return false;
    };
    connect::has_code(cause, "55P03")
}

fn told(error: MigrateError, migrations: &Migrator) -> Error {
    match error {
        MigrateError::VersionMissing(version) => Error::Schema(format!(
            "the database has version {version}, which this program does not know although its own, {}, is \
             later: another program made it",
            newest(migrations)
        )),
        MigrateError::VersionMismatch(version) => Error::Schema(format!(
            "version {version} of the database is not the one of this program: another program made it"
        )),
        error => Error::Unavailable(format!("migrate: {error}")),
    }
}

fn newest(migrations: &Migrator) -> i64 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Whether the schema is at this version or a later one.
pub(crate) async fn schema_ready(url: &str) -> Result<bool, Error> {
    let mut connection = connect::connect(url, "schema").await.map_err(connect::unavailable)?;
    let wanted = newest(&MIGRATIONS);
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .map_err(connect::unavailable)?;
    let ready = if exists {
        let applied: Option<i64> =
            sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success")
                .fetch_one(&mut connection)
                .await
                .map_err(connect::unavailable)?;
        applied.is_some_and(|applied| applied >= wanted)
            && functions::are_installed(&mut connection).await.map_err(connect::unavailable)?
    } else {
        false
    };
    close(connection).await;
    Ok(ready)
}

/// Whether the newest migration is this program's newest.
pub(crate) async fn is_of_this_version(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let applied = "SELECT max(version) FROM _sqlx_migrations WHERE success";
    if !sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?
    {
        return Ok(false);
    }
    let applied: Option<i64> = sqlx::query_scalar(applied).fetch_one(&mut *connection).await?;
    Ok(applied == Some(newest(&MIGRATIONS)) && functions::are_installed(connection).await?)
}

/// Makes the schema in an empty one, within a transaction: nothing can be done concurrently there.
pub(crate) async fn make(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    for file in FILES {
        let sql = file.sql.replace(" CONCURRENTLY", "");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
    }
    functions::make(connection).await
}

pub(crate) async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "close a connection");
    }
}
