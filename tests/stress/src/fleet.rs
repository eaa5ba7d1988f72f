//! Many controllers for many member clusters, most of them simulated: every cluster has exactly one writer, even when
//! controllers fail. The clusters' audit logs prove it. Meanwhile namespaces are created, grown, shrunk and deleted in
//! all clusters, and the simulated ones answer late or never.

/// Faults of controllers.
mod fault;
/// Load on the controllers.
mod load;
/// Who has which lease.
mod leases;
/// The audit logs of the clusters.
mod logs;
/// Who wrote to a cluster, and when.
mod tenures;
/// The expected content of the clusters.
mod sums;
/// The report.
mod report;

use crate::failover::{audit_command, endpoints};
use anyhow::{Context, Result, bail, ensure};
use fault::Fault;
use instance::fleet::{Fleet, FleetOptions, LeaseTimes};
use instance::layout::Layout;
use instance::{Instance, Options, programs, up, wait};
use kit::Endpoint;
use leases::Leases;
use load::{Load, Plan};
use logs::AuditLogs;
use report::{Counts, Patience, Report, Row, Violation};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use sums::Sums;
use terminal::say::{self, Output};
use tokio::task::{JoinSet, block_in_place};

const MEMBERS: u8 = 2;
/// The controller compares clusters so often.
const AUDIT_PERIOD: &str = "10s";
const POLL: Duration = Duration::from_millis(250);
/// Between a fault that is over and the next one.
const CALM: Duration = Duration::from_secs(3);
/// What an orphaned share may take above the lease.
const GOAL: Duration = Duration::from_secs(2);
/// Beyond the goal, what is without a writer counts as a violation. Programs that are built as they are shipped have the
/// machine to themselves, and a share of theirs keeps to the goal, but for the rounding of the table. A debug build fills the
/// processors by itself: with it only a share that nobody takes is a violation.
const PATIENCE: Patience = if cfg!(debug_assertions) {
    Patience { clusters: Duration::from_secs(40), shares: Duration::from_secs(40) }
} else {
    Patience { clusters: Duration::from_secs(15), shares: Duration::from_millis(50) }
};
/// A controller that ends may let a lease run out, where it does not know what became of a write; whoever is next waits.
const HANDED_OVER: Duration = PATIENCE.clusters;
/// Until a controller that was started is ready.
const READY: Duration = Duration::from_mins(1);

/// How many of what, and what happens.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FleetSettings {
    /// Controllers; one more is added in the end.
    #[arg(long, default_value_t = 3)]
    controllers: u8,
    /// Simulated clusters.
    #[arg(long, default_value_t = 100)]
    simulated: u16,
    /// Namespaces in each cluster.
    #[arg(long, default_value_t = 100)]
    namespaces: usize,
    /// Changes a second while something happens.
    #[arg(long, default_value_t = 40)]
    changes: u32,
    /// One after the other; all of them when none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// How often that is repeated.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Seconds that a lease which is not renewed is respected.
    #[arg(long, default_value_t = 15)]
    lease_seconds: u64,
    /// Seconds until a lease that cannot be renewed is given up.
    #[arg(long, default_value_t = 10)]
    renew_seconds: u64,
    /// Seconds between two looks at a lease.
    #[arg(long, default_value_t = 2)]
    retry_seconds: u64,
    /// Seconds that a write to a member may take.
    #[arg(long, default_value_t = 5)]
    write_seconds: u64,
    /// Seconds until all namespaces must be there, and until all is in order in the end.
    #[arg(long, default_value_t = 900)]
    patience_seconds: u64,
    /// Seed of what is changed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// text, or json: one document a line.
    #[arg(long, short, default_value = "text", value_parser = ["text", "json"])]
    output: String,
}

impl FleetSettings {
    fn times(&self) -> LeaseTimes {
        LeaseTimes {
            lease: self.lease_seconds,
            renew: self.renew_seconds,
            retry: self.retry_seconds,
            write: self.write_seconds,
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds)
    }
}

/// Runs the test; `Ok(false)` when something was found.
pub(crate) async fn run(settings: FleetSettings) -> Result<bool> {
    let is_json = settings.output == "json";
    say::to(if is_json { Output::Json } else { Output::Text });
    wait::listen_for_signals()?;
    let layout = Layout::of_fleet();
    let instance = block_in_place(|| {
        up::clear(&layout)?;
        let fleet = FleetOptions { simulated: settings.simulated, times: settings.times() };
        let options = Options {
            members: MEMBERS,
            // The last one is not there until it is added.
            controllers: settings.controllers + 1,
            fleet: Some(fleet),
            audit_period: Some(AUDIT_PERIOD.to_owned()),
            ..Options::default()
        };
        Instance::start(&layout, &options)
    })?;
    let outcome = try_all(&settings, &instance).await;
    match &outcome {
        Ok(report) if is_json => crate::say(&report.json().to_string()),
        Ok(report) => report.lines().iter().for_each(say::line),
        Err(error) => {
            say::line(format_args!("{error:#}; the programs' logs are in {}", layout.path("logs").display()));
        }
    }
    let good = outcome.as_ref().is_ok_and(Report::is_good);
    block_in_place(|| -> Result<()> {
        for (controller, _) in &instance.controller_admin_ports {
            // What stands still could not be stopped in good order.
            drop(Fault::Pause.mend(&instance, controller));
            drop(Fault::Partition.mend(&instance, controller));
        }
        instance.stop()?;
        if good { up::clear(&layout) } else { Ok(()) }
    })?;
    outcome.map(|_| good)
}

async fn try_all(settings: &FleetSettings, instance: &Instance) -> Result<Report> {
    let fleet = instance.fleet.as_ref().context("there are no simulated clusters")?;
    let controllers: Vec<String> =
        instance.controller_admin_ports.iter().map(|(name, _)| name.clone()).collect();
    let (late, there) = controllers.split_last().context("no controller")?;
    block_in_place(|| instance.supervisor.pause(late))?;
    let clusters: Vec<String> = instance.clusters.iter().chain(&fleet.clusters).cloned().collect();
    let (leases, mut followers) = (Leases::default(), JoinSet::new());
    followers.spawn(leases.clone().follow(leases::operator(instance)?));
    let trial = Trial {
        settings,
        instance,
        fleet,
        endpoints: endpoints(instance)?,
        plan: Plan { clusters: clusters.into(), namespaces: settings.namespaces },
        logs: AuditLogs::open(instance, fleet)?,
        leases,
        lease_of: BTreeMap::new(),
        followers,
        late: late.clone(),
        report: Report {
            clusters: instance.clusters.len() + fleet.clusters.len(),
            simulated: fleet.clusters.len(),
            controllers: there.len(),
            ..Report::default()
        },
    };
    trial.run(there).await
}

/// One run.
struct Trial<'a> {
    settings: &'a FleetSettings,
    instance: &'a Instance,
    fleet: &'a Fleet,
    endpoints: Vec<Endpoint>,
    plan: Plan,
    logs: AuditLogs,
    leases: Leases,
    /// Which lease is a cluster's.
    lease_of: BTreeMap<String, String>,
    followers: JoinSet<Result<()>>,
    /// The controller that is added.
    late: String,
    report: Report,
}

impl Trial<'_> {
    async fn run(mut self, controllers: &[String]) -> Result<Report> {
        let endpoint = self.endpoints.first().context("no replica of business-api")?.clone();
        let begin = Instant::now();
        self.plan.make_projects(&endpoint).await?;
        self.plan.make_namespaces(&endpoint).await?;
        let sums = self.until_in_order(&endpoint).await.context("before anything happens")?;
        self.report.converged = (sums.count(), begin.elapsed());
        self.lease_of = leases::by_cluster(&leases::operator(self.instance)?).await?;
        say::done("all namespaces Available", begin.elapsed(), None);
        self.fleet.set_faults(&json!({
            "late": {"percent": 5, "millis": self.settings.write_seconds * 1_000},
            "slow": {"percent": 5, "millis": self.settings.write_seconds * 1_000},
            "unanswered_percent": 2,
        }))?;
        let mut load = Load::begin(&self.plan, &self.endpoints, self.settings.changes, self.settings.seed);
        self.pass(CALM, &mut load).await?;
        for _ in 0..self.settings.rounds {
            self.run_faults(controllers, &mut load).await?;
        }
        let changes = load.end().await?;
        self.report.changes = changes.done.load(Ordering::Relaxed);
        self.report.changes_refused =
            changes.passed_by.load(Ordering::Relaxed) + changes.other.load(Ordering::Relaxed);
        self.fleet.set_faults(&json!({}))?;
        let begin = Instant::now();
        match self.until_in_order(&endpoint).await {
            Ok(sums) => self.report.namespaces = sums.count(),
            Err(error) => self.report.add(Violation::Sum, [format!("{error:#}")]),
        }
        self.report.settled = begin.elapsed();
        if let Err(error) = block_in_place(|| audit_command(self.instance)) {
            self.report.add(Violation::Ledger, [format!("{error:#}")]);
        }
        self.judge()?;
        Ok(self.report)
    }

    async fn run_faults(&mut self, controllers: &[String], load: &mut Load) -> Result<()> {
        let chosen =
            if self.settings.faults.is_empty() { Fault::ALL.to_vec() } else { self.settings.faults.clone() };
        for fault in chosen {
            let whom: Vec<String> = match fault {
                Fault::Restart => controllers.to_vec(),
                Fault::Add => vec![self.late.clone()],
                Fault::Kill | Fault::Pause | Fault::Partition => vec![self.busiest()?],
            };
            for controller in whom {
                self.run_fault(fault, &controller, load).await.context(fault.words())?;
            }
        }
        Ok(())
    }

    /// Who writes to most clusters.
    fn busiest(&mut self) -> Result<String> {
        self.logs.read_on()?;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for owner in self.logs.owners().into_values() {
            *counts.entry(owner).or_default() += 1;
        }
        let (name, _) = counts.into_iter().max_by_key(|(_, count)| *count).context("nobody has written")?;
        Ok(name)
    }

    /// One fault, from calm to calm.
    async fn run_fault(&mut self, fault: Fault, controller: &str, load: &mut Load) -> Result<()> {
        self.logs.read_on()?;
        let owners = self.logs.owners();
        let orphans: BTreeSet<String> =
            owners.iter().filter(|(_, owner)| *owner == controller).map(|(name, _)| name.clone()).collect();
        say::begin(format_args!("{}: {controller}, {} clusters", fault.words(), orphans.len()));
        let before = self.counts();
        let (begin, struck) = (Instant::now(), now_micros());
        block_in_place(|| fault.strike(self.instance, controller))?;
        let lasts = match fault {
            Fault::Pause | Fault::Partition => self.settings.lease() + GOAL * 2,
            Fault::Kill | Fault::Restart | Fault::Add => Duration::ZERO,
        };
        // Shares are given to somebody new when the controllers have been the same for a while.
        let deadline = match fault {
            Fault::Add => self.settings.lease() * 3,
            Fault::Restart => self.settings.lease() + GOAL + HANDED_OVER,
            Fault::Kill | Fault::Pause | Fault::Partition => self.settings.lease() + GOAL + PATIENCE.clusters,
        };
        loop {
            self.pass(POLL, load).await?;
            let waiting = match fault {
                Fault::Add => self.leases.holders().values().all(|holder| holder != controller),
                _ => orphans.iter().any(|cluster| !self.has_successor(cluster, controller, struck)),
            };
            if (!waiting && begin.elapsed() >= lasts) || begin.elapsed() > deadline {
                break;
            }
        }
        block_in_place(|| fault.mend(self.instance, controller))?;
        self.pass(CALM, load).await?;
        self.until_ready(controller, load).await?;
        let goal = fault.orphans().then(|| self.settings.lease() + GOAL);
        let moved = self.moved(fault, &orphans, struck);
        if fault != Fault::Add {
            let forgotten = orphans.iter().filter(|cluster| !moved.contains_key(*cluster));
            let forgotten = forgotten
                .map(|cluster| format!("{cluster}: nobody wrote within {deadline:?} of {}", fault.words()));
            self.report.add(Violation::Orphaned, forgotten.collect::<Vec<_>>());
        }
        let counts = self.counts() - before;
        let mut shares: BTreeMap<String, Duration> = BTreeMap::new();
        for (cluster, gap) in &moved {
            let lease = self.lease_of(cluster)?.to_owned();
            shares.entry(lease).and_modify(|least| *least = (*least).min(*gap)).or_insert(*gap);
        }
        let row =
            Row { fault: fault.words(), controller: controller.to_owned(), moved, shares, goal, counts };
        self.report.add(Violation::Orphaned, row.late(PATIENCE));
        self.report.rows.push(row);
        Ok(())
    }

    fn lease_of(&self, cluster: &str) -> Result<&str> {
        let lease = self.lease_of.get(cluster);
        lease.map(String::as_str).with_context(|| format!("{cluster} does not say who works on it"))
    }

    fn counts(&self) -> Counts {
        Counts::of(self.logs.writes().values().flatten())
    }

    fn has_successor(&self, cluster: &str, controller: &str, struck: i64) -> bool {
        let tenures = self.logs.tenures(cluster);
        tenures.iter().any(|tenure| tenure.writer() != controller && tenure.first.begun > struck)
    }

    /// Clusters that have come to another writer since, and how long they were without one: from the fault on where it took
    /// the writer away, else between the two. Whatever moves besides has another reason.
    fn moved(&self, fault: Fault, orphans: &BTreeSet<String>, struck: i64) -> BTreeMap<String, Duration> {
        let mut moved = BTreeMap::new();
        for cluster in self.plan.clusters.iter() {
            if fault != Fault::Add && !orphans.contains(cluster) {
                continue;
            }
            let tenures = self.logs.tenures(cluster);
            let mut pairs = tenures.iter().zip(tenures.iter().skip(1));
            let Some((former, next)) = pairs.find(|(_, next)| next.first.begun > struck) else { continue };
            let from = if fault.orphans() { struck } else { former.last.ended };
            let gap = u64::try_from(next.first.begun.saturating_sub(from)).unwrap_or_default();
            moved.insert(cluster.clone(), Duration::from_micros(gap));
        }
        moved
    }

    async fn until_ready(&mut self, controller: &str, load: &mut Load) -> Result<()> {
        let ports = &self.instance.controller_admin_ports;
        let (_, port) = ports.iter().find(|(name, _)| name == controller).context("no such controller")?;
        let begin = Instant::now();
        loop {
            let answer = block_in_place(|| programs::get(*port, "/readyz"));
            if matches!(answer, Ok((200, _))) {
                return Ok(());
            }
            ensure!(begin.elapsed() < READY, "{controller} does not become ready: {answer:?}");
            self.pass(POLL, load).await?;
        }
    }

    /// Lets time pass, and reads what is written meanwhile.
    async fn pass(&mut self, time: Duration, load: &mut Load) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.logs.read_on()?;
            load.check()?;
            if let Some(ended) = self.followers.try_join_next() {
                ended??;
                bail!("leases are not followed any more");
            }
            ensure!(!wait::interrupted(), "interrupted");
            if Instant::now() >= end {
                return Ok(());
            }
            tokio::time::sleep(POLL.min(time)).await;
        }
    }

    /// Waits until the clusters hold what the objects say; the error is what is still missing.
    async fn until_in_order(&mut self, endpoint: &Endpoint) -> Result<Sums> {
        let begin = Instant::now();
        loop {
            let sums = Sums::look(self.instance, self.fleet, endpoint).await?;
            let differences = sums.differences();
            if differences.is_empty() {
                return Ok(sums);
            }
            say::progress(format_args!("{} of {} are not in order yet", differences.len(), sums.count()));
            if begin.elapsed() > self.settings.patience() {
                let few: Vec<&str> = differences.iter().take(5).map(String::as_str).collect();
                bail!("{} are not in order: {}", differences.len(), few.join("; "));
            }
            ensure!(!wait::interrupted(), "interrupted");
            tokio::time::sleep(POLL * 2).await;
        }
    }

    fn judge(&mut self) -> Result<()> {
        self.logs.read_on()?;
        let takeovers = self.leases.takeovers();
        for (cluster, writes) in self.logs.writes() {
            let lease = self.lease_of.get(cluster).map(String::as_str).unwrap_or_default();
            let wrong = tenures::judge(writes, lease, &takeovers);
            self.report.tenures += tenures::tenures(writes).len();
            self.report.add(Violation::Writers, wrong.into_iter().map(|what| format!("{cluster}: {what}")));
        }
        self.report.counts = self.counts();
        Ok(())
    }
}

/// In microseconds since 1970, as audit logs have it.
fn now_micros() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
