//! Stretches of the past that were read, and watches that wait for one.

use crate::cache::ring::RingChange;
use crate::model::Revision;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Most stretches that are kept,
const STRETCHES_MAX: usize = 64;
/// and bytes of them.
const BYTES_MAX: usize = 64 << 20;
/// How long a stretch is kept that nobody reads.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// What a change costs beside its body.
const CHANGE_OVERHEAD: usize = 1024;

/// `None` if the events that were asked for are gone. An error says why nothing was read.
pub(super) type Answer = Result<Option<Arc<Stretch>>, Arc<str>>;

/// All changes after a revision and up to another.
#[derive(Debug)]
pub(super) struct Stretch {
    /// The cache's generation when this was read: in another one it means nothing.
    pub(super) generation: u64,
    pub(super) from: Revision,
    pub(super) to: Revision,
    /// In order.
    pub(super) changes: Vec<RingChange>,
}

impl Stretch {
    fn serves(&self, generation: u64, after: Revision) -> bool {
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

/// What was read after some revision.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) stretch: Arc<Stretch>,
    /// History up to here may be gone.
    pub(super) compacted: Revision,
}

/// The answer to a watch that asks for the past.
#[derive(Debug)]
pub(super) enum Asked {
    Here(Arc<Stretch>),
    Later(oneshot::Receiver<Answer>),
}

/// Where the watches meet the task that reads for all of them.
#[derive(Debug, Default)]
pub(crate) struct Past {
    shelf: Mutex<Shelf>,
    wanted: Notify,
}

impl Past {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stretch with the events after a revision, for a watch of this generation.
    pub(super) fn ask(&self, generation: u64, after: Revision) -> Asked {
        let mut shelf = self.shelf();
        if let Some(stretch) = shelf.find(generation, after, Instant::now()) {
            return Asked::Here(stretch);
        }
        let (answer, later) = oneshot::channel();
        shelf.waiting.push_back(Waiting { generation, after, answer });
        drop(shelf);
        self.wanted.notify_one();
        Asked::Later(later)
    }

    /// Waits until a watch may be waiting.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// The revision after which to read for the watches that wait. Those of an earlier generation are told that their
    /// events are gone.
    pub(super) fn next(&self, generation: u64) -> Option<Revision> {
        self.shelf().next(generation)
    }

    /// Answers all watches that the stretch serves, and in any case those that asked for exactly this revision.
    pub(super) fn answer(&self, asked: Revision, found: &Found) {
        self.shelf().answer(asked, found, Instant::now());
    }

    /// Tells all watches that wait why nothing was read.
    pub(super) fn fail(&self, why: &str) {
        let why: Arc<str> = Arc::from(why);
        self.shelf().settle(|_waiting| Some(Err(Arc::clone(&why))));
    }

    /// The history of a generation, and of those before it, is gone.
    pub(super) fn lose(&self, generation: u64) {
        let mut shelf = self.shelf();
        shelf.settle(|waiting| (waiting.generation <= generation).then_some(Ok(None)));
        shelf.kept.retain(|kept| kept.stretch.generation > generation);
    }

    /// Drops the stretches that nobody reads any more.
    pub(super) fn tidy(&self) {
        self.shelf().tidy(Instant::now());
    }
}

#[derive(Debug, Default)]
struct Shelf {
    kept: Vec<KeptStretch>,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    lowest_first: bool,
}

#[derive(Debug)]
struct KeptStretch {
    stretch: Arc<Stretch>,
    bytes: usize,
    read: Instant,
}

#[derive(Debug)]
struct Waiting {
    generation: u64,
    after: Revision,
    answer: oneshot::Sender<Answer>,
}

impl Shelf {
    fn find(&mut self, generation: u64, after: Revision, now: Instant) -> Option<Arc<Stretch>> {
        let serving = self.kept.iter_mut().filter(|kept| kept.stretch.serves(generation, after));
        let furthest = serving.max_by_key(|kept| kept.stretch.to)?;
        furthest.read = now;
        Some(Arc::clone(&furthest.stretch))
    }

    /// Answers the watches for which there is an answer, and drops those that have gone away.
    fn settle(&mut self, answer: impl Fn(&Waiting) -> Option<Answer>) {
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.answer.is_closed() {
                continue;
            }
            match answer(&waiting) {
                Some(answer) => {
                    let _gone_meanwhile = waiting.answer.send(answer);
                }
                None => self.waiting.push_back(waiting),
            }
        }
    }

    /// In turns: the lowest revision, from which the reading passes the others; and the revision of the watch that
    /// has waited longest, so that watches from further back do not hold it up.
    fn next(&mut self, generation: u64) -> Option<Revision> {
        self.settle(|waiting| (waiting.generation < generation).then_some(Ok(None)));
        self.lowest_first = !self.lowest_first;
        let after = |waiting: &Waiting| waiting.after;
        if self.lowest_first { self.waiting.iter().map(after).min() } else { self.waiting.front().map(after) }
    }

    fn answer(&mut self, asked: Revision, found: &Found, now: Instant) {
        let stretch = &found.stretch;
        self.settle(|waiting| {
            if waiting.generation > stretch.generation {
                return None;
            }
            if waiting.generation < stretch.generation || waiting.after < found.compacted {
                return Some(Ok(None));
            }
            let concerned = waiting.after == asked || stretch.serves(waiting.generation, waiting.after);
            concerned.then(|| Ok(Some(Arc::clone(stretch))))
        });
        self.keep(stretch, now);
    }

    fn keep(&mut self, stretch: &Arc<Stretch>, now: Instant) {
        self.tidy(now);
        if stretch.from >= stretch.to {
            return;
        }
        self.kept.retain(|kept| {
            let within = stretch.from <= kept.stretch.from && kept.stretch.to <= stretch.to;
            kept.stretch.generation == stretch.generation && !within
        });
        self.kept.push(KeptStretch { stretch: Arc::clone(stretch), bytes: stretch.bytes(), read: now });
        while self.kept.len() > STRETCHES_MAX || self.bytes() > BYTES_MAX {
            let unread = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.read);
            let Some((unread, _)) = unread else { break };
            self.kept.remove(unread);
        }
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.bytes).sum()
    }

    fn tidy(&mut self, now: Instant) {
        self.kept.retain(|kept| now.saturating_duration_since(kept.read) < UNREAD_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attributes, Entry, Key, KindId};
    use bytes::Bytes;
    use uuid::Uuid;

    /// Revisions in a stretch.
    const LENGTH: u64 = 500;
    const END: u64 = 10_000;

    fn found(generation: u64, from: u64, to: u64) -> Found {
        let stretch = Stretch { generation, from: Revision(from), to: Revision(to), changes: Vec::new() };
        Found { stretch: Arc::new(stretch), compacted: Revision(0) }
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

    fn waits(past: &Past, generation: u64, after: u64) -> oneshot::Receiver<Answer> {
        match past.ask(generation, Revision(after)) {
            Asked::Later(later) => later,
            Asked::Here(stretch) => panic!("{stretch:?} is here"),
        }
    }

    /// How far a watch gets whose answer has come.
    fn to(later: &mut oneshot::Receiver<Answer>) -> Option<u64> {
        let answer = later.try_recv().expect("no answer has come").expect("nothing was read");
        answer.map(|stretch| stretch.to.0)
    }

    #[test]
    fn many_who_come_back_at_once_cost_one_reading_of_the_past() {
        let past = Past::default();
        let mut readers: Vec<u64> = (0..6000).map(|number| number * 7919 % END).collect();
        let mut reads = 0;
        while readers.iter().any(|at| *at < END) {
            let mut later: Vec<_> = readers.iter().map(|_| None).collect();
            for (at, later) in readers.iter_mut().zip(&mut later) {
                while *at < END && later.is_none() {
                    match past.ask(1, Revision(*at)) {
                        Asked::Here(stretch) => *at = stretch.to.0,
                        Asked::Later(receiver) => *later = Some(receiver),
                    }
                }
            }
            let Some(Revision(after)) = past.next(1) else { continue };
            reads += 1;
            past.answer(Revision(after), &found(1, after, (after + LENGTH).min(END)));
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
        let past = Past::default();
        let mut far = waits(&past, 1, END - 1);
        for start in [3000, 2000] {
            let mut near = waits(&past, 1, start);
            let Revision(after) = past.next(1).unwrap();
            past.answer(Revision(after), &found(1, after, after + LENGTH));
            if after == start {
                assert_eq!(to(&mut near), Some(start + LENGTH));
            }
        }
        assert_eq!(to(&mut far), Some(END - 1 + LENGTH));
    }

    #[test]
    fn what_was_read_of_a_lost_history_is_told_to_nobody() {
        let past = Past::default();
        let mut first = waits(&past, 1, 10);
        past.answer(Revision(10), &found(1, 10, 20));
        assert_eq!(to(&mut first), Some(20));
        assert!(matches!(past.ask(1, Revision(15)), Asked::Here(_)));
        // A new generation has begun, and a watch of it asks while the old generation's events are still being read.
        let (mut old, mut new) = (waits(&past, 1, 20), waits(&past, 2, 15));
        past.answer(Revision(20), &found(1, 20, 30));
        assert_eq!(to(&mut old), Some(30), "who has asked in it knows himself that it is lost");
        assert!(new.try_recv().is_err());
        let mut late = waits(&past, 1, 40);
        assert_eq!(past.next(2), Some(Revision(15)));
        assert_eq!(to(&mut late), None);
        past.answer(Revision(15), &found(2, 15, 25));
        assert_eq!(to(&mut new), Some(25));
        // The database shows that its epoch has ended.
        let mut lost = waits(&past, 2, 30);
        past.lose(2);
        assert_eq!(to(&mut lost), None);
        let mut again = waits(&past, 2, 15);
        assert!(again.try_recv().is_err(), "nothing of it is kept");
    }

    #[test]
    fn who_asks_for_what_is_compacted_hears_it_and_who_does_not_is_served() {
        let past = Past::default();
        let (mut gone, mut there) = (waits(&past, 1, 5), waits(&past, 1, 12));
        let found = Found { compacted: Revision(10), ..found(1, 10, 20) };
        past.answer(Revision(5), &found);
        assert_eq!((to(&mut gone), to(&mut there)), (None, Some(20)));
        let mut below = waits(&past, 1, 9);
        assert!(below.try_recv().is_err(), "the stretch is complete from the compacted revision on");
    }

    #[test]
    fn whoever_waits_hears_why_nothing_was_read_and_who_has_gone_away_is_not_read_for() {
        let past = Past::default();
        drop(waits(&past, 1, 5));
        assert_eq!(past.next(1), None);
        let mut later = waits(&past, 1, 5);
        past.fail("no answer");
        assert_eq!(&*later.try_recv().unwrap().unwrap_err(), "no answer");
    }

    #[test]
    fn what_is_kept_has_a_bound_and_an_end() {
        let past = Past::default();
        let mut all = 0..;
        let mut read = |bytes| {
            let from = all.next().unwrap();
            let stretch = Stretch {
                generation: 1,
                from: Revision(from),
                to: Revision(from + 1),
                changes: vec![change(from + 1, bytes)],
            };
            let found = Found { stretch: Arc::new(stretch), compacted: Revision(0) };
            past.answer(Revision(from), &found);
        };
        (0..100).for_each(|_| read(10));
        assert_eq!(past.shelf().kept.len(), STRETCHES_MAX);
        (0..100).for_each(|_| read(4 << 20));
        assert_eq!(past.shelf().kept.len(), 15, "sixteen would be more than 64 MiB");
        assert!(matches!(past.ask(1, Revision(199)), Asked::Here(_)), "the newest stay");
        past.shelf().tidy(Instant::now() + UNREAD_MAX);
        assert_eq!(past.shelf().kept.len(), 0);
    }

    #[test]
    fn a_stretch_is_read_on_from_any_revision_in_it() {
        let changes = [3, 5, 8].map(|revision| change(revision, 1));
        let stretch =
            Stretch { generation: 1, from: Revision(2), to: Revision(9), changes: Vec::from(changes) };
        let after = |revision: u64| -> Vec<u64> {
            stretch.after(Revision(revision)).map(|change| change.revision().0).collect()
        };
        assert_eq!([after(2), after(3), after(4), after(8)], [vec![3, 5, 8], vec![5, 8], vec![5, 8], vec![]]);
        assert!(stretch.serves(1, Revision(8)) && !stretch.serves(1, Revision(9)));
        assert!(!stretch.serves(2, Revision(8)) && !stretch.serves(1, Revision(1)));
    }
}
