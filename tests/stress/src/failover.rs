//! The whole platform on PostgreSQL on three Patroni nodes, with callers and watchers at three business-api replicas.
//! Parts of PostgreSQL fail in turn. No acknowledged write may be lost, no budget granted twice, no event missed,
//! and each failed request must be told whether to retry.

/// What fails.
mod fault;
/// Who writes.
pub(crate) mod calls;
/// Who watches.
pub(crate) mod watchers;
/// What the database says happened.
pub(crate) mod record;
/// A primary that is cut off from all others.
mod split;
/// A budget that is used up.
pub(crate) mod budget;
/// The failover that loses commits.
mod lost;
/// The table of results.
mod table;

use crate::findings::Finding;
use crate::replay::Replay;
use crate::say;
use anyhow::{Context, Result, bail, ensure};
use calls::{Call, CallResult, Caller, Calls, PROJECTS, ROOT, ROOT_PODS};
use fault::{ActiveFault, Fault, cluster};
use http::Method;
use instance::job::project;
use instance::kubeconfig::{Kubeconfig, token};
use instance::layout::Layout;
use instance::patroni::HaOptions;
use instance::pki::Pki;
use instance::{HOST_CLUSTER, Instance, Options, up, wait};
use kit::Endpoint;
use record::Record;
use serde_json::Value;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use table::{Row, table};
use tokio::task::{JoinSet, block_in_place};
use watchers::{WatchRecord, Watcher};

const REPLICAS: u8 = 3;
const DISK_BYTES: u64 = 700 << 20;
/// The controller compares clusters so often, so that growth is released soon.
const AUDIT_PERIOD: &str = "10s";
/// Acknowledged changes that show that writes go on.
const GOES_ON: usize = 20;
const GOES_ON_DEADLINE: Duration = Duration::from_mins(2);
const WHOLE: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(200);

/// What is to fail.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FailoverSettings {
    /// One after the other; all of them when none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// Callers at each replica.
    #[arg(long, default_value_t = 4)]
    callers: u64,
    /// Seconds without a fault before each.
    #[arg(long, default_value_t = 5)]
    calm_seconds: u64,
    /// Seed of what callers do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl FailoverSettings {
    fn chosen(&self) -> Vec<Fault> {
        if self.faults.is_empty() { Fault::ALL.to_vec() } else { self.faults.clone() }
    }
}

/// Runs the test; `Ok(false)` when something was found.
pub(crate) async fn run(settings: FailoverSettings) -> Result<bool> {
    wait::listen_for_signals()?;
    let faults = settings.chosen();
    let instance = block_in_place(|| start(&faults))?;
    let outcome = Test { settings: &settings, instance: &instance, faults: &faults }.run().await;
    if let Err(error) = &outcome {
        say(&format!("{error:#}; the programs' logs are in {}", instance.layout.path("logs").display()));
    }
    block_in_place(|| -> Result<()> {
        // What is frozen or down could not be stopped in good order.
        for node in &cluster(&instance)?.nodes {
            drop(node.cable.as_deref().map(|cable| instance.supervisor.thaw(cable)));
        }
        let layout = instance.layout.clone();
        instance.stop()?;
        if matches!(outcome, Ok(true)) { up::clear(&layout) } else { Ok(()) }
    })?;
    outcome
}

fn start(faults: &[Fault]) -> Result<Instance> {
    let layout = Layout::of_failover();
    up::clear(&layout)?;
    let disk_bytes = faults.contains(&Fault::FillDisk).then_some(DISK_BYTES);
    let options = Options {
        replicas: REPLICAS,
        ha: Some(HaOptions { cables: true, disk_bytes }),
        audit_period: Some(AUDIT_PERIOD.to_owned()),
        ..Options::default()
    };
    Instance::start(&layout, &options)
}

/// One run.
#[derive(Clone, Copy)]
struct Test<'a> {
    settings: &'a FailoverSettings,
    instance: &'a Instance,
    faults: &'a [Fault],
}

/// Those who use the platform meanwhile.
pub(crate) struct Clients {
    pub(crate) calls: Calls,
    pub(crate) watched: Vec<WatchRecord>,
    tasks: JoinSet<Result<()>>,
    calling: Arc<AtomicBool>,
    watching: Arc<AtomicBool>,
}

impl Test<'_> {
    async fn run(self) -> Result<bool> {
        let endpoints = endpoints(self.instance)?;
        prepare(&self.instance.database_url, endpoints.first().context("no replica")?).await?;
        let mut record = Record::begin(&self.instance.database_url).await?;
        let mut clients =
            Clients::start(self.instance, &endpoints, self.settings.callers, self.settings.seed);
        let mut rows = Vec::new();
        for fault in self.faults.iter().copied().filter(|fault| *fault != Fault::LoseCommits) {
            rows.push(self.run_fault(fault, &clients, &mut record).await.context(fault.words())?);
        }
        clients.settle(&mut record).await?;
        judge_calls(&clients.calls.all(), &mut record);
        clients.watched.iter().for_each(|watched| judge_watch(watched, &mut record));
        audit_command(self.instance)?;
        say(&table(&rows));
        report(&clients, &record);
        let mut good = record.findings.is_empty();
        if self.faults.contains(&Fault::LoseCommits) {
            good &= lost::run(self.instance, &endpoints).await.context(Fault::LoseCommits.words())?;
        }
        Ok(good)
    }

    /// One fault, from calm to calm.
    async fn run_fault(self, fault: Fault, clients: &Clients, record: &mut Record) -> Result<Row> {
        clients.until_writes_go_on(Instant::now(), record).await.context("before the fault")?;
        pass(Duration::from_secs(self.settings.calm_seconds), record).await?;
        say(&format!("{} …", fault.words()));
        let begin = Instant::now();
        let struck = block_in_place(|| ActiveFault::inject(fault, self.instance))?;
        let probe = match fault {
            Fault::CutNetwork => Some(split::Probe::start(self.instance, &struck.node)?),
            _ => None,
        };
        pass(fault.lasts().saturating_sub(begin.elapsed()), record).await?;
        let accepted = match probe {
            Some(probe) => Some(probe.finish().await?),
            None => None,
        };
        let mended = begin.elapsed();
        block_in_place(|| struck.recover(self.instance))?;
        if let Some(accepted @ 1..) = accepted {
            record.add_finding(Finding::Applied, || {
                format!("{} acknowledged {accepted} writes while it was cut off", struck.node.name)
            });
        }
        clients.until_writes_go_on(Instant::now(), record).await.context("after the fault")?;
        block_in_place(|| cluster(self.instance)?.until_whole(WHOLE))?;
        Ok(Row::of(fault, begin, mended, &clients.calls.all(), accepted))
    }
}

/// Lets time pass, and looks.
pub(crate) async fn pass(time: Duration, record: &mut Record) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        record.read_more().await?;
        ensure!(!wait::interrupted(), "interrupted");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

impl Clients {
    /// So many callers at each replica, and a watcher of either resource.
    pub(crate) fn start(instance: &Instance, endpoints: &[Endpoint], callers: u64, seed: u64) -> Self {
        let (calls, mut watched, mut tasks) = (Calls::default(), Vec::new(), JoinSet::new());
        let (calling, watching) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (api, endpoint) in instance.apis.iter().zip(endpoints) {
            for resource in ["projects", "namespaces"] {
                let watcher = Watcher::new(endpoint.clone(), &api.name, resource);
                watched.push(watcher.watched.clone());
                tasks.spawn(watcher.run(Arc::clone(&watching)));
            }
            for number in 0..callers {
                let name = format!("c{}-{number}", api.port);
                let seed = seed * 1_000 + u64::from(api.port) * 100 + number;
                let caller = Caller::new(endpoint.clone(), &calls, name, seed);
                tasks.spawn(caller.run(Arc::clone(&calling)));
            }
        }
        Self { calls, watched, tasks, calling, watching }
    }

    pub(crate) async fn until_writes_go_on(&self, since: Instant, record: &mut Record) -> Result<()> {
        while self.calls.done_since(since) < GOES_ON {
            ensure!(since.elapsed() < GOES_ON_DEADLINE, "writes do not go on within {GOES_ON_DEADLINE:?}");
            pass(POLL, record).await?;
        }
        Ok(())
    }

    /// Callers finish what they are at.
    pub(crate) async fn stop_calling(&mut self) -> Result<()> {
        self.calling.store(true, Ordering::Relaxed);
        // Watchers wait for their next line; what they have seen is known.
        let watchers = self.watched.len();
        while self.tasks.len() > watchers {
            self.tasks.join_next().await.context("nobody is left")???;
        }
        Ok(())
    }

    /// Callers stop; watchers get the time to hear of all; then everything is read.
    pub(crate) async fn settle(&mut self, record: &mut Record) -> Result<()> {
        self.calling.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        loop {
            pass(POLL * 5, record).await?;
            let behind = |watched: &&WatchRecord| watched.behind(record.newest(watched.resource));
            let Some(late) = self.watched.iter().find(behind) else { break };
            if begin.elapsed() > GOES_ON_DEADLINE {
                let (resource, replica) = (late.resource, late.replica.clone());
                record.add_finding(Finding::Watch, || {
                    format!("{resource} at {replica}: the last events never come")
                });
                break;
            }
        }
        self.watching.store(true, Ordering::Relaxed);
        self.stop_calling().await?;
        self.tasks.abort_all();
        record.conclude().await
    }
}

/// The table of the probe, the history of holds, and the budget that all draw from.
pub(crate) async fn prepare(url: &str, endpoint: &Endpoint) -> Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    Replay::prepare(&mut connection).await?;
    sqlx::raw_sql(split::TABLE).execute(&mut connection).await?;
    let root = project(ROOT, None, &[(HOST_CLUSTER, &[("pods", ROOT_PODS)])]);
    endpoint.connect().await?.json(Method::POST, PROJECTS, &root).await?;
    Ok(())
}

/// The tenant's administrator at each replica.
pub(crate) fn endpoints(instance: &Instance) -> Result<Vec<Endpoint>> {
    let admin = instance.issuer.token("tenant-admin", Some("default"), &["tenant-admins"])?;
    let pki = Pki::open(&instance.layout.path("pki"))?;
    let mut all = Vec::new();
    for api in &instance.apis {
        let file = instance.layout.path(&format!("home/{}.kubeconfig", api.name));
        let server = format!("https://{}:{}", api.host, api.port);
        Kubeconfig::default()
            .context("replica", &server, &pki.cert("serving-ca"), &token(&admin))?
            .write(&file)?;
        all.push(Endpoint::from_kubeconfig(&file)?);
    }
    Ok(all)
}

/// Checks that acknowledged writes exist, refused ones do not, and each answer says what to do.
pub(crate) fn judge_calls(calls: &[Call], record: &mut Record) {
    let created: BTreeMap<(String, String), u64> = record
        .written
        .iter()
        .filter(|(_, written)| written.created)
        .map(|(revision, written)| ((written.resource.clone(), written.name.clone()), *revision))
        .collect();
    for call in calls {
        let Call { verb, resource, name, code, result, message, .. } = call;
        match result {
            CallResult::Done(0) | CallResult::Unknown => {}
            CallResult::Done(revision) => {
                let stored = record.written.get(revision);
                if stored.is_none_or(|stored| stored.resource != *resource || stored.name != *name) {
                    record.add_finding(Finding::Lost, || {
                        format!("{verb} of {resource} {name} at {revision}: {code}")
                    });
                }
            }
            CallResult::Wrong => {
                record.add_finding(Finding::Answer, || {
                    format!("{verb} of {resource} {name}: {code} {message}")
                });
            }
            CallResult::Refused | CallResult::Retriable => {
                let key = ((*resource).to_owned(), name.clone());
                if let Some(revision) = created.get(&key).filter(|_| *verb == "create") {
                    record.add_finding(Finding::Applied, || {
                        format!("{resource} {name} at {revision}: told {code}")
                    });
                }
            }
        }
    }
}

pub(crate) fn judge_watch(watched: &WatchRecord, record: &mut Record) {
    let WatchRecord { resource, replica, .. } = watched;
    for seen in watched.parts() {
        let made: Vec<u64> = record
            .written
            .range((Bound::Excluded(seen.after), Bound::Included(seen.to())))
            .filter(|(_, written)| written.resource == *resource)
            .map(|(revision, _)| *revision)
            .collect();
        // What happened before the record began is not known.
        let first = record.first;
        let heard: Vec<u64> = seen.revisions.iter().copied().filter(|revision| *revision > first).collect();
        if made != heard {
            let (made, heard) = (made.len(), heard.len());
            record.add_finding(Finding::Watch, || {
                format!("{resource} at {replica} from {}: {heard} events heard, {made} made", seen.after)
            });
        }
    }
    if watched.restarts() > 0 {
        record.add_finding(Finding::Watch, || {
            format!("{resource} at {replica}: told {} times that history is gone", watched.restarts())
        });
    }
}

/// Checks that the program's own audit finds nothing, either.
pub(crate) fn audit_command(instance: &Instance) -> Result<()> {
    let program = instance::layout::program_path("business-api")?;
    let mut command = std::process::Command::new(program);
    let output =
        command.args(["audit", "-o", "json"]).env("DATABASE_URL", &instance.database_url).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result: Value = serde_json::from_str(&text).with_context(|| format!("read the audit: {text}"))?;
    // The history of holds is kept by a trigger of this test, which the audit rightly finds strange.
    if result.get("differences") != Some(&Value::Array(Vec::new())) {
        bail!("business-api audit: {text}");
    }
    Ok(())
}

pub(crate) fn report(clients: &Clients, record: &Record) {
    let calls = clients.calls.all();
    let count = |is: fn(&CallResult) -> bool| calls.iter().filter(|call| is(&call.result)).count();
    say(&format!(
        "calls {}: done {}, refused {}, to be asked again {}, unknown {}",
        calls.len(),
        count(|result| matches!(result, CallResult::Done(_))),
        count(|result| *result == CallResult::Refused),
        count(|result| *result == CallResult::Retriable),
        count(|result| *result == CallResult::Unknown),
    ));
    let heard: usize =
        clients.watched.iter().flat_map(WatchRecord::parts).map(|seen| seen.revisions.len()).sum();
    let watchers = clients.watched.len();
    say(&format!(
        "events {}, heard {heard} by {watchers} watchers, looks {}",
        record.written.len(),
        record.looks
    ));
    for line in record.findings.lines() {
        say(&line);
    }
}
