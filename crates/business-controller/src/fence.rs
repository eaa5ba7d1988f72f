//! The fence of a share: it lets the holder of the Lease send a write only if no former or later holder can be writing
//! at the same time.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// When to ask again whether a write has been answered.
const ANSWER_PERIOD: Duration = Duration::from_secs(1);

/// A server is given whole seconds, one less than we wait ourselves.
const WRITE_DEADLINE_MIN: Duration = Duration::from_secs(2);

/// The times of leader election, and the deadline of writes.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTimes {
    /// How long others respect a Lease that is not renewed.
    pub lease_duration: Duration,
    /// How long the holder tries to renew it before it gives up.
    pub renew_deadline: Duration,
    /// How often the Lease is renewed.
    pub retry_period: Duration,
    /// Deadline of every write to a member cluster.
    pub write_deadline: Duration,
}

impl LeaseTimes {
    /// Refuses times with which a write could outlast its Lease.
    pub fn check(&self) -> Result<(), Error> {
        let ordered = self.retry_period < self.renew_deadline
            && self.renew_deadline < self.lease_duration
            && self.write_deadline < self.lease_duration
            && !self.retry_period.is_zero();
        if !ordered {
            let message = "retry-period < renew-deadline < lease-duration and write-deadline < lease-duration must hold";
            return Err(Error::Config(message.to_owned()));
        }
        if self.write_deadline < WRITE_DEADLINE_MIN {
            let least = WRITE_DEADLINE_MIN.as_secs();
            let message = format!(
                "write-deadline must be {least}s at least: a cluster is told one second less, and must give up before we do"
            );
            return Err(Error::Config(message));
        }
        Ok(())
    }
}

/// A moment by both clocks of this machine. The monotonic clock may stand still while the machine is suspended; the
/// wall clock may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// A moment of the monotonic clock alone. Tests use a simulated one.
    #[cfg(test)]
    pub(crate) fn at(steady: Instant) -> Self {
        Self { steady, wall: SystemTime::now() + Duration::from_hours(1) }
    }

    pub(crate) fn steady(self) -> Instant {
        self.steady
    }

    /// Whether less than `time` has passed by both clocks. If the wall clock was set back it says nothing; if it was
    /// set forward it says too much, until the next renewal.
    fn is_within(self, time: Duration) -> bool {
        self.steady.elapsed() < time && self.wall.elapsed().unwrap_or_default() < time
    }
}

/// What the holder of the Lease may do now.
#[derive(Debug)]
pub struct Fence {
    times: LeaseTimes,
    /// When the last successful renewal was sent; `None` while we do not hold the Lease.
    renewed: watch::Sender<Option<Moment>>,
    /// Asks for a renewal now.
    renewal_request: Notify,
    /// Until then, a write of a former holder may still arrive.
    confirm_after: Mutex<Option<Instant>>,
    /// Writes to all member clusters.
    writes: InFlightWrites,
    /// Writes to each cluster, by its uid.
    clusters: Mutex<HashMap<String, Arc<InFlightWrites>>>,
}

impl Fence {
    /// A closed fence: nothing may be written.
    pub fn new(times: LeaseTimes) -> Self {
        Self {
            times,
            renewed: watch::Sender::default(),
            renewal_request: Notify::new(),
            confirm_after: Mutex::default(),
            writes: InFlightWrites::default(),
            clusters: Mutex::default(),
        }
    }

    /// Deadline of every write to a member cluster.
    pub fn write_deadline(&self) -> Duration {
        self.times.write_deadline
    }

    /// Permission to send a write now: it ends before the Lease can expire.
    pub fn permit(&self) -> Result<(), Error> {
        let Some(renewed) = *self.renewed.borrow() else { return Err(Error::NotLeading) };
        let starts_within = self.times.lease_duration.saturating_sub(self.times.write_deadline);
        if renewed.is_within(starts_within) { Ok(()) } else { Err(Error::NotLeading) }
    }

    /// The in-flight writes to a cluster.
    pub fn writes_to(&self, uid: &str) -> Arc<InFlightWrites> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(clusters.entry(uid.to_owned()).or_default())
    }

    /// Permission to send a write to a member cluster. It counts as in flight from now on.
    pub fn begin_write<'a>(&'a self, member: &'a InFlightWrites) -> Result<InFlightWrite<'a>, Error> {
        self.permit()?;
        self.writes.begin();
        member.begin();
        let deadline = self.times.write_deadline;
        Ok(InFlightWrite { all: &self.writes, member, namespace: None, deadline, answered: false })
    }

    /// Whether neither a write of a former holder nor an unanswered write of ours can still be executed in a member
    /// cluster. Writes that are in flight do not count. The error is the time to wait.
    pub fn may_confirm(&self, member: &InFlightWrites) -> Result<(), Duration> {
        self.former_holders_writes_ended()?;
        member.have_ended(self.times.write_deadline)
    }

    /// The same for one namespace, to which no write may be in flight either. Writes to other namespaces do not matter.
    /// The error is the time to wait.
    pub fn may_confirm_at(&self, member: &InFlightWrites, namespace: &str) -> Result<(), Duration> {
        self.former_holders_writes_ended()?;
        member.have_ended_at(namespace, self.times.write_deadline)
    }

    /// Whether no write of a former holder can arrive any more. The error is the time to wait.
    pub fn former_holders_writes_ended(&self) -> Result<(), Duration> {
        until(*self.confirm_after.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a renewal that is sent after this call. What was recorded before is then visible to every later
    /// holder.
    pub async fn wait_for_renewal(&self) {
        let begun = Instant::now();
        let mut renewed = self.renewed.subscribe();
        self.renewal_request.notify_one();
        // The sender lives as long as the fence.
        drop(renewed.wait_for(|sent| sent.is_some_and(|sent| sent.steady >= begun)).await);
    }

    /// Whether the Lease can be released cleanly: no write of ours or of a former holder can arrive any more.
    pub(crate) fn may_release(&self) -> bool {
        self.clean_at().is_some_and(|at| at <= Instant::now())
    }

    /// When the Lease can be released cleanly, if no other write begins. `None` while one is in flight.
    pub(crate) fn clean_at(&self) -> Option<Instant> {
        let ended = || {
            let former = *self.confirm_after.lock().unwrap_or_else(PoisonError::into_inner);
            former.max(self.writes.end_by(self.times.write_deadline)).unwrap_or_else(Instant::now)
        };
        self.writes.none_is_open().then(ended)
    }

    pub(crate) fn acquired(&self, sent: Moment, clean: bool) {
        let margin = self.times.lease_duration + self.times.write_deadline;
        let confirm_after = (!clean).then(|| Instant::now() + margin);
        *self.confirm_after.lock().unwrap_or_else(PoisonError::into_inner) = confirm_after;
        self.renewed(sent);
    }

    pub(crate) fn renewed(&self, sent: Moment) {
        self.renewed.send_replace(Some(sent));
    }

    /// Waits until somebody asks for a renewal.
    pub(crate) async fn renewal_requested(&self) {
        self.renewal_request.notified().await;
    }

    pub(crate) fn close(&self) {
        self.renewed.send_replace(None);
    }
}

/// Writes that are in flight, or may be.
#[derive(Debug, Default)]
pub struct InFlightWrites {
    open: AtomicUsize,
    /// Writes to each namespace.
    namespaces: Mutex<HashMap<String, NamespaceWrites>>,
    /// When the last write ended that was not answered.
    unanswered: Mutex<Option<Instant>>,
    /// The same for writes that name no namespace, and may go to any.
    unanswered_anywhere: Mutex<Option<Instant>>,
}

/// The writes to one namespace.
#[derive(Clone, Copy, Debug, Default)]
struct NamespaceWrites {
    open: usize,
    /// When the last one ended that was not answered.
    unanswered: Option<Instant>,
}

impl NamespaceWrites {
    /// Whether none is in flight, and no unanswered one may still be executed. The error is the time to wait.
    fn have_ended(self, deadline: Duration) -> Result<(), Duration> {
        if self.open > 0 { Err(ANSWER_PERIOD) } else { until(self.unanswered.map(|at| at + deadline)) }
    }
}

impl InFlightWrites {
    fn begin(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self, answered: bool) {
        if !answered {
            *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn begin_to(&self, namespace: &str) {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.entry(namespace.to_owned()).or_default().open += 1;
    }

    /// An unanswered write is recorded as such under the same lock that ends it.
    fn end_to(&self, namespace: &str, answered: bool, deadline: Duration) {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writes) = namespaces.get_mut(namespace) {
            writes.open = writes.open.saturating_sub(1);
            if !answered {
                writes.unanswered = Some(Instant::now());
            } else if writes.have_ended(deadline).is_ok() {
                namespaces.remove(namespace);
            }
        }
        if !answered {
            namespaces.retain(|_, writes| writes.have_ended(deadline).is_err());
        }
    }

    fn end_anywhere(&self, answered: bool) {
        if !answered {
            *self.unanswered_anywhere.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    /// The same for this namespace. The error is the time to wait.
    fn have_ended_at(&self, namespace: &str, deadline: Duration) -> Result<(), Duration> {
        let anywhere = *self.unanswered_anywhere.lock().unwrap_or_else(PoisonError::into_inner);
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writes) = namespaces.get(namespace) {
            writes.have_ended(deadline)?;
            namespaces.remove(namespace);
        }
        until(anywhere.map(|at| at + deadline))
    }

    fn none_is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }

    /// Whether no unanswered write may still be executed. The error is the time to wait.
    fn have_ended(&self, deadline: Duration) -> Result<(), Duration> {
        until(self.end_by(deadline))
    }

    /// When the last unanswered write can be executed no more.
    fn end_by(&self, deadline: Duration) -> Option<Instant> {
        let unanswered = *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        unanswered.map(|at| at + deadline)
    }
}

/// A write to a member cluster. If it is dropped without an answer, it may still be executed until its deadline.
#[derive(Debug)]
pub struct InFlightWrite<'a> {
    all: &'a InFlightWrites,
    member: &'a InFlightWrites,
    namespace: Option<String>,
    deadline: Duration,
    answered: bool,
}

impl InFlightWrite<'_> {
    /// The write goes to this namespace, or creates it.
    #[must_use]
    pub fn to(mut self, namespace: &str) -> Self {
        self.member.begin_to(namespace);
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The cluster has answered the write.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for InFlightWrite<'_> {
    fn drop(&mut self) {
        // An unanswered write must be recorded as such before it is no longer counted as in flight.
        self.member.end(self.answered);
        match &self.namespace {
            Some(namespace) => self.member.end_to(namespace, self.answered, self.deadline),
            None => self.member.end_anywhere(self.answered),
        }
        self.all.end(self.answered);
    }
}

/// Whether that time has come. The error is the time to wait.
pub(crate) fn until(time: Option<Instant>) -> Result<(), Duration> {
    match time.map(|time| time.saturating_duration_since(Instant::now())) {
        Some(wait) if !wait.is_zero() => Err(wait),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn times() -> LeaseTimes {
        LeaseTimes {
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
        fence.acquired(Moment::now(), true);
        assert!(fence.permit().is_ok());
        fence.renewed(Moment::at(seconds_ago(9)));
        assert!(fence.permit().is_ok());
        fence.renewed(Moment::at(seconds_ago(10)));
        assert!(fence.permit().is_err(), "a paused leader that wakes writes nothing");
    }

    #[test]
    fn a_machine_whose_steady_clock_stood_still_writes_nothing_when_it_wakes() {
        let fence = Fence::new(times());
        let now = SystemTime::now();
        let renewed = |wall| fence.renewed(Moment { steady: Instant::now(), wall });
        renewed(now - Duration::from_secs(5));
        assert!(fence.permit().is_ok());
        renewed(now - Duration::from_secs(10));
        assert!(fence.permit().is_err(), "it was suspended or stunned");
        renewed(now + Duration::from_hours(1));
        assert!(fence.permit().is_ok(), "its clock was set back");
        fence.renewed(Moment { steady: seconds_ago(10), wall: now });
        assert!(fence.permit().is_err());
    }

    #[test]
    fn a_new_holder_confirms_nothing_until_the_former_ones_writes_have_ended() {
        let (fence, member) = (Fence::new(times()), InFlightWrites::default());
        fence.acquired(Moment::now(), false);
        let wait = fence.may_confirm(&member).unwrap_err();
        assert!(wait > Duration::from_secs(19) && wait <= Duration::from_secs(20), "{wait:?}");
        assert!(fence.clean_at().unwrap() > Instant::now() + Duration::from_secs(19) && !fence.may_release());
        fence.acquired(Moment::now(), true);
        assert_eq!(fence.may_confirm(&member), Ok(()), "the lease was given back cleanly");
    }

    #[test]
    fn a_write_that_is_given_up_may_still_happen_until_its_deadline() {
        let (fence, member, other) =
            (Fence::new(times()), InFlightWrites::default(), InFlightWrites::default());
        fence.acquired(Moment::now(), true);
        fence.begin_write(&member).unwrap().answered();
        assert!(fence.may_confirm(&member).is_ok() && fence.may_release());
        let open = fence.begin_write(&member).unwrap();
        assert!(!fence.may_release() && fence.clean_at().is_none(), "it is under way");
        drop(open);
        assert!(!fence.may_release(), "it may still happen");
        assert!(fence.may_confirm(&member).is_err() && fence.may_confirm(&other).is_ok());
        assert!(fence.clean_at().unwrap() > Instant::now() + Duration::from_secs(4));
        for writes in [&member, &fence.writes] {
            *writes.unanswered.lock().unwrap() = Some(seconds_ago(5));
        }
        assert!(fence.may_confirm(&member).is_ok() && fence.may_release());
    }

    #[test]
    fn nothing_is_confirmed_of_a_namespace_to_which_a_write_is_under_way() {
        let (fence, member) = (Fence::new(times()), InFlightWrites::default());
        fence.acquired(Moment::now(), true);
        let (one, other) =
            (fence.begin_write(&member).unwrap().to("web"), fence.begin_write(&member).unwrap().to("web"));
        assert_eq!(fence.may_confirm_at(&member, "web"), Err(ANSWER_PERIOD));
        assert!(fence.may_confirm_at(&member, "db").is_ok() && fence.may_confirm(&member).is_ok());
        one.answered();
        assert!(fence.may_confirm_at(&member, "web").is_err(), "one is left");
        other.answered();
        assert!(fence.may_confirm_at(&member, "web").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_given_up_keeps_its_own_namespace_waiting_and_no_other() {
        let (fence, member) = (Fence::new(times()), InFlightWrites::default());
        fence.acquired(Moment::now(), true);
        let (one, other) =
            (fence.begin_write(&member).unwrap().to("web"), fence.begin_write(&member).unwrap().to("web"));
        drop(one);
        assert!(fence.may_confirm_at(&member, "web").is_err(), "one is left");
        other.answered();
        assert!(fence.may_confirm_at(&member, "web").is_err(), "the first may still happen");
        assert!(fence.may_confirm_at(&member, "db").is_ok());
        assert!(fence.may_confirm(&member).is_err(), "of the whole cluster nothing is confirmed");
        advance(Duration::from_secs(3)).await;
        drop(fence.begin_write(&member).unwrap().to("db"));
        advance(Duration::from_secs(2)).await;
        assert!(fence.may_confirm_at(&member, "web").is_ok() && fence.may_confirm_at(&member, "db").is_err());
        advance(Duration::from_secs(3)).await;
        assert!(fence.may_confirm_at(&member, "db").is_ok() && fence.may_confirm(&member).is_ok());
        assert!(member.namespaces.lock().unwrap().is_empty(), "nothing is kept");
        drop(fence.begin_write(&member).unwrap());
        assert!(fence.may_confirm_at(&member, "web").is_err(), "it may go anywhere");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_given_up_is_forgotten_when_it_can_happen_no_more() {
        let (fence, member) = (Fence::new(times()), InFlightWrites::default());
        fence.acquired(Moment::now(), true);
        for number in 0..9 {
            drop(fence.begin_write(&member).unwrap().to(&number.to_string()));
        }
        advance(Duration::from_secs(5)).await;
        drop(fence.begin_write(&member).unwrap().to("web"));
        assert_eq!(member.namespaces.lock().unwrap().len(), 1);
    }

    #[test]
    fn times_that_do_not_contain_each_other_are_refused() {
        assert!(times().check().is_ok());
        assert!(LeaseTimes { write_deadline: Duration::from_secs(15), ..times() }.check().is_err());
        assert!(LeaseTimes { renew_deadline: Duration::from_secs(15), ..times() }.check().is_err());
        assert!(LeaseTimes { retry_period: Duration::from_secs(10), ..times() }.check().is_err());
    }

    #[test]
    fn a_write_deadline_that_leaves_the_server_no_time_to_give_up_first_is_refused() {
        let check = |millis| LeaseTimes { write_deadline: Duration::from_millis(millis), ..times() }.check();
        assert!(check(2000).is_ok());
        for millis in [0, 1000, 1999] {
            assert!(check(millis).unwrap_err().text().contains("write-deadline must be 2s at least"));
        }
    }
}
