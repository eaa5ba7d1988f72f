//! Lists: one snapshot, in order, page by page.
//!
//! A list is collected in short steps, so that the tail never waits long for the lock. Changes between two steps, or
//! between two pages, are undone with the help of the ring.

use crate::access::Access;
use crate::cache::Cache;
use crate::cache::filter::Filter;
use crate::cache::inner::CacheInner;
use crate::cache::objects::{Objects, Path};
use crate::cache::ring::Undo;
use crate::cache::state::CacheState;
use crate::error::Error;
use crate::model::{Entry, Revision};
use crate::read::{At, ListQuery, Page};
use crate::token::ContinueToken;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use uuid::Uuid;

/// Most objects, or changes to undo, that are read under one lock. Few in unit tests, so that lists there take many
/// steps.
const SCAN_CHUNK: usize = if cfg!(test) { 3 } else { 4096 };
/// How often a list without an exact revision starts again when the ring has dropped changes that it needs.
const RESTARTS: usize = 3;

/// The snapshot of a list: its revision, and the cache's generation and epoch.
#[derive(Clone, Copy, Debug)]
struct ListSnapshot {
    revision: Revision,
    generation: u64,
    epoch: Uuid,
}

/// Where a page begins.
#[derive(Clone, Debug)]
pub(crate) enum PageStart {
    Beginning,
    /// A path, and the number of objects from there on at the list's revision, if it is known.
    At(Path, Option<u64>),
}

impl PageStart {
    fn bound(&self) -> Bound<Path> {
        match self {
            Self::Beginning => Bound::Unbounded,
            Self::At(path, _) => Bound::Included(path.clone()),
        }
    }
}

impl Cache {
    /// A page of the objects that the caller may see. [`Error::ContinueExpired`] and [`Error::BadContinue`] are about
    /// its continue token.
    pub async fn list(&self, access: &Access, query: &ListQuery) -> Result<Page, Error> {
        let filter = self.0.filter(access, &query.selection);
        let limit = query.limit.filter(|limit| *limit > 0);
        if let Some(text) = &query.continue_token {
            return self.0.list_next_page(&filter, limit, &ContinueToken::decode(text)?).await;
        }
        self.0.wait_until_fresh(query.at).await?;
        self.0.list_from(&filter, limit, query.at, &PageStart::Beginning).await
    }
}

impl CacheInner {
    /// The page at which a continue token goes on.
    async fn list_next_page(
        &self,
        filter: &Filter,
        limit: Option<usize>,
        token: &ContinueToken,
    ) -> Result<Page, Error> {
        let start = Path::parse(token.start());
        let namespace = filter.selection().namespace.as_deref();
        if namespace.is_some_and(|namespace| *start.namespace != *namespace) {
            return Err(Error::BadContinue("continue key is not valid".to_owned()));
        }
        let Some(revision) = token.revision().map(Revision) else {
            self.wait_until_fresh(At::Latest).await?;
            return self.list_from(filter, limit, At::Latest, &PageStart::At(start, None)).await;
        };
        self.wait_until_fresh(At::Any).await?;
        let expired = || Error::ContinueExpired { continue_token: token.at_latest().encode() };
        if self.read().epoch != token.epoch() {
            return Err(expired());
        }
        self.wait_until_fresh(At::Exact(revision)).await?;
        let start = PageStart::At(start, token.remaining());
        self.list_from(filter, limit, At::Exact(revision), &start).await.map_err(|error| match error {
            Error::Expired { .. } => expired(),
            error => error,
        })
    }

    /// A page at the cache's revision or an exact one.
    pub(crate) async fn list_from(
        &self,
        filter: &Filter,
        limit: Option<usize>,
        at: At,
        start: &PageStart,
    ) -> Result<Page, Error> {
        let mut tries = 0..RESTARTS;
        loop {
            let listed = self.list_once(filter, limit, at, start).await;
            match (listed, at) {
                (Err(Error::Expired { .. }), At::Latest | At::Any | At::NotOlderThan(_))
                    if tries.next().is_some() => {}
                (listed, _) => return listed,
            }
        }
    }

    async fn list_once(
        &self,
        filter: &Filter,
        limit: Option<usize>,
        at: At,
        start: &PageStart,
    ) -> Result<Page, Error> {
        let mut scan = {
            let state = self.read();
            let revision = if let At::Exact(revision) = at { revision } else { state.revision };
            let snapshot = ListSnapshot { revision, generation: state.generation, epoch: state.epoch };
            Scan {
                filter,
                limit,
                snapshot,
                undo: Undo::new(),
                undone_to: revision,
                page_start: start,
                start: start.bound(),
                items: Vec::new(),
                in_order: false,
            }
        };
        loop {
            let page = {
                let state = self.read();
                self.check_undo(&state, scan.snapshot.revision)?;
                scan.step(&state)?
            };
            match page {
                Some(page) => return Ok(page),
                None => tokio::task::yield_now().await,
            }
        }
    }
}

/// A page that is being collected.
struct Scan<'a> {
    filter: &'a Filter,
    limit: Option<usize>,
    snapshot: ListSnapshot,
    /// The objects that have changed since the snapshot, as they were then.
    undo: Undo,
    /// `undo` has the changes up to this revision.
    undone_to: Revision,
    /// Where the page begins.
    page_start: &'a PageStart,
    /// Where the next step begins.
    start: Bound<Path>,
    items: Vec<Arc<Entry>>,
    /// The scan has begun to go through the objects in order, and uses no index any more.
    in_order: bool,
}

impl Scan<'_> {
    /// Reads the next changes to undo or, if there are none, the next objects. Returns the page when it is complete.
    fn step(&mut self, state: &CacheState) -> Result<Option<Page>, Error> {
        if !self.catch_up(state)? {
            return Ok(None);
        }
        let Some(objects) = state.objects(self.filter.selection().kind) else {
            return Ok(Some(self.finish_page(state, false)));
        };
        if !std::mem::replace(&mut self.in_order, true)
            && let Some(candidates) = objects.candidates(self.filter)
        {
            return Ok(Some(self.page_of_candidates(state, candidates)));
        }
        let namespace = self.filter.namespace();
        let current = objects.range(self.start.as_ref(), namespace).map(|(path, entry)| (path, Some(entry)));
        let (mut next, mut more) = (None, false);
        let undo = undo_range(&self.undo, self.start.as_ref(), namespace);
        for (looked, (path, entry)) in merge(current, undo).enumerate() {
            if looked == SCAN_CHUNK {
                next = Some(path.clone());
                break;
            }
            let Some(entry) = entry.filter(|entry| self.filter.matches(entry)) else { continue };
            more = self.limit == Some(self.items.len());
            if more {
                break;
            }
            self.items.push(Arc::clone(entry));
        }
        match next {
            Some(path) => {
                self.start = Bound::Included(path);
                Ok(None)
            }
            None => Ok(Some(self.finish_page(state, more))),
        }
    }

    /// Adds the changes since the last step to `undo`. False if there are more.
    fn catch_up(&mut self, state: &CacheState) -> Result<bool, Error> {
        if state.generation != self.snapshot.generation || state.ring.floor() > self.undone_to {
            return Err(Error::Expired { asked: self.snapshot.revision, current: state.revision });
        }
        let kind = self.filter.selection().kind;
        let mut changes = state.ring.after(self.undone_to);
        for change in changes.by_ref().take(SCAN_CHUNK) {
            if change.new.key.kind == kind {
                // The first change since the snapshot has the object's state in the snapshot.
                self.undo.entry(Path::of(&change.new.key)).or_insert_with(|| change.old.clone());
            }
            self.undone_to = change.revision();
        }
        let is_all = changes.next().is_none();
        if is_all {
            self.undone_to = state.revision.max(self.undone_to);
        }
        Ok(is_all)
    }

    /// The page made of the few objects that an index has found, and of those in `undo`.
    fn page_of_candidates(&mut self, state: &CacheState, candidates: Vec<&Arc<Entry>>) -> Page {
        let unchanged = candidates.into_iter().filter(|entry| !self.undo.contains_key(&Path::of(&entry.key)));
        let changed = self.undo.values().flatten();
        let mut found: Vec<(Path, &Arc<Entry>)> = unchanged
            .chain(changed)
            .filter(|entry| self.filter.matches(entry))
            .map(|entry| (Path::of(&entry.key), entry))
            .filter(|(path, _)| is_at_or_after(path, &self.start))
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let limit = self.limit.unwrap_or(found.len());
        self.items = found.iter().take(limit).map(|(_, entry)| Arc::clone(entry)).collect();
        let more = found.len() > limit;
        self.finish_page(state, more)
    }

    fn finish_page(&mut self, state: &CacheState, more: bool) -> Page {
        let items = std::mem::take(&mut self.items);
        let last = items.last().filter(|_| more).map(|entry| Path::of(&entry.key));
        let remaining = last.as_ref().filter(|_| self.filter.selects_all()).and_then(|path| {
            Some(self.count_remaining(state.objects(self.filter.selection().kind)?, items.len(), path))
        });
        let continue_token = last.map(|path| {
            let token =
                ContinueToken::after(&path.to_string(), Some(self.snapshot.revision.0), self.snapshot.epoch);
            token.with_remaining(remaining).encode()
        });
        Page { items, revision: self.snapshot.revision, continue_token, remaining }
    }

    /// The number of objects after the last one of a page. Counting would take longest after the first page; there the
    /// number of all objects is used instead.
    fn count_remaining(&self, objects: &Objects, sent: usize, last: &Path) -> u64 {
        let (start, sent) = match self.page_start {
            PageStart::At(_, Some(left)) => {
                return left.saturating_sub(u64::try_from(sent).unwrap_or(u64::MAX));
            }
            PageStart::At(_, None) => (Bound::Excluded(last), 0),
            PageStart::Beginning => (Bound::Unbounded, sent),
        };
        let namespace = self.filter.namespace();
        let mut count = objects.count(start, namespace);
        for (path, old) in undo_range(&self.undo, start, namespace) {
            count = (count + usize::from(old.is_some())) - usize::from(objects.get(path).is_some());
        }
        u64::try_from(count.saturating_sub(sent)).unwrap_or(u64::MAX)
    }
}

fn is_at_or_after(path: &Path, start: &Bound<Path>) -> bool {
    match start {
        Bound::Included(start) => path >= start,
        Bound::Excluded(start) => path > start,
        Bound::Unbounded => true,
    }
}

/// An object at a path; `None` if there was none.
type PathState<'a> = (&'a Path, Option<&'a Arc<Entry>>);

fn undo_range<'a>(
    undo: &'a Undo,
    start: Bound<&Path>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = PathState<'a>> {
    undo.range::<Path, _>((start, Bound::Unbounded))
        .filter(move |(path, _)| namespace.is_none_or(|namespace| *path.namespace == *namespace))
        .map(|(path, old)| (path, old.as_ref()))
}

/// Merges two ordered sequences. Where both have a path, the second one counts.
fn merge<'a>(
    current: impl Iterator<Item = PathState<'a>>,
    undo: impl Iterator<Item = PathState<'a>>,
) -> impl Iterator<Item = PathState<'a>> {
    let (mut current, mut undo) = (current.peekable(), undo.peekable());
    std::iter::from_fn(move || match (current.peek(), undo.peek()) {
        (Some((a, _)), Some((b, _))) => match a.cmp(b) {
            Ordering::Less => current.next(),
            Ordering::Equal => {
                current.next();
                undo.next()
            }
            Ordering::Greater => undo.next(),
        },
        (Some(_), None) => current.next(),
        (None, _) => undo.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ring::RingLimits;
    use crate::cache::state::Event;
    use crate::model::{Attributes, Key, KindId};
    use crate::read::Selection;
    use bytes::Bytes;
    use meta::selector::{FieldSelector, LabelSelector};
    use std::time::{Duration, Instant};

    #[test]
    fn what_has_changed_since_a_page_is_learnt_in_short_steps() {
        let (age_min, age_max) = (Duration::from_secs(15), Duration::from_mins(1));
        let mut state = CacheState::empty(RingLimits { changes: 100, bytes: 1 << 20, age_min, age_max });
        for revision in 1..=8 {
            let entry = Entry {
                key: Key::new(KindId(1), "n", "a"),
                uid: Uuid::nil(),
                revision: Revision(revision),
                body: Bytes::from_static(b"{}"),
                attributes: Attributes::default(),
            };
            state.apply(Event { entry, deleted: false, before: None }, Instant::now());
        }
        let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
        let selection = Selection { kind: KindId(1), namespace: None, labels, fields };
        let filter = Filter::new(&Access::internal("test"), &selection, &[]);
        let begin = PageStart::Beginning;
        let mut scan = Scan {
            filter: &filter,
            limit: None,
            snapshot: ListSnapshot { revision: Revision(1), generation: 0, epoch: Uuid::nil() },
            undo: Undo::new(),
            undone_to: Revision(1),
            page_start: &begin,
            start: begin.bound(),
            items: Vec::new(),
            in_order: false,
        };
        for undone in [4, 7] {
            assert!(scan.step(&state).unwrap().is_none());
            assert_eq!((scan.undone_to, scan.in_order), (Revision(undone), false));
        }
        let page = scan.step(&state).unwrap().unwrap();
        let revisions: Vec<Revision> = page.items.iter().map(|entry| entry.revision).collect();
        assert_eq!(revisions, [Revision(1)]);
    }
}
