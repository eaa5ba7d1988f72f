//! The past beyond the ring, read page by page from the primary's table of events: what another connection finds at a
//! standby has not been compared with the primary.

use crate::cache::filter::Filter;
use crate::cache::inner::CacheInner;
use crate::error::Error;
use crate::model::Revision;
use crate::read::WatchItem;
use crate::tail::load::Head;
use crate::tail::sql;
use crate::watch::frames::Frames;
use sqlx::Row;
use std::collections::VecDeque;
use std::time::Duration;

/// Longest time that a page may take.
const PAGE_DEADLINE: Duration = Duration::from_secs(10);

/// At most 500 events, and no more after 1 MiB of them: as many watches read at a time as are opened.
const EVENTS: &str = "SELECT r.v, r.epoch, c.compacted, \
       e.kind, e.namespace, e.name, e.uid, e.rv, e.body, e.op::text, e.before, e.follow \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM (SELECT *, lead(rv) OVER (ORDER BY rv) IS NOT NULL OR count(*) OVER () = 500 AS follow, \
         sum(octet_length(body)) OVER (ORDER BY rv ROWS UNBOUNDED PRECEDING) - octet_length(body) AS bytes_before \
       FROM (SELECT * FROM events WHERE rv > $1 ORDER BY rv LIMIT 500) few) measured \
       WHERE bytes_before < 1048576) e ON true \
     WHERE c.id = 1";

/// The events after `cursor` that a watch sees, and where the next page begins; `None` if they are gone.
pub(crate) async fn read(
    cache: &CacheInner,
    filter: &Filter,
    cursor: Revision,
) -> Result<Option<(VecDeque<WatchItem>, Revision)>, Error> {
    match tokio::time::timeout(PAGE_DEADLINE, page(cache, filter, cursor)).await {
        Ok(page) => page.map_err(|error| Error::Unavailable(error.to_string())),
        Err(_) => Err(Error::Unavailable("no answer in time".to_owned())),
    }
}

async fn page(
    cache: &CacheInner,
    filter: &Filter,
    cursor: Revision,
) -> Result<Option<(VecDeque<WatchItem>, Revision)>, sqlx::Error> {
    let epoch = cache.read().epoch;
    let horizon = cache.horizon();
    let mut connection = cache.authority().acquire().await?;
    let rows = sql::rows(&mut connection, cache.config.prepared, EVENTS, &[cursor.into()]).await?;
    drop(connection);
    let head = Head::read(rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
    if head.epoch != epoch || head.compacted > cursor {
        return Ok(None);
    }
    let mut events = Vec::with_capacity(rows.len());
    let mut end = cursor;
    for row in &rows {
        let Some(revision) = row.try_get::<Option<i64>, _>(7)? else { continue };
        let revision = sql::as_revision(revision);
        if revision > horizon {
            continue;
        }
        end = end.max(revision);
        events.extend(sql::event(&cache.kinds, row, 3)?);
    }
    // The last page has brought the watch to the counter of its snapshot.
    let follow = rows.last().map(|row| row.try_get::<Option<bool>, _>(11)).transpose()?.flatten();
    if !follow.unwrap_or_default() {
        end = head.revision.min(horizon).max(end);
    }
    events.sort_by_key(|event| event.entry.revision);
    let items = events.into_iter().filter_map(|event| Frames::default().item(&event.into_change(), filter));
    Ok(Some((items.collect(), end)))
}
