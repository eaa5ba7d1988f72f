//! Audits for ever. By itself it only raises an allocation; lowering is left to an operator, but for what was held
//! without an object and is gone from its cluster. Growth that is held after a divergence of history goes on when an
//! audit of both sides, ledger and member clusters, has found nothing that is left to do.

use super::{Books, told};
use crate::clusters::Clusters;
use arc_swap::ArcSwapOption;
use business_types::{Comparison, Orphan, account};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::audit::Difference;
use store::hold::{GrowthHold, Hold};
use store::quota::{Amounts, Claim, HoldState, Scope};
use store::repair::Repair;
use store::{Access, Error, Revision, Store};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// Between two audits.
const EVERY: Duration = Duration::from_mins(10);
/// The same while growth waits for one.
const EVERY_WHILE_HELD: Duration = Duration::from_secs(15);
/// Before the first one: a start has better things to do.
const FIRST: Duration = Duration::from_mins(1);
/// Between two looks at whether growth is held.
const LOOK: Duration = Duration::from_secs(5);

/// Why growth is held, as this replica saw it last.
#[derive(Clone, Debug, Default)]
pub struct Growth(Arc<ArcSwapOption<String>>);

impl Growth {
    /// For health: the error says why, and what is waited for.
    pub fn check(&self) -> Result<(), String> {
        self.0.load().as_ref().map_or(Ok(()), |why| Err(format!("growth is held: {why}")))
    }
}

#[derive(Debug)]
struct Meters {
    differences: Gauge,
    holds: Gauge,
    held: Gauge,
    unknown: Gauge,
    audits: Counter,
}

/// Audits again and again.
#[derive(Debug)]
pub struct Auditor {
    store: Store,
    books: Books,
    access: Access,
    compared: watch::Receiver<Arc<Comparison>>,
    growth: Growth,
    meters: Meters,
    due: Instant,
    /// The hold on growth that is waited for.
    waiting: Option<GrowthHold>,
    /// What was found could not all be told: it is tried again without news.
    again: bool,
    /// From which revision on the controller knows of a hold.
    known: HashMap<Uuid, Revision>,
    differences: Vec<Difference>,
}

impl Auditor {
    /// An auditor of a store. `growth` is told what it sees.
    pub fn new(store: Store, books: Books, clusters: &Clusters, growth: Growth, metrics: &Metrics) -> Self {
        let gauge = |name, help| metrics.register(name, help, Gauge::default());
        let meters = Meters {
            differences: gauge(
                "business_audit_differences",
                "Differences between ledger and objects in the last audit",
            ),
            holds: gauge("business_holds", "Amounts that count without an object"),
            held: gauge("business_growth_held", "1 while growth is held"),
            unknown: gauge("business_unknown_kinds", "Kinds in the database that this release does not know"),
            audits: metrics.register("business_audits", "Audits that have ended", Counter::default()),
        };
        Self {
            store,
            books,
            access: Access::internal("audit"),
            compared: clusters.compared(),
            growth,
            meters,
            due: Instant::now() + FIRST,
            waiting: None,
            again: false,
            known: HashMap::new(),
            differences: Vec::new(),
        }
    }

    /// Audits for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.step().await {
                tracing::warn!(%error, "the audit could not be made");
                self.again = true;
            }
            match tokio::time::timeout(LOOK, self.compared.changed()).await {
                Ok(Ok(())) => self.compared.mark_changed(),
                Ok(Err(_closed)) => tokio::time::sleep(LOOK).await,
                Err(_elapsed) => {}
            }
        }
    }

    /// Does what is due.
    pub async fn step(&mut self) -> Result<(), Error> {
        let hold = self.store.growth_hold(&self.access).await?;
        self.notice(hold.as_ref());
        let again = std::mem::take(&mut self.again);
        let news = again || self.compared.has_changed().unwrap_or_default();
        let due = Instant::now() >= self.due;
        if !news && !due {
            return Ok(());
        }
        let comparison = Arc::clone(&self.compared.borrow_and_update());
        let unheld = self.hold_orphans(&comparison).await?;
        if due || self.waiting.is_some() {
            let held = self.waiting.is_some();
            self.due = Instant::now() + if held { EVERY_WHILE_HELD } else { EVERY };
            self.differences = self.audit().await?;
        }
        self.tell().await?;
        let Some(hold) = &self.waiting else { return Ok(()) };
        if let Some(why) = obstacle(hold, &comparison, unheld, &self.differences) {
            self.growth.0.store(Some(Arc::new(format!("{}; {why}", hold.reason))));
            return Ok(());
        }
        self.store.release_growth(&self.access, hold).await?;
        let hold = self.store.growth_hold(&self.access).await?;
        self.notice(hold.as_ref());
        Ok(())
    }

    /// Growth is held, or is not.
    fn notice(&mut self, hold: Option<&GrowthHold>) {
        self.meters.held.set(i64::from(hold.is_some()));
        let diverged = hold.filter(|hold| hold.waits_for_audit());
        let news = diverged.map(|hold| hold.epoch) != self.waiting.as_ref().map(|hold| hold.epoch);
        if news {
            self.waiting = diverged.cloned();
            self.due = self.due.min(Instant::now());
        }
        match hold {
            None => self.growth.0.store(None),
            Some(hold) if news || diverged.is_none() => {
                self.growth.0.store(Some(Arc::new(hold.reason.clone())));
            }
            Some(_) => {}
        }
    }

    /// Compares ledger and objects, raises what is too low, and tells what is left.
    async fn audit(&self) -> Result<Vec<Difference>, Error> {
        let mut report = self.store.audit(&self.access, &self.books).await?;
        if !report.differences.is_empty() {
            self.store.repair(&self.access, &self.books, None, Repair::Raise).await?;
            report = self.store.audit(&self.access, &self.books).await?;
        }
        self.meters.audits.inc();
        self.meters.unknown.set(i64::try_from(self.books.unknown().len()).unwrap_or(i64::MAX));
        self.meters.differences.set(i64::try_from(report.differences.len()).unwrap_or(i64::MAX));
        Ok(report.differences)
    }

    /// Charges the orphans that the controller has reported, and writes off what it has seen gone. Tells how many
    /// orphans could not be charged.
    async fn hold_orphans(&mut self, comparison: &Comparison) -> Result<usize, Error> {
        let mut unheld = 0;
        let holds = self.store.holds(&self.access, None).await?;
        let projects = told::read(&self.store, &self.access).await?;
        for (project, told) in &projects {
            for orphan in &told.orphans {
                let Some(hold) = hold_of(project, orphan) else {
                    unheld += 1;
                    continue;
                };
                let counted = holds
                    .iter()
                    .any(|held| *held == hold || (held.uid != hold.uid && held.claim == hold.claim));
                if !counted && let Err(error) = self.store.hold(&self.access, &hold).await {
                    tracing::warn!(project, namespace = orphan.namespace, %error, "an orphan cannot be held");
                    unheld += 1;
                }
            }
            for held in told.ledger.held.iter().filter_map(|held| held.uid.parse().ok()) {
                self.known.entry(held).or_insert(told.revision);
            }
        }
        self.known.retain(|uid, _| holds.iter().any(|hold| hold.uid == *uid));
        for hold in &holds {
            let reported = |claim: &Claim| {
                let mut all = projects.values().flat_map(|told| &told.orphans);
                all.any(|o| o.cluster_name == claim.domain && o.namespace == claim.place)
            };
            if self.was_looked_for(hold, comparison) && !hold.claim.as_ref().is_some_and(reported) {
                match self.store.write_off(&self.access, hold.uid).await {
                    // Another replica has seen the same.
                    Ok(()) | Err(Error::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(unheld)
    }

    /// Whether the controller knew of a hold when it compared its cluster last.
    fn was_looked_for(&self, hold: &Hold, comparison: &Comparison) -> bool {
        let compared = hold.claim.as_ref().and_then(|claim| comparison.clusters.get(&claim.domain));
        match (compared, self.known.get(&hold.uid)) {
            (Some(compared), Some(known)) => {
                *compared >= known.0 && comparison.unreported == comparison.homeless
            }
            _ => false,
        }
    }

    /// Shows in every project's status what was found, and what is held.
    async fn tell(&mut self) -> Result<(), Error> {
        let holds = self.store.holds(&self.access, None).await?;
        self.meters.holds.set(i64::try_from(holds.len()).unwrap_or(i64::MAX));
        let round = told::write(&self.store, &self.access, &self.differences, &holds).await?;
        self.again = round.behind;
        for (hold, revision) in round.shown {
            self.known.entry(hold).or_insert(revision);
        }
        Ok(())
    }
}

fn hold_of(project: &str, orphan: &Orphan) -> Option<Hold> {
    let Orphan { cluster_name, namespace, uid, hard } = orphan;
    Some(Hold {
        uid: uid.parse().ok()?,
        scope: Scope::new(account::PROJECT, project),
        claim: Some(Claim { domain: cluster_name.clone(), place: namespace.clone() }),
        amounts: Amounts::from([(cluster_name.clone(), hard.clone())]),
        state: HoldState::Orphaned,
        reason: "a namespace of the cluster is marked as the project's and belongs to no object".to_owned(),
    })
}

/// What keeps growth from going on.
fn obstacle(
    hold: &GrowthHold,
    comparison: &Comparison,
    unheld: usize,
    differences: &[Difference],
) -> Option<String> {
    if let Some(first) = differences.first() {
        return Some(format!(
            "{} differences between ledger and objects, which business-api audit --repair sets right: {first}",
            differences.len()
        ));
    }
    let unreported = comparison.unreported.saturating_add(u64::try_from(unheld).unwrap_or(u64::MAX));
    if comparison.clusters.is_empty() || !is_recent(&comparison.clusters, hold) {
        return Some("the controller has not compared the member clusters since".to_owned());
    }
    if let Some((cluster, why)) = comparison.missing.first_key_value() {
        return Some(format!("member cluster {cluster} was not compared: {why}"));
    }
    (unreported > 0)
        .then(|| format!("{unreported} namespaces of member clusters belong to no object and to no project"))
}

fn is_recent(clusters: &BTreeMap<String, u64>, hold: &GrowthHold) -> bool {
    clusters.values().all(|at| *at >= hold.since.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_waits_for_both_sides() {
        let hold =
            GrowthHold { reason: "history has diverged".to_owned(), epoch: Uuid::nil(), since: Revision(50) };
        let clusters = |at| BTreeMap::from([("c1".to_owned(), at)]);
        let old = Comparison { clusters: clusters(49), ..Comparison::default() };
        let why = |comparison: &Comparison, unheld| obstacle(&hold, comparison, unheld, &[]);
        assert!(why(&Comparison::default(), 0).unwrap().contains("not compared"));
        assert!(why(&old, 0).unwrap().contains("not compared"));
        let new = Comparison { clusters: clusters(50), ..Comparison::default() };
        assert_eq!(why(&new, 0), None);
        assert!(why(&new, 1).unwrap().starts_with("1 namespaces"));
        let missing = BTreeMap::from([("c2".to_owned(), "no answer".to_owned())]);
        let without = Comparison { missing, ..new };
        assert_eq!(why(&without, 0).unwrap(), "member cluster c2 was not compared: no answer");
    }
}
