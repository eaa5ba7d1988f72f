use crate::caller::Caller;
use crate::seldom::Seldom;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the log is told of the same user who is refused.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Users who were told of lately, at most.
const TOLD_MAX: usize = 1024;

/// The class of requests that a request counts in.
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

/// The rank of a caller, as far as it is known when he comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Shares the places with everybody else.
    Ordinary,
    /// Has the reserve beside them, which he shares with the other operators.
    Operator,
    /// Is counted but never refused.
    Master,
}

/// A number of places. No tenant takes more than half of them. Once half of them are taken, no tenant takes more than
/// an even share. The shares are counted for one tenant more than there are, so the next tenant finds his share free.
/// The users of a tenant divide what it may have in the same way: evenly once half of it is taken. A user without a
/// tenant counts as a tenant of his own. A tenant without any place gets one even when all are taken, up to a quarter
/// more than there are. Operators have a quarter as many places of their own.
#[derive(Debug)]
pub(crate) struct Lane {
    limit: usize,
    hasher: RandomState,
    rooms: Mutex<Rooms>,
    shown: Gauge,
    /// Users who found no room.
    refused: Seldom<u64>,
}

#[derive(Debug, Default)]
struct Rooms {
    common: Taken,
    /// The operators'.
    reserve: Taken,
}

/// The part of the lane that a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Common,
    Reserve,
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

/// The tenant and user of a place.
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
        let refused = Seldom::new(TELL_EVERY, TOLD_MAX);
        Arc::new(Self { limit, hasher: RandomState::new(), rooms: Mutex::default(), shown, refused })
    }

    /// A place for a caller's request.
    pub(crate) fn enter(self: &Arc<Self>, caller: &Caller, rank: Rank) -> Option<LanePlace> {
        let holder = LaneHolder::of(caller, &self.hasher);
        let room = self.lock().take(holder, rank, self.limit)?;
        self.shown.inc();
        Some(LanePlace { lane: Arc::clone(self), room, holder })
    }

    /// Tells the log that a caller found no room, unless it was told of him just now. `class`: what he wanted it for.
    pub(crate) fn tell_refusal(&self, caller: &Caller, class: &str) {
        if let Some(left_out) = self.refusals_to_tell(caller) {
            let tenant = caller.tenant.as_deref().unwrap_or_default();
            tracing::warn!(user = caller.name, tenant, class, left_out, "there is no room for a caller");
        }
    }

    /// How often a caller found no room since the log was told last; `None` if it is not to be told again yet.
    fn refusals_to_tell(&self, caller: &Caller) -> Option<u64> {
        self.refused.left_out(LaneHolder::of(caller, &self.hasher).user)
    }

    /// How many places are taken.
    pub(crate) fn shown(&self) -> Gauge {
        self.shown.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    fn take(&mut self, holder: LaneHolder, rank: Rank, limit: usize) -> Option<Room> {
        if rank == Rank::Master || self.common.has_room(holder, limit) {
            self.common.take(holder);
            return Some(Room::Common);
        }
        let is_free = rank == Rank::Operator && self.reserve.has_room(holder, (limit / 4).max(1));
        is_free.then(|| {
            self.reserve.take(holder);
            Room::Reserve
        })
    }
}

impl Taken {
    fn take(&mut self, holder: LaneHolder) {
        self.all += 1;
        let own = self.users.entry(holder.user).or_default();
        *own += 1;
        let first = *own == 1;
        let share = self.tenants.entry(holder.tenant).or_default();
        share.places += 1;
        share.users += usize::from(first);
    }

    /// Whether one more place is fair.
    fn has_room(&self, holder: LaneHolder, limit: usize) -> bool {
        let own = self.users.get(&holder.user).copied().unwrap_or_default();
        let (places, users) =
            self.tenants.get(&holder.tenant).map_or((0, 0), |share| (share.places, share.users));
        if places == 0 {
            return self.all < limit + limit / 4;
        }
        let tenants = if self.all < limit / 2 { 2 } else { self.tenants.len() + 1 };
        let most = (limit / tenants).max(1);
        if own == 0 {
            return self.all < limit && places < most + most / 4;
        }
        let is_crowded = places >= most / 2;
        self.all < limit && places < most && (!is_crowded || own < (most / users.max(1)).max(1))
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
    room: Room,
    holder: LaneHolder,
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        let mut rooms = self.lane.lock();
        match self.room {
            Room::Common => rooms.common.give_back(self.holder),
            Room::Reserve => rooms.reserve.give_back(self.holder),
        }
        drop(rooms);
        self.lane.shown.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, tenant: Option<&str>) -> Caller {
        Caller { name: name.to_owned(), tenant: tenant.map(str::to_owned), ..Caller::default() }
    }

    /// Asks so many times. Returns the places that were given.
    fn enter(lane: &Arc<Lane>, caller: &Caller, times: usize) -> Vec<LanePlace> {
        (0..times).filter_map(|_| lane.enter(caller, Rank::Ordinary)).collect()
    }

    fn crowd(lane: &Arc<Lane>, tenant: Option<&str>, users: usize) -> Vec<LanePlace> {
        (0..users).filter_map(|n| lane.enter(&user(&format!("user-{n}"), tenant), Rank::Ordinary)).collect()
    }

    #[test]
    fn a_lane_is_full_a_quarter_beyond_its_limit_but_for_masters() {
        let lane = Lane::new(8, Gauge::default());
        let places = crowd(&lane, None, 20);
        assert_eq!(places.len(), 10);
        let root = lane.enter(&user("root", None), Rank::Master);
        assert!(root.is_some());
        drop((places, root));
        let rooms = lane.lock();
        let Taken { all, tenants, users } = &rooms.common;
        assert_eq!((*all, tenants.len(), users.len()), (0, 0, 0));
    }

    #[test]
    fn nobody_alone_takes_more_than_half_and_who_comes_next_finds_his_share() {
        let lane = Lane::new(100, Gauge::default());
        let busy = user("busy", None);
        let mut places = enter(&lane, &busy, 200);
        assert_eq!(places.len(), 50);
        let other = enter(&lane, &user("other", None), 200);
        assert_eq!(other.len(), 33, "one share of three");
        let third = enter(&lane, &user("third", None), 200);
        assert_eq!(third.len(), 17, "all that is free");
        let late = enter(&lane, &user("late", None), 200);
        assert_eq!(late.len(), 1, "who has none gets one all the same");
        places.truncate(20);
        assert!(enter(&lane, &busy, 1).is_empty(), "he has his share, of five");
        assert_eq!(enter(&lane, &user("late", None), 200).len(), 19);
    }

    #[test]
    fn many_users_of_one_tenant_leave_room_for_another_tenant() {
        let lane = Lane::new(100, Gauge::default());
        let big = crowd(&lane, Some("big"), 200);
        assert_eq!(big.len(), 62, "half, and a quarter more for users that have none");
        let alice = user("alice", Some("small"));
        assert_eq!(enter(&lane, &alice, 200).len(), 33);
    }

    #[test]
    fn a_user_who_has_taken_all_of_his_tenants_room_keeps_no_other_of_his_tenant_out() {
        let lane = Lane::new(100, Gauge::default());
        let (busy, quiet) = (user("busy", Some("t")), user("quiet", Some("t")));
        let mut places = enter(&lane, &busy, 200);
        assert_eq!(places.len(), 50);
        let first = enter(&lane, &quiet, 200);
        assert_eq!(first.len(), 1);
        let mut more = Vec::new();
        for (left, gets) in [(40, 9), (20, 15)] {
            places.truncate(left);
            let is_over = left > 25;
            assert_eq!(enter(&lane, &busy, 1).is_empty(), is_over, "what he gives up is the other one's");
            let given = enter(&lane, &quiet, 200);
            assert_eq!(given.len(), gets, "to half of the tenant's");
            more.extend(given);
        }
    }

    #[test]
    fn of_each_user_who_finds_no_room_the_log_is_told_once_in_a_while() {
        let lane = Lane::new(8, Gauge::default());
        let (busy, other) = (user("busy", Some("t")), user("other", Some("t")));
        let told = [&busy, &busy, &other].map(|caller| lane.refusals_to_tell(caller));
        assert_eq!(told, [Some(0), None, Some(0)]);
    }

    #[test]
    fn operators_have_places_that_nobody_else_gets_and_share_them() {
        let lane = Lane::new(40, Gauge::default());
        let everybody = crowd(&lane, None, 200);
        assert_eq!(everybody.len(), 50);
        let ask = |name: &str| -> Vec<LanePlace> {
            (0..20).filter_map(|_| lane.enter(&user(name, None), Rank::Operator)).collect()
        };
        let controller = ask("controller");
        assert_eq!(controller.len(), 5, "half of the reserve");
        let person = ask("person");
        assert_eq!(person.len(), 3);
        assert!(crowd(&lane, None, 200).is_empty());
        drop((everybody, controller, person));
        let rooms = lane.lock();
        assert_eq!((rooms.common.all, rooms.reserve.all), (0, 0));
    }

    #[test]
    fn equal_names_of_two_tenants_share_nothing() {
        let lane = Lane::new(8, Gauge::default());
        let alice = |tenant| user("alice", tenant);
        let places = enter(&lane, &alice(Some("t")), 8);
        assert_eq!(places.len(), 4);
        let other = enter(&lane, &alice(Some("u")), 8);
        assert_eq!(other.len(), 2);
        assert!(!enter(&lane, &alice(None), 1).is_empty(), "nor with somebody who has no tenant");
    }
}
