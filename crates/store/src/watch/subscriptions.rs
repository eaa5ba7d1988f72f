//! The subscribed watches by topic, and the queue of each.

use super::frames::Frames;
use crate::access::Visibility;
use crate::cache::filter::Filter;
use crate::cache::metrics::CacheMetrics;
use crate::cache::ring::RingChange;
use crate::model::{KindId, Revision};
use crate::read::{WatchEnd, WatchItem};
use futures_util::task::AtomicWaker;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Most changes in the queue of a watch. A watch that is further behind ends.
pub(crate) const QUEUE_MAX: usize = 1024;
/// Most bytes of bodies in the queue of a watch, unless a single change is larger: an object may have megabytes.
const QUEUE_BYTES_MAX: usize = 16 << 20;
/// An empty queue with a larger capacity gives its memory back.
const QUEUE_CAPACITY_KEPT: usize = 16;

/// The changes that a watch subscribes to, as narrow as its selection allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Topic {
    Name(KindId, Arc<str>),
    Namespace(KindId, Arc<str>),
    Tenant(KindId, Box<str>),
    Kind(KindId),
}

impl Topic {
    fn of(filter: &Filter) -> Self {
        let kind = filter.selection().kind;
        if let Some(name) = filter.name() {
            return Self::Name(kind, Arc::from(name));
        }
        if let Some(namespace) = filter.namespace() {
            return Self::Namespace(kind, Arc::from(namespace));
        }
        match filter.visibility() {
            // Few callers see several tenants: theirs need no topic of its own.
            Visibility::Tenants(sights) if sights.len() == 1 => {
                Self::Tenant(kind, sights.iter().map(|sight| &*sight.tenant).collect())
            }
            Visibility::Tenants(_) | Visibility::Everything | Visibility::Nothing => Self::Kind(kind),
        }
    }

    /// The topics of a change. A watch that may match the change has exactly one of them. But a change of an object
    /// that all tenants see may also match the watches with the topic of any other tenant.
    fn of_change(change: &RingChange) -> impl Iterator<Item = Self> {
        let key = &change.new.key;
        let kind = key.kind;
        let new = change.new.attributes.tenant.as_deref();
        let old = change.old.as_ref().and_then(|old| old.attributes.tenant.as_deref());
        let tenants = new.into_iter().chain(old.filter(|_| old != new));
        let tenants: Vec<Self> = tenants.map(|tenant| Self::Tenant(kind, Box::from(tenant))).collect();
        [
            Self::Name(kind, Arc::clone(&key.name)),
            Self::Namespace(kind, Arc::clone(&key.namespace)),
            Self::Kind(kind),
        ]
        .into_iter()
        .chain(tenants)
    }

    fn is_tenant_topic_for(&self, change: &RingChange) -> bool {
        matches!(self, Self::Tenant(kind, _) if *kind == change.new.key.kind)
    }
}

fn is_public(change: &RingChange) -> bool {
    change.new.attributes.public || change.old.as_ref().is_some_and(|old| old.attributes.public)
}

/// A subscribed watch, and the changes that it has not taken yet.
#[derive(Debug)]
pub(crate) struct Subscriber {
    filter: Arc<Filter>,
    /// The watch has read the changes up to this revision elsewhere.
    after: Revision,
    queue: Mutex<Queue>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<WatchItem>,
    bytes: usize,
    ended: Option<WatchEnd>,
}

fn bytes_of(item: &WatchItem) -> usize {
    match item {
        WatchItem::Event { entry, .. } => entry.body.len(),
        WatchItem::InitialEnd(_) | WatchItem::Bookmark(_) => 0,
    }
}

impl Subscriber {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a change if it matches. Returns whether the queue was full, which ends the watch.
    fn offer(&self, change: &RingChange, frames: &mut Frames) -> bool {
        if change.revision() <= self.after {
            return false;
        }
        let Some(item) = frames.item(change, &self.filter) else { return false };
        let mut queue = self.lock();
        if queue.ended.is_some() {
            return false;
        }
        let bytes = queue.bytes.saturating_add(bytes_of(&item));
        let was_empty = queue.items.is_empty();
        if queue.items.len() >= QUEUE_MAX || (bytes > QUEUE_BYTES_MAX && !was_empty) {
            drop(queue);
            self.end(WatchEnd::Slow);
            return true;
        }
        queue.bytes = bytes;
        queue.items.push_back(item);
        drop(queue);
        if was_empty {
            self.waker.wake();
        }
        false
    }

    /// Ends the watch and drops the changes that it has not taken. Of several reasons, the first one counts.
    fn end(&self, why: WatchEnd) {
        let mut queue = self.lock();
        (queue.items, queue.bytes) = (VecDeque::new(), 0);
        queue.ended.get_or_insert(why);
        drop(queue);
        self.waker.wake();
    }

    /// Whether the watch has taken all its changes. False after an end, which may have dropped some.
    pub(crate) fn is_empty(&self) -> bool {
        let queue = self.lock();
        queue.items.is_empty() && queue.ended.is_none()
    }

    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Result<WatchItem, WatchEnd>> {
        if let Poll::Ready(item) = self.take() {
            return Poll::Ready(item);
        }
        self.waker.register(cx.waker());
        self.take()
    }

    fn take(&self) -> Poll<Result<WatchItem, WatchEnd>> {
        let mut queue = self.lock();
        if let Some(item) = queue.items.pop_front() {
            queue.bytes = queue.bytes.saturating_sub(bytes_of(&item));
            if queue.items.is_empty() && queue.items.capacity() > QUEUE_CAPACITY_KEPT {
                queue.items = VecDeque::new();
            }
            return Poll::Ready(Ok(item));
        }
        queue.ended.map_or(Poll::Pending, |end| Poll::Ready(Err(end)))
    }
}

/// All subscribed watches, and the number of open ones.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    topics: Mutex<HashMap<Topic, BTreeMap<u64, Arc<Subscriber>>>>,
    next_id: AtomicU64,
    open: AtomicUsize,
    gauge: Gauge,
    slow: Counter,
    max: usize,
    /// Every change up to this revision was dispatched.
    dispatched: AtomicU64,
    shutting_down: AtomicBool,
}

impl Subscriptions {
    pub(crate) fn new(max: usize, metrics: &CacheMetrics) -> Self {
        Self {
            topics: Mutex::default(),
            next_id: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            gauge: metrics.watches.clone(),
            slow: metrics.slow_watches.clone(),
            max,
            dispatched: AtomicU64::new(0),
            shutting_down: AtomicBool::new(false),
        }
    }

    /// The number of open watches, subscribed or not.
    pub(crate) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts one more open watch. False if there are too many.
    pub(crate) fn try_open(&self) -> bool {
        let more = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| (open < self.max).then_some(open + 1));
        if more.is_ok() {
            self.gauge.inc();
        }
        more.is_ok()
    }

    pub(crate) fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.gauge.dec();
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::SeqCst)
    }

    /// Every change up to this revision is in the queues of the watches that it matches.
    pub(crate) fn dispatched(&self) -> Revision {
        Revision(self.dispatched.load(Ordering::SeqCst))
    }

    /// Subscribes a watch. To lose no change, the caller holds the cache's lock, at revision `after`.
    pub(crate) fn subscribe(&self, filter: &Arc<Filter>, after: Revision) -> Subscription {
        let topic = Topic::of(filter);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let subscriber = Arc::new(Subscriber {
            filter: Arc::clone(filter),
            after,
            queue: Mutex::default(),
            waker: AtomicWaker::new(),
        });
        self.lock().entry(topic.clone()).or_default().insert(id, Arc::clone(&subscriber));
        if self.is_shutting_down() {
            subscriber.end(WatchEnd::Shutdown);
        }
        Subscription { topic, id, subscriber }
    }

    pub(crate) fn unsubscribe(&self, subscription: &Subscription) {
        let mut topics = self.lock();
        let Some(subscribers) = topics.get_mut(&subscription.topic) else { return };
        subscribers.remove(&subscription.id);
        if subscribers.is_empty() {
            topics.remove(&subscription.topic);
        }
    }

    /// Queues changes, which are in the cache already, for the watches that they match. Afterwards all changes up to
    /// `revision` are dispatched.
    pub(crate) fn dispatch(&self, changes: &[Arc<RingChange>], revision: Revision) {
        for change in changes {
            let mut frames = Frames::default();
            let topics = self.lock();
            if topics.is_empty() {
                break;
            }
            let mut offer = |subscribers: &BTreeMap<u64, Arc<Subscriber>>| {
                for subscriber in subscribers.values() {
                    if subscriber.offer(change, &mut frames) {
                        self.slow.inc();
                    }
                }
            };
            let concerned = Topic::of_change(change);
            if is_public(change) {
                let concerned: Vec<Topic> = concerned.collect();
                let is_concerned =
                    |topic: &Topic| concerned.contains(topic) || topic.is_tenant_topic_for(change);
                topics.iter().filter(|(topic, _)| is_concerned(topic)).for_each(|(_, all)| offer(all));
            } else {
                concerned.filter_map(|topic| topics.get(&topic)).for_each(offer);
            }
        }
        self.dispatched.store(revision.0, Ordering::SeqCst);
    }

    /// Ends every watch: its revision belongs to a state that the cache has replaced.
    pub(crate) fn expire(&self, current: Revision) {
        self.end_all(|after| WatchEnd::Expired { asked: after, current });
    }

    /// Ends every watch, and every one that subscribes later.
    pub(crate) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.end_all(|_| WatchEnd::Shutdown);
    }

    fn end_all(&self, why: impl Fn(Revision) -> WatchEnd) {
        for subscriber in self.lock().values().flat_map(BTreeMap::values) {
            subscriber.end(why(subscriber.after));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, BTreeMap<u64, Arc<Subscriber>>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a watch needs to take its changes and to unsubscribe.
#[derive(Debug)]
pub(crate) struct Subscription {
    topic: Topic,
    id: u64,
    pub(crate) subscriber: Arc<Subscriber>,
}
