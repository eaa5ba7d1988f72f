//! The work queue: each key is in it once, and is never processed twice at a time. Only a bounded number of keys of one
//! group is processed at a time. A group is a member cluster, so a cluster that hangs slows only its own objects, and
//! many of them leave room for others. Within a group, owners (tenants) are served in turn.

/// How urgent a key is.
mod lane;
/// The waiting keys of a group.
mod fair_queue;

pub use lane::Lane;

use fair_queue::{FairQueue, Position};
use runtime::Backoff;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// First delay after a failure.
const RETRY_FLOOR: Duration = Duration::from_millis(250);
/// Longest delay after a failure.
const RETRY_CEILING: Duration = Duration::from_mins(1);
/// When as many keys are being processed as so many full groups have, a group gets only a fraction of its limit:
/// clusters that hang leave room for all others, and memory is bounded.
const FULL_GROUPS: usize = 16;
const CROWDED_DIVISOR: usize = 4;

/// The flow that a key belongs to, as in API Priority and Fairness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKey<'a> {
    /// The number of keys that are processed at a time is limited by group.
    pub group: &'a str,
    /// Within a group, owners are served in turn.
    pub owner: &'a str,
}

/// A group without owners: its keys are processed in the order in which they were added.
impl<'a> From<&'a str> for FlowKey<'a> {
    fn from(group: &'a str) -> Self {
        Self { group, owner: "" }
    }
}

/// When a key is to be processed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Not before somebody adds it again.
    Never,
    /// After this time, in the last lane. It was no failure.
    After(Duration),
    /// After this time, in the same lane: the pass could not be begun.
    InSameLane(Duration),
    /// After a delay that grows with each failure.
    WithBackoff,
}

/// A queue of keys.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<QueueState<K>>,
    wake: Notify,
    /// Notified when a pass has ended.
    ended: Notify,
    /// How many keys of one group may be processed at a time.
    group_running_max: usize,
}

#[derive(Debug)]
struct QueueState<K> {
    entries: HashMap<K, QueueEntry>,
    groups: BTreeMap<Arc<str>, Group<K>>,
    delayed: BTreeMap<(Instant, u64), K>,
    /// The group that was served last; the next one goes first.
    served: Option<Arc<str>>,
    sequence: u64,
}

#[derive(Clone, Debug)]
struct OwnedFlowKey {
    group: Arc<str>,
    owner: Arc<str>,
}

impl From<FlowKey<'_>> for OwnedFlowKey {
    fn from(FlowKey { group, owner }: FlowKey<'_>) -> Self {
        Self { group: Arc::from(group), owner: Arc::from(owner) }
    }
}

#[derive(Debug)]
struct QueueEntry {
    flow: OwnedFlowKey,
    slot: QueueSlot,
    backoff: Option<Backoff>,
    /// Set if it was added while it was being processed.
    again: Option<Turn>,
    /// The flow that it was added to while it was being processed in another one.
    next_flow: Option<OwnedFlowKey>,
}

/// In which lane a key is to be processed, and when at the earliest.
#[derive(Clone, Copy, Debug)]
struct Turn {
    lane: Lane,
    due: Instant,
}

impl Turn {
    /// The more urgent lane, and the earlier time, of two turns.
    fn soonest(self, other: Self) -> Self {
        Self { lane: self.lane.min(other.lane), due: self.due.min(other.due) }
    }
}

/// Where a key is now. The number is that of its place there.
#[derive(Clone, Copy, Debug)]
enum QueueSlot {
    Ready {
        lane: Lane,
        number: u64,
    },
    Delayed {
        turn: Turn,
        number: u64,
    },
    Running {
        lane: Lane,
        number: u64,
    },
    /// In no queue; only while it is moved.
    Detached,
}

#[derive(Debug)]
struct Group<K> {
    /// The passes that run, numbered in the order in which they began.
    running: BTreeSet<u64>,
    ready: FairQueue<K>,
}

impl<K> Default for Group<K> {
    fn default() -> Self {
        Self { running: BTreeSet::new(), ready: FairQueue::default() }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub fn new(group_running_max: usize) -> Self {
        let state = QueueState {
            entries: HashMap::new(),
            groups: BTreeMap::new(),
            delayed: BTreeMap::new(),
            served: None,
            sequence: 0,
        };
        Self { state: Mutex::new(state), wake: Notify::new(), ended: Notify::new(), group_running_max }
    }

    /// Adds a key, to be processed as soon as its group has room.
    pub fn add<'a>(&self, key: &K, flow: impl Into<FlowKey<'a>>, lane: Lane) {
        self.add_after(key, flow, lane, Duration::ZERO);
    }

    /// Adds a key, to be processed after a delay. A key that is already queued keeps the earlier time.
    pub fn add_after<'a>(&self, key: &K, flow: impl Into<FlowKey<'a>>, lane: Lane, delay: Duration) {
        let now = Instant::now();
        self.lock().add(key, flow.into(), Turn { lane, due: now + delay }, now);
        self.wake.notify_one();
    }

    /// Waits for the next key. It must be given back with [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.take(self.group_running_max) {
                    return key;
                }
                state.delayed.first_key_value().map(|((due, _), _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    /// Ends the processing of a key.
    pub fn done(&self, key: &K, requeue: Requeue) {
        self.lock().done(key, requeue, Instant::now());
        self.wake.notify_one();
        self.ended.notify_waiters();
    }

    /// Waits until every pass of a group that runs now has ended.
    pub async fn wait_for_running(&self, group: &str) {
        let begun = self.lock().sequence;
        let is_over = || {
            let state = self.lock();
            let oldest = state.groups.get(group).and_then(|group| group.running.first().copied());
            oldest.is_none_or(|oldest| oldest > begun)
        };
        loop {
            let ended = self.ended.notified();
            if is_over() {
                return;
            }
            ended.await;
        }
    }

    /// The number of waiting keys, and of keys that are being processed.
    pub fn sizes(&self) -> (usize, usize) {
        let state = self.lock();
        let running = state.running();
        (state.entries.len().saturating_sub(running), running)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> QueueState<K> {
    fn running(&self) -> usize {
        self.groups.values().map(|group| group.running.len()).sum()
    }

    fn add(&mut self, key: &K, flow: FlowKey<'_>, turn: Turn, now: Instant) {
        self.set_flow(key, flow);
        let Some(entry) = self.entries.get_mut(key) else {
            let entry = QueueEntry {
                flow: flow.into(),
                slot: QueueSlot::Detached,
                backoff: None,
                again: None,
                next_flow: None,
            };
            self.entries.insert(key.clone(), entry);
            self.put(key, turn, now);
            return;
        };
        if turn.lane == Lane::Access {
            entry.backoff = None;
        }
        match entry.slot {
            QueueSlot::Running { .. } => {
                entry.again = Some(entry.again.map_or(turn, |old| old.soonest(turn)));
            }
            QueueSlot::Ready { lane, .. } if turn.lane >= lane || turn.due > now => {}
            QueueSlot::Delayed { turn: old, .. } if turn.due >= old.due && turn.lane >= old.lane => {}
            QueueSlot::Delayed { turn: old, .. } => self.put(key, old.soonest(turn), now),
            QueueSlot::Ready { .. } | QueueSlot::Detached => self.put(key, turn, now),
        }
    }

    /// Moves a key to another flow: an object of the same name that was created again may be in another cluster, or
    /// another tenant's.
    fn set_flow(&mut self, key: &K, flow: FlowKey<'_>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let is_other = *entry.flow.group != *flow.group || *entry.flow.owner != *flow.owner;
        if let QueueSlot::Running { .. } = entry.slot {
            entry.next_flow = is_other.then(|| flow.into());
        } else if is_other {
            let former = std::mem::replace(&mut entry.flow, flow.into());
            if let QueueSlot::Ready { lane, number } = entry.slot
                && let Some(group) = self.groups.get_mut(&former.group)
                && let Some(key) = group.ready.remove(Position { lane, owner: &former.owner, number })
            {
                let group = self.groups.entry(Arc::clone(&entry.flow.group)).or_default();
                group.ready.insert(Position { lane, owner: &entry.flow.owner, number }, key);
            }
        }
    }

    /// Moves a key to the queue of this turn.
    fn put(&mut self, key: &K, turn: Turn, now: Instant) {
        self.sequence = self.sequence.wrapping_add(1);
        let number = self.sequence;
        let Some(entry) = self.entries.get_mut(key) else { return };
        let OwnedFlowKey { group, owner } = &entry.flow;
        let group = self.groups.entry(Arc::clone(group)).or_default();
        match entry.slot {
            QueueSlot::Ready { lane, number } => drop(group.ready.remove(Position { lane, owner, number })),
            QueueSlot::Delayed { turn, number } => drop(self.delayed.remove(&(turn.due, number))),
            QueueSlot::Running { .. } | QueueSlot::Detached => {}
        }
        if turn.due > now {
            self.delayed.insert((turn.due, number), key.clone());
            entry.slot = QueueSlot::Delayed { turn, number };
        } else {
            group.ready.insert(Position { lane: turn.lane, owner, number }, key.clone());
            entry.slot = QueueSlot::Ready { lane: turn.lane, number };
        }
    }

    /// Moves keys that are due into the queue of their group.
    fn promote(&mut self, now: Instant) {
        while let Some((&(due, _), key)) = self.delayed.first_key_value() {
            if due > now {
                return;
            }
            let key = key.clone();
            let turn = match self.entries.get(&key).map(|entry| entry.slot) {
                Some(QueueSlot::Delayed { turn, .. }) => turn,
                _ => Turn { lane: Lane::Urgent, due },
            };
            self.put(&key, turn, now);
        }
    }

    /// Takes the next key of the next group that has one and has room.
    fn take(&mut self, group_running_max: usize) -> Option<K> {
        let running = self.running();
        let is_crowded = running >= group_running_max.saturating_mul(FULL_GROUPS);
        let room = if is_crowded { group_running_max.div_ceil(CROWDED_DIVISOR) } else { group_running_max };
        let has_work = |group: &Group<K>| group.running.len() < room && !group.ready.is_empty();
        let after = |name: &Arc<str>| self.served.as_ref().is_none_or(|served| name > served);
        let name = self
            .groups
            .iter()
            .find(|(name, group)| after(name) && has_work(group))
            .or_else(|| self.groups.iter().find(|(_, group)| has_work(group)))
            .map(|(name, _)| Arc::clone(name))?;
        let group = self.groups.get_mut(&name)?;
        let (lane, key) = group.ready.take()?;
        self.sequence = self.sequence.wrapping_add(1);
        group.running.insert(self.sequence);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.slot = QueueSlot::Running { lane, number: self.sequence };
        }
        self.served = Some(name);
        Some(key)
    }

    fn done(&mut self, key: &K, requeue: Requeue, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let ran = std::mem::replace(&mut entry.slot, QueueSlot::Detached);
        let ran_in = if let QueueSlot::Running { lane, .. } = ran { lane } else { Lane::Later };
        let again = entry.again.take();
        let group_name = Arc::clone(&entry.flow.group);
        if let Some(flow) = entry.next_flow.take() {
            entry.flow = flow;
        }
        // A pass that could not be begun has neither failed nor succeeded.
        if !matches!(requeue, Requeue::WithBackoff | Requeue::InSameLane(_)) {
            entry.backoff = None;
        }
        let requeued = match requeue {
            Requeue::Never => None,
            Requeue::After(delay) => Some(Turn { lane: Lane::Later, due: now + delay }),
            Requeue::InSameLane(delay) => Some(Turn { lane: ran_in, due: now + delay }),
            Requeue::WithBackoff => {
                let backoff = entry.backoff.get_or_insert_with(|| Backoff::new(RETRY_FLOOR, RETRY_CEILING));
                Some(Turn { lane: Lane::Urgent, due: now + backoff.next_delay() })
            }
        };
        if let (Some(group), QueueSlot::Running { number, .. }) = (self.groups.get_mut(&group_name), ran) {
            group.running.remove(&number);
        }
        match (again, requeued) {
            (Some(again), Some(requeued)) => self.put(key, again.soonest(requeued), now),
            (Some(turn), None) | (None, Some(turn)) => self.put(key, turn, now),
            (None, None) => {
                self.entries.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
