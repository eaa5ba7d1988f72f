//! The state of the cache at one revision.

use super::objects::{Objects, Path};
use super::ring::{Ring, RingChange, RingLimits};
use crate::footprint::Footprints;
use crate::model::{Attributes, Entry, KindId, Revision};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// Unused namespaces are dropped when so many are interned, and then at every doubling.
const INTERNED_FLOOR: usize = 1024;

/// A row of `events`, with the attributes of its object.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) entry: Entry,
    pub(crate) deleted: bool,
    /// Absent for a create.
    pub(crate) before: Option<Attributes>,
}

impl Event {
    /// The change, as far as the event alone shows it: the state before has attributes and no body.
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
    /// Filling the cache anew begins a new generation. What was read from another generation is of no use here.
    pub(crate) generation: u64,
    pub(crate) epoch: Uuid,
    pub(crate) revision: Revision,
    pub(crate) kinds: BTreeMap<KindId, Objects>,
    pub(crate) ring: Ring,
    footprints: Footprints,
    namespaces: NamespaceInterner,
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
            namespaces: NamespaceInterner::default(),
        }
    }

    pub(crate) fn objects(&self, kind: KindId) -> Option<&Objects> {
        self.kinds.get(&kind)
    }

    /// The footprints of the tenants.
    pub(crate) fn footprints(&self) -> &Footprints {
        &self.footprints
    }

    /// Applies an event and keeps it in the ring. Events must come in order; an event that is applied already does
    /// nothing.
    pub(crate) fn apply(&mut self, mut event: Event, now: Instant) -> Option<Arc<RingChange>> {
        let revision = event.entry.revision;
        if revision <= self.revision {
            return None;
        }
        self.revision = revision;
        let key = &mut event.entry.key;
        key.namespace = self.namespaces.intern(&key.namespace);
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

    /// One object at a revision for which [`CacheInner::check_undo`](super::inner::CacheInner::check_undo) succeeds.
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

/// Shares one allocation among all keys of a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceInterner {
    interned: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Default for NamespaceInterner {
    fn default() -> Self {
        Self { interned: HashSet::new(), sweep_at: INTERNED_FLOOR }
    }
}

impl NamespaceInterner {
    pub(crate) fn intern(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(interned) = self.interned.get(name) {
            return Arc::clone(interned);
        }
        if self.interned.len() >= self.sweep_at {
            self.interned.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = (self.interned.len() * 2).max(INTERNED_FLOOR);
        }
        self.interned.insert(Arc::clone(name));
        Arc::clone(name)
    }
}

/// Builds a state from the tables.
#[derive(Debug, Default)]
pub(crate) struct CacheStateBuilder {
    entries: BTreeMap<KindId, Vec<Arc<Entry>>>,
    footprints: Footprints,
    namespaces: NamespaceInterner,
}

impl CacheStateBuilder {
    pub(crate) fn add(&mut self, mut entry: Entry) {
        entry.key.namespace = self.namespaces.intern(&entry.key.namespace);
        self.footprints.change(None, Some(&entry));
        self.entries.entry(entry.key.kind).or_default().push(Arc::new(entry));
    }

    /// The state at the snapshot's revision, with these events in the ring. They are in order, none of them is newer
    /// than the snapshot, and none after `floor` is missing.
    pub(crate) fn build(self, at: Snapshot, events: Vec<Event>, limits: RingLimits) -> CacheState {
        let mut ring = Ring::new(limits, at.floor);
        let mut last: BTreeMap<(KindId, Path), Arc<Entry>> = BTreeMap::new();
        let now = Instant::now();
        let kinds: BTreeMap<KindId, Objects> =
            self.entries.into_iter().map(|(kind, entries)| (kind, Objects::build(entries))).collect();
        for event in events {
            let mut change = event.into_change();
            let path = Path::of(&change.new.key);
            let current = kinds.get(&change.new.key.kind).and_then(|objects| objects.get(&path));
            if let Some(current) = current.filter(|current| current.revision == change.new.revision) {
                change.new = Arc::clone(current);
            }
            let key = (change.new.key.kind, path);
            if let Some(previous) = last.remove(&key).filter(|_| change.old.is_some()) {
                change.old = Some(previous);
            }
            if !change.deleted {
                last.insert(key, Arc::clone(&change.new));
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
            namespaces: self.namespaces,
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
