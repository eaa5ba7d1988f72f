//! Everything the cache holds, at one revision.

use super::objects::{Objects, Path};
use super::ring::{Ring, RingChange, RingLimits};
use crate::footprint::Footprints;
use crate::model::{Attributes, Entry, KindId, Revision};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// Namespaces that nobody uses any more are dropped when there are this many, and then at every doubling.
const NAMES_FLOOR: usize = 1024;

/// A row of `events`, its attributes read.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) entry: Entry,
    pub(crate) deleted: bool,
    /// Absent for a create.
    pub(crate) before: Option<Attributes>,
}

impl Event {
    /// The change, as far as the event alone tells it.
    pub(crate) fn into_change(self) -> RingChange {
        let new = Arc::new(self.entry);
        let old = self.before.map(|attributes| Arc::new(without_body(&new, attributes)));
        RingChange { old, new, deleted: self.deleted }
    }
}

fn without_body(new: &Entry, attributes: Attributes) -> Entry {
    Entry {
        key: new.key.clone(),
        uid: new.uid,
        revision: Revision::default(),
        body: bytes::Bytes::new(),
        attributes,
    }
}

/// All objects of all kinds and the last changes.
#[derive(Debug)]
pub(crate) struct CacheState {
    /// A rebuild begins a new generation: what was read from a state of another one means nothing here.
    pub(crate) generation: u64,
    pub(crate) epoch: Uuid,
    pub(crate) revision: Revision,
    pub(crate) kinds: BTreeMap<KindId, Objects>,
    pub(crate) ring: Ring,
    footprints: Footprints,
    names: Names,
}

impl CacheState {
    pub(crate) fn empty(limits: RingLimits) -> Self {
        Self {
            generation: 0,
            epoch: Uuid::nil(),
            revision: Revision::default(),
            kinds: BTreeMap::new(),
            ring: Ring::new(limits, Revision::default()),
            footprints: Footprints::default(),
            names: Names::default(),
        }
    }

    pub(crate) fn objects(&self, kind: KindId) -> Option<&Objects> {
        self.kinds.get(&kind)
    }

    /// The footprints of the tenants.
    pub(crate) fn footprints(&self) -> &Footprints {
        &self.footprints
    }

    /// Applies an event and keeps it in the ring. Events must come in order; one seen before does nothing.
    pub(crate) fn apply(&mut self, mut event: Event, now: Instant) -> Option<Arc<RingChange>> {
        let revision = event.entry.revision;
        if revision <= self.revision {
            return None;
        }
        self.revision = revision;
        let key = &mut event.entry.key;
        key.namespace = self.names.share(&key.namespace);
        let objects = self.kinds.entry(key.kind).or_default();
        let (new, old) = if event.deleted {
            let old = objects.remove(&Path::of(key));
            (Arc::new(event.entry), old)
        } else {
            objects.put(event.entry)
        };
        self.footprints.change(old.as_deref(), (!event.deleted).then_some(&*new));
        let change = Arc::new(RingChange { old, new, deleted: event.deleted });
        self.ring.push(Arc::clone(&change), now);
        Some(change)
    }

    /// One object at a revision that can still be undone to.
    pub(crate) fn get_at(&self, kind: KindId, path: &Path, revision: Revision) -> Option<Arc<Entry>> {
        let changed = self.ring.after(revision).find(|change| {
            let key = &change.new.key;
            key.kind == kind && key.name == path.name && key.namespace == path.namespace
        });
        match changed {
            Some(change) => change.old.clone(),
            None => self.objects(kind)?.get(path).cloned(),
        }
    }
}

/// One allocation for each namespace.
#[derive(Debug)]
pub(crate) struct Names {
    known: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self { known: HashSet::new(), sweep_at: NAMES_FLOOR }
    }
}

impl Names {
    pub(crate) fn share(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = (self.known.len() * 2).max(NAMES_FLOOR);
        }
        self.known.insert(Arc::clone(name));
        Arc::clone(name)
    }
}

/// A state that is being filled from the tables.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    entries: BTreeMap<KindId, Vec<Arc<Entry>>>,
    footprints: Footprints,
    names: Names,
}

impl Loading {
    pub(crate) fn add(&mut self, mut entry: Entry) {
        entry.key.namespace = self.names.share(&entry.key.namespace);
        self.footprints.change(None, Some(&entry));
        self.entries.entry(entry.key.kind).or_default().push(Arc::new(entry));
    }

    /// The state at the snapshot's revision, with `past` (events up to it, in order, none missing after
    /// `floor`) in the ring.
    pub(crate) fn finish(self, at: Snapshot, past: Vec<Event>, limits: RingLimits) -> CacheState {
        let mut ring = Ring::new(limits, at.floor);
        let mut last: BTreeMap<(KindId, Path), Arc<Entry>> = BTreeMap::new();
        let now = Instant::now();
        let kinds: BTreeMap<KindId, Objects> =
            self.entries.into_iter().map(|(kind, entries)| (kind, Objects::build(entries))).collect();
        for event in past {
            let mut change = event.into_change();
            let path = Path::of(&change.new.key);
            let current = kinds.get(&change.new.key.kind).and_then(|objects| objects.get(&path));
            if let Some(current) = current.filter(|current| current.revision == change.new.revision) {
                change.new = Arc::clone(current);
            }
            let place = (change.new.key.kind, path);
            if let Some(known) = last.remove(&place).filter(|_| change.old.is_some()) {
                change.old = Some(known);
            }
            if !change.deleted {
                last.insert(place, Arc::clone(&change.new));
            }
            ring.push(Arc::new(change), now);
        }
        CacheState {
            generation: at.generation,
            epoch: at.epoch,
            revision: at.revision,
            kinds,
            ring,
            footprints: self.footprints,
            names: self.names,
        }
    }
}

/// The snapshot that a state was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    pub(crate) epoch: Uuid,
    pub(crate) revision: Revision,
    /// Every event after this revision was read with the state.
    pub(crate) floor: Revision,
}
