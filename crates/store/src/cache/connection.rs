use crate::tail::sql;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

/// A connection that stays open between uses. A caller that fails or is cancelled does not put it back.
#[derive(Debug, Default)]
pub(crate) struct ReusableConnection(Option<PgConnection>);

impl ReusableConnection {
    /// The connection that was put back, if it still answers; otherwise a new one.
    pub(crate) async fn take(
        &mut self,
        options: &PgConnectOptions,
        prepared: bool,
    ) -> Result<PgConnection, sqlx::Error> {
        if let Some(mut connection) = self.0.take()
            && connection.ping().await.is_ok()
        {
            return Ok(connection);
        }
        sql::connect(options, prepared).await
    }

    pub(crate) fn put_back(&mut self, connection: PgConnection) {
        self.0 = Some(connection);
    }

    pub(crate) fn close(&mut self) {
        self.0 = None;
    }
}
