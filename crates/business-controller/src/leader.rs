//! Leader election by a Lease, and the fence that keeps a former leader's writes harmless.
//!
//! Only the holder of the lease reconciles. Losing it ends the process.

use crate::error::{CallFailure, Error};
use crate::seal::keeper::SECRET;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
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
    /// When the last renewal that succeeded was sent; none while the lease is not ours.
    renewed: watch::Sender<Option<Instant>>,
    /// Somebody waits for a renewal.
    wanted: Notify,
    /// Before this, a former leader's write may still arrive somewhere.
    confirm_after: Mutex<Option<Instant>>,
    /// To any member cluster.
    writes: OpenWrites,
    /// By the uid of the cluster.
    clusters: Mutex<HashMap<String, Arc<OpenWrites>>>,
}

impl Fence {
    /// A closed fence.
    pub fn new(times: Times) -> Self {
        Self {
            times,
            renewed: watch::Sender::default(),
            wanted: Notify::new(),
            confirm_after: Mutex::default(),
            writes: OpenWrites::default(),
            clusters: Mutex::default(),
        }
    }

    /// Deadline of every write to a member cluster.
    pub fn write_deadline(&self) -> Duration {
        self.times.write_deadline
    }

    /// Leave to begin a write that ends before the lease does, whatever happens.
    pub fn permit(&self) -> Result<(), Error> {
        let Some(renewed) = *self.renewed.borrow() else { return Err(Error::NotLeading) };
        let last_start = renewed + self.times.lease_duration.saturating_sub(self.times.write_deadline);
        if Instant::now() < last_start { Ok(()) } else { Err(Error::NotLeading) }
    }

    /// The writes to a cluster.
    pub fn writes_to(&self, uid: &str) -> Arc<OpenWrites> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(clusters.entry(uid.to_owned()).or_default())
    }

    /// Leave to begin a write to a member cluster, which counts as under way from now on.
    pub fn begin_write<'a>(&'a self, member: &'a OpenWrites) -> Result<OpenWrite<'a>, Error> {
        self.permit()?;
        self.writes.begin();
        member.begin();
        Ok(OpenWrite { all: &self.writes, member, answered: false })
    }

    /// Whether no write to a member cluster can happen any more that is not seen yet, neither a former leader's nor
    /// one of ours without an answer. Else the time to wait.
    pub fn may_confirm(&self, member: &OpenWrites) -> Result<(), Duration> {
        self.former_leaders_have_ended()?;
        member.have_ended(self.times.write_deadline)
    }

    /// Whether no former leader's write can arrive anywhere any more. Else the time to wait.
    pub fn former_leaders_have_ended(&self) -> Result<(), Duration> {
        until(*self.confirm_after.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the lease was renewed by a call that was sent after this one: what was recorded before is seen by
    /// every later leader.
    pub async fn renewed_from_now_on(&self) {
        let begun = Instant::now();
        let mut renewed = self.renewed.subscribe();
        self.wanted.notify_one();
        // The sender lives as long as the fence.
        drop(renewed.wait_for(|sent| sent.is_some_and(|sent| sent >= begun)).await);
    }

    /// Whether the next leader may rely on all of our writes having ended.
    fn may_release(&self) -> bool {
        self.former_leaders_have_ended().is_ok()
            && self.writes.none_is_open()
            && self.writes.have_ended(self.times.write_deadline).is_ok()
    }

    pub(crate) fn acquired(&self, sent: Instant, clean: bool) {
        let margin = self.times.lease_duration + self.times.write_deadline;
        let confirm_after = (!clean).then(|| Instant::now() + margin);
        *self.confirm_after.lock().unwrap_or_else(PoisonError::into_inner) = confirm_after;
        self.renewed(sent);
    }

    pub(crate) fn renewed(&self, sent: Instant) {
        self.renewed.send_replace(Some(sent));
    }

    fn close(&self) {
        self.renewed.send_replace(None);
    }
}

/// Writes that are under way, or may be.
#[derive(Debug, Default)]
pub struct OpenWrites {
    open: AtomicUsize,
    /// When a write last ended without an answer.
    unanswered: Mutex<Option<Instant>>,
}

impl OpenWrites {
    fn begin(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self, answered: bool) {
        if !answered {
            *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn none_is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }

    /// Whether none that was given up may still happen. Else the time to wait.
    fn have_ended(&self, deadline: Duration) -> Result<(), Duration> {
        let unanswered = *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        until(unanswered.map(|at| at + deadline))
    }
}

/// A write to a member cluster. Dropped without an answer, it may still happen until its deadline has passed.
#[derive(Debug)]
pub struct OpenWrite<'a> {
    all: &'a OpenWrites,
    member: &'a OpenWrites,
    answered: bool,
}

impl OpenWrite<'_> {
    /// The cluster has said what became of it.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for OpenWrite<'_> {
    fn drop(&mut self) {
        self.member.end(self.answered);
        self.all.end(self.answered);
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
    leases: Api<Lease>,
    secrets: Api<Secret>,
    identity: String,
    times: Times,
    fence: Arc<Fence>,
    seen: Option<LeaseSight>,
}

/// A state of the lease, and when it was first seen.
#[derive(Clone, Debug)]
struct LeaseSight {
    lease: Lease,
    at: Instant,
}

impl Elector {
    /// A candidate in this namespace under this identity, which no other process may have.
    pub fn new(client: Client, namespace: &str, identity: String, fence: Arc<Fence>) -> Self {
        let (leases, secrets) =
            (Api::namespaced(client.clone(), namespace), Api::namespaced(client, namespace));
        Self { leases, secrets, identity, times: fence.times, fence, seen: None }
    }

    /// Whether kube-apiserver answers.
    pub async fn reach(&self) -> Result<(), CallFailure> {
        self.get().await.map(drop)
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
            tokio::select! {
                () = tokio::time::sleep(self.times.retry_period) => {}
                () = self.fence.wanted.notified() => {}
            }
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

    async fn attempt(&mut self) -> Result<bool, CallFailure> {
        let sent = Instant::now();
        let Some(lease) = self.get().await? else {
            self.create().await?;
            // Asked after the lease was made: a leader of a former lease that has recorded anything is seen now, and
            // one that does so later finds that it has lost its lease before it writes.
            let clean = self.is_untouched_ground().await;
            self.fence.acquired(sent, clean);
            tracing::info!(identity = self.identity, clean, "leading, on a new lease");
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
    async fn renew(&mut self) -> Result<bool, CallFailure> {
        let Some(seen) = self.seen.clone() else { return Ok(false) };
        match self.take(seen.lease, false).await {
            Ok(()) => return Ok(true),
            Err(CallFailure::NotFound) => return Ok(false),
            Err(CallFailure::Conflict(_)) => {}
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

    /// Whether no controller has ever worked here: each has a key of seals before it writes to a cluster.
    async fn is_untouched_ground(&self) -> bool {
        let record = bounded(self.times.retry_period, self.secrets.get_metadata_opt(SECRET)).await;
        matches!(record, Ok(None))
    }

    async fn get(&self) -> Result<Option<Lease>, CallFailure> {
        bounded(self.times.retry_period, self.leases.get_opt(LEASE)).await
    }

    async fn create(&mut self) -> Result<(), CallFailure> {
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
        let lease = bounded(self.times.retry_period, self.leases.create(&params, &lease)).await?;
        self.observe(&lease);
        Ok(())
    }

    async fn take(&mut self, mut lease: Lease, changes_hands: bool) -> Result<(), CallFailure> {
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

    async fn replace(&mut self, lease: Lease) -> Result<(), CallFailure> {
        let params = PostParams::default();
        let call = self.leases.replace(LEASE, &params, &lease);
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
        self.seen = Some(LeaseSight { lease: lease.clone(), at: at.unwrap_or_else(Instant::now) });
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
) -> Result<T, CallFailure> {
    match tokio::time::timeout(deadline, call).await {
        Ok(result) => result.map_err(CallFailure::from),
        Err(_elapsed) => Err(CallFailure::deadline(deadline)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::server::Server;
    use serde_json::json;

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
        let (fence, member) = (Fence::new(times()), OpenWrites::default());
        fence.acquired(Instant::now(), false);
        let wait = fence.may_confirm(&member).unwrap_err();
        assert!(wait > Duration::from_secs(19) && wait <= Duration::from_secs(20), "{wait:?}");
        fence.acquired(Instant::now(), true);
        assert_eq!(fence.may_confirm(&member), Ok(()), "the lease was given back cleanly");
    }

    #[test]
    fn a_write_that_is_given_up_may_still_happen_until_its_deadline() {
        let (fence, member, other) = (Fence::new(times()), OpenWrites::default(), OpenWrites::default());
        fence.acquired(Instant::now(), true);
        fence.begin_write(&member).unwrap().answered();
        assert!(fence.may_confirm(&member).is_ok() && fence.may_release());
        let open = fence.begin_write(&member).unwrap();
        assert!(!fence.may_release(), "it is under way");
        drop(open);
        assert!(!fence.may_release(), "it may still happen");
        assert!(fence.may_confirm(&member).is_err() && fence.may_confirm(&other).is_ok());
        for writes in [&member, &fence.writes] {
            *writes.unanswered.lock().unwrap() = Some(seconds_ago(5));
        }
        assert!(fence.may_confirm(&member).is_ok() && fence.may_release());
    }

    fn candidate(server: &Server, identity: &str) -> Elector {
        let fence = Arc::new(Fence::new(times()));
        Elector::new(server.client(), "tke-business", identity.to_owned(), fence)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_vanished_does_not_make_its_next_holder_believe_that_nobody_has_worked() {
        let server = Server::default();
        let (mut first, mut second) = (candidate(&server, "first"), candidate(&server, "second"));
        second.reach().await.unwrap();
        first.acquire().await;
        let none = OpenWrites::default();
        assert_eq!(first.fence.may_confirm(&none), Ok(()), "nobody has ever worked here");
        server.put("/api/v1/namespaces/tke-business/secrets/business-controller-seal", &json!({}));
        server.remove("/apis/coordination.k8s.io/v1/namespaces/tke-business/leases/business-controller");
        second.acquire().await;
        assert!(second.fence.may_confirm(&none).is_err(), "the first one's writes may be under way");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_recorded_is_acted_on_only_after_the_lease_was_renewed() {
        let server = Server::default();
        let mut leader = candidate(&server, "leader");
        leader.acquire().await;
        let fence = Arc::clone(&leader.fence);
        let begun = Instant::now();
        tokio::select! {
            () = leader.hold() => panic!("the lease is lost"),
            () = fence.renewed_from_now_on() => {}
        }
        assert!(begun.elapsed() < times().retry_period, "it does not wait for its turn");
        server.remove("/apis/coordination.k8s.io/v1/namespaces/tke-business/leases/business-controller");
        tokio::time::advance(Duration::from_millis(1)).await;
        tokio::select! {
            () = leader.hold() => {}
            () = fence.renewed_from_now_on() => panic!("the lease was not renewed"),
        }
        assert!(fence.permit().is_err());
    }

    #[test]
    fn times_that_do_not_contain_each_other_are_refused() {
        assert!(times().check().is_ok());
        assert!(Times { write_deadline: Duration::from_secs(15), ..times() }.check().is_err());
        assert!(Times { renew_deadline: Duration::from_secs(15), ..times() }.check().is_err());
        assert!(Times { retry_period: Duration::from_secs(10), ..times() }.check().is_err());
    }
}
