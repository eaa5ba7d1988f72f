//! Leader election and work for one share: acquire the Lease, prepare, work, drain, release; and renew the Lease all
//! the time.

use super::lease::{self, LeaseKind, Leases};
use super::{Share, ShareState};
use crate::error::CallFailure;
use crate::fence::Moment;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How often to check whether everything has ended.
const DRAIN_PERIOD: Duration = Duration::from_millis(20);
/// How often releasing a Lease is tried. Then it is left to expire.
const RELEASES_MAX: u32 = 3;

/// What a replica does in its shares, as client-go's `LeaderCallbacks`.
pub trait ShareCallbacks: Debug + Send + Sync {
    /// Waits until this replica can work at all. Before that it neither counts as live nor acquires a share.
    fn ready(&self) -> BoxFuture<'_, ()>;
    /// Reads what has to be known before work begins. The Lease is held already, and is released if this takes longer
    /// than its duration.
    fn prepare<'a>(&'a self, state: &'a ShareState) -> BoxFuture<'a, ()>;
    /// Work on the share begins.
    fn started(&self, share: Share);
    /// Work on the share has ended: nothing that is known of it counts any more.
    fn stopped(&self, share: Share);
}

/// Whether a share is to be held or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldOrder {
    Hold,
    /// Release it when everything that runs in it has ended.
    Release,
    /// The same, but at this time at the latest.
    ReleaseBy(Instant),
}

/// How a term has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermEnd {
    /// Another replica was faster, or the API did not answer.
    NotAcquired,
    /// The Lease was released, or is left to expire.
    Released,
    /// The same, but the share could not be prepared in time.
    NotPrepared,
    /// The Lease was lost.
    Lost,
}

/// How preparing a share has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preparation {
    Done,
    /// The share is to be released already.
    Cancelled,
    TimedOut,
}

#[derive(Debug)]
pub(super) struct ShareElector {
    pub(super) leases: Leases,
    pub(super) state: Arc<ShareState>,
    pub(super) callbacks: Arc<dyn ShareCallbacks>,
    pub(super) orders: watch::Receiver<HoldOrder>,
}

impl ShareElector {
    /// Runs one term. `found` is the free Lease, or `None` if it does not exist.
    pub(super) async fn run(mut self, found: Option<Lease>) -> TermEnd {
        let share = self.state.share;
        let mut held = match self.acquire(found).await {
            Ok(held) => held,
            Err(CallFailure::Conflict(_) | CallFailure::Exists | CallFailure::NotFound) => {
                return TermEnd::NotAcquired;
            }
            Err(failure) => {
                tracing::warn!(%share, error = %failure, "cannot take the lease of a share");
                return TermEnd::NotAcquired;
            }
        };
        let (leases, state) = (self.leases.clone(), Arc::clone(&self.state));
        let end = tokio::select! {
            () = renew_until_lost(&leases, &state, &mut held) => {
                state.begin_drain();
                state.fence.close();
                tracing::error!(%share, "the lease of a share is lost");
                return TermEnd::Lost;
            }
            end = self.work_until_release() => end,
        };
        let is_clean = state.is_idle() && state.fence.may_release();
        self.callbacks.stopped(share);
        state.stop();
        state.fence.close();
        if is_clean {
            self.release(held).await;
        } else {
            tracing::info!(%share, "the lease is left to run out: a former write may still be under way");
        }
        end
    }

    async fn acquire(&self, found: Option<Lease>) -> Result<Lease, CallFailure> {
        let (share, sent) = (self.state.share, Moment::now());
        let (held, clean) = match found {
            None => {
                let made = self.leases.create(&lease::share_lease_name(share), LeaseKind::Share).await?;
                // This is asked after the Lease was created: if a former holder has recorded anything, it is seen now;
                // if it does so later, it finds that it has lost its Lease before it writes.
                let is_new = self.leases.is_new_installation().await;
                if is_new && share == Share::Fleet {
                    self.create_free_leases().await;
                }
                (made, is_new)
            }
            Some(found) => {
                let clean = lease::was_released(&found);
                (self.leases.take(found).await?, clean)
            }
        };
        self.state.fence.acquired(sent, clean);
        tracing::info!(%share, identity = self.leases.identity, clean, "holding");
        Ok(held)
    }

    /// In a new installation no share has had a holder, so the Lease of each is created as a released one. The key of
    /// seals is created after that; from then on, a missing Lease may be one that somebody has deleted.
    async fn create_free_leases(&self) {
        for share in (0..self.leases.shards).map(Share::Clusters) {
            match self.leases.create_free(share).await {
                Ok(()) | Err(CallFailure::Exists) => {}
                // The first holder of this share then waits as after an expired Lease.
                Err(failure) => tracing::warn!(%share, error = %failure, "cannot make the lease of a share"),
            }
        }
    }

    /// Works until the share is to be released and everything in it has ended. Returns how the term ends, unless the
    /// Lease is lost.
    async fn work_until_release(&mut self) -> TermEnd {
        let is_to_leave = |orders: &HoldOrder| *orders != HoldOrder::Hold;
        let mut orders = self.orders.clone();
        let patience = self.leases.times.lease_duration;
        let preparation = tokio::select! {
            () = self.callbacks.prepare(&self.state) => Preparation::Done,
            _ = orders.wait_for(is_to_leave) => Preparation::Cancelled,
            () = sleep(patience) => Preparation::TimedOut,
        };
        let end = match preparation {
            Preparation::Done => {
                self.state.start();
                self.callbacks.started(self.state.share);
                // The sender of the orders lives as long as this.
                drop(self.orders.wait_for(is_to_leave).await);
                TermEnd::Released
            }
            Preparation::Cancelled => TermEnd::Released,
            Preparation::TimedOut => {
                tracing::error!(share = %self.state.share, "a share cannot be worked on here: it is given back");
                TermEnd::NotPrepared
            }
        };
        self.state.begin_drain();
        while !(self.state.is_idle() && self.state.fence.may_release()) {
            if let HoldOrder::ReleaseBy(end) = *self.orders.borrow()
                && self.cannot_release_by(end)
            {
                break;
            }
            sleep(DRAIN_PERIOD).await;
        }
        end
    }

    /// Whether the Lease cannot be released cleanly by then. Then every renewal would only delay the next holder.
    fn cannot_release_by(&self, end: Instant) -> bool {
        let is_clean_too_late = || self.state.fence.clean_at().is_some_and(|at| at > end);
        Instant::now() >= end || (self.state.is_idle() && is_clean_too_late())
    }

    async fn release(&self, mut held: Lease) {
        let (share, name) = (self.state.share, lease::share_lease_name(self.state.share));
        for _ in 0..RELEASES_MAX {
            let failure = match self.leases.release(held.clone()).await {
                Ok(_) => {
                    tracing::info!(%share, "given back");
                    return;
                }
                Err(CallFailure::NotFound) => return,
                Err(failure) => failure,
            };
            tracing::warn!(%share, error = %failure, "cannot give a share back");
            // Our own renewal may have been in flight.
            match self.leases.get(&name).await {
                Ok(Some(now)) if self.leases.is_ours(&now) => held = now,
                Ok(_) => return,
                Err(_) => {}
            }
        }
    }
}

/// Renews a Lease until that has failed for too long, or another replica has it.
async fn renew_until_lost(leases: &Leases, state: &ShareState, held: &mut Lease) {
    let mut renewed = Instant::now();
    while renewed.elapsed() < leases.times.renew_deadline {
        tokio::select! {
            () = sleep(leases.times.retry_period) => {}
            () = state.fence.renewal_requested() => {}
        }
        let sent = Moment::now();
        match renew(leases, held).await {
            Ok(true) => {
                renewed = sent.steady();
                state.fence.renewed(sent);
            }
            Ok(false) => return,
            Err(failure) => {
                tracing::warn!(share = %state.share, error = %failure, "cannot renew the lease of a share");
            }
        }
    }
}

/// Renews a Lease once. `false` if another replica has it.
pub(super) async fn renew(leases: &Leases, held: &mut Lease) -> Result<bool, CallFailure> {
    match leases.take(held.clone()).await {
        Ok(renewed) => {
            *held = renewed;
            return Ok(true);
        }
        Err(CallFailure::NotFound) => return Ok(false),
        Err(CallFailure::Conflict(_)) => {}
        Err(failure) => return Err(failure),
    }
    // Somebody has changed the object. If only other fields were edited, the Lease is still ours.
    let name = held.metadata.name.clone().unwrap_or_default();
    let Some(now) = leases.get(&name).await?.filter(|now| leases.is_ours(now)) else { return Ok(false) };
    *held = leases.take(now).await?;
    Ok(true)
}
