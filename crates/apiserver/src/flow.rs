use prometheus_client::metrics::gauge::Gauge;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many requests may be under way at once, on one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that change nothing.
    pub reads: usize,
    /// Requests that change something.
    pub writes: usize,
    /// Watches.
    pub watches: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reads: 400, writes: 200, watches: 10_000 }
    }
}

/// Users are told apart by a hash; two of them rarely share a slot.
const USER_SLOTS: usize = 1024;

/// A number of places. While more than half of them are taken, no user holds more than an even share.
#[derive(Debug)]
pub(crate) struct Lane {
    limit: usize,
    taken: AtomicUsize,
    /// Users that hold a place.
    active: AtomicUsize,
    users: Box<[AtomicUsize]>,
    hasher: RandomState,
    shown: Gauge,
}

impl Lane {
    pub(crate) fn new(limit: usize, shown: Gauge) -> Arc<Self> {
        let users = std::iter::repeat_with(AtomicUsize::default).take(USER_SLOTS).collect();
        let (taken, active) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limit, taken, active, users, hasher: RandomState::new(), shown })
    }

    /// A place for a user's request; `exempt` ones are counted but never refused.
    pub(crate) fn enter(self: &Arc<Self>, user: &str, exempt: bool) -> Option<Place> {
        let hash = usize::try_from(self.hasher.hash_one(user) % USER_SLOTS as u64).unwrap_or_default();
        let slot = self.users.get(hash)?;
        // Counted first and looked at then: what is refused is given back by the place's end.
        let taken = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        let own = slot.fetch_add(1, Ordering::Relaxed) + 1;
        let active = if own == 1 {
            self.active.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            self.active.load(Ordering::Relaxed)
        };
        self.shown.inc();
        let place = Place { lane: Arc::clone(self), slot: hash };
        let share = (self.limit / active.max(1)).max(1);
        let fits = taken <= self.limit && (taken <= self.limit / 2 || own <= share);
        (fits || exempt).then_some(place)
    }
}

/// A place in a lane, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lane: Arc<Lane>,
    slot: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lane.taken.fetch_sub(1, Ordering::Relaxed);
        if let Some(slot) = self.lane.users.get(self.slot)
            && slot.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.lane.active.fetch_sub(1, Ordering::Relaxed);
        }
        self.lane.shown.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_full_at_its_limit_but_for_the_exempt() {
        let lane = Lane::new(4, Gauge::default());
        let places: Vec<_> = (0..6).map(|_| lane.enter("a", false)).collect();
        assert_eq!(places.iter().flatten().count(), 4);
        assert!(lane.enter("root", true).is_some());
        drop(places);
        assert_eq!((lane.taken.load(Ordering::Relaxed), lane.active.load(Ordering::Relaxed)), (0, 0));
        assert!(lane.enter("a", false).is_some());
    }

    #[test]
    fn a_busy_user_leaves_room_for_others_once_they_come() {
        let lane = Lane::new(100, Gauge::default());
        let mut busy: Vec<_> = (0..90).filter_map(|_| lane.enter("busy", false)).collect();
        assert_eq!(busy.len(), 90);
        let _quiet = lane.enter("quiet", false).expect("room for another user");
        assert!(lane.enter("busy", false).is_none(), "more than an even share while the lane is crowded");
        busy.truncate(40);
        assert!(lane.enter("busy", false).is_some());
    }
}
