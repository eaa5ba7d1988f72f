//! The shares of the work. Each is one replica's at a time: whoever holds its Lease.
//!
//! A member cluster is in the share that follows from the uid of its `kube-system`, whatever it is called. What is of no
//! single cluster, and whatever has a name that stands for no cluster yet, is the share of the fleet.

/// One Lease.
pub mod lease;
/// Who should hold what; pure.
pub mod rendezvous;
/// A share, from the taking of its Lease to its end.
pub mod elector;
/// A replica that takes and gives shares.
pub mod candidate;

use crate::error::Error;
use crate::fence::{Fence, LeaseTimes};
use ring::digest::{SHA256, digest};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Shares of clusters that an installation may have.
pub const SHARDS_MAX: u8 = 100;

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// What is of no single cluster.
    Fleet,
    /// The member clusters of this number.
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

/// A number that every release makes of the same texts.
fn hash(texts: &[&str]) -> u64 {
    let bytes = digest(&SHA256, texts.join("\n").as_bytes());
    bytes.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// All shares, as they stand to this replica.
#[derive(Debug)]
pub struct Shares {
    fleet: Arc<ShareState>,
    clusters: Vec<Arc<ShareState>>,
    /// Something is another way than before.
    changed: watch::Sender<u64>,
}

/// A share, as it stands to this replica.
#[derive(Debug)]
pub struct ShareState {
    pub share: Share,
    pub fence: Arc<Fence>,
    activity: watch::Sender<Activity>,
    /// How often it was worked on from anew.
    term: AtomicU64,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    phase: Phase,
    /// What is at work in it.
    guards: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It is not ours, or nothing may begin yet.
    #[default]
    NotHeld,
    /// It is worked on.
    Active,
    /// Nothing begins any more.
    Draining,
}

impl Shares {
    /// None of them is held. There is one share of clusters at least.
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

    /// Whether a share is worked on here.
    pub fn holds(&self, share: Share) -> bool {
        self.state(share).is_active()
    }

    /// The shares that are worked on here, and since which time.
    pub fn held(&self) -> BTreeMap<Share, u64> {
        let held = self.states().filter(|state| state.is_active());
        held.map(|state| (state.share, state.term())).collect()
    }

    /// Leave to begin something in a share, which counts until it is dropped.
    pub fn enter(&self, share: Share) -> Option<ShareGuard> {
        self.state(share).enter()
    }

    /// The same for all that are worked on here.
    pub fn enter_all(&self) -> Vec<ShareGuard> {
        self.states().filter_map(ShareState::enter).collect()
    }

    /// Does something in a share; `None` when it is not worked on here, or not any more: then it was given up.
    pub async fn run_in<T>(&self, share: Share, work: impl Future<Output = T>) -> Option<T> {
        let guard = self.enter(share)?;
        tokio::select! {
            done = work => Some(done),
            () = guard.wait_for_drain() => None,
        }
    }

    /// Tells of each change from now on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What is in which share may be another than before.
    pub fn notify_changed(&self) {
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Waits until one of those that are worked on here is to end.
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

    /// How often it was worked on from anew.
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

    /// It is worked on from now on.
    pub(crate) fn start(&self) {
        self.term.fetch_add(1, Ordering::SeqCst);
        self.set_phase(Phase::Active);
    }

    /// Nothing begins any more.
    pub(crate) fn begin_drain(&self) {
        self.set_phase(Phase::Draining);
    }

    /// Nothing is at work.
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

/// Something is at work in a share.
#[derive(Debug)]
pub struct ShareGuard(Arc<ShareState>);

impl ShareGuard {
    pub fn share(&self) -> Share {
        self.0.share
    }

    /// How often the share was worked on from anew.
    pub fn term(&self) -> u64 {
        self.0.term()
    }

    /// Leave to write, as [`Fence::permit`] gives it.
    pub fn permit(&self) -> Result<(), Error> {
        self.0.fence.permit()
    }

    /// Waits until the share is to be left.
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
