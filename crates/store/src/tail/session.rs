//! The connections of the tail.

use super::error::{TailError, in_time};
use super::head::Head;
use super::sql;
use crate::cache::inner::CacheInner;
use crate::divergence;
use crate::model::Revision;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use std::time::Duration;

/// Pause between two looks, unless a reader waits: when many replicas write, one look reads the batches of several.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// The connection that is read from, and the one that says what is committed. They are the same unless a standby is
/// read.
#[derive(Debug)]
pub(crate) struct Session {
    /// Objects and events come from here.
    pub(crate) reading: PgConnection,
    /// The primary of the standby that is read.
    primary: Option<PgConnection>,
    /// The primary's revision when the standby was first compared with it.
    since: Option<Revision>,
    /// The standby has an event that the primary has made since then.
    follows: bool,
}

impl Session {
    pub(super) async fn open(cache: &CacheInner) -> Result<Self, TailError> {
        let primary = match &cache.primary {
            Some(primary) => Some(connect(cache, primary).await?),
            None => None,
        };
        Ok(Self { reading: connect(cache, &cache.reading).await?, primary, since: None, follows: false })
    }

    /// The connection to the server whose history counts.
    pub(super) fn authority(&mut self) -> &mut PgConnection {
        self.primary.as_mut().unwrap_or(&mut self.reading)
    }

    /// The head of the primary, which the cache may be told; `None` if the primary itself is read.
    pub(super) async fn primary_head(&mut self, cache: &CacheInner) -> Result<Option<Head>, TailError> {
        let Some(primary) = &mut self.primary else { return Ok(None) };
        Ok(Some(in_time(Head::ask(cache, primary)).await?))
    }

    /// Checks that the standby's history up to `read` is the primary's, before its events are taken over. Once the standby
    /// has an event that the primary made after the first check, it is known to follow.
    pub(super) async fn prove(&mut self, cache: &CacheInner, read: Head) -> Result<(), TailError> {
        if self.follows {
            return Ok(());
        }
        let Some(primary) = &mut self.primary else { return Ok(()) };
        let limit = read.revision.min(cache.horizon());
        let agreeing = divergence::compare_standby(cache.config.prepared, &mut self.reading, primary, limit);
        let Some((newest, head)) = in_time(agreeing).await? else { return Err(TailError::OtherHistory) };
        self.follows = newest > *self.since.get_or_insert(head);
        Ok(())
    }

    /// Waits until the primary has reached the standby's revision, and makes sure that the histories are the same.
    pub(super) async fn until_shown(&mut self, cache: &CacheInner, read: Head) -> Result<(), TailError> {
        in_time(async {
            while let Some(primary) = self.primary_head(cache).await? {
                if primary.epoch != read.epoch {
                    return Err(TailError::OtherHistory);
                }
                cache.show(primary.revision);
                if primary.revision >= read.revision {
                    break;
                }
                tokio::time::sleep(LOOK_PAUSE).await;
            }
            Ok(())
        })
        .await?;
        self.prove(cache, read).await
    }

    /// Closes without a farewell: the server may hang in the middle of an answer, and over TLS a farewell waits for
    /// the server's.
    pub(super) fn leave(self) {
        drop(self);
    }
}

async fn connect(cache: &CacheInner, options: &PgConnectOptions) -> Result<PgConnection, TailError> {
    in_time(sql::connect(options, cache.config.prepared)).await
}
