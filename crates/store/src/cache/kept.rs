use crate::tail::sql;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

/// A connection that stays open between uses. A user who has failed, or was given up, does not put it back.
#[derive(Debug, Default)]
pub(crate) struct KeptConnection(Option<PgConnection>);

impl KeptConnection {
    /// The one that was put back, if it still answers, or a new one.
    pub(crate) async fn take(
        &mut self,
        options: &PgConnectOptions,
        prepared: bool,
    ) -> Result<PgConnection, sqlx::Error> {
        if let Some(mut kept) = self.0.take()
            && kept.ping().await.is_ok()
        {
            return Ok(kept);
        }
        sql::connect(options, prepared).await
    }

    pub(crate) fn put_back(&mut self, connection: PgConnection) {
        self.0 = Some(connection);
    }

    /// Closes it.
    pub(crate) fn close(&mut self) {
        self.0 = None;
    }
}
