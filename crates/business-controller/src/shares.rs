//! Shares of the work. Each is held by one replica at a time: the holder of its Lease.
//!
//! The share of a member cluster follows from the uid of its `kube-system`, not from its name. Everything that belongs
//! to no single cluster, or has a name that stands for no cluster yet, belongs to the share of the fleet.

/// The Leases.
pub mod lease;
/// Rendezvous hashing: which replica should hold which share. Pure.
pub mod rendezvous;
/// Leader election and work for one share, from acquiring its Lease to releasing it.
pub mod elector;
/// A replica that acquires and hands over shares.
pub mod candidate;

use crate::error::Error;
use crate::fence::{Fence, LeaseTimes};
use ring::digest::{SHA256, digest};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The most shares of clusters that an installation may have.
pub const SHARDS_MAX: u8 = 100;

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// Everything that belongs to no single cluster.
    Fleet,
    /// The member clusters of the share with this number.
    Clusters(u8),
}

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Clusters(number) => write!(f, "{number:02}"),
        }
    }
}

/// One term of a share in this replica: from when it begins to work on the share until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub share: Share,
    pub number: u64,
}

/// A hash that is the same in every release.
fn hash(texts: &[&str]) -> u64 {
    let bytes = digest(&SHA256, texts.join("\n").as_bytes());
    bytes.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The state of all shares in this replica.
#[derive(Debug)]
pub struct Shares {
    fleet: Arc<ShareState>,
    clusters: Vec<Arc<ShareState>>,
    /// Notifies of every change.
    changed: watch::Sender<u64>,
}

/// The state of a share in this replica.
#[derive(Debug)]
pub struct ShareState {
    pub share: Share,
    pub fence: Arc<Fence>,
    activity: watch::Sender<Activity>,
    /// The number of the current term: it grows each time this replica starts to work on the share.
    term: AtomicU64,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    phase: Phase,
    /// How many guards of the share exist.
    guards: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The share is not ours, or not prepared yet.
    #[default]
    NotHeld,
    /// Work may begin.
    Active,
    /// No work may begin any more; what has begun may end.
    Draining,
}

impl Shares {
    /// No share is held. There is at least one share of clusters.
    pub fn new(shards: u8, times: LeaseTimes) -> Self {
        let changed = watch::Sender::default();
        let state = |share| {
            Arc::new(ShareState {
                share,
                fence: Arc::new(Fence::new(times)),
                activity: watch::Sender::default(),
                term: AtomicU64::new(0),
                changed: changed.clone(),
            })
        };
        let clusters = (0..shards.clamp(1, SHARDS_MAX)).map(|number| state(Share::Clusters(number)));
        Self { fleet: state(Share::Fleet), clusters: clusters.collect(), changed }
    }

    /// How many shares of clusters there are.
    pub fn shards(&self) -> u8 {
        u8::try_from(self.clusters.len()).unwrap_or(SHARDS_MAX)
    }

    pub fn states(&self) -> impl Iterator<Item = &Arc<ShareState>> {
        std::iter::once(&self.fleet).chain(&self.clusters)
    }

    pub fn state(&self, share: Share) -> &Arc<ShareState> {
        let clusters = |number: u8| self.clusters.get(usize::from(number));
        match share {
            Share::Fleet => &self.fleet,
            Share::Clusters(number) => clusters(number).unwrap_or(&self.fleet),
        }
    }

    /// The share of the cluster whose `kube-system` has this uid.
    pub fn of_uid(&self, uid: &str) -> Share {
        let number = hash(&[uid]) % u64::from(self.shards());
        Share::Clusters(u8::try_from(number).unwrap_or_default())
    }

    /// Whether this replica works on a share.
    pub fn holds(&self, share: Share) -> bool {
        self.state(share).is_active()
    }

    /// The shares that this replica works on, with their terms.
    pub fn held(&self) -> BTreeMap<Share, u64> {
        let held = self.states().filter(|state| state.is_active());
        held.map(|state| (state.share, state.term())).collect()
    }

    /// Begins work in a share, until the guard is dropped. `None` if this replica does not work on it.
    pub fn enter(&self, share: Share) -> Option<ShareGuard> {
        self.state(share).enter()
    }

    /// The same for all shares that this replica works on.
    pub fn enter_all(&self) -> Vec<ShareGuard> {
        self.states().filter_map(ShareState::enter).collect()
    }

    /// Runs something in a share. `None` if this replica does not work on it, or stops to: then the work was dropped.
    pub async fn run_in<T>(&self, share: Share, work: impl Future<Output = T>) -> Option<T> {
        let guard = self.enter(share)?;
        tokio::select! {
            done = work => Some(done),
            () = guard.wait_for_drain() => None,
        }
    }

    /// Notifies of each change from now on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Notifies that clusters may have come to other shares.
    pub fn notify_changed(&self) {
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Waits until any share is to be drained.
    pub async fn wait_for_any_drain(&self) {
        let is_draining = |state: &Arc<ShareState>| state.activity.borrow().phase == Phase::Draining;
        // The sender lives as long as this.
        drop(self.changes().wait_for(|_| self.states().any(is_draining)).await);
    }
}

impl ShareState {
    fn is_active(&self) -> bool {
        self.activity.borrow().phase == Phase::Active
    }

    /// The number of the current term.
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    fn enter(self: &Arc<Self>) -> Option<ShareGuard> {
        let mut entered = false;
        self.activity.send_if_modified(|activity| {
            entered = activity.phase == Phase::Active;
            activity.guards = activity.guards.saturating_add(usize::from(entered));
            false
        });
        entered.then(|| ShareGuard(Arc::clone(self)))
    }

    /// Begins a new term: work may begin.
    pub(crate) fn start(&self) {
        self.term.fetch_add(1, Ordering::SeqCst);
        self.set_phase(Phase::Active);
    }

    /// Lets no more work begin.
    pub(crate) fn begin_drain(&self) {
        self.set_phase(Phase::Draining);
    }

    /// Whether no guard of the share exists.
    pub(crate) fn is_idle(&self) -> bool {
        self.activity.borrow().guards == 0
    }

    pub(crate) fn stop(&self) {
        self.set_phase(Phase::NotHeld);
    }

    fn set_phase(&self, phase: Phase) {
        self.activity.send_modify(|activity| activity.phase = phase);
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

/// Keeps a share from being released while something runs in it.
#[derive(Debug)]
pub struct ShareGuard(Arc<ShareState>);

impl ShareGuard {
    pub fn share(&self) -> Share {
        self.0.share
    }

    /// The number of the current term.
    pub fn term(&self) -> u64 {
        self.0.term()
    }

    /// Permission to write, as [`Fence::permit`] gives it.
    pub fn permit(&self) -> Result<(), Error> {
        self.0.fence.permit()
    }

    /// Waits until the share is to be drained.
    pub async fn wait_for_drain(&self) {
        // The sender lives as long as this.
        drop(self.0.activity.subscribe().wait_for(|activity| activity.phase != Phase::Active).await);
    }
}

impl Drop for ShareGuard {
    fn drop(&mut self) {
        self.0.activity.send_modify(|activity| activity.guards = activity.guards.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
