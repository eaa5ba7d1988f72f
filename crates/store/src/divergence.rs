//! Divergence of history: the database does not have the history that this replica has followed.
//!
//! After a failover to a standby that lost the last commits, or after a restore, the database gives revisions a second
//! time, and the new history may already be longer than the old one was. So a replica compares the newest event that it
//! knows with the table, and also the acknowledged writes that its cache does not have yet. If they differ, one replica
//! begins a new epoch, far ahead of every revision that anybody may have seen. That includes the revisions of an epoch
//! that was itself lost. Nothing in the database tells of such an epoch, so the clock says where a new one begins.

use crate::cache::inner::CacheInner;
use crate::cache::ring::RingChange;
use crate::identity;
use crate::model::Revision;
use crate::tail::handover::AcknowledgedWrite;
use crate::tail::head::Head;
use crate::tail::sql::{self, Arg};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use uuid::Uuid;

/// The least jump of a new epoch when the revision counter is beyond what the clock says. It is more revisions than a
/// lost history can have used in three years at ten thousand a second: a replica that begins an epoch after a restore
/// has not seen the lost history.
pub const EPOCH_JUMP: i64 = 1 << 40;
/// Why growth is held when history has diverged.
pub const DIVERGED: &str = "history has diverged";

const COMPARE: &str = "SELECT r.v, r.epoch, c.compacted, e.uid, e.op::text, e.body \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN events e ON e.rv = $1 WHERE c.id = 1";

const NEWEST_EVENT: &str = "SELECT r.v, r.epoch, c.compacted, e.rv, e.uid, e.op::text, e.body \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM events WHERE rv <= $1 ORDER BY rv DESC LIMIT 1) e ON true WHERE c.id = 1";

const FIND_EVENT: &str = "SELECT uid, op::text, body FROM events WHERE rv = $1";

/// Only one replica can begin a new epoch. It begins where the server's clock says: 2^24 revisions for each second
/// since the beginning of 2026. No history uses so many, so two epochs that begin from the same backup have no revision
/// in common. A counter beyond that jumps by at least $2, and by a random distance more. The history before it is
/// compacted, as its revisions mean nothing in the new epoch. Growth that is held for an import stays held until the
/// import is finished. A hold by an operator stays until the operator ends it.
const BEGIN_EPOCH: &str = "WITH clock AS ( \
       SELECT ((extract(epoch FROM clock_timestamp()) - 1767225600) * 16777216)::bigint AS says \
     ), moved AS ( \
       UPDATE rev SET v = CASE WHEN clock.says > greatest(v, $1) THEN clock.says \
           ELSE greatest(v, $1) + $2 + (random() * $2)::bigint END, \
         epoch = gen_random_uuid(), held = true, held_reason = CASE \
         WHEN NOT held OR held_reason = 'objects were imported' THEN 'history has diverged' \
         WHEN held_reason = 'an import is under way' OR held_reason = 'history has diverged' OR held_reason LIKE '%; history has diverged' THEN held_reason \
         ELSE held_reason || '; history has diverged' END \
       FROM clock WHERE v >= (SELECT max(v) FROM rev) AND epoch = $3 RETURNING v, epoch) \
     UPDATE compaction SET compacted = greatest(compacted, moved.v), epoch = moved.epoch, epoch_start = moved.v \
     FROM moved WHERE compaction.id = 1";

/// The database's history compared with that of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryComparison {
    /// They are the same.
    Same,
    /// Another replica has begun a new epoch.
    NewEpoch,
    /// They differ, and no replica has begun a new epoch yet. The text says what differs.
    Diverged(&'static str),
}

/// Compares the newest event that the cache knows with the table. `server_changed`: another server answers than before.
pub(crate) async fn compare(
    cache: &CacheInner,
    connection: &mut PgConnection,
    server_changed: bool,
) -> Result<HistoryComparison, sqlx::Error> {
    let seen = cache.progress.borrow().seen;
    let (epoch, revision, last) = {
        let state = cache.read();
        (state.epoch, state.revision, state.ring.last().cloned())
    };
    let rv = last.as_ref().map_or(Arg::Int(0), |change| change.revision().into());
    let rows = sql::rows(connection, cache.config.prepared, COMPARE, &[rv]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let head = Head::read(row)?;
    if head.epoch != epoch {
        return Ok(HistoryComparison::NewEpoch);
    }
    if head.revision < seen {
        return Ok(HistoryComparison::Diverged("the counter is behind what was seen"));
    }
    let acknowledged = cache.handover.acknowledged_after(revision);
    if server_changed && seen > revision && !has_acknowledged(cache, connection, seen, &acknowledged).await? {
        return Ok(HistoryComparison::Diverged("another server took over before the last answers were seen"));
    }
    let Some(last) = last else { return Ok(HistoryComparison::Same) };
    match row.try_get::<Option<&str>, _>(5)? {
        None if last.revision() > head.compacted => {
            Ok(HistoryComparison::Diverged("the last event is missing"))
        }
        None => Ok(HistoryComparison::Same),
        Some(_) if EventIdentity::read(row, 3)? == EventIdentity::of(&last) => Ok(HistoryComparison::Same),
        Some(_) => Ok(HistoryComparison::Diverged("the last event is another one")),
    }
}

/// A standby and its primary, which have the same history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonHistory {
    /// The newest revision of an event that both have.
    pub(crate) newest_event: Revision,
    /// The primary's newest revision.
    pub(crate) primary: Revision,
}

/// Compares the history of a standby with that of its primary, up to `limit`. `None` if they differ. Equal epochs alone
/// do not prove that they are the same: a server that was ahead when a failover lost commits has the same epoch until a
/// replica notices the divergence.
pub(crate) async fn compare_standby(
    prepared: bool,
    standby: &mut PgConnection,
    primary: &mut PgConnection,
    limit: Revision,
) -> Result<Option<CommonHistory>, sqlx::Error> {
    let (here, there) = (newest(prepared, standby, limit).await?, newest(prepared, primary, limit).await?);
    let head = Head::read(&there)?;
    if Head::read(&here)?.epoch != head.epoch {
        return Ok(None);
    }
    let (found, expected) = (event(&here)?, event(&there)?);
    let is_same = found == expected;
    let found = found.map(|(revision, _)| revision).unwrap_or_default();
    let expected = expected.map(|(revision, _)| revision).unwrap_or_default();
    let common = |newest_event| CommonHistory { newest_event, primary: head.revision };
    if is_same {
        return Ok(Some(common(found)));
    }
    // The primary is compacted before the standby is.
    let is_compacted = found > expected && found <= head.compacted;
    Ok(is_compacted.then(|| common(Revision::default())))
}

async fn newest(
    prepared: bool,
    connection: &mut PgConnection,
    limit: Revision,
) -> Result<PgRow, sqlx::Error> {
    let rows = sql::rows(connection, prepared, NEWEST_EVENT, &[limit.into()]).await?;
    rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)
}

/// The event of a row of [`NEWEST_EVENT`], if there is one.
fn event(row: &PgRow) -> Result<Option<(Revision, EventIdentity<'_>)>, sqlx::Error> {
    let Some(revision) = row.try_get::<Option<i64>, _>(3)? else { return Ok(None) };
    Ok(Some((sql::as_revision(revision), EventIdentity::read(row, 4)?)))
}

/// Whether this server's history has all acknowledged writes that the cache does not have yet. False also when a newer
/// revision was seen than the last of these writes: nothing proves that the server has that one.
async fn has_acknowledged(
    cache: &CacheInner,
    connection: &mut PgConnection,
    seen: Revision,
    acknowledged: &[AcknowledgedWrite],
) -> Result<bool, sqlx::Error> {
    if acknowledged.iter().all(|write| write.revision < seen) {
        return Ok(false);
    }
    for write in acknowledged {
        let rows = sql::rows(connection, cache.config.prepared, FIND_EVENT, &[write.revision.into()]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let known = EventIdentity { uid: write.uid, deleted: write.deleted, body: write.body.as_bytes() };
        if EventIdentity::read(row, 0)? != known {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What distinguishes two events at the same revision.
#[derive(PartialEq, Eq)]
struct EventIdentity<'a> {
    uid: Uuid,
    deleted: bool,
    body: &'a [u8],
}

impl<'a> EventIdentity<'a> {
    fn of(change: &'a RingChange) -> Self {
        Self { uid: change.new.uid, deleted: change.deleted, body: &change.new.body }
    }

    /// Reads `uid, op, body` from column `first` on.
    fn read(row: &'a PgRow, first: usize) -> Result<Self, sqlx::Error> {
        let (op, body): (&str, &str) = (row.try_get(first + 1)?, row.try_get(first + 2)?);
        Ok(Self { uid: row.try_get(first)?, deleted: op == "d", body: body.as_bytes() })
    }
}

/// Ends the history that this replica follows and begins a new epoch, unless another replica was first.
pub(crate) async fn begin_epoch(
    cache: &CacheInner,
    connection: &mut PgConnection,
) -> Result<(), sqlx::Error> {
    let epoch = cache.read().epoch;
    begin_epoch_after(cache, connection, cache.newest_known(), epoch).await
}

/// Ends the epoch `epoch` and begins a new one beyond `seen`, the newest revision that is known.
pub(crate) async fn begin_epoch_after(
    cache: &CacheInner,
    connection: &mut PgConnection,
    seen: Revision,
    epoch: Uuid,
) -> Result<(), sqlx::Error> {
    let args = [seen.into(), Arg::Int(EPOCH_JUMP), Arg::Uuid(epoch)];
    sql::rows(connection, cache.config.prepared, BEGIN_EPOCH, &args).await?;
    // Not earlier: a replica that finds this server recorded takes its history as compared.
    if identity::query(cache, connection).await?.identity().is_some() {
        identity::record(cache, connection).await?;
    }
    Ok(())
}
