//! History that diverged: the database is not the one that this replica has followed.
//!
//! After a failover to a standby that lost the last commits, or after a restore, revisions are given a second time,
//! and the new history may already be longer than the old one was. So the newest known event is compared with the
//! table, and so are the writes that were answered and have not come to the cache yet. If they differ, one replica
//! begins a new epoch, far ahead of every revision that anybody may have seen. That includes the revisions of an
//! epoch that was itself lost: nothing in the database tells of it, so the clock says where an epoch begins.

use crate::cache::inner::CacheInner;
use crate::cache::ring::RingChange;
use crate::model::Revision;
use crate::server;
use crate::tail::handover::AcknowledgedWrite;
use crate::tail::head::Head;
use crate::tail::sql::{self, Arg};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use uuid::Uuid;

/// The least jump of a new epoch when the counter is beyond what the clock says. It is more than a lost history can
/// have had in three years at ten thousand revisions a second: a replica that begins an epoch after a restore has not
/// seen the lost history.
pub const EPOCH_JUMP: i64 = 1 << 40;
/// Why growth is held when history has diverged.
pub const DIVERGED: &str = "history has diverged";

const COMPARE: &str = "SELECT r.v, r.epoch, c.compacted, e.uid, e.op::text, e.body \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN events e ON e.rv = $1 WHERE c.id = 1";

const NEWEST: &str = "SELECT r.v, r.epoch, c.compacted, e.rv, e.uid, e.op::text, e.body \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM events WHERE rv <= $1 ORDER BY rv DESC LIMIT 1) e ON true WHERE c.id = 1";

const FIND: &str = "SELECT uid, op::text, body FROM events WHERE rv = $1";

/// Only one replica can move the epoch. The new one begins where the server's clock says: 2^24 revisions for each
/// second since the beginning of 2026. No history gives so many, so two epochs that begin from the same backup have
/// no revision in common. A counter beyond that jumps by at least $2, and by a random distance more. History before
/// the move is compacted: its revisions mean nothing. Growth that is held for an import stays held until the import
/// is whole, and a hold of an operator stays his to end.
const DECLARE: &str = "WITH clock AS ( \
       SELECT ((extract(epoch FROM clock_timestamp()) - 1767225600) * 16777216)::bigint AS says \
     ), moved AS ( \
       UPDATE rev SET v = CASE WHEN clock.says > greatest(v, $1) THEN clock.says \
           ELSE greatest(v, $1) + $2 + (random() * $2)::bigint END, \
         epoch = gen_random_uuid(), held = true, held_reason = CASE \
         WHEN NOT held OR held_reason = 'objects were imported' THEN 'history has diverged' \
         WHEN held_reason = 'an import is under way' OR held_reason = 'history has diverged' OR held_reason LIKE '%; history has diverged' THEN held_reason \
         ELSE held_reason || '; history has diverged' END \
       FROM clock WHERE v >= (SELECT max(v) FROM rev) AND epoch = $3 RETURNING v) \
     UPDATE compaction SET compacted = greatest(compacted, moved.v) FROM moved WHERE compaction.id = 1";

/// Whose history the database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryVerdict {
    /// The one that this replica knows.
    Same,
    /// One that another replica has already declared.
    Other,
    /// Another one, which nobody has declared.
    Diverged(&'static str),
}

/// Compares the newest event known with the table. `moved`: the server is not the one it was.
pub(crate) async fn compare(
    cache: &CacheInner,
    connection: &mut PgConnection,
    moved: bool,
) -> Result<HistoryVerdict, sqlx::Error> {
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
        return Ok(HistoryVerdict::Other);
    }
    if head.revision < seen {
        return Ok(HistoryVerdict::Diverged("the counter is behind what was seen"));
    }
    let answered = cache.handover.acknowledged_after(revision);
    if moved && seen > revision && !found_again(cache, connection, seen, &answered).await? {
        return Ok(HistoryVerdict::Diverged("another server took over before the last answers were seen"));
    }
    let Some(last) = last else { return Ok(HistoryVerdict::Same) };
    match row.try_get::<Option<&str>, _>(5)? {
        None if last.revision() > head.compacted => Ok(HistoryVerdict::Diverged("the last event is missing")),
        None => Ok(HistoryVerdict::Same),
        Some(body) if is_event(row, 3, body, &Event::of(&last))? => Ok(HistoryVerdict::Same),
        Some(_) => Ok(HistoryVerdict::Diverged("the last event is another one")),
    }
}

/// Compares the history of a standby with that of its primary, up to `limit`. `None` if they differ; otherwise the
/// newest event that both have, and the head of the primary. The epoch alone does not show it: a server that was
/// ahead when a failover lost commits has the same epoch until somebody notices.
pub(crate) async fn agree(
    prepared: bool,
    standby: &mut PgConnection,
    primary: &mut PgConnection,
    limit: Revision,
) -> Result<Option<(Revision, Revision)>, sqlx::Error> {
    let (here, there) = (newest(prepared, standby, limit).await?, newest(prepared, primary, limit).await?);
    let head = Head::read(&there)?;
    if Head::read(&here)?.epoch != head.epoch {
        return Ok(None);
    }
    let (found, expected) = (event(&here)?, event(&there)?);
    let is_same = found == expected;
    let found = found.map(|(revision, _)| revision).unwrap_or_default();
    let expected = expected.map(|(revision, _)| revision).unwrap_or_default();
    if is_same {
        return Ok(Some((found, head.revision)));
    }
    // The primary is compacted first.
    let is_forgotten = found > expected && found <= head.compacted;
    Ok(is_forgotten.then_some((Revision::default(), head.revision)))
}

async fn newest(
    prepared: bool,
    connection: &mut PgConnection,
    limit: Revision,
) -> Result<PgRow, sqlx::Error> {
    let rows = sql::rows(connection, prepared, NEWEST, &[limit.into()]).await?;
    rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)
}

/// The event of a row of [`NEWEST`], if there is one.
fn event(row: &PgRow) -> Result<Option<(Revision, Event<'_>)>, sqlx::Error> {
    let Some(revision) = row.try_get::<Option<i64>, _>(3)? else { return Ok(None) };
    let (uid, op, body): (Uuid, &str, &str) = (row.try_get(4)?, row.try_get(5)?, row.try_get(6)?);
    Ok(Some((sql::as_revision(revision), Event { uid, deleted: op == "d", body: body.as_bytes() })))
}

/// Whether this server's history has all writes that were answered and have not come to the cache. About writes that
/// are newer than every known answer nothing can be shown.
async fn found_again(
    cache: &CacheInner,
    connection: &mut PgConnection,
    seen: Revision,
    answered: &[AcknowledgedWrite],
) -> Result<bool, sqlx::Error> {
    if answered.iter().all(|answer| answer.revision < seen) {
        return Ok(false);
    }
    for answer in answered {
        let rows = sql::rows(connection, cache.config.prepared, FIND, &[answer.revision.into()]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let known = Event { uid: answer.uid, deleted: answer.deleted, body: answer.body.as_bytes() };
        if !is_event(row, 0, row.try_get(2)?, &known)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What distinguishes two events at the same revision.
#[derive(PartialEq, Eq)]
struct Event<'a> {
    uid: Uuid,
    deleted: bool,
    body: &'a [u8],
}

impl<'a> Event<'a> {
    fn of(change: &'a RingChange) -> Self {
        Self { uid: change.new.uid, deleted: change.deleted, body: &change.new.body }
    }
}

/// Compares with a row that has `uid, op` from `first` on.
fn is_event(row: &PgRow, first: usize, body: &str, known: &Event<'_>) -> Result<bool, sqlx::Error> {
    let uid: Uuid = row.try_get(first)?;
    let op: &str = row.try_get(first + 1)?;
    Ok(uid == known.uid && (op == "d") == known.deleted && body.as_bytes() == known.body)
}

/// Ends the history that this replica knows and begins a new epoch, unless another replica was first.
pub(crate) async fn declare(cache: &CacheInner, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let epoch = cache.read().epoch;
    declare_after(cache, connection, cache.known(), epoch).await
}

/// Ends the history `epoch` and begins a new one, beyond `seen`, the last revision known.
pub(crate) async fn declare_after(
    cache: &CacheInner,
    connection: &mut PgConnection,
    seen: Revision,
    epoch: Uuid,
) -> Result<(), sqlx::Error> {
    let args = [seen.into(), Arg::Int(EPOCH_JUMP), Arg::Uuid(epoch)];
    sql::rows(connection, cache.config.prepared, DECLARE, &args).await?;
    // Only now: a replica that finds the new server written down takes its history as compared.
    if server::ask(cache, connection).await?.server().is_some() {
        server::remember(cache, connection).await?;
    }
    Ok(())
}
