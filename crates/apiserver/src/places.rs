use crate::caller::{Caller, MASTERS, Via};
use crate::flow::LaneHolder;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio_util::sync::CancellationToken;

/// The places of open connections. The connections without a known caller have a limit, and so have those of all
/// known callers. When all places of one sort are taken, the oldest connection makes room; among known callers it is
/// the oldest of the user with the most, in the tenant with the most. So nobody keeps out others by holding
/// connections. Front proxies, which come for everybody, and masters are not counted. A proxy's connection that has
/// become a WebSocket is its user's alone, and counts as his.
#[derive(Debug)]
pub(crate) struct Places {
    strangers: usize,
    known: usize,
    hasher: RandomState,
    taken: Mutex<Taken>,
}

/// In the order in which they came.
type Connections = BTreeMap<u64, CancellationToken>;

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    strangers: Connections,
    known: usize,
    /// By tenant and user.
    holders: HashMap<u64, HashMap<u64, Connections>>,
}

impl Places {
    /// For so many connections, so many of them without a known caller.
    pub(crate) fn new(connections: usize, strangers: usize) -> Arc<Self> {
        let known = connections.saturating_sub(strangers);
        Arc::new(Self {
            strangers: strangers.max(1),
            known: (known - known / 8).max(1),
            hasher: RandomState::new(),
            taken: Mutex::default(),
        })
    }

    /// A place for a new connection.
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        let mut taken = self.lock();
        let number = taken.next;
        taken.next += 1;
        let displaced = CancellationToken::new();
        taken.strangers.insert(number, displaced.clone());
        if taken.strangers.len() > self.strangers {
            displace_first(&mut taken.strangers);
        }
        Place { places: Arc::clone(self), number, displaced, holder: OnceLock::new(), user: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn count(&mut self, number: u64, LaneHolder { tenant, user }: LaneHolder, displaced: &CancellationToken) {
        let users = self.holders.entry(tenant).or_default();
        users.entry(user).or_default().insert(number, displaced.clone());
        self.known += 1;
    }

    fn displace_most(&mut self) {
        let held = |users: &HashMap<u64, Connections>| users.values().map(BTreeMap::len).sum::<usize>();
        let tenant = self.holders.values_mut().max_by_key(|users| held(users));
        let user = tenant.and_then(|users| users.values_mut().max_by_key(|connections| connections.len()));
        if user.is_some_and(displace_first) {
            self.known -= 1;
        }
    }

    fn leave(&mut self, number: u64, LaneHolder { tenant, user }: LaneHolder) {
        let Some(users) = self.holders.get_mut(&tenant) else { return };
        let Some(connections) = users.get_mut(&user) else { return };
        if connections.remove(&number).is_some() {
            self.known -= 1;
        }
        if connections.is_empty() {
            users.remove(&user);
        }
        if users.is_empty() {
            self.holders.remove(&tenant);
        }
    }
}

fn displace_first(connections: &mut Connections) -> bool {
    let first = connections.pop_first();
    first.map(|(_, displaced)| displaced.cancel()).is_some()
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    displaced: CancellationToken,
    /// Its holder, once the caller is known; none if the caller is not counted.
    holder: OnceLock<Option<LaneHolder>>,
    /// The user of a front proxy's connection, once it serves only him.
    user: OnceLock<LaneHolder>,
}

impl Place {
    /// Cancelled when somebody else gets the place.
    pub(crate) fn displaced(&self) -> CancellationToken {
        self.displaced.clone()
    }

    /// Notes the caller at the other end; the first one counts.
    pub(crate) fn known(&self, caller: &Caller) {
        self.holder.get_or_init(|| {
            let mut taken = self.places.lock();
            taken.strangers.remove(&self.number);
            if caller.via == Via::FrontProxy || caller.in_group(MASTERS) {
                return None;
            }
            Some(self.count(&mut taken, caller))
        });
    }

    /// Notes that only this caller is served over the connection from now on.
    pub(crate) fn upgraded(&self, caller: &Caller) {
        let is_counted = !matches!(self.holder.get(), Some(None));
        if is_counted || caller.via != Via::FrontProxy || caller.in_group(MASTERS) {
            return;
        }
        self.user.get_or_init(|| self.count(&mut self.places.lock(), caller));
    }

    fn count(&self, taken: &mut Taken, caller: &Caller) -> LaneHolder {
        let holder = LaneHolder::of(caller, &self.places.hasher);
        taken.count(self.number, holder, &self.displaced);
        if taken.known > self.places.known {
            taken.displace_most();
        }
        holder
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        match self.holder.get() {
            None => drop(taken.strangers.remove(&self.number)),
            Some(None) => {}
            Some(Some(holder)) => taken.leave(self.number, *holder),
        }
        if let Some(user) = self.user.get() {
            taken.leave(self.number, *user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, tenant: Option<&str>) -> Caller {
        let tenant = tenant.map(str::to_owned);
        Caller { name: name.to_owned(), tenant, via: Via::Jwt, ..Caller::default() }
    }

    fn is_displaced(place: &Place) -> bool {
        place.displaced.is_cancelled()
    }

    fn known(places: &Arc<Places>, caller: &Caller) -> Place {
        let place = places.enter();
        place.known(caller);
        place
    }

    fn is_empty(places: &Places) -> bool {
        let taken = places.lock();
        taken.strangers.is_empty() && taken.holders.is_empty() && taken.known == 0
    }

    #[test]
    fn the_longest_there_makes_room_and_who_is_known_is_no_stranger() {
        let places = Places::new(100, 2);
        let [first, friend, third] = std::array::from_fn(|_| places.enter());
        assert!(is_displaced(&first), "he came first");
        friend.known(&user("alice", None));
        let fourth = places.enter();
        assert!([&friend, &third, &fourth].iter().all(|place| !is_displaced(place)));
        drop((first, friend, third, fourth));
        assert!(is_empty(&places));
    }

    #[test]
    fn who_holds_most_makes_room_first_and_proxies_never() {
        let places = Places::new(9, 1);
        let proxy = Caller { via: Via::FrontProxy, ..user("aggregator", None) };
        let root = Caller { groups: vec![MASTERS.to_owned()], ..user("root", None) };
        let uncounted: Vec<_> = [&proxy, &root].map(|caller| known(&places, caller)).into();
        let quiet = known(&places, &user("quiet", Some("small")));
        let colleague = known(&places, &user("colleague", Some("big")));
        let busy: Vec<_> = (0..20).map(|_| known(&places, &user("busy", Some("big")))).collect();
        let left = busy.iter().filter(|place| !is_displaced(place)).count();
        assert_eq!(left, 5, "seven places, of which others have two");
        assert!(busy.iter().rev().take(left).all(|place| !is_displaced(place)), "the longest there went");
        let crowd: Vec<_> =
            (0..20).map(|n| known(&places, &user(&format!("user-{n}"), Some("big")))).collect();
        assert!(crowd.iter().filter(|place| !is_displaced(place)).count() <= 6);
        assert!(!is_displaced(&quiet), "another tenant's");
        assert!(uncounted.iter().all(|place| !is_displaced(place)));
        let more = known(&places, &user("quiet", Some("small")));
        assert!(!is_displaced(&quiet) && !is_displaced(&more));
        drop((uncounted, quiet, colleague, busy, crowd, more));
        assert!(is_empty(&places));
    }

    #[test]
    fn what_a_proxy_has_upgraded_counts_as_its_users() {
        let places = Places::new(9, 1);
        let by_proxy = |name, tenant| Caller { via: Via::FrontProxy, ..user(name, tenant) };
        let proxy = known(&places, &by_proxy("busy", Some("big")));
        let upgraded = |caller: &Caller| {
            let place = known(&places, caller);
            place.upgraded(caller);
            place
        };
        let root = Caller { groups: vec![MASTERS.to_owned()], ..by_proxy("root", None) };
        let root = upgraded(&root);
        let busy: Vec<_> = (0..20).map(|_| upgraded(&by_proxy("busy", Some("big")))).collect();
        assert_eq!(busy.iter().filter(|place| !is_displaced(place)).count(), 7);
        let direct = upgraded(&user("busy", Some("big")));
        assert_eq!(busy.iter().filter(|place| !is_displaced(place)).count(), 6, "he is the same user");
        assert!([&proxy, &root, &direct].iter().all(|place| !is_displaced(place)));
        drop((proxy, root, busy, direct));
        assert!(is_empty(&places));
    }
}
