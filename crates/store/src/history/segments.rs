//! Segments of the history that were read, and the watches that wait for one.

use crate::cache::ring::RingChange;
use crate::model::Revision;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Most segments in the cache.
const SEGMENTS_MAX: usize = 64;
/// Most bytes of the segments in the cache.
const BYTES_MAX: usize = 64 << 20;
/// How long a segment that nobody reads stays in the cache.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// What a change costs beside its body.
const CHANGE_OVERHEAD: usize = 1024;

/// `None` if the requested events are gone. An error says why nothing was read.
pub(super) type Answer = Result<Option<Arc<Segment>>, Arc<str>>;

/// All changes after the revision `from`, up to and with `to`.
#[derive(Debug)]
pub(super) struct Segment {
    /// The cache's generation when this was read. The segment is of no use in another generation.
    pub(super) generation: u64,
    pub(super) from: Revision,
    pub(super) to: Revision,
    /// In order of revision.
    pub(super) changes: Vec<RingChange>,
}

impl Segment {
    fn covers(&self, generation: u64, after: Revision) -> bool {
        self.generation == generation && self.from <= after && after < self.to
    }

    pub(super) fn after(&self, revision: Revision) -> impl Iterator<Item = &RingChange> {
        let start = self.changes.partition_point(|change| change.revision() <= revision);
        self.changes.iter().skip(start)
    }

    fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change.new.body.len() + CHANGE_OVERHEAD).sum()
    }
}

/// A segment that was read just now.
#[derive(Debug)]
pub(super) struct LoadedSegment {
    pub(super) segment: Arc<Segment>,
    /// Events up to this revision may be gone.
    pub(super) compacted: Revision,
}

/// The answer to a watch that needs older events.
#[derive(Debug)]
pub(super) enum Lookup {
    /// The segment is in the cache.
    Cached(Arc<Segment>),
    /// The reading task answers later.
    Pending(oneshot::Receiver<Answer>),
}

/// The segments that are kept in memory, and the requests of the watches. The watches share it with the one task that
/// reads for all of them.
#[derive(Debug, Default)]
pub(crate) struct SegmentCache {
    state: Mutex<SegmentCacheState>,
    requested: Notify,
}

impl SegmentCache {
    fn lock(&self) -> MutexGuard<'_, SegmentCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A segment with the events after a revision, for a watch of this generation.
    pub(super) fn get(&self, generation: u64, after: Revision) -> Lookup {
        let mut state = self.lock();
        if let Some(segment) = state.find(generation, after, Instant::now()) {
            return Lookup::Cached(segment);
        }
        let (answer, receiver) = oneshot::channel();
        state.waiters.push_back(Waiter { generation, after, answer });
        drop(state);
        self.requested.notify_one();
        Lookup::Pending(receiver)
    }

    /// Waits until a watch may have requested a segment.
    pub(super) async fn until_requested(&self) {
        self.requested.notified().await;
    }

    /// The revision after which to read next for the watches that wait. Watches of an earlier generation get the answer
    /// that their events are gone.
    pub(super) fn next_request(&self, generation: u64) -> Option<Revision> {
        self.lock().next_request(generation)
    }

    /// Answers all watches that the segment covers, and in any case those that asked for exactly `requested`.
    pub(super) fn complete(&self, requested: Revision, loaded: &LoadedSegment) {
        self.lock().complete(requested, loaded, Instant::now());
    }

    /// Tells all watches that wait why nothing was read.
    pub(super) fn fail_waiters(&self, why: &str) {
        let why: Arc<str> = Arc::from(why);
        self.lock().answer_waiters(|_waiter| Some(Err(Arc::clone(&why))));
    }

    /// Drops the history of this generation and of those before it: the database no longer has it.
    pub(super) fn discard_generation(&self, generation: u64) {
        let mut state = self.lock();
        state.answer_waiters(|waiter| (waiter.generation <= generation).then_some(Ok(None)));
        state.cached.retain(|cached| cached.segment.generation > generation);
    }

    /// Drops the segments that nobody reads any more.
    pub(super) fn evict_unread(&self) {
        self.lock().evict_unread(Instant::now());
    }
}

#[derive(Debug, Default)]
struct SegmentCacheState {
    cached: Vec<CachedSegment>,
    /// In order of arrival.
    waiters: VecDeque<Waiter>,
    lowest_first: bool,
}

#[derive(Debug)]
struct CachedSegment {
    segment: Arc<Segment>,
    bytes: usize,
    last_read: Instant,
}

/// A watch that waits for the events after a revision.
#[derive(Debug)]
struct Waiter {
    generation: u64,
    after: Revision,
    answer: oneshot::Sender<Answer>,
}

impl SegmentCacheState {
    fn find(&mut self, generation: u64, after: Revision, now: Instant) -> Option<Arc<Segment>> {
        let covering = self.cached.iter_mut().filter(|cached| cached.segment.covers(generation, after));
        let furthest = covering.max_by_key(|cached| cached.segment.to)?;
        furthest.last_read = now;
        Some(Arc::clone(&furthest.segment))
    }

    /// Answers the watches for which `answer` has an answer, and drops those that have gone away.
    fn answer_waiters(&mut self, answer: impl Fn(&Waiter) -> Option<Answer>) {
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.answer.is_closed() {
                continue;
            }
            match answer(&waiter) {
                Some(answer) => {
                    let _gone_meanwhile = waiter.answer.send(answer);
                }
                None => self.waiters.push_back(waiter),
            }
        }
    }

    /// Alternates between two revisions. From the lowest one that is asked for, the reading comes to all others. That
    /// of the watch that has waited longest takes its turn, so that watches from further back do not hold it up.
    fn next_request(&mut self, generation: u64) -> Option<Revision> {
        self.answer_waiters(|waiter| (waiter.generation < generation).then_some(Ok(None)));
        self.lowest_first = !self.lowest_first;
        let after = |waiter: &Waiter| waiter.after;
        if self.lowest_first { self.waiters.iter().map(after).min() } else { self.waiters.front().map(after) }
    }

    fn complete(&mut self, requested: Revision, loaded: &LoadedSegment, now: Instant) {
        let segment = &loaded.segment;
        self.answer_waiters(|waiter| {
            if waiter.generation > segment.generation {
                return None;
            }
            if waiter.generation < segment.generation || waiter.after < loaded.compacted {
                return Some(Ok(None));
            }
            let concerned = waiter.after == requested || segment.covers(waiter.generation, waiter.after);
            concerned.then(|| Ok(Some(Arc::clone(segment))))
        });
        self.insert(segment, now);
    }

    fn insert(&mut self, segment: &Arc<Segment>, now: Instant) {
        self.evict_unread(now);
        if segment.from >= segment.to {
            return;
        }
        self.cached.retain(|cached| {
            let within = segment.from <= cached.segment.from && cached.segment.to <= segment.to;
            cached.segment.generation == segment.generation && !within
        });
        self.cached.push(CachedSegment {
            segment: Arc::clone(segment),
            bytes: segment.bytes(),
            last_read: now,
        });
        while self.cached.len() > SEGMENTS_MAX || self.bytes() > BYTES_MAX {
            let least_recent = self.cached.iter().enumerate().min_by_key(|(_, cached)| cached.last_read);
            let Some((least_recent, _)) = least_recent else { break };
            self.cached.remove(least_recent);
        }
    }

    fn bytes(&self) -> usize {
        self.cached.iter().map(|cached| cached.bytes).sum()
    }

    fn evict_unread(&mut self, now: Instant) {
        self.cached.retain(|cached| now.saturating_duration_since(cached.last_read) < UNREAD_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attributes, Entry, Key, KindId};
    use bytes::Bytes;
    use uuid::Uuid;

    /// Revisions in a segment.
    const LENGTH: u64 = 500;
    const END: u64 = 10_000;

    fn loaded(generation: u64, from: u64, to: u64) -> LoadedSegment {
        let segment = Segment { generation, from: Revision(from), to: Revision(to), changes: Vec::new() };
        LoadedSegment { segment: Arc::new(segment), compacted: Revision(0) }
    }

    fn change(revision: u64, bytes: usize) -> RingChange {
        let new = Entry {
            key: Key::new(KindId(1), "x", "a"),
            uid: Uuid::nil(),
            revision: Revision(revision),
            body: Bytes::from(vec![b'x'; bytes]),
            attributes: Attributes::default(),
        };
        RingChange { old: None, new: Arc::new(new), deleted: false }
    }

    fn waits(cache: &SegmentCache, generation: u64, after: u64) -> oneshot::Receiver<Answer> {
        match cache.get(generation, Revision(after)) {
            Lookup::Pending(later) => later,
            Lookup::Cached(segment) => panic!("{segment:?} is here"),
        }
    }

    /// How far a watch gets whose answer has come.
    fn to(later: &mut oneshot::Receiver<Answer>) -> Option<u64> {
        let answer = later.try_recv().expect("no answer has come").expect("nothing was read");
        answer.map(|segment| segment.to.0)
    }

    #[test]
    fn many_who_come_back_at_once_cost_one_reading_of_the_past() {
        let cache = SegmentCache::default();
        let mut readers: Vec<u64> = (0..6000).map(|number| number * 7919 % END).collect();
        let mut reads = 0;
        while readers.iter().any(|at| *at < END) {
            let mut later: Vec<_> = readers.iter().map(|_| None).collect();
            for (at, later) in readers.iter_mut().zip(&mut later) {
                while *at < END && later.is_none() {
                    match cache.get(1, Revision(*at)) {
                        Lookup::Cached(segment) => *at = segment.to.0,
                        Lookup::Pending(receiver) => *later = Some(receiver),
                    }
                }
            }
            let Some(Revision(after)) = cache.next_request(1) else { continue };
            reads += 1;
            cache.complete(Revision(after), &loaded(1, after, (after + LENGTH).min(END)));
            for (at, later) in readers.iter_mut().zip(later) {
                if let Some(Ok(answer)) = later.map(|mut later| later.try_recv()) {
                    *at = answer.unwrap().unwrap().to.0;
                }
            }
        }
        assert!(reads <= 2 * END / LENGTH, "{reads}");
    }

    #[test]
    fn nobody_waits_for_ever_while_others_come_from_further_back() {
        let cache = SegmentCache::default();
        let mut far = waits(&cache, 1, END - 1);
        for start in [3000, 2000] {
            let mut near = waits(&cache, 1, start);
            let Revision(after) = cache.next_request(1).unwrap();
            cache.complete(Revision(after), &loaded(1, after, after + LENGTH));
            if after == start {
                assert_eq!(to(&mut near), Some(start + LENGTH));
            }
        }
        assert_eq!(to(&mut far), Some(END - 1 + LENGTH));
    }

    #[test]
    fn what_was_read_of_a_lost_history_is_told_to_nobody() {
        let cache = SegmentCache::default();
        let mut first = waits(&cache, 1, 10);
        cache.complete(Revision(10), &loaded(1, 10, 20));
        assert_eq!(to(&mut first), Some(20));
        assert!(matches!(cache.get(1, Revision(15)), Lookup::Cached(_)));
        // A new generation has begun, and a watch of it asks while the old generation's events are still being read.
        let (mut old, mut new) = (waits(&cache, 1, 20), waits(&cache, 2, 15));
        cache.complete(Revision(20), &loaded(1, 20, 30));
        assert_eq!(to(&mut old), Some(30), "who has asked in it knows himself that it is lost");
        assert!(new.try_recv().is_err());
        let mut late = waits(&cache, 1, 40);
        assert_eq!(cache.next_request(2), Some(Revision(15)));
        assert_eq!(to(&mut late), None);
        cache.complete(Revision(15), &loaded(2, 15, 25));
        assert_eq!(to(&mut new), Some(25));
        // The database shows that its epoch has ended.
        let mut lost = waits(&cache, 2, 30);
        cache.discard_generation(2);
        assert_eq!(to(&mut lost), None);
        let mut again = waits(&cache, 2, 15);
        assert!(again.try_recv().is_err(), "nothing of it is kept");
    }

    #[test]
    fn who_asks_for_what_is_compacted_hears_it_and_who_does_not_is_served() {
        let cache = SegmentCache::default();
        let (mut gone, mut there) = (waits(&cache, 1, 5), waits(&cache, 1, 12));
        let loaded = LoadedSegment { compacted: Revision(10), ..loaded(1, 10, 20) };
        cache.complete(Revision(5), &loaded);
        assert_eq!((to(&mut gone), to(&mut there)), (None, Some(20)));
        let mut below = waits(&cache, 1, 9);
        assert!(below.try_recv().is_err(), "the segment is complete from the compacted revision on");
    }

    #[test]
    fn whoever_waits_hears_why_nothing_was_read_and_who_has_gone_away_is_not_read_for() {
        let cache = SegmentCache::default();
        drop(waits(&cache, 1, 5));
        assert_eq!(cache.next_request(1), None);
        let mut later = waits(&cache, 1, 5);
        cache.fail_waiters("no answer");
        assert_eq!(&*later.try_recv().unwrap().unwrap_err(), "no answer");
    }

    #[test]
    fn what_is_kept_has_a_bound_and_an_end() {
        let cache = SegmentCache::default();
        let mut all = 0..;
        let mut read = |bytes| {
            let from = all.next().unwrap();
            let segment = Segment {
                generation: 1,
                from: Revision(from),
                to: Revision(from + 1),
                changes: vec![change(from + 1, bytes)],
            };
            let loaded = LoadedSegment { segment: Arc::new(segment), compacted: Revision(0) };
            cache.complete(Revision(from), &loaded);
        };
        (0..100).for_each(|_| read(10));
        assert_eq!(cache.lock().cached.len(), SEGMENTS_MAX);
        (0..100).for_each(|_| read(4 << 20));
        assert_eq!(cache.lock().cached.len(), 15, "sixteen would be more than 64 MiB");
        assert!(matches!(cache.get(1, Revision(199)), Lookup::Cached(_)), "the newest stay");
        cache.lock().evict_unread(Instant::now() + UNREAD_MAX);
        assert_eq!(cache.lock().cached.len(), 0);
    }

    #[test]
    fn a_stretch_is_read_on_from_any_revision_in_it() {
        let changes = [3, 5, 8].map(|revision| change(revision, 1));
        let segment =
            Segment { generation: 1, from: Revision(2), to: Revision(9), changes: Vec::from(changes) };
        let after = |revision: u64| -> Vec<u64> {
            segment.after(Revision(revision)).map(|change| change.revision().0).collect()
        };
        assert_eq!([after(2), after(3), after(4), after(8)], [vec![3, 5, 8], vec![5, 8], vec![5, 8], vec![]]);
        assert!(segment.covers(1, Revision(8)) && !segment.covers(1, Revision(9)));
        assert!(!segment.covers(2, Revision(8)) && !segment.covers(1, Revision(1)));
    }
}
