//! A replica that takes and gives shares. It shows by a Lease of its own that it lives, and looks at all Leases again and
//! again. A share that is free is taken by whom it wants most; one that another replica should have is given to it, once
//! the replicas have been the same for a while.

use super::lease::{self, Leases, Sight};
use super::rendezvous::rank;
use super::tenure::{self, Orders, Tenure, TenureEnd, Work};
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
const LOOKS: u32 = 4;
/// How many durations of a lease the replicas have been the same before a share is given to another one: so that a
/// rolling restart moves no more than it has to.
const SETTLED: u32 = 2;
/// How many durations of a lease one of a replica is kept that has run out.
const KEPT: u32 = 4;
/// How many durations of a lease a replica stands back that could not begin in a share.
const STANDS_BACK: u32 = 8;
/// How often that is doubled at most, where it cannot begin again and again.
const STANDS_BACK_DOUBLINGS: u32 = 3;

/// One replica.
#[derive(Debug)]
pub struct Candidate {
    leases: Leases,
    shares: Arc<Shares>,
    work: Arc<dyn Work>,
    sights: BTreeMap<String, Sight>,
    replicas: BTreeSet<String>,
    /// Since when they have been the same.
    settled: Instant,
    tenures: JoinSet<(Share, TenureEnd)>,
    orders: BTreeMap<Share, watch::Sender<Orders>>,
    presence: Option<AbortHandle>,
    /// How often this replica could not begin in a share since it last did.
    failures: u32,
    /// How often it did by then.
    begun: u64,
    /// Until then it is not shown as living, and takes only what nobody else wants.
    stands_back: Instant,
    /// What shows that this replica lives.
    others: JoinSet<()>,
}

impl Candidate {
    pub fn new(leases: Leases, shares: Arc<Shares>, work: Arc<dyn Work>) -> Self {
        Self {
            leases,
            shares,
            work,
            sights: BTreeMap::new(),
            replicas: BTreeSet::new(),
            settled: Instant::now(),
            tenures: JoinSet::new(),
            orders: BTreeMap::new(),
            presence: None,
            failures: 0,
            begun: 0,
            stands_back: Instant::now(),
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
        let work = Arc::clone(&self.work);
        end.run_until_cancelled(work.ready()).await;
        while !end.is_cancelled() {
            match self.leases.list().await {
                Ok(leases) => self.look(leases)?,
                Err(failure) => tracing::warn!(error = %failure, "cannot look at the leases"),
            }
            tokio::select! {
                () = end.cancelled() => {}
                () = sleep_until(self.next_look()) => {}
                Some(ended) = self.tenures.join_next() => self.ended(ended)?,
            }
        }
        Ok(())
    }

    /// Gives every share back, by then at the latest, and is not there any more.
    pub async fn retire(&mut self, within: Duration) {
        let end = Instant::now() + within;
        for orders in self.orders.values() {
            orders.send_replace(Orders::LeaveBy(end));
        }
        if let Some(presence) = self.presence.take() {
            presence.abort();
        }
        // First, so that nobody counts with this replica when the shares are free.
        withdraw(self.leases.clone()).await;
        while let Some(ended) = self.tenures.join_next().await {
            if let Err(error) = self.ended(ended) {
                tracing::warn!(error = error.text(), "a share was not given back");
            }
        }
    }

    fn ended(&mut self, ended: Result<(Share, TenureEnd), tokio::task::JoinError>) -> Result<(), Error> {
        let (share, ended) = ended.map_err(|error| Error::ShareLost(error.to_string()))?;
        self.orders.remove(&share);
        match ended {
            TenureEnd::Lost => Err(Error::ShareLost(share.to_string())),
            TenureEnd::NotTaken | TenureEnd::Left => Ok(()),
            TenureEnd::NotBegun => {
                self.stand_back();
                Ok(())
            }
        }
    }

    fn is_standing_back(&self) -> bool {
        Instant::now() < self.stands_back
    }

    /// Others come first for a while. Where it is alone, or nobody else can begin either, it tries again at once.
    fn stand_back(&mut self) {
        // Of shares that were taken together one counts.
        if self.is_standing_back() {
            return;
        }
        let begun = self.shares.posts().map(|post| post.tenure()).sum();
        if begun != self.begun {
            (self.failures, self.begun) = (0, begun);
        }
        let doubled = 1 << self.failures.min(STANDS_BACK_DOUBLINGS);
        self.failures = self.failures.saturating_add(1);
        self.stands_back = Instant::now() + self.leases.times.lease_duration * STANDS_BACK * doubled;
        if let Some(presence) = self.presence.take() {
            presence.abort();
            self.others.spawn(withdraw(self.leases.clone()));
        }
    }

    /// When to look again: soon, and at once when somebody's lease runs out.
    fn next_look(&self) -> Instant {
        let now = Instant::now();
        let period = (self.leases.times.retry_period / LOOKS).clamp(LOOK_MIN, LOOK_MAX);
        let others = self.sights.values().filter(|sight| !self.leases.is_ours_or_free(sight));
        let runs_out = others.map(|sight| sight.free_since() + LOOK_MIN).filter(|at| *at > now).min();
        runs_out.map_or(now + period, |at| at.min(now + period))
    }

    fn look(&mut self, leases: Vec<Lease>) -> Result<(), Error> {
        self.observe(leases);
        self.check_shards()?;
        self.show_presence();
        let replicas = self.living();
        if replicas != self.replicas {
            tracing::info!(?replicas, "the replicas are others than before");
            self.replicas = replicas;
            self.settled = Instant::now();
        }
        for post in self.shares.posts() {
            let share = post.share;
            if self.orders.contains_key(&share) {
                continue;
            }
            if let Some(found) = self.to_take(share) {
                let found = found.lease.clone();
                let (sender, orders) = watch::channel(Orders::Stay);
                self.orders.insert(share, sender);
                let tenure = Tenure {
                    leases: self.leases.clone(),
                    post: Arc::clone(post),
                    work: Arc::clone(&self.work),
                    orders,
                };
                self.tenures.spawn(async move { (share, tenure.run(found).await) });
            }
        }
        self.give();
        self.clean_up();
        Ok(())
    }

    /// Remembers what is seen of each Lease, of those of shares also that it is not there.
    fn observe(&mut self, leases: Vec<Lease>) {
        let before = std::mem::take(&mut self.sights);
        let named = leases.into_iter().filter_map(|lease| Some((lease.metadata.name.clone()?, Some(lease))));
        let mut seen: BTreeMap<String, Option<Lease>> =
            self.shares.posts().map(|post| (lease::of_share(post.share), None)).collect();
        seen.extend(named);
        let sight = |(name, lease): (String, Option<Lease>)| {
            let sight = Sight::after(before.get(&name), lease);
            (name, sight)
        };
        self.sights = seen.into_iter().map(sight).collect();
    }

    /// Two replicas that divide the clusters in different ways would both write to one.
    fn check_shards(&self) -> Result<(), Error> {
        let counts = |lease: &&Lease| {
            let is_alive = self.sight(lease).is_some_and(|sight| !sight.is_free());
            lease::label(lease) == Some(lease::OF_SHARE) || is_alive
        };
        let leases = self.sights.values().filter_map(|sight| sight.lease.as_ref()).filter(counts);
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

    fn sight(&self, lease: &Lease) -> Option<&Sight> {
        self.sights.get(lease.metadata.name.as_deref()?)
    }

    /// Keeps the Lease that says that this replica lives.
    fn show_presence(&mut self) {
        if self.presence.is_none() && !self.is_standing_back() {
            self.presence = Some(self.others.spawn(presence(self.leases.clone())));
        }
    }

    /// The replicas that live. One that has let any lease run out does not.
    fn living(&self) -> BTreeSet<String> {
        let of = |label: &'static str| {
            let all = self.sights.values();
            all.filter(move |sight| sight.lease.as_ref().and_then(lease::label) == Some(label))
        };
        let mut living: BTreeSet<String> = of(lease::OF_REPLICA)
            .filter(|sight| !sight.is_free())
            .map(|sight| sight.holder().to_owned())
            .collect();
        for gone in of(lease::OF_SHARE).filter(|sight| sight.has_run_out()) {
            living.remove(gone.holder());
        }
        living.insert(self.leases.identity.clone());
        living
    }

    /// The Lease of a share that this replica should take now. Whoever should rather have it has a lease's duration to
    /// take it.
    fn to_take(&self, share: Share) -> Option<&Sight> {
        let sight = self.sights.get(&lease::of_share(share))?;
        let is_agreed =
            self.sights.get(&lease::of_share(Share::Fleet)).is_some_and(|fleet| fleet.lease.is_some());
        if share != Share::Fleet && !is_agreed {
            return None;
        }
        let is_own = sight.lease.as_ref().is_some_and(|lease| self.leases.is_ours(lease));
        if !is_own && !sight.is_free() {
            return None;
        }
        let rank = if self.is_standing_back() {
            u32::try_from(self.replicas.len()).unwrap_or(u32::MAX).saturating_sub(1)
        } else {
            rank(share, &self.leases.identity, self.replicas.iter().map(String::as_str))
        };
        let patience = self.leases.times.lease_duration.saturating_mul(rank);
        let has_waited = || Instant::now() >= sight.free_since() + patience;
        (rank == 0 || has_waited()).then_some(sight)
    }

    /// Leaves what another replica should have.
    fn give(&self) {
        let settled = self.leases.times.lease_duration.saturating_mul(SETTLED);
        if self.settled.elapsed() < settled {
            return;
        }
        for (share, orders) in &self.orders {
            let is_others = rank(*share, &self.leases.identity, self.replicas.iter().map(String::as_str)) > 0;
            let fence = &self.shares.post(*share).fence;
            // While a former holder's writes may arrive it could not be given back.
            if is_others && self.shares.holds(*share) && fence.former_holders_writes_ended().is_ok() {
                let is_new = orders.send_if_modified(|orders| {
                    let stays = *orders == Orders::Stay;
                    if stays {
                        *orders = Orders::Leave;
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
    fn clean_up(&mut self) {
        while self.others.try_join_next().is_some() {}
        if !self.shares.holds(Share::Fleet) {
            return;
        }
        let kept = self.leases.times.lease_duration.saturating_mul(KEPT);
        let left = self.sights.values().filter(|sight| {
            let of = sight.lease.as_ref().and_then(lease::label);
            of == Some(lease::OF_REPLICA) && sight.has_run_out() && sight.free_since().elapsed() >= kept
        });
        for lease in left.filter_map(|sight| sight.lease.clone()) {
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
    fn is_ours_or_free(&self, sight: &Sight) -> bool {
        sight.is_free() || sight.lease.as_ref().is_some_and(|lease| self.is_ours(lease))
    }
}

/// This replica is not shown as living any more.
async fn withdraw(leases: Leases) {
    let name = lease::of_replica(&leases.identity);
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
async fn presence(leases: Leases) {
    let name = lease::of_replica(&leases.identity);
    let mut held: Option<Lease> = None;
    loop {
        let shown = match &mut held {
            Some(held) => tenure::renew(&leases, held).await.map(|is_there| is_there.then(|| held.clone())),
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
    use super::super::Post;
    use super::*;
    use crate::fixtures::server::Server;
    use crate::fixtures::world::times;
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use tokio::time::advance;

    #[derive(Debug)]
    struct Idle;

    impl Work for Idle {
        fn ready(&self) -> BoxFuture<'_, ()> {
            std::future::ready(()).boxed()
        }

        fn prepare<'a>(&'a self, _post: &'a Post) -> BoxFuture<'a, ()> {
            std::future::ready(()).boxed()
        }

        fn begun(&self, _share: Share) {}

        fn ended(&self, _share: Share) {}
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_begun_in_a_share_since_stands_back_as_for_the_first_time() {
        let shares = Arc::new(Shares::new(2, times()));
        let leases = Leases::new(Server::default().client(), "tke-business", "one".to_owned(), times(), 2);
        let mut candidate = Candidate::new(leases, Arc::clone(&shares), Arc::new(Idle));
        let shortest = times().lease_duration * STANDS_BACK;
        for (begins, doubled) in [(false, 1), (false, 2), (false, 4), (true, 1), (false, 2)] {
            if begins {
                shares.post(Share::Clusters(0)).open();
            }
            candidate.stand_back();
            let wait = candidate.stands_back - Instant::now();
            assert_eq!(wait, shortest * doubled);
            advance(wait).await;
        }
        candidate.ended(Ok((Share::Clusters(0), TenureEnd::Left))).unwrap();
        candidate.stand_back();
        assert_eq!(candidate.stands_back - Instant::now(), shortest * 4, "that began before");
    }
}
