//! Lists: one snapshot, in order, page by page.
//!
//! A list is collected in short walks, so that the tail never waits for a long one. What changes between two
//! walks, or between two pages, is undone with the help of the ring.

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

/// Objects, or changes of the past, looked at under one lock; few in unit tests, so that lists there take many steps.
const WALK: usize = if cfg!(test) { 3 } else { 4096 };
/// How often a list that is not pinned to a revision starts again when its snapshot is lost meanwhile.
const RESTARTS: usize = 3;

/// The revision of a list's snapshot, and the cache's generation and epoch that it belongs to.
#[derive(Clone, Copy, Debug)]
struct Pin {
    revision: Revision,
    generation: u64,
    epoch: Uuid,
}

/// Where a page begins.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    Beginning,
    /// At a path; and the number of objects from there on at the list's revision, if it is known.
    At(Path, Option<u64>),
}

impl Start {
    fn bound(&self) -> Bound<Path> {
        match self {
            Self::Beginning => Bound::Unbounded,
            Self::At(path, _) => Bound::Included(path.clone()),
        }
    }
}

impl Cache {
    /// A page of the objects that the caller may see.
    pub async fn list(&self, access: &Access, query: &ListQuery) -> Result<Page, Error> {
        let filter = self.0.filter(access, &query.selection);
        let limit = query.limit.filter(|limit| *limit > 0);
        if let Some(text) = &query.continue_token {
            return self.0.list_on(&filter, limit, &ContinueToken::decode(text)?).await;
        }
        self.0.wait_until_fresh(query.at).await?;
        self.0.list_from(&filter, limit, query.at, &Start::Beginning).await
    }
}

impl CacheInner {
    /// A later page.
    async fn list_on(
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
            return self.list_from(filter, limit, At::Latest, &Start::At(start, None)).await;
        };
        self.wait_until_fresh(At::Any).await?;
        let expired = || Error::ContinueExpired { continue_token: token.at_latest().encode() };
        if self.read().epoch != token.epoch() {
            return Err(expired());
        }
        self.wait_until_fresh(At::Exact(revision)).await?;
        let start = Start::At(start, token.left());
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
        start: &Start,
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
        start: &Start,
    ) -> Result<Page, Error> {
        let mut walk = {
            let state = self.read();
            let revision = if let At::Exact(revision) = at { revision } else { state.revision };
            let pin = Pin { revision, generation: state.generation, epoch: state.epoch };
            Walk {
                filter,
                limit,
                pin,
                undo: Undo::new(),
                undone: revision,
                begin: start,
                start: start.bound(),
                items: Vec::new(),
                begun: false,
            }
        };
        loop {
            let page = {
                let state = self.read();
                self.check_undo(&state, walk.pin.revision)?;
                walk.step(&state)?
            };
            match page {
                Some(page) => return Ok(page),
                None => tokio::task::yield_now().await,
            }
        }
    }
}

/// A list being collected.
struct Walk<'a> {
    filter: &'a Filter,
    limit: Option<usize>,
    pin: Pin,
    /// The objects that have changed since the pinned revision, as they were then.
    undo: Undo,
    /// Changes up to here are in `undo`.
    undone: Revision,
    /// Where the page begins …
    begin: &'a Start,
    /// … and where the next step does.
    start: Bound<Path>,
    items: Vec<Arc<Entry>>,
    /// The walk has begun in order, and so goes on in order.
    begun: bool,
}

impl Walk<'_> {
    /// Looks at the next changes, or else at the next objects. Returns the page when it is complete.
    fn step(&mut self, state: &CacheState) -> Result<Option<Page>, Error> {
        if !self.catch_up(state)? {
            return Ok(None);
        }
        let Some(objects) = state.objects(self.filter.selection().kind) else {
            return Ok(Some(self.page(state, false)));
        };
        if !std::mem::replace(&mut self.begun, true)
            && let Some(candidates) = objects.candidates(self.filter)
        {
            return Ok(Some(self.pick(state, candidates)));
        }
        let namespace = self.filter.namespace();
        let current = objects.range(self.start.as_ref(), namespace).map(|(path, entry)| (path, Some(entry)));
        let (mut next, mut more) = (None, false);
        let undo = undo_range(&self.undo, self.start.as_ref(), namespace);
        for (looked, (path, entry)) in merge(current, undo).enumerate() {
            if looked == WALK {
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
            None => Ok(Some(self.page(state, more))),
        }
    }

    /// Learns what has changed since the last step. False while there is more.
    fn catch_up(&mut self, state: &CacheState) -> Result<bool, Error> {
        if state.generation != self.pin.generation || state.ring.floor() > self.undone {
            return Err(Error::Expired { asked: self.pin.revision, current: state.revision });
        }
        let kind = self.filter.selection().kind;
        let mut changes = state.ring.after(self.undone);
        for change in changes.by_ref().take(WALK) {
            if change.new.key.kind == kind {
                // The first change since the pinned revision has what was there then.
                self.undo.entry(Path::of(&change.new.key)).or_insert_with(|| change.old.clone());
            }
            self.undone = change.revision();
        }
        let is_all = changes.next().is_none();
        if is_all {
            self.undone = state.revision.max(self.undone);
        }
        Ok(is_all)
    }

    /// The page out of the few objects that an index names, and those that were different.
    fn pick(&mut self, state: &CacheState, candidates: Vec<&Arc<Entry>>) -> Page {
        let unchanged = candidates.into_iter().filter(|entry| !self.undo.contains_key(&Path::of(&entry.key)));
        let changed = self.undo.values().flatten();
        let mut found: Vec<(Path, &Arc<Entry>)> = unchanged
            .chain(changed)
            .filter(|entry| self.filter.matches(entry))
            .map(|entry| (Path::of(&entry.key), entry))
            .filter(|(path, _)| is_from(path, &self.start))
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let limit = self.limit.unwrap_or(found.len());
        self.items = found.iter().take(limit).map(|(_, entry)| Arc::clone(entry)).collect();
        let more = found.len() > limit;
        self.page(state, more)
    }

    fn page(&mut self, state: &CacheState, more: bool) -> Page {
        let items = std::mem::take(&mut self.items);
        let last = items.last().filter(|_| more).map(|entry| Path::of(&entry.key));
        let remaining = last.as_ref().filter(|_| self.filter.selects_all()).and_then(|path| {
            Some(self.rest(state.objects(self.filter.selection().kind)?, items.len(), path))
        });
        let continue_token = last.map(|path| {
            let token = ContinueToken::after(&path.to_string(), Some(self.pin.revision.0), self.pin.epoch);
            token.with_left(remaining).encode()
        });
        Page { items, revision: self.pin.revision, continue_token, remaining }
    }

    /// The number of objects after the last one of a page. Counting them takes longest for the first page, where it
    /// follows from the number of all.
    fn rest(&self, objects: &Objects, sent: usize, last: &Path) -> u64 {
        let (start, sent) = match self.begin {
            Start::At(_, Some(left)) => return left.saturating_sub(u64::try_from(sent).unwrap_or(u64::MAX)),
            Start::At(_, None) => (Bound::Excluded(last), 0),
            Start::Beginning => (Bound::Unbounded, sent),
        };
        let namespace = self.filter.namespace();
        let mut count = objects.count(start, namespace);
        for (path, old) in undo_range(&self.undo, start, namespace) {
            count = (count + usize::from(old.is_some())) - usize::from(objects.get(path).is_some());
        }
        u64::try_from(count.saturating_sub(sent)).unwrap_or(u64::MAX)
    }
}

fn is_from(path: &Path, start: &Bound<Path>) -> bool {
    match start {
        Bound::Included(start) => path >= start,
        Bound::Excluded(start) => path > start,
        Bound::Unbounded => true,
    }
}

type Place<'a> = (&'a Path, Option<&'a Arc<Entry>>);

fn undo_range<'a>(
    undo: &'a Undo,
    start: Bound<&Path>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = Place<'a>> {
    undo.range::<Path, _>((start, Bound::Unbounded))
        .filter(move |(path, _)| namespace.is_none_or(|namespace| *path.namespace == *namespace))
        .map(|(path, old)| (path, old.as_ref()))
}

/// Merges two ordered walks; where both have a path, the second one counts.
fn merge<'a>(
    current: impl Iterator<Item = Place<'a>>,
    undo: impl Iterator<Item = Place<'a>>,
) -> impl Iterator<Item = Place<'a>> {
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
        let begin = Start::Beginning;
        let mut walk = Walk {
            filter: &filter,
            limit: None,
            pin: Pin { revision: Revision(1), generation: 0, epoch: Uuid::nil() },
            undo: Undo::new(),
            undone: Revision(1),
            begin: &begin,
            start: begin.bound(),
            items: Vec::new(),
            begun: false,
        };
        for undone in [4, 7] {
            assert!(walk.step(&state).unwrap().is_none());
            assert_eq!((walk.undone, walk.begun), (Revision(undone), false));
        }
        let page = walk.step(&state).unwrap().unwrap();
        let revisions: Vec<Revision> = page.items.iter().map(|entry| entry.revision).collect();
        assert_eq!(revisions, [Revision(1)]);
    }
}
