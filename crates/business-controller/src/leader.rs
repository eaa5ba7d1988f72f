//! Leader election by a Lease, and the fence that keeps a former leader's writes harmless.
//!
//! Only the holder of the lease reconciles. Losing it ends the process.

use crate::error::{Error, Failure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Name of the Lease.
pub const LEASE: &str = "business-controller";

/// The times of an election.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long a lease that is not renewed is respected.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How often a call is made.
    pub retry_period: Duration,
    /// Deadline of every write to a member cluster.
    pub write_deadline: Duration,
}

impl Times {
    /// Refuses times that do not keep a former leader's writes inside its lease.
    pub fn check(&self) -> Result<(), Error> {
        let ordered = self.retry_period < self.renew_deadline
            && self.renew_deadline < self.lease_duration
            && self.write_deadline < self.lease_duration
            && !self.retry_period.is_zero()
            && !self.write_deadline.is_zero();
        let message =
            "retry-period < renew-deadline < lease-duration and write-deadline < lease-duration must hold";
        if ordered { Ok(()) } else { Err(Error::Config(message.to_owned())) }
    }
}

/// What the holder of the lease may do at this moment.
#[derive(Debug)]
pub struct Fence {
    times: Times,
    state: Mutex<FenceState>,
}

#[derive(Debug, Default)]
struct FenceState {
    /// When the last renewal that succeeded was sent.
    renewed: Option<Instant>,
    /// Before this, a former leader's write may still arrive somewhere.
    confirm_after: Option<Instant>,
    /// When a write to a member cluster last ended without an answer.
    unknown: Option<Instant>,
}

impl Fence {
    /// A closed fence.
    pub fn new(times: Times) -> Self {
        Self { times, state: Mutex::default() }
    }

    /// Deadline of every write to a member cluster.
    pub fn write_deadline(&self) -> Duration {
        self.times.write_deadline
    }

    /// Leave to begin a write that ends before the lease does, whatever happens.
    pub fn permit(&self) -> Result<(), Error> {
        let state = self.lock();
        let Some(renewed) = state.renewed else { return Err(Error::NotLeading) };
        let last_start = renewed + self.times.lease_duration.saturating_sub(self.times.write_deadline);
        if Instant::now() < last_start { Ok(()) } else { Err(Error::NotLeading) }
    }

    /// Whether every write of a former leader has ended, so that what is seen in a member cluster can be relied
    /// on to stay. Else the time to wait.
    pub fn may_confirm(&self) -> Result<(), Duration> {
        until(self.lock().confirm_after)
    }

    /// A write to a member cluster ended without an answer: it may still happen for a while.
    pub fn outcome_unknown(&self) {
        self.lock().unknown = Some(Instant::now());
    }

    /// Whether the next leader may rely on all of our writes having ended.
    fn may_release(&self) -> bool {
        let state = self.lock();
        let unknown = state.unknown.map(|at| at + self.times.write_deadline);
        until(state.confirm_after).is_ok() && until(unknown).is_ok()
    }

    pub(crate) fn acquired(&self, sent: Instant, clean: bool) {
        let mut state = self.lock();
        state.renewed = Some(sent);
        let margin = self.times.lease_duration + self.times.write_deadline;
        state.confirm_after = (!clean).then(|| Instant::now() + margin);
    }

    pub(crate) fn renewed(&self, sent: Instant) {
        self.lock().renewed = Some(sent);
    }

    fn close(&self) {
        self.lock().renewed = None;
    }

    fn lock(&self) -> MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether that time has come; else how long it is until then.
pub(crate) fn until(time: Option<Instant>) -> Result<(), Duration> {
    match time.map(|time| time.saturating_duration_since(Instant::now())) {
        Some(wait) if !wait.is_zero() => Err(wait),
        _ => Ok(()),
    }
}

/// One candidate.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    identity: String,
    times: Times,
    fence: Arc<Fence>,
    /// No controller has ever worked here, so nobody's writes can be under way.
    virgin: bool,
    seen: Option<Seen>,
}

/// A state of the lease, and when it was first seen.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    at: Instant,
}

impl Elector {
    /// A candidate under this identity, which no other process may have. `virgin` says that no controller has
    /// ever worked here.
    pub fn new(api: Api<Lease>, identity: String, fence: Arc<Fence>, virgin: bool) -> Self {
        let times = fence.times;
        Self { api, identity, times, fence, virgin, seen: None }
    }

    /// Waits until the lease is ours.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(failure) => tracing::warn!(error = %failure, "cannot reach the lease"),
            }
            tokio::time::sleep(self.times.retry_period).await;
        }
    }

    /// Renews the lease until that has failed for too long or somebody else has it.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.times.renew_deadline {
            tokio::time::sleep(self.times.retry_period).await;
            let sent = Instant::now();
            match self.renew().await {
                Ok(true) => {
                    renewed = sent;
                    self.fence.renewed(sent);
                }
                Ok(false) => break,
                Err(failure) => tracing::warn!(error = %failure, "cannot renew the lease"),
            }
        }
        self.fence.close();
        tracing::error!("the lease is lost");
    }

    /// Gives the lease back, after every write has ended. With a write of unknown outcome it is left to run out.
    pub async fn release(&mut self) {
        let uncertain = !self.fence.may_release();
        self.fence.close();
        let Some(seen) = self.seen.clone().filter(|seen| self.is_ours(&seen.lease)) else { return };
        if uncertain {
            tracing::info!("the lease is left to run out: a former write may still be under way");
            return;
        }
        let mut lease = seen.lease;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(now());
        match self.replace(lease).await {
            Ok(()) => tracing::info!("lease released"),
            Err(failure) => tracing::warn!(error = %failure, "cannot release the lease"),
        }
    }

    async fn attempt(&mut self) -> Result<bool, Failure> {
        let sent = Instant::now();
        let Some(lease) = self.get().await? else {
            self.create().await?;
            self.fence.acquired(sent, self.virgin);
            tracing::info!(identity = self.identity, "leading, on a new lease");
            return Ok(true);
        };
        self.observe(&lease);
        let holder = holder(&lease);
        if !holder.is_empty() && holder != self.identity && !self.has_run_out() {
            return Ok(false);
        }
        let changes_hands = holder != self.identity;
        let clean = holder.is_empty();
        self.take(lease, changes_hands).await?;
        self.fence.acquired(sent, clean);
        tracing::info!(identity = self.identity, clean, "leading");
        Ok(true)
    }

    /// `false` when somebody else has it.
    async fn renew(&mut self) -> Result<bool, Failure> {
        let Some(seen) = self.seen.clone() else { return Ok(false) };
        match self.take(seen.lease, false).await {
            Ok(()) => return Ok(true),
            Err(Failure::NotFound) => return Ok(false),
            Err(Failure::Conflict(_)) => {}
            Err(failure) => return Err(failure),
        }
        // Somebody wrote in between: an edit of other fields is no loss of the lease.
        let Some(lease) = self.get().await? else { return Ok(false) };
        self.observe(&lease);
        if !self.is_ours(&lease) {
            return Ok(false);
        }
        self.take(lease, false).await.map(|()| true)
    }

    async fn get(&self) -> Result<Option<Lease>, Failure> {
        bounded(self.times.retry_period, self.api.get_opt(LEASE)).await
    }

    async fn create(&mut self) -> Result<(), Failure> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(seconds(self.times.lease_duration)),
                acquire_time: Some(now()),
                renew_time: Some(now()),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams::default();
        let lease = bounded(self.times.retry_period, self.api.create(&params, &lease)).await?;
        self.observe(&lease);
        Ok(())
    }

    async fn take(&mut self, mut lease: Lease, changes_hands: bool) -> Result<(), Failure> {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(seconds(self.times.lease_duration));
        spec.renew_time = Some(now());
        if changes_hands || spec.acquire_time.is_none() {
            spec.acquire_time = Some(now());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        self.replace(lease).await
    }

    async fn replace(&mut self, lease: Lease) -> Result<(), Failure> {
        let params = PostParams::default();
        let call = self.api.replace(LEASE, &params, &lease);
        let lease = bounded(self.times.retry_period, call).await?;
        self.observe(&lease);
        Ok(())
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        holder(lease) == self.identity
    }

    /// Remembers a state of the lease, with the time at which it was first seen: clocks are not compared.
    fn observe(&mut self, lease: &Lease) {
        let same = self.seen.as_ref().is_some_and(|seen| seen.lease.spec == lease.spec);
        let at = if same { self.seen.as_ref().map(|seen| seen.at) } else { None };
        self.seen = Some(Seen { lease: lease.clone(), at: at.unwrap_or_else(Instant::now) });
    }

    fn has_run_out(&self) -> bool {
        let Some(seen) = &self.seen else { return false };
        let stated =
            seen.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        let stated = Duration::from_secs(u64::try_from(stated).unwrap_or_default());
        seen.at.elapsed() > stated.max(Duration::from_secs(1))
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

/// A call that fails when it has not ended within the deadline.
async fn bounded<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(deadline, call).await {
        Ok(result) => result.map_err(Failure::from),
        Err(_elapsed) => Err(Failure::deadline(deadline)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        Times {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            write_deadline: Duration::from_secs(5),
        }
    }

    fn seconds_ago(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_write_is_begun_only_if_it_ends_within_the_lease() {
        let fence = Fence::new(times());
        assert!(fence.permit().is_err(), "nothing was acquired");
        fence.acquired(Instant::now(), true);
        assert!(fence.permit().is_ok());
        fence.renewed(seconds_ago(9));
        assert!(fence.permit().is_ok());
        fence.renewed(seconds_ago(10));
        assert!(fence.permit().is_err(), "a paused leader that wakes writes nothing");
    }

    #[test]
    fn a_new_leader_confirms_nothing_until_the_former_ones_writes_have_ended() {
        let fence = Fence::new(times());
        fence.acquired(Instant::now(), false);
        let wait = fence.may_confirm().unwrap_err();
        assert!(wait > Duration::from_secs(19) && wait <= Duration::from_secs(20), "{wait:?}");
        fence.acquired(Instant::now(), true);
        assert_eq!(fence.may_confirm(), Ok(()), "the lease was given back cleanly");
    }

    #[test]
    fn the_lease_is_not_given_back_while_an_own_write_may_still_happen() {
        let fence = Fence::new(times());
        fence.acquired(Instant::now(), true);
        assert!(fence.may_release());
        fence.outcome_unknown();
        assert!(!fence.may_release());
        fence.lock().unknown = Some(seconds_ago(5));
        assert!(fence.may_release());
    }

    #[test]
    fn times_that_do_not_contain_each_other_are_refused() {
        assert!(times().check().is_ok());
        assert!(Times { write_deadline: Duration::from_secs(15), ..times() }.check().is_err());
        assert!(Times { renew_deadline: Duration::from_secs(15), ..times() }.check().is_err());
        assert!(Times { retry_period: Duration::from_secs(10), ..times() }.check().is_err());
    }
}
