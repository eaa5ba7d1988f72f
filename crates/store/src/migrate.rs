//! The schema: run by one replica while others serve. Migrations only add; what goes away goes a release later.

use crate::{Error, connect};
use sqlx::migrate::Migrator;
use sqlx::{Connection as _, PgConnection};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// Brings the schema to this version. Several replicas may call it at once; one works, the others wait.
pub(crate) async fn migrate(url: &str) -> Result<(), Error> {
    let mut connection =
        connect::connect(url, "migrate").await.map_err(|error| connect::unavailable(&error))?;
    let lift = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
    sqlx::raw_sql(lift).execute(&mut connection).await.map_err(|error| connect::unavailable(&error))?;
    MIGRATIONS.run(&mut connection).await.map_err(|error| Error::Unavailable(format!("migrate: {error}")))?;
    close(connection).await;
    Ok(())
}

/// Whether the schema is at this version or a later one.
pub(crate) async fn schema_ready(url: &str) -> Result<bool, Error> {
    let mut connection =
        connect::connect(url, "schema").await.map_err(|error| connect::unavailable(&error))?;
    let wanted = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .map_err(|error| connect::unavailable(&error))?;
    let ready = if exists {
        let applied: Option<i64> =
            sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success")
                .fetch_one(&mut connection)
                .await
                .map_err(|error| connect::unavailable(&error))?;
        applied.is_some_and(|applied| applied >= wanted)
    } else {
        false
    };
    close(connection).await;
    Ok(ready)
}

async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "close a connection");
    }
}
