use crate::caller::Caller;
use crate::log_throttle::LogThrottle;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shortest time between two log lines about the same rejected user.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How many rejected users are remembered for this.
const LOGGED_USERS_MAX: usize = 1024;
/// A stream takes one more permit for so many bytes of its caller, which it keeps in memory while it is open.
const CALLER_BYTES_PER_PERMIT: usize = 16 * 1024;

/// The in-flight limit that a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Counts against no limit and is never rejected with 429: health, metrics, documents.
    Exempt,
    /// Read-only.
    Read,
    /// Mutating: goes into the audit log.
    Write,
    /// A long-running request without a deadline, such as a watch.
    Stream,
}

/// How many requests may be in flight at once, on one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Read-only requests.
    pub reads: usize,
    /// Mutating requests.
    pub writes: usize,
    /// Watches.
    pub watches: usize,
    /// Reviews of tokens that were never valid, and access reviews for anonymous callers.
    pub unauthenticated_reviews: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reads: 400, writes: 200, watches: 10_000, unauthenticated_reviews: 32 }
    }
}

/// The priority of a caller, as far as it is known before kube-apiserver is asked about him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriorityLevel {
    /// Uses the common pool.
    Ordinary,
    /// Also uses the reserve, which he shares with the other operators.
    Operator,
    /// Is counted but never rejected.
    Master,
}

/// How many permits a stream of this caller takes.
pub(crate) fn stream_permits(caller: &Caller) -> usize {
    1 + caller.weight() / CALLER_BYTES_PER_PERMIT
}

/// A limit of requests in flight that tenants share fairly. No tenant holds more than half of the permits. Once half
/// of all permits are in use, a tenant holds at most an even share. The shares are computed for one tenant more than
/// there are, so that the share of the next tenant is free. The users of a tenant share its permits by the same rule:
/// evenly, once half of them are in use. A user without a tenant counts as a tenant of his own. A tenant without a
/// permit gets one even when all are in use, up to a quarter beyond the limit. Operators have a reserve, of a quarter
/// of the limit.
#[derive(Debug)]
pub(crate) struct InFlightLimiter {
    limit: usize,
    hasher: RandomState,
    pools: Mutex<Pools>,
    in_use: Gauge,
    /// Users who were rejected.
    rejections: LogThrottle<u64>,
}

#[derive(Debug, Default)]
struct Pools {
    common: PoolUsage,
    /// For operators only.
    reserve: PoolUsage,
}

/// The pool that a permit is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Common,
    Reserve,
}

/// The permits of a pool that are in use, by tenant and by user (see [`CallerHash`]).
#[derive(Debug, Default)]
struct PoolUsage {
    total: usize,
    tenants: ByHash<TenantUsage>,
    users: ByHash<usize>,
}

#[derive(Debug, Default)]
struct TenantUsage {
    held: usize,
    /// Users of the tenant that hold a permit.
    users: usize,
}

/// A map by the hashes of [`CallerHash`], which need not be hashed again.
type ByHash<V> = HashMap<u64, V, BuildHasherDefault<SameHash>>;

/// The hash of a hash: itself.
#[derive(Debug, Default)]
struct SameHash(u64);

impl Hasher for SameHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A caller's tenant and user, as hashes of 64 bits with a secret key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerHash {
    pub(crate) tenant: u64,
    pub(crate) user: u64,
}

impl CallerHash {
    pub(crate) fn of(caller: &Caller, hasher: &RandomState) -> Self {
        let tenant = caller.tenant.as_deref();
        let user = hasher.hash_one((tenant, &caller.name));
        Self { tenant: tenant.map_or(user, |tenant| hasher.hash_one(tenant)), user }
    }
}

impl InFlightLimiter {
    pub(crate) fn new(limit: usize, in_use: Gauge) -> Arc<Self> {
        let rejections = LogThrottle::new(LOG_INTERVAL, LOGGED_USERS_MAX);
        Arc::new(Self { limit, hasher: RandomState::new(), pools: Mutex::default(), in_use, rejections })
    }

    /// A permit for a caller's request; `None` if the limit is reached for him.
    pub(crate) fn try_acquire(
        self: &Arc<Self>,
        caller: &Caller,
        priority: PriorityLevel,
    ) -> Option<InFlightPermit> {
        self.try_acquire_many(caller, priority, 1)
    }

    /// This many permits for a caller's request; `None` if the limit is reached for him. They may exceed it, if one is
    /// left.
    pub(crate) fn try_acquire_many(
        self: &Arc<Self>,
        caller: &Caller,
        priority: PriorityLevel,
        permits: usize,
    ) -> Option<InFlightPermit> {
        let caller_hash = CallerHash::of(caller, &self.hasher);
        let pool = self.lock().acquire(caller_hash, priority, self.limit, permits)?;
        self.in_use.inc();
        Some(InFlightPermit { limiter: Arc::clone(self), pool, caller_hash, permits })
    }

    /// Logs that a caller was rejected, unless that was logged a moment ago. `class` says what he asked a permit for.
    pub(crate) fn log_rejection(&self, caller: &Caller, class: &str) {
        if let Some(suppressed) = self.suppressed_rejections(caller) {
            let tenant = caller.tenant.as_deref().unwrap_or_default();
            tracing::warn!(
                user = caller.name,
                tenant,
                class,
                left_out = suppressed,
                "there is no room for a caller"
            );
        }
    }

    /// How many rejections of a caller were not logged since the last log line; `None` if it is too early for another.
    fn suppressed_rejections(&self, caller: &Caller) -> Option<u64> {
        self.rejections.try_log(CallerHash::of(caller, &self.hasher).user)
    }

    /// The number of permits in use.
    pub(crate) fn in_use(&self) -> Gauge {
        self.in_use.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    fn acquire(
        &mut self,
        caller_hash: CallerHash,
        priority: PriorityLevel,
        limit: usize,
        permits: usize,
    ) -> Option<Pool> {
        if priority == PriorityLevel::Master || self.common.has_capacity(caller_hash, limit) {
            self.common.acquire(caller_hash, permits);
            return Some(Pool::Common);
        }
        let is_free =
            priority == PriorityLevel::Operator && self.reserve.has_capacity(caller_hash, (limit / 4).max(1));
        is_free.then(|| {
            self.reserve.acquire(caller_hash, permits);
            Pool::Reserve
        })
    }
}

impl PoolUsage {
    fn acquire(&mut self, caller_hash: CallerHash, permits: usize) {
        self.total += permits;
        let own = self.users.entry(caller_hash.user).or_default();
        let first = *own == 0;
        *own += permits;
        let share = self.tenants.entry(caller_hash.tenant).or_default();
        share.held += permits;
        share.users += usize::from(first);
    }

    /// Whether the caller may hold one more permit.
    fn has_capacity(&self, caller_hash: CallerHash, limit: usize) -> bool {
        let own = self.users.get(&caller_hash.user).copied().unwrap_or_default();
        let (held, users) =
            self.tenants.get(&caller_hash.tenant).map_or((0, 0), |share| (share.held, share.users));
        if held == 0 {
            return self.total < limit + limit / 4;
        }
        let tenants = if self.total < limit / 2 { 2 } else { self.tenants.len() + 1 };
        let most = (limit / tenants).max(1);
        if own == 0 {
            return self.total < limit && held < most + most / 4;
        }
        let is_crowded = held >= most / 2;
        self.total < limit && held < most && (!is_crowded || own < (most / users.max(1)).max(1))
    }

    fn release(&mut self, caller_hash: CallerHash, permits: usize) {
        self.total -= permits;
        let mut last = false;
        if let Entry::Occupied(mut own) = self.users.entry(caller_hash.user) {
            *own.get_mut() -= permits;
            last = *own.get() == 0;
            if last {
                own.remove();
            }
        }
        if let Entry::Occupied(mut share) = self.tenants.entry(caller_hash.tenant) {
            share.get_mut().held -= permits;
            share.get_mut().users -= usize::from(last);
            if share.get().held == 0 {
                share.remove();
            }
        }
    }
}

/// The permits of a request, held until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit {
    limiter: Arc<InFlightLimiter>,
    pool: Pool,
    caller_hash: CallerHash,
    permits: usize,
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let mut pools = self.limiter.lock();
        match self.pool {
            Pool::Common => pools.common.release(self.caller_hash, self.permits),
            Pool::Reserve => pools.reserve.release(self.caller_hash, self.permits),
        }
        drop(pools);
        self.limiter.in_use.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, tenant: Option<&str>) -> Caller {
        Caller { name: name.to_owned(), tenant: tenant.map(str::to_owned), ..Caller::default() }
    }

    /// Asks so many times. Returns the permits that were given.
    fn acquire_up_to(limiter: &Arc<InFlightLimiter>, caller: &Caller, times: usize) -> Vec<InFlightPermit> {
        (0..times).filter_map(|_| limiter.try_acquire(caller, PriorityLevel::Ordinary)).collect()
    }

    fn crowd(limiter: &Arc<InFlightLimiter>, tenant: Option<&str>, users: usize) -> Vec<InFlightPermit> {
        (0..users)
            .filter_map(|n| limiter.try_acquire(&user(&format!("user-{n}"), tenant), PriorityLevel::Ordinary))
            .collect()
    }

    #[test]
    fn a_lane_is_full_a_quarter_beyond_its_limit_but_for_masters() {
        let limiter = InFlightLimiter::new(8, Gauge::default());
        let held = crowd(&limiter, None, 20);
        assert_eq!(held.len(), 10);
        let root = limiter.try_acquire(&user("root", None), PriorityLevel::Master);
        assert!(root.is_some());
        drop((held, root));
        let pools = limiter.lock();
        let PoolUsage { total, tenants, users } = &pools.common;
        assert_eq!((*total, tenants.len(), users.len()), (0, 0, 0));
    }

    #[test]
    fn nobody_alone_takes_more_than_half_and_who_comes_next_finds_his_share() {
        let limiter = InFlightLimiter::new(100, Gauge::default());
        let busy = user("busy", None);
        let mut held = acquire_up_to(&limiter, &busy, 200);
        assert_eq!(held.len(), 50);
        let other = acquire_up_to(&limiter, &user("other", None), 200);
        assert_eq!(other.len(), 33, "one share of three");
        let third = acquire_up_to(&limiter, &user("third", None), 200);
        assert_eq!(third.len(), 17, "all that is free");
        let late = acquire_up_to(&limiter, &user("late", None), 200);
        assert_eq!(late.len(), 1, "who has none gets one all the same");
        held.truncate(20);
        assert!(acquire_up_to(&limiter, &busy, 1).is_empty(), "he has his share, of five");
        assert_eq!(acquire_up_to(&limiter, &user("late", None), 200).len(), 19);
    }

    #[test]
    fn streams_of_a_caller_who_takes_much_memory_take_more_permits() {
        let groups = (0..1000).map(|number| format!("acme:{number}")).collect();
        let heavy = Caller { groups, ..user("heavy", Some("big")) };
        let permits = stream_permits(&heavy);
        assert_eq!((permits, stream_permits(&user("light", None))), (4, 1), "55 KiB");

        let limiter = InFlightLimiter::new(100, Gauge::default());
        let acquire = || limiter.try_acquire_many(&heavy, PriorityLevel::Ordinary, permits);
        let held: Vec<_> = (0..100).filter_map(|_| acquire()).collect();
        assert_eq!(held.len(), 13, "the last one began with two left of his 50");
        let other = acquire_up_to(&limiter, &user("other", Some("small")), 100);
        assert_eq!(other.len(), 33);
        drop((held, other));
        let pools = limiter.lock();
        let PoolUsage { total, tenants, users } = &pools.common;
        assert_eq!((*total, tenants.len(), users.len()), (0, 0, 0));
    }

    #[test]
    fn many_users_of_one_tenant_leave_room_for_another_tenant() {
        let limiter = InFlightLimiter::new(100, Gauge::default());
        let big = crowd(&limiter, Some("big"), 200);
        assert_eq!(big.len(), 62, "half, and a quarter more for users that have none");
        let alice = user("alice", Some("small"));
        assert_eq!(acquire_up_to(&limiter, &alice, 200).len(), 33);
    }

    #[test]
    fn a_user_who_has_taken_all_of_his_tenants_room_keeps_no_other_of_his_tenant_out() {
        let limiter = InFlightLimiter::new(100, Gauge::default());
        let (busy, quiet) = (user("busy", Some("t")), user("quiet", Some("t")));
        let mut held = acquire_up_to(&limiter, &busy, 200);
        assert_eq!(held.len(), 50);
        let first = acquire_up_to(&limiter, &quiet, 200);
        assert_eq!(first.len(), 1);
        let mut more = Vec::new();
        for (left, gets) in [(40, 9), (20, 15)] {
            held.truncate(left);
            let is_over = left > 25;
            assert_eq!(
                acquire_up_to(&limiter, &busy, 1).is_empty(),
                is_over,
                "what he gives up is the other one's"
            );
            let given = acquire_up_to(&limiter, &quiet, 200);
            assert_eq!(given.len(), gets, "to half of the tenant's");
            more.extend(given);
        }
    }

    #[test]
    fn of_each_user_who_finds_no_room_the_log_is_told_once_in_a_while() {
        let limiter = InFlightLimiter::new(8, Gauge::default());
        let (busy, other) = (user("busy", Some("t")), user("other", Some("t")));
        let logged = [&busy, &busy, &other].map(|caller| limiter.suppressed_rejections(caller));
        assert_eq!(logged, [Some(0), None, Some(0)]);
    }

    #[test]
    fn operators_have_places_that_nobody_else_gets_and_share_them() {
        let limiter = InFlightLimiter::new(40, Gauge::default());
        let everybody = crowd(&limiter, None, 200);
        assert_eq!(everybody.len(), 50);
        let ask = |name: &str| -> Vec<InFlightPermit> {
            (0..20).filter_map(|_| limiter.try_acquire(&user(name, None), PriorityLevel::Operator)).collect()
        };
        let controller = ask("controller");
        assert_eq!(controller.len(), 5, "half of the reserve");
        let person = ask("person");
        assert_eq!(person.len(), 3);
        assert!(crowd(&limiter, None, 200).is_empty());
        drop((everybody, controller, person));
        let pools = limiter.lock();
        assert_eq!((pools.common.total, pools.reserve.total), (0, 0));
    }

    #[test]
    fn equal_names_of_two_tenants_share_nothing() {
        let limiter = InFlightLimiter::new(8, Gauge::default());
        let alice = |tenant| user("alice", tenant);
        let held = acquire_up_to(&limiter, &alice(Some("t")), 8);
        assert_eq!(held.len(), 4);
        let other = acquire_up_to(&limiter, &alice(Some("u")), 8);
        assert_eq!(other.len(), 2);
        assert!(!acquire_up_to(&limiter, &alice(None), 1).is_empty(), "nor with somebody who has no tenant");
    }
}
