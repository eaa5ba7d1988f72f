//! The background audit. By itself it only raises allocations; lowering them is left to an operator, except for holds
//! of what is gone from its cluster. Growth that is held after a divergence of history is released when an audit of
//! both sides, ledger and member clusters, has found no obstacle.

use super::difference_log::DifferenceLog;
use super::project_status::AuditStatuses;
use super::{AccountReader, growth, orphans, project_status};
use crate::clusters::Clusters;
use business_types::{Comparison, Orphan, OrphanState};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use runtime::Metrics;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::audit::{AuditReport, Difference};
use store::hold::{GrowthHold, Hold, HoldRows, HoldSummary};
use store::repair::Repair;
use store::{Access, Error, Revision, Store};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// Time between two audits. Each reads the whole database.
const AUDIT_INTERVAL: Duration = Duration::from_mins(10);
/// Time between two checks of what held growth waits for. If it waits for the audit alone, also between two audits.
const HELD_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time between two comparisons of the schema.
const SCHEMA_INTERVAL: Duration = Duration::from_hours(1);
/// Time before the first audit, so that it does not slow down a start.
const INITIAL_DELAY: Duration = Duration::from_mins(1);
/// Time between two checks whether growth is held.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// A step that takes longer is given up: its connection may be dead.
const STEP_TIMEOUT: Duration = Duration::from_mins(15);

/// The result of charging the orphans that the controller has reported.
#[derive(Debug, Default)]
struct OrphanCharges {
    /// The number of orphans that could not be held.
    unheld: usize,
    /// Why not all orphans are known; `None` if they are.
    unread: Option<String>,
    /// Uids of released namespaces whose holds were written off, by project.
    written_off: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct AuditMetrics {
    differences: Gauge,
    holds: Gauge,
    held: Gauge,
    unknown: Gauge,
    audits: Counter,
    schema: Gauge,
}

/// Runs the audit again and again.
#[derive(Debug)]
pub struct Auditor {
    store: Store,
    account_reader: AccountReader,
    access: Access,
    comparisons: watch::Receiver<Arc<Comparison>>,
    /// The reason for which growth is held that was logged last.
    logged_hold_reason: Option<String>,
    metrics: AuditMetrics,
    next_check: Instant,
    /// When ledger and objects are compared next, whether or not growth is held.
    next_audit: Instant,
    /// The hold on growth that the audit may release.
    hold_awaiting_audit: Option<GrowthHold>,
    /// Some statuses could not be written: the next step runs even without a trigger.
    retry: bool,
    /// A digest of the holds that the statuses of projects showed last.
    published_holds: Option<HoldRows>,
    /// The revision of the status that has first shown each hold to the controller.
    hold_known_at: HashMap<Uuid, Revision>,
    differences: Vec<Difference>,
    difference_log: DifferenceLog,
    next_schema_check: Instant,
}

impl Auditor {
    /// An auditor of a store.
    pub fn new(store: Store, account_reader: AccountReader, clusters: &Clusters, metrics: &Metrics) -> Self {
        let gauge = |name, help| metrics.register(name, help, Gauge::default());
        let metrics = AuditMetrics {
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
            account_reader,
            access: Access::internal("audit"),
            comparisons: clusters.comparison(),
            logged_hold_reason: None,
            metrics,
            next_check: Instant::now() + INITIAL_DELAY,
            next_audit: Instant::now() + INITIAL_DELAY,
            hold_awaiting_audit: None,
            retry: false,
            published_holds: None,
            hold_known_at: HashMap::new(),
            differences: Vec::new(),
            difference_log: DifferenceLog::default(),
            next_schema_check: Instant::now() + INITIAL_DELAY,
        }
    }

    /// Runs until the task is cancelled.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn run(mut self) {
        loop {
            let step = tokio::time::timeout(STEP_TIMEOUT, self.step()).await;
            let late = |_elapsed| Err(Error::Unavailable(format!("it has no end after {STEP_TIMEOUT:?}")));
            if let Err(error) = step.unwrap_or_else(late) {
                tracing::warn!(%error, "the audit could not be made");
                self.retry = true;
                // Not `comparisons.changed()`: it returns at once if there is an unseen comparison.
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
            match tokio::time::timeout(POLL_INTERVAL, self.comparisons.changed()).await {
                Ok(Ok(())) => self.comparisons.mark_changed(),
                Ok(Err(_closed)) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(_elapsed) => {}
            }
        }
    }

    /// Does one round, if it is due or something has changed.
    pub async fn step(&mut self) -> Result<(), Error> {
        if Instant::now() >= self.next_schema_check {
            self.next_schema_check = Instant::now() + SCHEMA_INTERVAL;
            self.compare_schema().await;
        }
        let HoldSummary { growth: hold, amounts } = self.store.hold_summary(&self.access).await?;
        self.update_growth_hold(hold.as_ref());
        // Somebody has abandoned a charge, or another replica has made or written off a hold: the statuses of projects
        // must show it.
        let holds_changed = *self.published_holds.get_or_insert_with(|| amounts.clone()) != amounts;
        let retry = std::mem::take(&mut self.retry);
        let is_triggered = retry || holds_changed || self.comparisons.has_changed().unwrap_or_default();
        let due = Instant::now() >= self.next_check.min(self.next_audit);
        if !is_triggered && !due {
            return Ok(());
        }
        self.next_check = Instant::now()
            + if self.hold_awaiting_audit.is_some() { HELD_CHECK_INTERVAL } else { AUDIT_INTERVAL };
        let comparison = Arc::clone(&self.comparisons.borrow_and_update());
        let mut charged = self.hold_orphans(&comparison).await?;
        // While there is another obstacle, an audit could not release growth.
        let mut obstacle = self.obstacle(&comparison, &charged, &[]).await?;
        let waits_for_audit = self.hold_awaiting_audit.is_some() && obstacle.is_none();
        if waits_for_audit || Instant::now() >= self.next_audit {
            self.next_audit = Instant::now() + AUDIT_INTERVAL;
            self.differences = self.audit().await?;
        }
        self.publish(std::mem::take(&mut charged.written_off)).await?;
        self.published_holds = Some(amounts);
        if waits_for_audit {
            obstacle = self.obstacle(&comparison, &charged, &self.differences).await?;
        }
        let Some(hold) = &self.hold_awaiting_audit else { return Ok(()) };
        if let Some(why) = obstacle {
            let why = format!("{}; {why}", hold.reason);
            self.log_growth_hold(Some(why));
            return Ok(());
        }
        self.store.release_growth(&self.access, hold).await?;
        let hold = self.store.growth_hold(&self.access).await?;
        self.update_growth_hold(hold.as_ref());
        Ok(())
    }

    /// Why growth cannot be released yet; `None` if nothing is in the way, or no hold awaits the audit.
    async fn obstacle(
        &self,
        comparison: &Comparison,
        charged: &OrphanCharges,
        differences: &[Difference],
    ) -> Result<Option<String>, Error> {
        let Some(hold) = &self.hold_awaiting_audit else { return Ok(None) };
        if charged.unread.is_some() {
            return Ok(charged.unread.clone());
        }
        let in_use = growth::clusters_in_use(&self.store, &self.access, self.account_reader.kinds).await?;
        let newest = self.store.current_revision().await?;
        let found = growth::GrowthFinding { newest, unheld: charged.unheld, differences, in_use: &in_use };
        Ok(growth::obstacle(hold, comparison, found))
    }

    /// Takes note of whether growth is held, and by which hold.
    fn update_growth_hold(&mut self, hold: Option<&GrowthHold>) {
        self.metrics.held.set(i64::from(hold.is_some()));
        let diverged = hold.filter(|hold| hold.waits_for_audit());
        let changed = match (diverged, &self.hold_awaiting_audit) {
            (Some(hold), Some(waiting)) => !hold.is_same_as(waiting),
            (hold, waiting) => hold.is_some() != waiting.is_some(),
        };
        if changed {
            self.hold_awaiting_audit = diverged.cloned();
            self.next_audit = self.next_audit.min(Instant::now());
        }
        if changed || diverged.is_none() {
            self.log_growth_hold(hold.map(|hold| hold.reason.clone()));
        }
    }

    /// Logs why growth is held, if the reason has changed.
    fn log_growth_hold(&mut self, why: Option<String>) {
        if self.logged_hold_reason == why {
            return;
        }
        if let Some(why) = &why {
            tracing::warn!(why, "growth is held");
        } else {
            tracing::info!("growth goes on");
        }
        self.logged_hold_reason = why;
    }

    /// Logs what somebody has changed in the schema. It needs the right to create a schema to compare with.
    async fn compare_schema(&self) {
        match self.store.schema_differences().await {
            Ok(found) => {
                let found = found.unwrap_or_default();
                self.metrics.schema.set(i64::try_from(found.len()).unwrap_or(i64::MAX));
                for difference in found {
                    tracing::error!(%difference, "the schema is not as the migrations made it");
                }
            }
            Err(error) => tracing::info!(%error, "the schema could not be compared"),
        }
    }

    /// Compares ledger and objects, raises allocations that are too low, and returns the remaining differences.
    async fn audit(&mut self) -> Result<Vec<Difference>, Error> {
        let mut report = self.compare().await?;
        if !report.differences.is_empty() {
            self.store.repair(&self.access, &self.account_reader, None, Repair::Raise).await?;
            report = self.compare().await?;
        }
        self.metrics.audits.inc();
        self.metrics.unknown.set(i64::try_from(report.unknown.len()).unwrap_or(i64::MAX));
        Ok(report.differences)
    }

    /// Compares ledger and objects. Logs the differences at once, as later steps may fail.
    async fn compare(&mut self) -> Result<AuditReport, Error> {
        let report = self.store.audit(&self.access, &self.account_reader).await?;
        self.metrics.differences.set(i64::try_from(report.differences.len()).unwrap_or(i64::MAX));
        self.difference_log.log_new(&report.differences);
        Ok(report)
    }

    /// Holds the amounts of orphans that the controller has reported, and writes off holds of what it has seen gone.
    async fn hold_orphans(&mut self, comparison: &Comparison) -> Result<OrphanCharges, Error> {
        // The statuses are read before the holds: then every hold that a status shows is among the holds.
        let statuses = project_status::read(&self.store, &self.access).await?;
        let mut charged = OrphanCharges { unread: statuses.obstacle(), ..OrphanCharges::default() };
        let AuditStatuses { projects, unread } = statuses;
        let holds = self.store.holds(&self.access, None).await?;
        for status in projects.values() {
            for held in status.ledger.held.iter().filter_map(|held| held.uid.parse().ok()) {
                self.hold_known_at.entry(held).or_insert(status.revision);
            }
        }
        self.hold_known_at.retain(|uid, _| holds.iter().any(|hold| hold.uid == *uid));
        let mut left = Vec::new();
        for hold in holds {
            // A status that cannot be read may report an orphan for this hold.
            let is_kept = !unread.is_empty()
                || projects.iter().any(|(project, status)| {
                    status.orphans.iter().any(|orphan| orphans::keeps_hold(project, orphan, &hold))
                });
            if is_kept || !self.was_compared_since(&hold, comparison) {
                left.push(hold);
                continue;
            }
            match self.store.write_off(&self.access, hold.uid).await {
                // Another replica was faster.
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        for (project, status) in &projects {
            for orphan in &status.orphans {
                self.charge_orphan(project, orphan, &left, &mut charged).await;
            }
        }
        Ok(charged)
    }

    async fn charge_orphan(
        &self,
        project: &str,
        orphan: &Orphan,
        holds: &[Hold],
        charged: &mut OrphanCharges,
    ) {
        let Some(hold) = orphans::hold_of(project, orphan) else {
            charged.unheld += 1;
            return;
        };
        if orphans::is_covered(holds, &hold) {
            return;
        }
        // Without a hold now, it was written off, unless a restore has lost it. What was written off and is not in use
        // is not held again.
        let is_written_off = match orphan.state {
            OrphanState::Unused => true,
            OrphanState::Released => self.hold_awaiting_audit.is_none(),
            OrphanState::Lost | OrphanState::Ahead => false,
        };
        if is_written_off {
            // If the project holds something for the same claim, nothing was written off there.
            if !orphans::has_hold_of_claim(holds, &hold) {
                charged.written_off.entry(project.to_owned()).or_default().push(orphan.uid.clone());
            }
            return;
        }
        // An operator may have written it off since the statuses were read. Without a comparison nothing would end it.
        if !project_status::still_reports(&self.store, &self.access, project, orphan).await {
            return;
        }
        if let Err(error) = self.store.hold(&self.access, &hold).await {
            tracing::warn!(project, namespace = orphan.namespace, %error, "an orphan cannot be held");
            charged.unheld += 1;
        }
    }

    /// Whether the controller has compared all clusters of a hold since it knows of the hold.
    fn was_compared_since(&self, hold: &Hold, comparison: &Comparison) -> bool {
        let Some(known) = self.hold_known_at.get(&hold.uid) else { return false };
        let mut clusters = orphans::clusters(hold).peekable();
        clusters.peek().is_some()
            && clusters.all(|cluster| comparison.clusters.get(cluster).is_some_and(|at| *at >= known.0))
            && comparison.unreported == comparison.homeless
    }

    /// Writes differences and holds to the statuses of projects.
    async fn publish(&mut self, written_off: BTreeMap<String, Vec<String>>) -> Result<(), Error> {
        let holds = self.store.holds(&self.access, None).await?;
        self.metrics.holds.set(i64::try_from(holds.len()).unwrap_or(i64::MAX));
        let results =
            project_status::AuditResults { differences: &self.differences, holds: &holds, written_off };
        let outcome = project_status::write(&self.store, &self.access, results).await?;
        self.retry = outcome.has_conflicts;
        for (hold, revision) in outcome.published {
            self.hold_known_at.entry(hold).or_insert(revision);
        }
        Ok(())
    }
}
