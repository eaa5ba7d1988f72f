use crate::caller::{Caller, MASTERS, Via};
use crate::flow::CallerHash;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio_util::sync::CancellationToken;

/// Limits open connections, so that nobody keeps others out by holding many. There are two limits: for connections
/// without a known caller, and for those of known callers. When one is exceeded, the oldest connection of that sort is
/// closed; among known callers it is the oldest of the user with the most connections, in the tenant with the most.
/// Front proxies, which connect for everybody, and masters are not counted. A proxy's connection that has become a
/// WebSocket serves one user alone, and counts as his.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    unauthenticated: usize,
    known: usize,
    hasher: RandomState,
    open: Mutex<OpenConnections>,
}

/// The token of each connection, cancelled when it must close. Numbers rise in the order of connecting.
type Connections = BTreeMap<u64, CancellationToken>;

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    unauthenticated: Connections,
    known: usize,
    /// By tenant and user.
    holders: HashMap<u64, HashMap<u64, Connections>>,
}

impl ConnectionLimiter {
    /// `connections` includes the `unauthenticated` ones, which are those without a known caller.
    pub(crate) fn new(connections: usize, unauthenticated: usize) -> Arc<Self> {
        let known = connections.saturating_sub(unauthenticated);
        Arc::new(Self {
            unauthenticated: unauthenticated.max(1),
            known: (known - known / 8).max(1),
            hasher: RandomState::new(),
            open: Mutex::default(),
        })
    }

    /// A slot for a new connection, whose caller is not known yet.
    pub(crate) fn acquire(self: &Arc<Self>) -> ConnectionSlot {
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        let evicted = CancellationToken::new();
        open.unauthenticated.insert(number, evicted.clone());
        if open.unauthenticated.len() > self.unauthenticated {
            evict_oldest(&mut open.unauthenticated);
        }
        ConnectionSlot {
            limiter: Arc::clone(self),
            number,
            evicted,
            holder: OnceLock::new(),
            user: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    fn insert(&mut self, number: u64, CallerHash { tenant, user }: CallerHash, evicted: &CancellationToken) {
        let users = self.holders.entry(tenant).or_default();
        users.entry(user).or_default().insert(number, evicted.clone());
        self.known += 1;
    }

    fn evict_from_largest_holder(&mut self) {
        let held = |users: &HashMap<u64, Connections>| users.values().map(BTreeMap::len).sum::<usize>();
        let tenant = self.holders.values_mut().max_by_key(|users| held(users));
        let user = tenant.and_then(|users| users.values_mut().max_by_key(|connections| connections.len()));
        if user.is_some_and(evict_oldest) {
            self.known -= 1;
        }
    }

    fn remove(&mut self, number: u64, CallerHash { tenant, user }: CallerHash) {
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

fn evict_oldest(connections: &mut Connections) -> bool {
    let first = connections.pop_first();
    first.map(|(_, evicted)| evicted.cancel()).is_some()
}

/// A connection's slot, held until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    evicted: CancellationToken,
    /// Whom it counts for, once the caller is known; `Some(None)` if the caller is not counted.
    holder: OnceLock<Option<CallerHash>>,
    /// The user of a front proxy's connection that was upgraded, and so serves only him.
    user: OnceLock<CallerHash>,
}

impl ConnectionSlot {
    /// Cancelled when the connection must close to make room for another.
    pub(crate) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Records the caller of the connection. Only the first call has an effect.
    pub(crate) fn set_caller(&self, caller: &Caller) {
        self.holder.get_or_init(|| {
            let mut open = self.limiter.lock();
            open.unauthenticated.remove(&self.number);
            if caller.via == Via::FrontProxy || caller.in_group(MASTERS) {
                return None;
            }
            Some(self.insert(&mut open, caller))
        });
    }

    /// Records that the connection serves only this caller from now on.
    pub(crate) fn note_upgrade(&self, caller: &Caller) {
        let is_counted = !matches!(self.holder.get(), Some(None));
        if is_counted || caller.via != Via::FrontProxy || caller.in_group(MASTERS) {
            return;
        }
        self.user.get_or_init(|| self.insert(&mut self.limiter.lock(), caller));
    }

    fn insert(&self, open: &mut OpenConnections, caller: &Caller) -> CallerHash {
        let holder = CallerHash::of(caller, &self.limiter.hasher);
        open.insert(self.number, holder, &self.evicted);
        if open.known > self.limiter.known {
            open.evict_from_largest_holder();
        }
        holder
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.limiter.lock();
        match self.holder.get() {
            None => drop(open.unauthenticated.remove(&self.number)),
            Some(None) => {}
            Some(Some(holder)) => open.remove(self.number, *holder),
        }
        if let Some(user) = self.user.get() {
            open.remove(self.number, *user);
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

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted.is_cancelled()
    }

    fn known(limiter: &Arc<ConnectionLimiter>, caller: &Caller) -> ConnectionSlot {
        let slot = limiter.acquire();
        slot.set_caller(caller);
        slot
    }

    fn is_empty(limiter: &ConnectionLimiter) -> bool {
        let open = limiter.lock();
        open.unauthenticated.is_empty() && open.holders.is_empty() && open.known == 0
    }

    #[test]
    fn the_longest_there_makes_room_and_who_is_known_is_no_stranger() {
        let limiter = ConnectionLimiter::new(100, 2);
        let [first, friend, third] = std::array::from_fn(|_| limiter.acquire());
        assert!(is_evicted(&first), "he came first");
        friend.set_caller(&user("alice", None));
        let fourth = limiter.acquire();
        assert!([&friend, &third, &fourth].iter().all(|slot| !is_evicted(slot)));
        drop((first, friend, third, fourth));
        assert!(is_empty(&limiter));
    }

    #[test]
    fn who_holds_most_makes_room_first_and_proxies_never() {
        let limiter = ConnectionLimiter::new(9, 1);
        let proxy = Caller { via: Via::FrontProxy, ..user("aggregator", None) };
        let root = Caller { groups: vec![MASTERS.to_owned()], ..user("root", None) };
        let uncounted: Vec<_> = [&proxy, &root].map(|caller| known(&limiter, caller)).into();
        let quiet = known(&limiter, &user("quiet", Some("small")));
        let colleague = known(&limiter, &user("colleague", Some("big")));
        let busy: Vec<_> = (0..20).map(|_| known(&limiter, &user("busy", Some("big")))).collect();
        let left = busy.iter().filter(|slot| !is_evicted(slot)).count();
        assert_eq!(left, 5, "seven places, of which others have two");
        assert!(busy.iter().rev().take(left).all(|slot| !is_evicted(slot)), "the longest there went");
        let crowd: Vec<_> =
            (0..20).map(|n| known(&limiter, &user(&format!("user-{n}"), Some("big")))).collect();
        assert!(crowd.iter().filter(|slot| !is_evicted(slot)).count() <= 6);
        assert!(!is_evicted(&quiet), "another tenant's");
        assert!(uncounted.iter().all(|slot| !is_evicted(slot)));
        let more = known(&limiter, &user("quiet", Some("small")));
        assert!(!is_evicted(&quiet) && !is_evicted(&more));
        drop((uncounted, quiet, colleague, busy, crowd, more));
        assert!(is_empty(&limiter));
    }

    #[test]
    fn what_a_proxy_has_upgraded_counts_as_its_users() {
        let limiter = ConnectionLimiter::new(9, 1);
        let by_proxy = |name, tenant| Caller { via: Via::FrontProxy, ..user(name, tenant) };
        let proxy = known(&limiter, &by_proxy("busy", Some("big")));
        let upgraded = |caller: &Caller| {
            let slot = known(&limiter, caller);
            slot.note_upgrade(caller);
            slot
        };
        let root = Caller { groups: vec![MASTERS.to_owned()], ..by_proxy("root", None) };
        let root = upgraded(&root);
        let busy: Vec<_> = (0..20).map(|_| upgraded(&by_proxy("busy", Some("big")))).collect();
        assert_eq!(busy.iter().filter(|slot| !is_evicted(slot)).count(), 7);
        let direct = upgraded(&user("busy", Some("big")));
        assert_eq!(busy.iter().filter(|slot| !is_evicted(slot)).count(), 6, "he is the same user");
        assert!([&proxy, &root, &direct].iter().all(|slot| !is_evicted(slot)));
        drop((proxy, root, busy, direct));
        assert!(is_empty(&limiter));
    }
}
