//! The last changes, with the states before and after: to undo them, and to tell them to watches again.

use super::objects::Path;
use crate::cache::filter::Filter;
use crate::model::{Entry, Revision};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a change costs beside the body it keeps alive.
const CHANGE_OVERHEAD: usize = 512;

/// One event, with what was there before it.
#[derive(Clone, Debug)]
pub(crate) struct RingChange {
    /// The state before; absent for a create. Its body is empty where only the attributes are known.
    pub(crate) old: Option<Arc<Entry>>,
    /// The state after; of a deletion the last state, at the deletion's revision.
    pub(crate) new: Arc<Entry>,
    /// Whether the object is gone.
    pub(crate) deleted: bool,
}

impl RingChange {
    pub(crate) fn revision(&self) -> Revision {
        self.new.revision
    }

    /// What the change is to a reader.
    pub(crate) fn seen_by(&self, filter: &Filter) -> Option<SeenChange> {
        let before = self.old.as_ref().is_some_and(|old| filter.matches(old));
        let after = filter.matches(&self.new);
        match (before, self.deleted, after) {
            (false, false, true) => Some(SeenChange::Added),
            (true, false, true) => Some(SeenChange::Modified),
            (true, true, true) => Some(SeenChange::Deleted),
            (true, _, false) => Some(SeenChange::Left),
            (false, _, _) => None,
        }
    }

    /// For a reader whose selection the object has left: the last state that he saw, at this change's revision.
    pub(crate) fn left(&self) -> Option<Arc<Entry>> {
        let old = self.old.as_ref()?;
        let body = if old.body.is_empty() { identity_of(&self.new.body) } else { old.body.clone() };
        Some(Arc::new(Entry { revision: self.revision(), body, ..Entry::clone(old) }))
    }

    fn weight(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.body.len());
        old + if self.deleted { self.new.body.len() } else { 0 } + CHANGE_OVERHEAD
    }
}

/// A change as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenChange {
    Added,
    Modified,
    /// The object is gone, and its last state matched.
    Deleted,
    /// The object, or its deletion's state, matches no longer.
    Left,
}

/// The fields of an object that are the same at every revision. The other fields of a forgotten state must not be
/// taken from the next state: the reader may have no right to see that one.
fn identity_of(body: &[u8]) -> Bytes {
    let Ok(Value::Object(whole)) = serde_json::from_slice(body) else { return Bytes::from_static(b"{}") };
    let mut metadata = Map::new();
    if let Some(Value::Object(known)) = whole.get("metadata") {
        for key in ["name", "namespace", "uid", "creationTimestamp"] {
            metadata.extend(known.get(key).map(|value| (key.to_owned(), value.clone())));
        }
    }
    let mut identity = Map::new();
    for key in ["apiVersion", "kind"] {
        identity.extend(whole.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    identity.insert("metadata".to_owned(), Value::Object(metadata));
    Bytes::from(Value::Object(identity).to_string())
}

/// How much the ring keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLimits {
    pub(crate) changes: usize,
    /// Beyond so many bytes changes are kept only for the shortest time, and never more than twice as many bytes.
    pub(crate) bytes: usize,
    pub(crate) shortest: Duration,
    pub(crate) age: Duration,
}

impl RingLimits {
    /// Bytes that the ring never goes beyond.
    pub(crate) fn bytes_most(&self) -> usize {
        self.bytes.saturating_mul(2)
    }

    /// Whether the oldest change is dropped.
    fn is_beyond(&self, changes: usize, bytes: usize, age: Duration) -> bool {
        changes > self.changes
            || bytes > self.bytes_most()
            || (bytes > self.bytes && age > self.shortest)
            || age > self.age
    }
}

#[derive(Debug)]
struct Kept {
    change: Arc<RingChange>,
    since: Instant,
}

/// The last changes in order of revision.
#[derive(Debug)]
pub(crate) struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
    limits: RingLimits,
    floor: Revision,
    undo_floor: Revision,
}

impl Ring {
    /// An empty ring that knows every change after `floor`.
    pub(crate) fn new(limits: RingLimits, floor: Revision) -> Self {
        Self { kept: VecDeque::new(), bytes: 0, limits, floor, undo_floor: floor }
    }

    /// Every change after this revision is here.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// States from this revision on can be had by undoing changes.
    pub(crate) fn undo_floor(&self) -> Revision {
        self.undo_floor
    }

    /// The newest change.
    pub(crate) fn last(&self) -> Option<&Arc<RingChange>> {
        self.kept.back().map(|kept| &kept.change)
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, change: Arc<RingChange>, now: Instant) {
        if change.old.as_ref().is_some_and(|old| old.body.is_empty()) {
            self.undo_floor = change.revision();
        }
        self.bytes += change.weight();
        self.kept.push_back(Kept { change, since: now });
        while let Some(first) = self.kept.front() {
            let age = now.saturating_duration_since(first.since);
            if !self.limits.is_beyond(self.kept.len(), self.bytes, age) {
                break;
            }
            self.bytes = self.bytes.saturating_sub(first.change.weight());
            self.floor = first.change.revision();
            self.undo_floor = self.undo_floor.max(self.floor);
            self.kept.pop_front();
        }
    }

    /// Changes after a revision, oldest first.
    pub(crate) fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<RingChange>> {
        let start = self.kept.partition_point(|kept| kept.change.revision() <= revision);
        self.kept.range(start..).map(|kept| &kept.change)
    }
}

/// Objects that were different: as they were, or absent.
pub(crate) type Undo = std::collections::BTreeMap<Path, Option<Arc<Entry>>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attributes, Key, KindId};
    use uuid::Uuid;

    const BODY: usize = 10_000 - CHANGE_OVERHEAD;

    /// The revisions in a ring of ten changes' bytes after one change in each second.
    fn kept_after(seconds: u64, changes: usize) -> Vec<u64> {
        let limits = RingLimits {
            changes,
            bytes: 100_000,
            shortest: Duration::from_secs(15),
            age: Duration::from_mins(1),
        };
        let (mut ring, start) = (Ring::new(limits, Revision(0)), Instant::now());
        for second in 1..=seconds {
            let entry = |body: usize| {
                Arc::new(Entry {
                    key: Key::new(KindId(1), "x", "a"),
                    uid: Uuid::nil(),
                    revision: Revision(second),
                    body: Bytes::from(vec![b'x'; body]),
                    attributes: Attributes::default(),
                })
            };
            let change = RingChange { old: Some(entry(BODY)), new: entry(1), deleted: false };
            ring.push(Arc::new(change), start + Duration::from_secs(second));
            let first = ring.after(Revision(0)).next().unwrap().revision();
            assert_eq!(ring.floor(), Revision(first.0 - 1), "none is missing after it");
        }
        ring.after(Revision(0)).map(|change| change.revision().0).collect()
    }

    #[test]
    fn who_comes_back_soon_finds_his_place_although_the_ring_is_full() {
        let few: Vec<u64> = (1..=14).collect();
        assert_eq!(kept_after(14, 1000), few, "more than its bytes, and none is old");
        let soon: Vec<u64> = (85..=100).collect();
        assert_eq!(kept_after(100, 1000), soon, "those of the last fifteen seconds");
        assert_eq!(kept_after(100, 5), [96, 97, 98, 99, 100], "no more than so many");
    }

    #[test]
    fn the_ring_has_never_more_than_twice_its_bytes() {
        let limits = RingLimits {
            changes: 1000,
            bytes: 100_000,
            shortest: Duration::from_secs(15),
            age: Duration::from_mins(1),
        };
        assert!(!limits.is_beyond(20, 200_000, Duration::ZERO));
        assert!(limits.is_beyond(20, 200_001, Duration::ZERO));
        assert!(!limits.is_beyond(20, 100_000, Duration::from_mins(1)));
        assert!(limits.is_beyond(1, 1, Duration::from_secs(61)));
    }
}
