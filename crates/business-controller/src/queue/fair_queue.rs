//! The waiting keys of a group: by lane, and within a lane by owner in turn. So nobody delays others by having much to
//! do.

use super::lane::Lane;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Keys of a lane that are taken in a row while a later lane waits.
const LANE_BURST: u8 = 3;

/// The waiting keys of a group.
#[derive(Debug)]
pub(super) struct FairQueue<K> {
    access: LaneQueue<K>,
    urgent: LaneQueue<K>,
    later: LaneQueue<K>,
}

impl<K> Default for FairQueue<K> {
    fn default() -> Self {
        Self { access: LaneQueue::default(), urgent: LaneQueue::default(), later: LaneQueue::default() }
    }
}

/// The position of a waiting key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    pub lane: Lane,
    pub owner: &'a Arc<str>,
    /// The number of the key in the order of adding.
    pub number: u64,
}

impl<K> FairQueue<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.access.is_empty() && self.urgent.is_empty() && self.later.is_empty()
    }

    pub(super) fn insert(&mut self, at: Position<'_>, key: K) {
        let owners = &mut self.lane_queue(at.lane).owners;
        owners.entry(Arc::clone(at.owner)).or_default().insert(at.number, key);
    }

    pub(super) fn remove(&mut self, at: Position<'_>) -> Option<K> {
        self.lane_queue(at.lane).remove(at.owner, at.number)
    }

    /// Takes the next key, and the lane that it waited in.
    pub(super) fn take(&mut self) -> Option<(Lane, K)> {
        let Self { access, urgent, later } = self;
        let (lane, lane_queue) = if access.takes_turn(!urgent.is_empty() || !later.is_empty()) {
            (Lane::Access, access)
        } else if urgent.takes_turn(!later.is_empty()) {
            (Lane::Urgent, urgent)
        } else {
            (Lane::Later, later)
        };
        lane_queue.take().map(|key| (lane, key))
    }

    fn lane_queue(&mut self, lane: Lane) -> &mut LaneQueue<K> {
        match lane {
            Lane::Access => &mut self.access,
            Lane::Urgent => &mut self.urgent,
            Lane::Later => &mut self.later,
        }
    }
}

/// The waiting keys of a lane.
#[derive(Debug)]
struct LaneQueue<K> {
    /// By owner, in the order of adding. No owner is without keys.
    owners: BTreeMap<Arc<str>, BTreeMap<u64, K>>,
    /// The owner that was served last; the next one goes first.
    served: Option<Arc<str>>,
    /// How many keys were taken in a row while a later lane waited.
    in_row: u8,
}

impl<K> Default for LaneQueue<K> {
    fn default() -> Self {
        Self { owners: BTreeMap::new(), served: None, in_row: 0 }
    }
}

impl<K> LaneQueue<K> {
    fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Whether this lane goes before the later ones now. Counts the keys taken in a row.
    fn takes_turn(&mut self, later_wait: bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let gives_way = later_wait && self.in_row >= LANE_BURST;
        self.in_row = if later_wait && !gives_way { self.in_row.saturating_add(1) } else { 0 };
        !gives_way
    }

    fn take(&mut self) -> Option<K> {
        let after = |served: &Arc<str>| {
            self.owners.range::<str, _>((Bound::Excluded(&**served), Bound::Unbounded)).next()
        };
        let next = self.served.as_ref().and_then(after).or_else(|| self.owners.first_key_value());
        let (owner, keys) = next?;
        let (owner, number) = (Arc::clone(owner), *keys.first_key_value()?.0);
        let key = self.remove(&owner, number);
        self.served = Some(owner);
        key
    }

    fn remove(&mut self, owner: &str, number: u64) -> Option<K> {
        let keys = self.owners.get_mut(owner)?;
        let key = keys.remove(&number);
        if keys.is_empty() {
            self.owners.remove(owner);
        }
        key
    }
}
