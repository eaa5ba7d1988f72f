//! What the schema requires of a server and a database.

use crate::{Error, connect};
use sqlx::{PgConnection, Row as _};
use std::fmt;

/// `server_version_num` of the oldest server that has all the schema needs.
pub(crate) const SERVER_VERSION_MIN: i64 = 130_000;

/// A number such as 150018, as people say it: 15.18.
pub(crate) struct ServerVersion(pub(crate) i64);

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10_000, self.0 % 10_000)
    }
}

/// The version of the server.
pub(crate) async fn server_version(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let told = sqlx::raw_sql("SELECT current_setting('server_version_num')").fetch_one(connection).await?;
    let told: String = told.try_get(0)?;
    told.parse().map_err(|error: std::num::ParseIntError| sqlx::Error::Decode(Box::new(error)))
}

/// The encoding of the database.
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
pub(super) async fn suits(connection: &mut PgConnection) -> Result<(), Error> {
    let version = server_version(connection).await.map_err(connect::unavailable)?;
    if version < SERVER_VERSION_MIN {
        let (own, least) = (ServerVersion(version), ServerVersion(SERVER_VERSION_MIN));
        return Err(Error::Schema(format!("PostgreSQL {own} is too old: {least} is needed")));
    }
    let encoding = encoding(connection).await.map_err(connect::unavailable)?;
    encoding_trouble(&encoding).map_or(Ok(()), |trouble| Err(Error::Schema(trouble)))
}
