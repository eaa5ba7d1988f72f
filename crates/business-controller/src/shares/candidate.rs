//! A replica that takes and gives shares. It shows by a Lease of its own that it lives, and looks at all Leases again and
//! again. A share that is free is taken by whom it wants most; one that another replica should have is given to it, once
//! the replicas have been the same for a while.

use super::elector::{self, HoldOrder, ShareCallbacks, ShareElector, TermEnd};
use super::lease::{self, Leases, ObservedLease};
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

/// Between two looks at the Leases, at most.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// The same, at least.
const LOOK_MIN: Duration = Duration::from_millis(10);
/// Looks in a retry period.
const LOOKS_PER_RETRY_PERIOD: u32 = 4;
/// How many durations of a lease the replicas have been the same before a share is given to another one: so that a
/// rolling restart moves no more than it has to.
const SETTLED_LEASES: u32 = 2;
/// How many durations of a lease one of a replica is kept that has run out.
const DEAD_REPLICA_LEASES: u32 = 4;
/// How many durations of a lease a replica stands back that could not begin in a share.
const BACKOFF_LEASES: u32 = 8;
/// How often that is doubled at most, where it cannot begin again and again.
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
    /// How often this replica could not begin in a share since it last did.
    failures: u32,
    /// How often it did by then.
    begun: u64,
    /// Until then it is not shown as living, and takes only what nobody else wants.
    backs_off_until: Instant,
    /// What shows that this replica lives.
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

    /// Takes and gives shares until it is told to end. The error: one was lost, or this installation has another number
    /// of them.
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

    /// Gives every share back, by then at the latest, and is not there any more.
    pub async fn retire(&mut self, within: Duration) {
        let end = Instant::now() + within;
        for orders in self.orders.values() {
            orders.send_replace(HoldOrder::ReleaseBy(end));
        }
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.abort();
        }
        // First, so that nobody counts with this replica when the shares are free.
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

    /// Others come first for a while. Where it is alone, or nobody else can begin either, it tries again at once.
    fn back_off(&mut self) {
        // Of shares that were taken together one counts.
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

    /// When to look again: soon, and at once when somebody's lease runs out.
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

    /// Remembers what is seen of each Lease, of those of shares also that it is not there.
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

    /// Two replicas that divide the clusters in different ways would both write to one.
    fn check_shards(&self) -> Result<(), Error> {
        let counts = |lease: &&Lease| {
            let is_alive = self.observed_lease(lease).is_some_and(|observed| !observed.is_free());
            lease::lease_kind(lease) == Some(lease::OF_SHARE) || is_alive
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

    /// Keeps the Lease that says that this replica lives.
    fn keep_heartbeat(&mut self) {
        if self.heartbeat.is_none() && !self.is_backing_off() {
            self.heartbeat = Some(self.others.spawn(heartbeat(self.leases.clone())));
        }
    }

    /// The replicas that live. One that has let any lease run out does not.
    fn live_replicas(&self) -> BTreeSet<String> {
        let of = |label: &'static str| {
            let all = self.observed.values();
            all.filter(move |observed| observed.lease.as_ref().and_then(lease::lease_kind) == Some(label))
        };
        let mut live_replicas: BTreeSet<String> = of(lease::OF_REPLICA)
            .filter(|observed| !observed.is_free())
            .map(|observed| observed.holder().to_owned())
            .collect();
        for gone in of(lease::OF_SHARE).filter(|observed| observed.has_run_out()) {
            live_replicas.remove(gone.holder());
        }
        live_replicas.insert(self.leases.identity.clone());
        live_replicas
    }

    /// The Lease of a share that this replica should take now. Whoever should rather have it has a lease's duration to
    /// take it.
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

    /// Leaves what another replica should have.
    fn hand_over(&self) {
        let settled = self.leases.times.lease_duration.saturating_mul(SETTLED_LEASES);
        if self.settled.elapsed() < settled {
            return;
        }
        for (share, orders) in &self.orders {
            let is_others = rank(*share, &self.leases.identity, self.replicas.iter().map(String::as_str)) > 0;
            let fence = &self.shares.state(*share).fence;
            // While a former holder's writes may arrive it could not be given back.
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

    /// Deletes what replicas that are no more have left.
    fn delete_dead_replicas_leases(&mut self) {
        while self.others.try_join_next().is_some() {}
        if !self.shares.holds(Share::Fleet) {
            return;
        }
        let kept = self.leases.times.lease_duration.saturating_mul(DEAD_REPLICA_LEASES);
        let left = self.observed.values().filter(|observed| {
            let of = observed.lease.as_ref().and_then(lease::lease_kind);
            of == Some(lease::OF_REPLICA) && observed.has_run_out() && observed.free_since().elapsed() >= kept
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

/// This replica is not shown as living any more.
async fn delete_own_lease(leases: Leases) {
    let name = lease::replica_lease_name(&leases.identity);
    if let Ok(Some(own)) = leases.get(&name).await
        && let Err(failure) = leases.delete(&Lease { metadata: unversioned(&own), ..own.clone() }).await
    {
        tracing::warn!(error = %failure, "cannot delete the lease of this replica");
    }
}

/// Of exactly this Lease, whatever was renewed of it.
fn unversioned(lease: &Lease) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { resource_version: None, ..lease.metadata.clone() }
}

/// Shows for ever that this replica lives.
#[expect(clippy::infinite_loop, reason = "the task is aborted when the replica retires")]
async fn heartbeat(leases: Leases) {
    let name = lease::replica_lease_name(&leases.identity);
    let mut held: Option<Lease> = None;
    loop {
        let shown = match &mut held {
            Some(held) => elector::renew(&leases, held).await.map(|is_there| is_there.then(|| held.clone())),
            None => match leases.create(&name, lease::OF_REPLICA).await {
                Ok(made) => Ok(Some(made)),
                Err(CallFailure::Exists) => leases.get(&name).await,
                Err(failure) => Err(failure),
            },
        };
        match shown {
            Ok(shown) => held = shown,
            Err(failure) => tracing::warn!(error = %failure, "cannot show that this replica lives"),
        }
        // What is found, or has gone, is taken at once.
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
