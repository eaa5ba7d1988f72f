use crate::caller::Caller;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Among which requests one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Counts nowhere and is never refused for lack of room: health, metrics, documents.
    Exempt,
    /// Changes nothing.
    Read,
    /// Changes something: goes into the audit log.
    Write,
    /// An answer that outlives every deadline, such as a watch.
    Stream,
}

/// How many requests may be under way at once, on one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that change nothing.
    pub reads: usize,
    /// Requests that change something.
    pub writes: usize,
    /// Watches.
    pub watches: usize,
    /// Reviews of tokens that were never good, and of what callers without credentials want.
    pub strangers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reads: 400, writes: 200, watches: 10_000, strangers: 32 }
    }
}

/// A number of places. While more than half of them are taken, no tenant holds more than an even share of them, and no
/// user more than an even share of his tenant's. Who has no tenant shares with nobody.
#[derive(Debug)]
pub(crate) struct Lane {
    limit: usize,
    hasher: RandomState,
    taken: Mutex<Taken>,
    shown: Gauge,
}

/// Places by those who hold some. Hashes of 64 bits with a secret key stand for names.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    tenants: HashMap<u64, Share>,
    users: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct Share {
    places: usize,
    /// Users of the tenant that hold a place.
    users: usize,
}

/// Whose place it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneHolder {
    pub(crate) tenant: u64,
    pub(crate) user: u64,
}

impl LaneHolder {
    pub(crate) fn of(caller: &Caller, hasher: &RandomState) -> Self {
        let tenant = caller.tenant.as_deref();
        let user = hasher.hash_one((tenant, &caller.name));
        Self { tenant: tenant.map_or(user, |tenant| hasher.hash_one(tenant)), user }
    }
}

impl Lane {
    pub(crate) fn new(limit: usize, shown: Gauge) -> Arc<Self> {
        Arc::new(Self { limit, hasher: RandomState::new(), taken: Mutex::default(), shown })
    }

    /// A place for a caller's request; `exempt` ones are counted but never refused.
    pub(crate) fn enter(self: &Arc<Self>, caller: &Caller, exempt: bool) -> Option<LanePlace> {
        let holder = LaneHolder::of(caller, &self.hasher);
        if !self.lock().take(holder, self.limit, exempt) {
            return None;
        }
        self.shown.inc();
        Some(LanePlace { lane: Arc::clone(self), holder })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn take(&mut self, holder: LaneHolder, limit: usize, exempt: bool) -> bool {
        if !exempt && !self.has_room(holder, limit) {
            return false;
        }
        self.all += 1;
        let own = self.users.entry(holder.user).or_default();
        *own += 1;
        let first = *own == 1;
        let share = self.tenants.entry(holder.tenant).or_default();
        share.places += 1;
        share.users += usize::from(first);
        true
    }

    /// Whether one more place is fair.
    fn has_room(&self, holder: LaneHolder, limit: usize) -> bool {
        if self.all >= limit {
            return false;
        }
        if self.all < limit / 2 {
            return true;
        }
        let own = self.users.get(&holder.user).copied().unwrap_or_default();
        let (places, users) =
            self.tenants.get(&holder.tenant).map_or((0, 0), |share| (share.places, share.users));
        let tenants = self.tenants.len() + usize::from(places == 0);
        let tenants_share = (limit / tenants).max(1);
        let users_share = (tenants_share / (users + usize::from(own == 0))).max(1);
        places < tenants_share && own < users_share
    }

    fn give_back(&mut self, holder: LaneHolder) {
        self.all -= 1;
        let mut last = false;
        if let Entry::Occupied(mut own) = self.users.entry(holder.user) {
            *own.get_mut() -= 1;
            last = *own.get() == 0;
            if last {
                own.remove();
            }
        }
        if let Entry::Occupied(mut share) = self.tenants.entry(holder.tenant) {
            share.get_mut().places -= 1;
            share.get_mut().users -= usize::from(last);
            if share.get().places == 0 {
                share.remove();
            }
        }
    }
}

/// A place in a lane, until it is dropped.
#[derive(Debug)]
pub(crate) struct LanePlace {
    lane: Arc<Lane>,
    holder: LaneHolder,
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        self.lane.lock().give_back(self.holder);
        self.lane.shown.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, tenant: Option<&str>) -> Caller {
        Caller { name: name.to_owned(), tenant: tenant.map(str::to_owned), ..Caller::default() }
    }

    #[test]
    fn a_lane_is_full_at_its_limit_but_for_the_exempt() {
        let lane = Lane::new(4, Gauge::default());
        let places: Vec<_> = (0..6).map(|_| lane.enter(&user("a", None), false)).collect();
        assert_eq!(places.iter().flatten().count(), 4);
        let root = lane.enter(&user("root", None), true);
        assert!(root.is_some());
        drop((places, root));
        let taken = lane.lock();
        assert_eq!((taken.all, taken.tenants.len(), taken.users.len()), (0, 0, 0));
    }

    #[test]
    fn a_busy_user_leaves_room_for_others_once_they_come() {
        let lane = Lane::new(100, Gauge::default());
        let busy = user("busy", None);
        let mut places: Vec<_> = (0..90).filter_map(|_| lane.enter(&busy, false)).collect();
        assert_eq!(places.len(), 90);
        let _quiet = lane.enter(&user("quiet", None), false).expect("room for another user");
        assert!(lane.enter(&busy, false).is_none(), "more than an even share while the lane is crowded");
        places.truncate(40);
        assert!(lane.enter(&busy, false).is_some());
    }

    #[test]
    fn many_users_of_one_tenant_leave_room_for_another_tenant() {
        let lane = Lane::new(100, Gauge::default());
        let crowd: Vec<_> =
            (0..100).filter_map(|n| lane.enter(&user(&format!("user-{n}"), Some("big")), false)).collect();
        assert_eq!(crowd.len(), 100);
        drop(crowd);
        let _one = lane.enter(&user("alice", Some("small")), false).unwrap();
        let crowd: Vec<_> =
            (0..100).filter_map(|n| lane.enter(&user(&format!("user-{n}"), Some("big")), false)).collect();
        assert_eq!(crowd.len(), 50, "two tenants, half of the places each");
        let small: Vec<_> =
            (0..30).filter_map(|_| lane.enter(&user("alice", Some("small")), false)).collect();
        assert_eq!(small.len(), 30);
    }

    #[test]
    fn equal_names_of_two_tenants_share_nothing() {
        let lane = Lane::new(4, Gauge::default());
        let alice = |tenant| user("alice", tenant);
        let mut places = Vec::new();
        for _ in 0..3 {
            places.extend(lane.enter(&alice(Some("t")), false));
        }
        assert_eq!(places.len(), 3);
        let other = lane.enter(&alice(Some("u")), false);
        assert!(other.is_some());
        places.truncate(1);
        assert!(lane.enter(&alice(None), false).is_some(), "nor with somebody who has no tenant");
    }
}
