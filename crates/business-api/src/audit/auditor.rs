//! Audits for ever. By itself it only raises an allocation; lowering is left to an operator, but for what was held
//! without an object and is gone from its cluster. Growth that is held after a divergence of history goes on when an
//! audit of both sides, ledger and member clusters, has found nothing that is left to do.

use super::logged::Logged;
use super::told::Told;
use super::{Books, growth, orphans, told};
use crate::clusters::Clusters;
use business_types::{Comparison, Orphan, OrphanState};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::audit::{AuditReport, Difference};
use store::hold::{GrowthHold, Held, Hold};
use store::repair::Repair;
use store::{Access, Error, Revision, Store};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// Between two audits. Each reads the whole database.
const EVERY: Duration = Duration::from_mins(10);
/// Between two looks at what growth waits for; while it waits for nothing else, also between two audits.
const EVERY_WHILE_HELD: Duration = Duration::from_secs(15);
/// Between two comparisons of the schema.
const SCHEMA_EVERY: Duration = Duration::from_hours(1);
/// Before the first one: a start has better things to do.
const FIRST: Duration = Duration::from_mins(1);
/// Between two looks at whether growth is held.
const LOOK: Duration = Duration::from_secs(5);
/// Nothing here takes longer: a connection may be gone without a word.
const STEP_MAX: Duration = Duration::from_mins(15);

/// What became of the orphans that the controller has reported.
#[derive(Debug, Default)]
struct Charged {
    /// How many could not be charged.
    unheld: usize,
    /// Why nobody knows of all of them.
    unread: Option<String>,
    /// Uids of released namespaces that nothing is held for any more, by project.
    written_off: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct Meters {
    differences: Gauge,
    holds: Gauge,
    held: Gauge,
    unknown: Gauge,
    audits: Counter,
    schema: Gauge,
}

/// Audits again and again.
#[derive(Debug)]
pub struct Auditor {
    store: Store,
    books: Books,
    access: Access,
    compared: watch::Receiver<Arc<Comparison>>,
    /// Why growth is held, as the log was told last.
    told: Option<String>,
    meters: Meters,
    due: Instant,
    /// When ledger and objects are compared, whatever growth waits for.
    audit_due: Instant,
    /// The hold on growth that is waited for.
    waiting: Option<GrowthHold>,
    /// Some of what was found could not be told: it is tried again even without news.
    again: bool,
    /// A short form of the held amounts that projects were told of last.
    amounts: Option<(i64, String)>,
    /// The revision from which on the controller knows of each hold.
    known: HashMap<Uuid, Revision>,
    differences: Vec<Difference>,
    logged: Logged,
    schema_due: Instant,
}

impl Auditor {
    /// An auditor of a store.
    pub fn new(store: Store, books: Books, clusters: &Clusters, metrics: &Metrics) -> Self {
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
            schema: gauge(
                "business_schema_differences",
                "Parts of the schema that are not as the migrations made them",
            ),
        };
        Self {
            store,
            books,
            access: Access::internal("audit"),
            compared: clusters.comparison(),
            told: None,
            meters,
            due: Instant::now() + FIRST,
            audit_due: Instant::now() + FIRST,
            waiting: None,
            again: false,
            amounts: None,
            known: HashMap::new(),
            differences: Vec::new(),
            logged: Logged::default(),
            schema_due: Instant::now() + FIRST,
        }
    }

    /// Audits for ever.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(mut self) {
        loop {
            let step = tokio::time::timeout(STEP_MAX, self.step()).await;
            let late = |_elapsed| Err(Error::Unavailable(format!("it has no end after {STEP_MAX:?}")));
            if let Err(error) = step.unwrap_or_else(late) {
                tracing::warn!(%error, "the audit could not be made");
                self.again = true;
                // News may be there already.
                tokio::time::sleep(LOOK).await;
                continue;
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
        if Instant::now() >= self.schema_due {
            self.schema_due = Instant::now() + SCHEMA_EVERY;
            self.compare_schema().await;
        }
        let Held { growth: hold, amounts } = self.store.held(&self.access).await?;
        self.notice(hold.as_ref());
        // Whether somebody has given up a charge, or another replica has charged or written off something: the status
        // of projects has to say so.
        let moved = *self.amounts.get_or_insert_with(|| amounts.clone()) != amounts;
        let again = std::mem::take(&mut self.again);
        let news = again || moved || self.compared.has_changed().unwrap_or_default();
        let due = Instant::now() >= self.due.min(self.audit_due);
        if !news && !due {
            return Ok(());
        }
        self.due = Instant::now() + if self.waiting.is_some() { EVERY_WHILE_HELD } else { EVERY };
        let comparison = Arc::clone(&self.compared.borrow_and_update());
        let mut charged = self.hold_orphans(&comparison).await?;
        // While growth waits for something else, an audit would not let it go on.
        let mut obstacle = self.obstacle(&comparison, &charged, &[]).await?;
        let waits_for_it = self.waiting.is_some() && obstacle.is_none();
        if waits_for_it || Instant::now() >= self.audit_due {
            self.audit_due = Instant::now() + EVERY;
            self.differences = self.audit().await?;
        }
        self.tell(std::mem::take(&mut charged.written_off)).await?;
        self.amounts = Some(amounts);
        if waits_for_it {
            obstacle = self.obstacle(&comparison, &charged, &self.differences).await?;
        }
        let Some(hold) = &self.waiting else { return Ok(()) };
        if let Some(why) = obstacle {
            let why = format!("{}; {why}", hold.reason);
            self.say(Some(why));
            return Ok(());
        }
        self.store.release_growth(&self.access, hold).await?;
        let hold = self.store.growth_hold(&self.access).await?;
        self.notice(hold.as_ref());
        Ok(())
    }

    /// Why growth may not go on yet; `None` if nobody waits for that.
    async fn obstacle(
        &self,
        comparison: &Comparison,
        charged: &Charged,
        differences: &[Difference],
    ) -> Result<Option<String>, Error> {
        let Some(hold) = &self.waiting else { return Ok(None) };
        if charged.unread.is_some() {
            return Ok(charged.unread.clone());
        }
        let in_use = growth::clusters_in_use(&self.store, &self.access, self.books.kinds).await?;
        let newest = self.store.current_revision().await?;
        let found = growth::GrowthFinding { newest, unheld: charged.unheld, differences, in_use: &in_use };
        Ok(growth::obstacle(hold, comparison, found))
    }

    /// Growth is held, or is not.
    fn notice(&mut self, hold: Option<&GrowthHold>) {
        self.meters.held.set(i64::from(hold.is_some()));
        let diverged = hold.filter(|hold| hold.waits_for_audit());
        let news = match (diverged, &self.waiting) {
            (Some(hold), Some(waiting)) => !hold.is(waiting),
            (hold, waiting) => hold.is_some() != waiting.is_some(),
        };
        if news {
            self.waiting = diverged.cloned();
            self.audit_due = self.audit_due.min(Instant::now());
        }
        if news || diverged.is_none() {
            self.say(hold.map(|hold| hold.reason.clone()));
        }
    }

    /// Tells the log when it is news why growth is held.
    fn say(&mut self, why: Option<String>) {
        if self.told == why {
            return;
        }
        if let Some(why) = &why {
            tracing::warn!(why, "growth is held");
        } else {
            tracing::info!("growth goes on");
        }
        self.told = why;
    }

    /// Logs what somebody has changed in the schema. This takes the right to make a schema to compare with.
    async fn compare_schema(&self) {
        match self.store.schema_differences().await {
            Ok(found) => {
                let found = found.unwrap_or_default();
                self.meters.schema.set(i64::try_from(found.len()).unwrap_or(i64::MAX));
                for difference in found {
                    tracing::error!(%difference, "the schema is not as the migrations made it");
                }
            }
            Err(error) => tracing::info!(%error, "the schema could not be compared"),
        }
    }

    /// Compares ledger and objects, raises what is too low, and tells what is left.
    async fn audit(&mut self) -> Result<Vec<Difference>, Error> {
        let mut report = self.compare().await?;
        if !report.differences.is_empty() {
            self.store.repair(&self.access, &self.books, None, Repair::Raise).await?;
            report = self.compare().await?;
        }
        self.meters.audits.inc();
        self.meters.unknown.set(i64::try_from(report.unknown.len()).unwrap_or(i64::MAX));
        Ok(report.differences)
    }

    /// Compares ledger and objects. What is found is told at once: what follows may fail.
    async fn compare(&mut self) -> Result<AuditReport, Error> {
        let report = self.store.audit(&self.access, &self.books).await?;
        self.meters.differences.set(i64::try_from(report.differences.len()).unwrap_or(i64::MAX));
        self.logged.tell(&report.differences);
        Ok(report)
    }

    /// Charges the orphans that the controller has reported, and writes off what it has seen gone.
    async fn hold_orphans(&mut self, comparison: &Comparison) -> Result<Charged, Error> {
        // Read before the holds: then what a status says is held is among them.
        let told = told::read(&self.store, &self.access).await?;
        let mut charged = Charged { unread: told.obstacle(), ..Charged::default() };
        let Told { projects, unread } = told;
        let holds = self.store.holds(&self.access, None).await?;
        for told in projects.values() {
            for held in told.ledger.held.iter().filter_map(|held| held.uid.parse().ok()) {
                self.known.entry(held).or_insert(told.revision);
            }
        }
        self.known.retain(|uid, _| holds.iter().any(|hold| hold.uid == *uid));
        let mut left = Vec::new();
        for hold in holds {
            // A status that cannot be read may tell of any place.
            let is_kept = !unread.is_empty()
                || projects.values().flat_map(|told| &told.orphans).any(|told| orphans::keeps(told, &hold));
            if is_kept || !self.was_looked_for(&hold, comparison) {
                left.push(hold);
                continue;
            }
            match self.store.write_off(&self.access, hold.uid).await {
                // Another replica has seen the same.
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        for (project, told) in &projects {
            for orphan in &told.orphans {
                self.charge(project, orphan, &left, &mut charged).await;
            }
        }
        Ok(charged)
    }

    async fn charge(&self, project: &str, orphan: &Orphan, holds: &[Hold], charged: &mut Charged) {
        let Some(hold) = orphans::hold_of(project, orphan) else {
            charged.unheld += 1;
            return;
        };
        if orphans::counts(holds, &hold) {
            return;
        }
        // A hold vanishes only by a restore or by being written off. What was written off and is not in use is not held
        // again.
        let is_written_off = match orphan.state {
            OrphanState::Unused => true,
            OrphanState::Released => self.waiting.is_none(),
            OrphanState::Lost | OrphanState::Ahead => false,
        };
        if is_written_off {
            // Nothing was written off of a place that the project holds something for.
            if !orphans::has_the_place(holds, &hold) {
                charged.written_off.entry(project.to_owned()).or_default().push(orphan.uid.clone());
            }
            return;
        }
        if let Err(error) = self.store.hold(&self.access, &hold).await {
            tracing::warn!(project, namespace = orphan.namespace, %error, "an orphan cannot be held");
            charged.unheld += 1;
        }
    }

    /// Whether the controller knew of a hold when it compared its clusters last.
    fn was_looked_for(&self, hold: &Hold, comparison: &Comparison) -> bool {
        let Some(known) = self.known.get(&hold.uid) else { return false };
        let mut clusters = orphans::clusters(hold).peekable();
        clusters.peek().is_some()
            && clusters.all(|cluster| comparison.clusters.get(cluster).is_some_and(|at| *at >= known.0))
            && comparison.unreported == comparison.homeless
    }

    /// Shows in every project's status what was found, and what is held.
    async fn tell(&mut self, written_off: BTreeMap<String, Vec<String>>) -> Result<(), Error> {
        let holds = self.store.holds(&self.access, None).await?;
        self.meters.holds.set(i64::try_from(holds.len()).unwrap_or(i64::MAX));
        let news = told::News { differences: &self.differences, holds: &holds, written_off };
        let round = told::write(&self.store, &self.access, news).await?;
        self.again = round.behind;
        for (hold, revision) in round.shown {
            self.known.entry(hold).or_insert(revision);
        }
        Ok(())
    }
}
