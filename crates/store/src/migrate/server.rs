//! The requirements of the schema on a server and a database.

use crate::{Error, connect};
use sqlx::{PgConnection, Row as _};
use std::fmt;

/// `server_version_num` of the oldest server that supports the schema.
pub(crate) const SERVER_VERSION_MIN: i64 = 140_000;

/// A `server_version_num` such as 150018, displayed as 15.18.
pub(crate) struct ServerVersion(pub(crate) i64);

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10_000, self.0 % 10_000)
    }
}

/// The version of the server.
pub(crate) async fn server_version(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let number = sqlx::raw_sql("SELECT current_setting('server_version_num')").fetch_one(connection).await?;
    let number: String = number.try_get(0)?;
    number.parse().map_err(|error: std::num::ParseIntError| sqlx::Error::Decode(Box::new(error)))
}

/// The encoding of the database.
pub(crate) async fn encoding(connection: &mut PgConnection) -> Result<String, sqlx::Error> {
    sqlx::raw_sql("SELECT current_setting('server_encoding')").fetch_one(connection).await?.try_get(0)
}

/// What is wrong with an encoding, if something is. An object may have any character, and a write of one that the
/// encoding lacks would fail.
pub(crate) fn encoding_error(encoding: &str) -> Option<String> {
    (encoding != "UTF8").then(|| {
        format!(
            "the encoding of the database is {encoding}: make one with ENCODING 'UTF8' TEMPLATE template0, for texts \
             may have any character"
        )
    })
}

/// Fails if this server or this database cannot have the schema.
pub(super) async fn check_server(connection: &mut PgConnection) -> Result<(), Error> {
    let version = server_version(connection).await.map_err(connect::unavailable)?;
    if version < SERVER_VERSION_MIN {
        let (own, least) = (ServerVersion(version), ServerVersion(SERVER_VERSION_MIN));
        return Err(Error::Schema(format!("PostgreSQL {own} is too old: {least} is needed")));
    }
    let encoding = encoding(connection).await.map_err(connect::unavailable)?;
    encoding_error(&encoding).map_or(Ok(()), |trouble| Err(Error::Schema(trouble)))
}

/// Another schema on the search path that has migrations, while the one that tables are made in has none.
const OTHER_SCHEMA: &str = "SELECT nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE relname = '_sqlx_migrations' AND nspname = ANY (current_schemas(false)) AND NOT EXISTS ( \
       SELECT FROM pg_class o WHERE o.relname = '_sqlx_migrations' AND o.relnamespace = to_regnamespace(quote_ident(current_schema()))) \
     LIMIT 1";

/// Refuses to make a second, empty platform: the tables are in another schema on the search path. A newer schema comes
/// before it there, usually one with the role's name.
pub(super) async fn refuse_second_schema(connection: &mut PgConnection) -> Result<(), Error> {
    let other: Option<String> = sqlx::query_scalar(OTHER_SCHEMA)
        .fetch_optional(&mut *connection)
        .await
        .map_err(connect::unavailable)?;
    let Some(elsewhere) = other else { return Ok(()) };
    let here: Option<String> = sqlx::query_scalar("SELECT current_schema()::text")
        .fetch_one(connection)
        .await
        .map_err(connect::unavailable)?;
    let here = here.unwrap_or_default();
    Err(Error::Schema(format!(
        "the tables are in the schema {elsewhere:?}, but new ones would be made in {here:?}, which has none: drop {here:?}, or \
         say `ALTER ROLE … SET search_path = {elsewhere}`"
    )))
}
