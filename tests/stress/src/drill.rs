//! The backup drill: base backups and archived WAL of a platform in use, and restores from them. A restore to the end of WAL
//! loses nothing, and clients must not notice. A restore to an earlier point loses namespaces that exist in a cluster: growth must
//! wait until they count again, whether business-api ran during the restore or starts afterwards.

use crate::audit;
use crate::failover::budget::{BUDGET, Budget};
use crate::failover::calls::{CallResult, Caller, Calls, ROOT_PODS};
use crate::failover::record::Record;
use crate::failover::{self, Clients};
use crate::findings::{Finding, Findings};
use crate::say;
use anyhow::{Context, Result, ensure};
use instance::backup::RecoveryTarget;
use instance::layout::Layout;
use instance::postgres::Postgres;
use instance::{Instance, Options, up, wait};
use kit::Endpoint;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

const REPLICAS: u8 = 2;
/// The controller compares clusters so often, so that growth is released soon.
const AUDIT_PERIOD: &str = "10s";
/// How long there is traffic before and after a backup.
const CALM: Duration = Duration::from_secs(3);
const RECOVERED: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);
const DATABASE: &str = "postgres";
const LOST: [&str; 4] = ["lost-1", "lost-2", "lost-3", "lost-4"];

/// What is restored, and who serves meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Drill {
    /// To the end of the WAL; business-api runs all the while.
    Whole,
    /// To an earlier point; business-api runs all the while.
    Point,
    /// To an earlier point; business-api is stopped before and started afterwards.
    Cold,
}

impl Drill {
    const ALL: [Self; 3] = [Self::Whole, Self::Point, Self::Cold];

    fn words(self) -> &'static str {
        match self {
            Self::Whole => "restore to the end, business-api running",
            Self::Point => "restore to an earlier point, business-api running",
            Self::Cold => "restore to an earlier point, business-api stopped",
        }
    }

    /// The project whose budget is used up; also the backup's name.
    fn project(self) -> &'static str {
        match self {
            Self::Whole => "drill-whole",
            Self::Point => "drill-point",
            Self::Cold => "drill-cold",
        }
    }
}

/// What is to be tried.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DrillSettings {
    /// One after the other; all of them when none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    restores: Vec<Drill>,
    /// Callers at each replica.
    #[arg(long, default_value_t = 2)]
    callers: u64,
    /// Seed of what callers do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the drill; `Ok(false)` when something was found.
pub(crate) async fn run(settings: DrillSettings) -> Result<bool> {
    wait::listen_for_signals()?;
    let layout = Layout::of_drill();
    let instance = block_in_place(|| {
        up::clear(&layout)?;
        let audit_period = Some(AUDIT_PERIOD.to_owned());
        Instance::start(
            &layout,
            &Options { replicas: REPLICAS, archives: true, audit_period, ..Options::default() },
        )
    })?;
    let outcome = try_all(&settings, &instance).await;
    if let Err(error) = &outcome {
        say(&format!("{error:#}; the programs' logs are in {}", layout.path("logs").display()));
    }
    block_in_place(|| {
        instance.stop()?;
        if matches!(outcome, Ok(true)) { up::clear(&layout) } else { Ok(()) }
    })?;
    outcome
}

async fn try_all(settings: &DrillSettings, instance: &Instance) -> Result<bool> {
    let postgres = instance.postgres.as_ref().context("PostgreSQL is not the instance's own")?;
    let endpoints = failover::endpoints(instance)?;
    let endpoint = endpoints.first().context("no replica")?;
    failover::prepare(&instance.database_url, endpoint).await?;
    let clients = Clients::start(instance, &endpoints, settings.callers, settings.seed);
    let mut trial = Trial { instance, postgres, endpoint, clients, findings: Findings::default() };
    let chosen = if settings.restores.is_empty() { Drill::ALL.to_vec() } else { settings.restores.clone() };
    let mut rows = Vec::new();
    for drill in chosen {
        say(&format!("{} …", drill.words()));
        let row = match drill {
            Drill::Whole => trial.whole().await,
            Drill::Point | Drill::Cold => trial.lossy(drill).await,
        };
        rows.push(row.context(drill.words())?);
    }
    trial.conclude().await?;
    say(
        "| restore | base backup | until the database writes | growth held after | released after | most granted |",
    );
    say("|---|---|---|---|---|---|");
    for row in &rows {
        say(row);
    }
    for line in trial.findings.lines() {
        say(&line);
    }
    Ok(trial.findings.is_empty())
}

struct Trial<'a> {
    instance: &'a Instance,
    postgres: &'a Postgres,
    endpoint: &'a Endpoint,
    clients: Clients,
    findings: Findings,
}

impl Trial<'_> {
    /// Nothing is lost, and nobody is told that something was.
    async fn whole(&mut self) -> Result<String> {
        let mut record = Record::begin(&self.instance.database_url).await?;
        let restarts = self.restarts();
        let begin = Instant::now();
        let backup = block_in_place(|| self.postgres.back_up(Drill::Whole.project()))?;
        let backed_up = begin.elapsed();
        failover::pass(CALM, &mut record).await?;
        let written = self.lose_and_restore(&backup, &RecoveryTarget::End, &[]).await?;
        self.clients.until_writes_go_on(Instant::now(), &mut record).await.context("after the restore")?;
        failover::pass(CALM, &mut record).await?;
        let mut calls = self.clients.calls.all();
        calls.retain(|call| !matches!(call.result, CallResult::Done(revision) if revision <= record.first));
        if calls.iter().any(|call| call.message.contains("growth is held")) {
            record.add_finding(Finding::Answer, || "growth was held, although nothing was lost".to_owned());
        }
        if self.restarts() != restarts {
            record.add_finding(Finding::Watch, || {
                "a watch had to begin anew, although nothing was lost".to_owned()
            });
        }
        // What callers were told last may not have been read.
        record.read_more().await?;
        failover::judge_calls(&calls, &mut record);
        self.findings.take(record.findings);
        let (backed_up, written) = (seconds(backed_up), seconds(written));
        Ok(format!("| {} | {backed_up} | {written} | never | | |", Drill::Whole.words()))
    }

    /// The restore forgets most of a budget that is used up in the cluster.
    async fn lossy(&mut self, drill: Drill) -> Result<String> {
        let budget = Budget::make(self.instance, self.endpoint, drill.project()).await?;
        budget.spend(&["kept"]).await?;
        let restarts = self.restarts();
        let begin = Instant::now();
        let backup = block_in_place(|| self.postgres.back_up(drill.project()))?;
        let backed_up = begin.elapsed();
        let point = self.now().await?;
        budget.spend(&LOST).await?;
        let granted = budget.granted()?;
        ensure!(granted == BUDGET, "before the restore, {granted} of {BUDGET} are granted");

        let servers: Vec<&str> = match drill {
            Drill::Cold => self.instance.apis.iter().map(|api| api.name.as_str()).collect(),
            Drill::Whole | Drill::Point => Vec::new(),
        };
        let begin = Instant::now();
        let written = self.lose_and_restore(&backup, &RecoveryTarget::Time(point), &servers).await?;
        let mut caller = Caller::new(self.endpoint.clone(), &Calls::default(), drill.project().to_owned(), 1);
        let waiting = budget.until_refused(&mut caller, begin).await?;
        let released = begin.elapsed();
        let held = waiting.held.context("growth was never held")?;
        if waiting.most > BUDGET {
            self.findings.add(Finding::OverCommit, || format!("{} pods granted of {BUDGET}", waiting.most));
        }
        if self.restarts() < restarts + self.clients.watched.len() {
            self.findings
                .add(Finding::Watch, || "a watch went on over a restore that lost its events".to_owned());
        }
        let mut connection = PgConnection::connect(&self.instance.database_url).await?;
        audit::compare_ledger_and_objects(&mut connection, &mut self.findings).await?;
        let [backed_up, written, held, released] = [backed_up, written, held, released].map(seconds);
        Ok(format!(
            "| {} | {backed_up} | {written} | {held} | {released} | {} of {BUDGET} |",
            drill.words(),
            waiting.most
        ))
    }

    /// The data is gone; the backup takes its place. How long until the database takes writes.
    async fn lose_and_restore(
        &self,
        backup: &Path,
        target: &RecoveryTarget,
        servers: &[&str],
    ) -> Result<Duration> {
        let supervisor = &self.instance.supervisor;
        let begin = Instant::now();
        block_in_place(|| {
            servers.iter().try_for_each(|name| supervisor.pause(name))?;
            supervisor.pause(DATABASE)?;
            self.postgres.restore(backup, target)?;
            supervisor.resume(DATABASE)
        })?;
        while !self.takes_writes().await.unwrap_or_default() {
            ensure!(begin.elapsed() < RECOVERED, "the database takes no writes within {RECOVERED:?}");
            tokio::time::sleep(POLL).await;
        }
        let written = begin.elapsed();
        block_in_place(|| servers.iter().try_for_each(|name| supervisor.resume(name)))?;
        Ok(written)
    }

    async fn takes_writes(&self) -> Result<bool> {
        let mut connection = PgConnection::connect(&self.instance.database_url).await?;
        Ok(sqlx::query_scalar("SELECT NOT pg_is_in_recovery()").fetch_one(&mut connection).await?)
    }

    /// The database's clock.
    async fn now(&self) -> Result<String> {
        let mut connection = PgConnection::connect(&self.instance.database_url).await?;
        Ok(sqlx::query_scalar("SELECT clock_timestamp()::text").fetch_one(&mut connection).await?)
    }

    fn restarts(&self) -> usize {
        self.clients.watched.iter().map(failover::watchers::WatchRecord::restarts).sum()
    }

    /// Callers stop, and everything is compared once more.
    async fn conclude(&mut self) -> Result<()> {
        self.clients.stop_calling().await?;
        for call in self.clients.calls.all().iter().filter(|call| call.result == CallResult::Wrong) {
            self.findings.add(Finding::Answer, || {
                format!("{} of {} {}: {} {}", call.verb, call.resource, call.name, call.code, call.message)
            });
        }
        let granted: u64 = block_in_place(|| failover::budget::quotas(self.instance))?
            .iter()
            .filter(|quota| !quota.namespace.starts_with("drill-"))
            .map(|quota| quota.pods)
            .sum();
        if granted > ROOT_PODS.parse()? {
            self.findings
                .add(Finding::OverCommit, || format!("the cluster grants {granted} pods of {ROOT_PODS}"));
        }
        let mut connection = PgConnection::connect(&self.instance.database_url).await?;
        audit::compare_ledger_and_objects(&mut connection, &mut self.findings).await?;
        failover::audit_command(self.instance)
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
