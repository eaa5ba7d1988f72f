//! The connections of the tail.

use super::error::{TailError, with_deadline};
use super::head::Head;
use super::sql;
use crate::cache::inner::CacheInner;
use crate::divergence::{self, CommonHistory};
use crate::model::Revision;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use std::time::Duration;

/// Pause between two polls, unless a reader waits: when many replicas write, one poll reads the batches of several.
pub(super) const POLL_PAUSE: Duration = Duration::from_millis(2);

/// The connection that is read from, and the connection to the primary, which says what is committed. They are the same
/// unless a standby is read.
#[derive(Debug)]
pub(crate) struct Session {
    /// Objects and events are read from here.
    pub(crate) reading: PgConnection,
    /// The primary, if a standby is read.
    primary: Option<PgConnection>,
    /// The primary's revision when the standby was first compared with it.
    first_compared: Option<Revision>,
    /// The standby has an event that the primary made after `first_compared`: it follows this primary.
    is_following: bool,
}

impl Session {
    pub(super) async fn open(cache: &CacheInner) -> Result<Self, TailError> {
        let primary = match &cache.primary {
            Some(primary) => Some(connect(cache, primary).await?),
            None => None,
        };
        let reading = connect(cache, &cache.reading).await?;
        Ok(Self { reading, primary, first_compared: None, is_following: false })
    }

    /// The connection to the primary, whose history counts.
    pub(super) fn primary(&mut self) -> &mut PgConnection {
        self.primary.as_mut().unwrap_or(&mut self.reading)
    }

    /// The primary's head, if a standby is read; `None` if the primary itself is read.
    pub(super) async fn primary_head(&mut self, cache: &CacheInner) -> Result<Option<Head>, TailError> {
        let Some(primary) = &mut self.primary else { return Ok(None) };
        Ok(Some(with_deadline(Head::query(cache, primary)).await?))
    }

    /// Checks that the standby's history up to `read` is the primary's, before its events are applied. The check is
    /// skipped once the standby has an event that the primary made after the first check.
    pub(super) async fn verify_history(&mut self, cache: &CacheInner, read: Head) -> Result<(), TailError> {
        if self.is_following {
            return Ok(());
        }
        let Some(primary) = &mut self.primary else { return Ok(()) };
        let limit = read.revision.min(cache.horizon());
        let compared = divergence::compare_standby(cache.config.prepared, &mut self.reading, primary, limit);
        let Some(CommonHistory { newest_event, primary }) = with_deadline(compared).await? else {
            return Err(TailError::OtherHistory);
        };
        self.is_following = newest_event > *self.first_compared.get_or_insert(primary);
        Ok(())
    }

    /// Waits until the primary is known to have committed the standby's revision, and checks that the histories are the
    /// same.
    pub(super) async fn until_committed(&mut self, cache: &CacheInner, read: Head) -> Result<(), TailError> {
        with_deadline(async {
            while let Some(primary) = self.primary_head(cache).await? {
                if primary.epoch != read.epoch {
                    return Err(TailError::OtherHistory);
                }
                cache.note_committed(primary.revision);
                if primary.revision >= read.revision {
                    break;
                }
                tokio::time::sleep(POLL_PAUSE).await;
            }
            Ok(())
        })
        .await?;
        self.verify_history(cache, read).await
    }

    /// Closes the connections without sending Terminate. The server may hang in the middle of an answer, and over TLS a
    /// closing client waits for the server's close.
    pub(super) fn close(self) {
        drop(self);
    }
}

async fn connect(cache: &CacheInner, options: &PgConnectOptions) -> Result<PgConnection, TailError> {
    with_deadline(sql::connect(options, cache.config.prepared)).await
}
