//! Migrations of the schema. One replica runs them while others serve. They only add: things that are no longer needed
//! are removed a release later.

/// The requirements on a server and a database.
mod server;

use crate::{Error, connect, functions};
use runtime::Backoff;
use server::{check_server, refuse_second_schema};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqlSafeStr as _};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub(crate) use server::{SERVER_VERSION_MIN, ServerVersion, encoding, encoding_error, server_version};

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migrations = FILES.iter().map(|file| {
        let (sql, no_transaction) = (file.sql.into_sql_str(), file.sql.starts_with("-- no-transaction"));
        Migration::new(file.version, file.description.into(), MigrationType::Simple, sql, no_transaction)
    });
    Migrator::with_migrations(migrations.collect())
});

/// A file of `migrations/`.
struct MigrationFile {
    version: i64,
    description: &'static str,
    sql: &'static str,
}

#[expect(clippy::unreadable_literal, reason = "versions are times, digit by digit")]
const FILES: &[MigrationFile] = &include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// A migration that waits for a lock blocks all later statements on the table. So it waits only for a moment and is
/// then tried again. `pg_dump` holds locks for as long as it runs.
const SESSION: &str = "SET statement_timeout = 0; SET lock_timeout = '500ms'";
const RETRY_FLOOR: Duration = Duration::from_millis(100);
const RETRY_CEILING: Duration = Duration::from_secs(5);
/// How long a migration is tried again.
const LOCK_DEADLINE: Duration = Duration::from_mins(30);

/// Migrates the schema to this version. Several replicas may call it at once: one works, the others wait. A schema that
/// is newer than this program stays as it is, with a warning.
pub(crate) async fn migrate(url: &str) -> Result<(), Error> {
    let deadline = Instant::now() + LOCK_DEADLINE;
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    loop {
        let mut connection = connect::connect(url, "migrate").await.map_err(connect::unavailable)?;
        sqlx::raw_sql(SESSION).execute(&mut connection).await.map_err(connect::unavailable)?;
        check_server(&mut connection).await?;
        refuse_second_schema(&mut connection).await?;
        let migrated = match MIGRATIONS.run_direct(None, &mut connection, false).await {
            Err(MigrateError::VersionMissing(newer)) if newer > newest_version() => {
                let own = newest_version();
                tracing::warn!(newer, own, "the schema is newer than this program and stays as it is");
                Ok(())
            }
            outcome => outcome,
        };
        // Also in a newer schema: the functions of several releases exist side by side.
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
            outcome => return outcome.map_err(migration_error),
        }
    }
}

/// The suffix of the functions of a release before this one, for tests.
#[cfg(feature = "testing")]
pub(crate) const FORMER: &str = "former";

/// Makes the schema of a former release: its tables, and its functions under names of their own.
#[cfg(feature = "testing")]
pub(crate) async fn migrate_to_former(url: &str) -> Result<(), Error> {
    let mut connection = connect::connect(url, "migrate").await.map_err(connect::unavailable)?;
    MIGRATIONS.run(&mut connection).await.map_err(migration_error)?;
    let installed = functions::install_as(&mut connection, FORMER).await;
    close(connection).await;
    installed.map_err(connect::unavailable)
}

fn is_locked_out(error: &MigrateError) -> bool {
    let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else {
        return false;
    };
    connect::has_code(cause, "55P03")
}

fn migration_error(error: MigrateError) -> Error {
    match error {
        MigrateError::VersionMissing(version) => Error::Schema(format!(
            "the database has version {version}, which this program does not know although its own, {}, is \
             later: another program made it",
            newest_version()
        )),
        MigrateError::VersionMismatch(version) => Error::Schema(format!(
            "version {version} of the database is not the one of this program: another program made it"
        )),
        error => Error::Unavailable(format!("migrate: {error}")),
    }
}

fn newest_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Whether the schema is at this version or a later one.
pub(crate) async fn schema_ready(url: &str) -> Result<bool, Error> {
    let mut connection = connect::connect(url, "schema").await.map_err(connect::unavailable)?;
    let ready = is_ready(&mut connection).await.map_err(connect::unavailable)?;
    close(connection).await;
    Ok(ready)
}

async fn is_ready(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let applied = applied_version(connection).await?;
    Ok(applied >= Some(newest_version()) && functions::are_installed(connection).await?)
}

/// Whether the newest migration is this program's newest.
pub(crate) async fn is_of_this_version(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let applied = applied_version(connection).await?;
    Ok(applied == Some(newest_version()) && functions::are_installed(connection).await?)
}

/// The newest migration that the database has, if it has any.
async fn applied_version(connection: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
    let any: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !any {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(connection).await
}

/// Creates tables and functions in an empty schema, within a transaction. `CONCURRENTLY` is not possible there.
pub(crate) async fn create_schema(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    for file in FILES {
        let sql = file.sql.replace(" CONCURRENTLY", "");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
    }
    functions::create(connection).await
}

pub(crate) async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "close a connection");
    }
}
