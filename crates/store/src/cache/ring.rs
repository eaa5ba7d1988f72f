//! The last changes, with the states before and after. Lists at an earlier revision undo them, watches replay them.

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

/// One event, with the state of the object before it.
#[derive(Clone, Debug)]
pub(crate) struct RingChange {
    /// The state before; absent for a create. Its body is empty where only the attributes are known.
    pub(crate) old: Option<Arc<Entry>>,
    /// The state after. For a deletion: the last state, at the deletion's revision.
    pub(crate) new: Arc<Entry>,
    /// Whether the object is gone.
    pub(crate) deleted: bool,
}

impl RingChange {
    pub(crate) fn revision(&self) -> Revision {
        self.new.revision
    }

    /// How a reader sees the change; `None` if he does not.
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
        let body = if old.body.is_empty() { identity_fields(&self.new.body) } else { old.body.clone() };
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

/// A body with the fields of an object that never change. It stands for a state that is not known any more. The other
/// fields are not taken from the next state, as the reader may have no right to see that one.
fn identity_fields(body: &[u8]) -> Bytes {
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
    /// Beyond so many bytes, changes are kept only up to `age_min`. Beyond twice as many bytes, they are dropped at
    /// once.
    pub(crate) bytes: usize,
    pub(crate) age_min: Duration,
    pub(crate) age_max: Duration,
}

impl RingLimits {
    /// The ring never has more bytes.
    pub(crate) fn bytes_limit(&self) -> usize {
        self.bytes.saturating_mul(2)
    }

    /// Whether a ring of this size, whose oldest change has this age, must drop that change.
    fn is_exceeded(&self, changes: usize, bytes: usize, age: Duration) -> bool {
        changes > self.changes
            || bytes > self.bytes_limit()
            || (bytes > self.bytes && age > self.age_min)
            || age > self.age_max
    }
}

#[derive(Debug)]
struct RingEntry {
    change: Arc<RingChange>,
    since: Instant,
}

/// The last changes in order of revision.
#[derive(Debug)]
pub(crate) struct Ring {
    entries: VecDeque<RingEntry>,
    bytes: usize,
    limits: RingLimits,
    floor: Revision,
    undo_floor: Revision,
}

impl Ring {
    /// An empty ring for the changes after `floor`.
    pub(crate) fn new(limits: RingLimits, floor: Revision) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, limits, floor, undo_floor: floor }
    }

    /// The ring has every change after this revision.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// The oldest revision whose state can be had by undoing changes.
    pub(crate) fn undo_floor(&self) -> Revision {
        self.undo_floor
    }

    /// The newest change.
    pub(crate) fn last(&self) -> Option<&Arc<RingChange>> {
        self.entries.back().map(|entry| &entry.change)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, change: Arc<RingChange>, now: Instant) {
        if change.old.as_ref().is_some_and(|old| old.body.is_empty()) {
            self.undo_floor = change.revision();
        }
        self.bytes += change.weight();
        self.entries.push_back(RingEntry { change, since: now });
        while let Some(first) = self.entries.front() {
            let age = now.saturating_duration_since(first.since);
            if !self.limits.is_exceeded(self.entries.len(), self.bytes, age) {
                break;
            }
            self.bytes = self.bytes.saturating_sub(first.change.weight());
            self.floor = first.change.revision();
            self.undo_floor = self.undo_floor.max(self.floor);
            self.entries.pop_front();
        }
    }

    /// Changes after a revision, oldest first.
    pub(crate) fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<RingChange>> {
        let start = self.entries.partition_point(|entry| entry.change.revision() <= revision);
        self.entries.range(start..).map(|entry| &entry.change)
    }
}

/// Objects that have changed since a revision, as they were then; `None` if they did not exist.
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
            age_min: Duration::from_secs(15),
            age_max: Duration::from_mins(1),
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
            age_min: Duration::from_secs(15),
            age_max: Duration::from_mins(1),
        };
        assert!(!limits.is_exceeded(20, 200_000, Duration::ZERO));
        assert!(limits.is_exceeded(20, 200_001, Duration::ZERO));
        assert!(!limits.is_exceeded(20, 100_000, Duration::from_mins(1)));
        assert!(limits.is_exceeded(1, 1, Duration::from_secs(61)));
    }
}
