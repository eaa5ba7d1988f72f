//! A replica that acquires and hands over shares. It keeps a Lease of its own as a heartbeat, and watches all Leases by
//! listing them. A free share is acquired by the replica that ranks first for it; a share that another replica should
//! have is handed over when the set of replicas has been stable for a while.

use super::elector::{self, HoldOrder, ShareCallbacks, ShareElector, TermEnd};
use super::lease::{self, LeaseKind, Leases, ObservedLease};
use super::rendezvous::rank;
use super::{Share, Shares};
use crate::error::{CallFailure, Error};
use k8s_openapi::api::coordination::v1::Lease;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Longest time between two lists of the Leases.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Shortest time between two lists of the Leases.
const LOOK_MIN: Duration = Duration::from_millis(10);
/// Lists of the Leases in one retry period.
const LOOKS_PER_RETRY_PERIOD: u32 = 4;
/// For how many Lease durations the replicas must have been the same before a share is handed over, so that a rolling
/// restart moves as little as possible.
const SETTLED_LEASES: u32 = 2;
/// After how many Lease durations the expired Lease of a replica is deleted.
const DEAD_REPLICA_LEASES: u32 = 4;
/// For how many Lease durations a replica backs off if it could not prepare a share.
const BACKOFF_LEASES: u32 = 8;
/// How often that is doubled at most, if it fails again and again.
const BACKOFF_DOUBLINGS_MAX: u32 = 3;

/// One replica.
#[derive(Debug)]
pub struct Candidate {
    leases: Leases,
    shares: Arc<Shares>,
    callbacks: Arc<dyn ShareCallbacks>,
    observed: BTreeMap<String, ObservedLease>,
    replicas: BTreeSet<String>,
    /// Since when they have been the same.
    settled: Instant,
    electors: JoinSet<(Share, TermEnd)>,
    orders: BTreeMap<Share, watch::Sender<HoldOrder>>,
    heartbeat: Option<AbortHandle>,
    /// How often preparing a share has failed since it last succeeded.
    failures: u32,
    /// The sum of all terms at the last failure, which shows later successes.
    begun: u64,
    /// Until then this replica does not count as live, and acquires only what nobody else wants.
    backs_off_until: Instant,
    /// Tasks that write Leases of replicas.
    others: JoinSet<()>,
}

impl Candidate {
    pub fn new(leases: Leases, shares: Arc<Shares>, callbacks: Arc<dyn ShareCallbacks>) -> Self {
        Self {
            leases,
            shares,
            callbacks,
            observed: BTreeMap::new(),
            replicas: BTreeSet::new(),
            settled: Instant::now(),
            electors: JoinSet::new(),
            orders: BTreeMap::new(),
            heartbeat: None,
            failures: 0,
            begun: 0,
            backs_off_until: Instant::now(),
            others: JoinSet::new(),
        }
    }

    /// Whether kube-apiserver answers.
    pub async fn reach(&self) -> Result<(), CallFailure> {
        self.leases.list().await.map(drop)
    }

    /// Acquires and hands over shares until it is cancelled. Fails if a share was lost, or this installation has
    /// another number of shares.
    pub async fn run(&mut self, end: &CancellationToken) -> Result<(), Error> {
        let callbacks = Arc::clone(&self.callbacks);
        end.run_until_cancelled(callbacks.ready()).await;
        while !end.is_cancelled() {
            match self.leases.list().await {
                Ok(leases) => self.look(leases)?,
                Err(failure) => tracing::warn!(error = %failure, "cannot look at the leases"),
            }
            tokio::select! {
                () = end.cancelled() => {}
                () = sleep_until(self.next_look()) => {}
                Some(ended) = self.electors.join_next() => self.ended(ended)?,
            }
        }
        Ok(())
    }

    /// Releases every share within this time, and deletes the replica's own Lease.
    pub async fn retire(&mut self, within: Duration) {
        let end = Instant::now() + within;
        for orders in self.orders.values() {
            orders.send_replace(HoldOrder::ReleaseBy(end));
        }
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.abort();
        }
        // First, so that no replica counts with this one when the shares are free.
        delete_own_lease(self.leases.clone()).await;
        while let Some(ended) = self.electors.join_next().await {
            if let Err(error) = self.ended(ended) {
                tracing::warn!(error = error.text(), "a share was not given back");
            }
        }
    }

    fn ended(&mut self, ended: Result<(Share, TermEnd), tokio::task::JoinError>) -> Result<(), Error> {
        let (share, ended) = ended.map_err(|error| Error::ShareLost(error.to_string()))?;
        self.orders.remove(&share);
        match ended {
            TermEnd::Lost => Err(Error::ShareLost(share.to_string())),
            TermEnd::NotAcquired | TermEnd::Released => Ok(()),
            TermEnd::NotPrepared => {
                self.back_off();
                Ok(())
            }
        }
    }

    fn is_backing_off(&self) -> bool {
        Instant::now() < self.backs_off_until
    }

    /// Lets other replicas come first for a while. If there is none, or none can prepare a share either, it tries again
    /// at once.
    fn back_off(&mut self) {
        // Several shares that fail together count once.
        if self.is_backing_off() {
            return;
        }
        let begun = self.shares.states().map(|state| state.term()).sum();
        if begun != self.begun {
            (self.failures, self.begun) = (0, begun);
        }
        let doubled = 1 << self.failures.min(BACKOFF_DOUBLINGS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.backs_off_until = Instant::now() + self.leases.times.lease_duration * BACKOFF_LEASES * doubled;
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.abort();
            self.others.spawn(delete_own_lease(self.leases.clone()));
        }
    }

    /// When to list the Leases again: soon, and at once when the Lease of another replica expires.
    fn next_look(&self) -> Instant {
        let now = Instant::now();
        let period = (self.leases.times.retry_period / LOOKS_PER_RETRY_PERIOD).clamp(LOOK_MIN, LOOK_MAX);
        let others = self.observed.values().filter(|observed| !self.leases.is_ours_or_free(observed));
        let runs_out = others.map(|observed| observed.free_since() + LOOK_MIN).filter(|at| *at > now).min();
        runs_out.map_or(now + period, |at| at.min(now + period))
    }

    fn look(&mut self, leases: Vec<Lease>) -> Result<(), Error> {
        self.observe(leases);
        self.check_shards()?;
        self.keep_heartbeat();
        let replicas = self.live_replicas();
        if replicas != self.replicas {
            tracing::info!(?replicas, "the replicas are others than before");
            self.replicas = replicas;
            self.settled = Instant::now();
        }
        for state in self.shares.states() {
            let share = state.share;
            if self.orders.contains_key(&share) {
                continue;
            }
            if let Some(found) = self.lease_to_take(share) {
                let found = found.lease.clone();
                let (sender, orders) = watch::channel(HoldOrder::Hold);
                self.orders.insert(share, sender);
                let elector = ShareElector {
                    leases: self.leases.clone(),
                    state: Arc::clone(state),
                    callbacks: Arc::clone(&self.callbacks),
                    orders,
                };
                self.electors.spawn(async move { (share, elector.run(found).await) });
            }
        }
        self.hand_over();
        self.delete_dead_replicas_leases();
        Ok(())
    }

    /// Records the observed state of each Lease, including that the Lease of a share does not exist.
    fn observe(&mut self, leases: Vec<Lease>) {
        let before = std::mem::take(&mut self.observed);
        let named = leases.into_iter().filter_map(|lease| Some((lease.metadata.name.clone()?, Some(lease))));
        let mut seen: BTreeMap<String, Option<Lease>> =
            self.shares.states().map(|state| (lease::share_lease_name(state.share), None)).collect();
        seen.extend(named);
        let observed = |(name, lease): (String, Option<Lease>)| {
            let observed = ObservedLease::observe(before.get(&name), lease);
            (name, observed)
        };
        self.observed = seen.into_iter().map(observed).collect();
    }

    /// Replicas with different numbers of shares would write to the same cluster.
    fn check_shards(&self) -> Result<(), Error> {
        let counts = |lease: &&Lease| {
            let is_alive = self.observed_lease(lease).is_some_and(|observed| !observed.is_free());
            LeaseKind::of(lease) == Some(LeaseKind::Share) || is_alive
        };
        let leases = self.observed.values().filter_map(|observed| observed.lease.as_ref()).filter(counts);
        let own = self.leases.shards.to_string();
        for lease in leases {
            let said = lease::shards(lease).unwrap_or("no");
            if said != own {
                let name = lease.metadata.name.as_deref().unwrap_or_default();
                return Err(Error::Config(format!(
                    "--shards is {own}, and Lease {name} says {said}: the number is fixed for an installation. To change it end all \
                     replicas, and delete the Leases with the label {}",
                    lease::LEASE_LABEL
                )));
            }
        }
        Ok(())
    }

    fn observed_lease(&self, lease: &Lease) -> Option<&ObservedLease> {
        self.observed.get(lease.metadata.name.as_deref()?)
    }

    /// Starts the heartbeat, unless it runs or this replica backs off.
    fn keep_heartbeat(&mut self) {
        if self.heartbeat.is_none() && !self.is_backing_off() {
            self.heartbeat = Some(self.others.spawn(heartbeat(self.leases.clone())));
        }
    }

    /// The live replicas. One that has let any Lease expire does not count.
    fn live_replicas(&self) -> BTreeSet<String> {
        let of = |kind: LeaseKind| {
            let all = self.observed.values();
            all.filter(move |observed| observed.lease.as_ref().and_then(LeaseKind::of) == Some(kind))
        };
        let mut live_replicas: BTreeSet<String> = of(LeaseKind::Replica)
            .filter(|observed| !observed.is_free())
            .map(|observed| observed.holder().to_owned())
            .collect();
        for gone in of(LeaseKind::Share).filter(|observed| observed.has_run_out()) {
            live_replicas.remove(gone.holder());
        }
        live_replicas.insert(self.leases.identity.clone());
        live_replicas
    }

    /// The Lease of a share that this replica should acquire now. Each replica that ranks before it has one Lease
    /// duration to do so.
    fn lease_to_take(&self, share: Share) -> Option<&ObservedLease> {
        let observed = self.observed.get(&lease::share_lease_name(share))?;
        let is_agreed = self
            .observed
            .get(&lease::share_lease_name(Share::Fleet))
            .is_some_and(|fleet| fleet.lease.is_some());
        if share != Share::Fleet && !is_agreed {
            return None;
        }
        let is_own = observed.lease.as_ref().is_some_and(|lease| self.leases.is_ours(lease));
        if !is_own && !observed.is_free() {
            return None;
        }
        let rank = if self.is_backing_off() {
            u32::try_from(self.replicas.len()).unwrap_or(u32::MAX).saturating_sub(1)
        } else {
            rank(share, &self.leases.identity, self.replicas.iter().map(String::as_str))
        };
        let patience = self.leases.times.lease_duration.saturating_mul(rank);
        let has_waited = || Instant::now() >= observed.free_since() + patience;
        (rank == 0 || has_waited()).then_some(observed)
    }

    /// Hands over shares that another replica should have.
    fn hand_over(&self) {
        let settled = self.leases.times.lease_duration.saturating_mul(SETTLED_LEASES);
        if self.settled.elapsed() < settled {
            return;
        }
        for (share, orders) in &self.orders {
            let is_others = rank(*share, &self.leases.identity, self.replicas.iter().map(String::as_str)) > 0;
            let fence = &self.shares.state(*share).fence;
            // While writes of a former holder may arrive, the share could not be released cleanly.
            if is_others && self.shares.holds(*share) && fence.former_holders_writes_ended().is_ok() {
                let is_new = orders.send_if_modified(|orders| {
                    let stays = *orders == HoldOrder::Hold;
                    if stays {
                        *orders = HoldOrder::Release;
                    }
                    stays
                });
                if is_new {
                    tracing::info!(%share, "another replica should have it");
                }
            }
        }
    }

    /// Deletes the Leases of replicas that are gone.
    fn delete_dead_replicas_leases(&mut self) {
        while self.others.try_join_next().is_some() {}
        if !self.shares.holds(Share::Fleet) {
            return;
        }
        let kept = self.leases.times.lease_duration.saturating_mul(DEAD_REPLICA_LEASES);
        let left = self.observed.values().filter(|observed| {
            let kind = observed.lease.as_ref().and_then(LeaseKind::of);
            kind == Some(LeaseKind::Replica)
                && observed.has_run_out()
                && observed.free_since().elapsed() >= kept
        });
        for lease in left.filter_map(|observed| observed.lease.clone()) {
            let leases = self.leases.clone();
            self.others.spawn(async move {
                match leases.delete(&lease).await {
                    Ok(()) => tracing::info!(replica = lease::holder(&lease), "a replica is gone for good"),
                    Err(failure) => tracing::debug!(error = %failure, "cannot delete the lease of a replica"),
                }
            });
        }
    }
}

impl Leases {
    fn is_ours_or_free(&self, observed: &ObservedLease) -> bool {
        observed.is_free() || observed.lease.as_ref().is_some_and(|lease| self.is_ours(lease))
    }
}

/// Deletes the heartbeat Lease of this replica.
async fn delete_own_lease(leases: Leases) {
    let name = lease::replica_lease_name(&leases.identity);
    if let Ok(Some(own)) = leases.get(&name).await
        && let Err(failure) = leases.delete(&Lease { metadata: unversioned(&own), ..own.clone() }).await
    {
        tracing::warn!(error = %failure, "cannot delete the lease of this replica");
    }
}

/// The metadata of this Lease by uid only: it may have been renewed since.
fn unversioned(lease: &Lease) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { resource_version: None, ..lease.metadata.clone() }
}

/// Renews the heartbeat Lease of this replica for ever.
#[expect(clippy::infinite_loop, reason = "the task is aborted when the replica retires")]
async fn heartbeat(leases: Leases) {
    let name = lease::replica_lease_name(&leases.identity);
    let mut held: Option<Lease> = None;
    loop {
        let shown = match &mut held {
            Some(held) => elector::renew(&leases, held).await.map(|is_there| is_there.then(|| held.clone())),
            None => match leases.create(&name, LeaseKind::Replica).await {
                Ok(made) => Ok(Some(made)),
                Err(CallFailure::Exists) => leases.get(&name).await,
                Err(failure) => Err(failure),
            },
        };
        match shown {
            Ok(shown) => held = shown,
            Err(failure) => tracing::warn!(error = %failure, "cannot show that this replica lives"),
        }
        // A Lease that exists already, or is missing, is acquired at once.
        let is_fresh = held.as_ref().is_some_and(|held| leases.is_ours(held));
        sleep(if is_fresh { leases.times.retry_period } else { LOOK_MAX }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::ShareState;
    use super::*;
    use crate::fixtures::server::Server;
    use crate::fixtures::world::times;
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use tokio::time::advance;

    #[derive(Debug)]
    struct Idle;

    impl ShareCallbacks for Idle {
        fn ready(&self) -> BoxFuture<'_, ()> {
            std::future::ready(()).boxed()
        }

        fn prepare<'a>(&'a self, _state: &'a ShareState) -> BoxFuture<'a, ()> {
            std::future::ready(()).boxed()
        }

        fn started(&self, _share: Share) {}

        fn stopped(&self, _share: Share) {}
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_begun_in_a_share_since_stands_back_as_for_the_first_time() {
        let shares = Arc::new(Shares::new(2, times()));
        let leases = Leases::new(Server::default().client(), "tke-business", "one".to_owned(), times(), 2);
        let mut candidate = Candidate::new(leases, Arc::clone(&shares), Arc::new(Idle));
        let shortest = times().lease_duration * BACKOFF_LEASES;
        for (begins, doubled) in [(false, 1), (false, 2), (false, 4), (true, 1), (false, 2)] {
            if begins {
                shares.state(Share::Clusters(0)).start();
            }
            candidate.back_off();
            let wait = candidate.backs_off_until - Instant::now();
            assert_eq!(wait, shortest * doubled);
            advance(wait).await;
        }
        candidate.ended(Ok((Share::Clusters(0), TermEnd::Released))).unwrap();
        candidate.back_off();
        assert_eq!(candidate.backs_off_until - Instant::now(), shortest * 4, "that began before");
    }
}
