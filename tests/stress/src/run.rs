//! The parent process: starts everything, kills processes, and checks the results.

use crate::books::Census;
use crate::faults::{Cuts, Kills, Reaper, Replicas};
use crate::findings::{Finding, Findings};
use crate::follower::History;
use crate::log::{Line, LoggedOutcome};
use crate::plants::{PLANTS, Plant};
use crate::replay::{LimitCounts, Replay};
use crate::world::{TestAccounts, TestKind};
use crate::{audit, log, proxy, replica, say, tree};
use anyhow::{Context, Result, ensure};
use runtime::Tasks;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Access;
use store::testing::Server;

/// How long and how hard.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunSettings {
    /// Goes on until so many operations were decided.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) operations: u64,
    /// Goes on until so much was killed.
    #[arg(long, default_value_t = 20)]
    pub(crate) kills: u64,
    /// Milliseconds from one kill to the next.
    #[arg(long, default_value_t = 400)]
    pub(crate) kill_every_ms: u64,
    /// One answer of PostgreSQL in so many is thrown away with its connection; 0 is none.
    #[arg(long, default_value_t = 400)]
    pub(crate) cut_one_in: u64,
    /// At most so many seconds.
    #[arg(long, default_value_t = 120)]
    pub(crate) seconds_max: u64,
    /// Replicas.
    #[arg(long, default_value_t = 3)]
    pub(crate) replicas: usize,
    /// Writers a replica.
    #[arg(long, default_value_t = 16)]
    pub(crate) writers: usize,
    /// Projects at the end of the tree.
    #[arg(long, default_value_t = 20)]
    pub(crate) leaves: usize,
    /// Seed of kills and writers.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A bug that is planted before the start, and that the test must catch.
    #[arg(long)]
    pub(crate) plant: Option<String>,
}

/// What came of it.
#[derive(Debug, Default)]
struct Verdict {
    findings: Findings,
    /// What ends the test as soon as it is found.
    awaited: Option<Finding>,
    looks: u64,
    told: HashMap<&'static str, u64>,
    /// By what writers meant to do: how often they have, and how often they tried.
    done: BTreeMap<String, OperationCount>,
    watched: u64,
}

#[derive(Debug, Default)]
struct OperationCount {
    done: u64,
    tried: u64,
}

impl Verdict {
    /// Nothing that would be found from now on is of interest.
    fn is_clear(&self) -> bool {
        self.findings.has(Finding::History) || self.awaited.is_some_and(|awaited| self.findings.has(awaited))
    }
}

/// Runs the test; `Ok(false)` when something was found.
pub(crate) async fn run(settings: RunSettings) -> Result<bool> {
    let plant = settings.plant.as_deref().map(Plant::named).transpose()?;
    Ok(test(&settings, plant).await?.is_empty())
}

/// Plants every bug in turn; `Ok(false)` when one was not caught by what must find it. A test that cannot be made is an
/// error.
pub(crate) async fn plants(settings: RunSettings) -> Result<bool> {
    let mut missed = Vec::new();
    for plant in &PLANTS {
        say(&format!("== {}", plant.name));
        let begin = Instant::now();
        if test(&settings, Some(plant)).await?.has(plant.found_by) {
            say(&format!("caught after {} s", begin.elapsed().as_secs()));
        } else {
            missed.push(plant.name);
        }
    }
    say(&format!("planted {}, missed {}: {}", PLANTS.len(), missed.len(), missed.join(", ")));
    Ok(missed.is_empty())
}

async fn test(settings: &RunSettings, plant: Option<&Plant>) -> Result<Findings> {
    let folder = std::env::temp_dir().join(format!("stress-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&folder)?;
    let mut server = Server::start(&[]).await.map_err(anyhow::Error::from_boxed)?;
    let database = server.database().await.map_err(anyhow::Error::from_boxed)?;
    prepare(&database.url, settings.leaves).await?;
    let mut connection = PgConnection::connect(&database.url).await?;
    let mut history = History::begin(&mut connection).await?;
    let mut verdict = Verdict { awaited: plant.map(|plant| plant.found_by), ..Verdict::default() };
    look(&mut connection, &mut verdict).await?;
    ensure!(verdict.findings.is_empty(), "before the start: {}", verdict.findings.lines().join("; "));
    if let Some(plant) = plant {
        plant.apply(&mut connection).await?;
    }
    drop(connection);
    say(&format!(
        "seed {}: {} replicas with {} writers each",
        settings.seed, settings.replicas, settings.writers
    ));

    let cuts = Arc::new(Cuts::new(settings.cut_one_in, settings.seed));
    let (server_address, proxied) = address(&database.url)?;
    let port = proxy::start(server_address, Arc::clone(&cuts)).await?;
    let mut replicas = Replicas::start(&folder, &proxied(port), settings)?;
    let mut kills = Kills::default();
    let mut scene =
        TestProcesses { server: &mut server, url: &database.url, replicas: &mut replicas, cuts: &cuts };
    kill_and_audit(&mut scene, settings, &mut history, &mut kills, &mut verdict).await?;

    replicas.finish()?;
    let mut connection = PgConnection::connect(&database.url).await?;
    conclude(&mut connection, &mut history, &mut verdict).await?;
    if plant.is_none() {
        run_store_audit(&database.url, &mut verdict.findings).await?;
    }
    for file in replicas.logs() {
        judge(&log::read(&file)?, &history, &mut verdict)?;
    }
    report(&verdict, &history, &kills);
    if verdict.findings.is_empty() || plant.is_some() {
        std::fs::remove_dir_all(&folder)?;
    } else {
        say(&format!("the replicas' logs are in {}", folder.display()));
    }
    Ok(verdict.findings)
}

/// Brings the tree in as an import does, since that may leave more than limits allow.
async fn prepare(url: &str, leaves: usize) -> Result<()> {
    let tasks = Tasks::new();
    let store = replica::open(url, Duration::from_mins(1), &tasks)?;
    let access = Access::internal("stress");
    store.until_synced().await;
    ensure!(store.begin_import(&access).await?, "growth is held by somebody else");
    store.import(&access, &tree::tree(leaves)?).await?;
    store.finish_import(&access).await?;
    let hold = store.growth_hold(&access).await?.context("growth is not held")?;
    ensure!(store.release_growth(&access, &hold).await?, "growth is held again");
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    Replay::prepare(&mut PgConnection::connect(url).await?).await
}

/// Reads what is left of history, and looks for the last time.
async fn conclude(connection: &mut PgConnection, history: &mut History, verdict: &mut Verdict) -> Result<()> {
    if verdict.findings.has(Finding::History) {
        return Ok(());
    }
    while history.read(connection, &mut verdict.findings).await? {}
    history.replay.finish();
    let census = look(connection, verdict).await?;
    audit::compare_history(&census, &history.replay.census, &mut verdict.findings);
    compare_state(connection, history, &mut verdict.findings).await?;
    history.find_torn(&mut verdict.findings);
    Ok(())
}

/// Checks that the store's own audit finds nothing, either.
async fn run_store_audit(url: &str, findings: &mut Findings) -> Result<()> {
    let tasks = Tasks::new();
    let store = replica::open(url, Duration::from_mins(1), &tasks)?;
    let report = store.audit(&Access::internal("stress"), &TestAccounts).await?;
    for difference in report.differences {
        findings.add(Finding::Difference, || format!("the store's audit: {difference}"));
    }
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    Ok(())
}

/// What is running.
struct TestProcesses<'a> {
    server: &'a mut Server,
    url: &'a str,
    replicas: &'a mut Replicas,
    cuts: &'a Cuts,
}

/// The host and port of a database's URL, and how the URL looks with another port.
fn address(url: &str) -> Result<(String, impl Fn(u16) -> String)> {
    let (before, rest) = url.rsplit_once('@').context("the URL has no user")?;
    let (host, database) = rest.split_once('/').context("the URL has no database")?;
    let (before, database) = (before.to_owned(), database.to_owned());
    Ok((host.to_owned(), move |port| format!("{before}@127.0.0.1:{port}/{database}")))
}

/// Kills and looks until enough has happened.
async fn kill_and_audit(
    scene: &mut TestProcesses<'_>,
    settings: &RunSettings,
    history: &mut History,
    kills: &mut Kills,
    verdict: &mut Verdict,
) -> Result<()> {
    let begin = Instant::now();
    let mut reaper = Reaper::new(settings.seed);
    let mut admin = None;
    let mut next_kill = begin + Duration::from_secs(2);
    let mut next_word = begin + Duration::from_secs(10);
    loop {
        kills.answers = scene.cuts.count();
        let enough = history.last >= settings.operations && kills.total() >= settings.kills;
        if enough || verdict.is_clear() || begin.elapsed() > Duration::from_secs(settings.seconds_max) {
            return Ok(());
        }
        if admin.is_none() {
            admin = PgConnection::connect(scene.url).await.ok();
        }
        if Instant::now() >= next_kill {
            next_kill = Instant::now() + Duration::from_millis(settings.kill_every_ms);
            reaper.strike(scene.server, scene.replicas, &mut admin, kills).await?;
            let ended = scene.replicas.revive()?;
            ensure!(ended == 0 || kills.total() > 0, "a replica ended by itself");
        }
        if let Some(connection) = &mut admin
            && !history.read(connection, &mut verdict.findings).await?
        {
            look(connection, verdict).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if Instant::now() >= next_word {
            next_word += Duration::from_secs(10);
            say(&format!(
                "  {} s: revision {}, {} kills, {} looks",
                begin.elapsed().as_secs(),
                history.last,
                kills.total(),
                verdict.looks
            ));
        }
    }
}

async fn look(connection: &mut PgConnection, verdict: &mut Verdict) -> Result<Census> {
    verdict.looks += 1;
    audit::compare_ledger_and_objects(connection, &mut verdict.findings).await
}

/// The events must add up to the objects.
async fn compare_state(
    connection: &mut PgConnection,
    history: &History,
    findings: &mut Findings,
) -> Result<()> {
    let rows: Vec<(i16, String, String, i64)> =
        sqlx::query_as("SELECT kind, namespace, name, rv FROM objects").fetch_all(connection).await?;
    let mut state = history.state.clone();
    for (kind, namespace, name, revision) in rows {
        let key = (kind, namespace, name);
        if state.remove(&key) != u64::try_from(revision).ok() {
            findings
                .add(Finding::Difference, || format!("{key:?} is at {revision}, its last event is another"));
        }
    }
    for key in state.keys() {
        findings.add(Finding::Difference, || format!("{key:?} has events and does not exist"));
    }
    Ok(())
}

fn judge(lines: &[Line], history: &History, verdict: &mut Verdict) -> Result<()> {
    let Verdict { findings, told: outcomes, done, watched, .. } = verdict;
    // What contradicts itself was not read to its end.
    let read_until = if findings.has(Finding::History) { history.last } else { u64::MAX };
    for line in lines {
        match line {
            Line::Write { op, token, told } => {
                let stored = history.tokens.get(token).map(Vec::as_slice).unwrap_or_default();
                let (name, wrong) = match told {
                    LoggedOutcome::Done(revision) => {
                        ("done", *revision <= read_until && !stored.contains(revision))
                    }
                    LoggedOutcome::No => ("refused", !stored.is_empty()),
                    LoggedOutcome::Unavailable => ("unavailable", !stored.is_empty()),
                    LoggedOutcome::Unknown => ("unknown", false),
                };
                *outcomes.entry(name).or_default() += 1;
                let done = done.entry(op.clone()).or_default();
                done.done += u64::from(matches!(told, LoggedOutcome::Done(_)));
                done.tried += 1;
                let is_lost = wrong && matches!(told, LoggedOutcome::Done(_));
                if wrong || stored.len() > 1 {
                    let finding = if is_lost { Finding::Lost } else { Finding::Applied };
                    findings.add(finding, || format!("{op} {token}: told {told:?}, stored at {stored:?}"));
                }
            }
            Line::Watched { resource, after, to, events, xor } => {
                *watched += 1;
                let made = history.between(TestKind::of_resource(resource)?.id().0, *after, *to);
                if made != (*events, *xor) {
                    findings.add(Finding::Watch, || {
                        format!("{resource} ({after}, {to}]: {events} events seen, {:?} made", made.0)
                    });
                }
            }
            Line::Broken { what } => findings.add(Finding::Watch, || what.clone()),
        }
    }
    Ok(())
}

fn report(verdict: &Verdict, history: &History, kills: &Kills) {
    let told = |name| verdict.told.get(name).copied().unwrap_or_default();
    let operations: u64 = verdict.told.values().sum();
    say(&format!(
        "operations {operations}: done {}, refused {}, unavailable {}, unknown {}",
        told("done"),
        told("refused"),
        told("unavailable"),
        told("unknown")
    ));
    let done = verdict.done.iter().map(|(op, OperationCount { done, tried })| format!("{op} {done}/{tried}"));
    say(&done.collect::<Vec<_>>().join(", "));
    say(&format!(
        "kills {}: connections {}, answers {}, replicas {}, servers {}",
        kills.total(),
        kills.connections,
        kills.answers,
        kills.replicas,
        kills.servers
    ));
    say(&format!(
        "events {}, moves {}, lists {}, looks {}, watch reports {}",
        history.tokens.len(),
        history.moves,
        history.lists(),
        verdict.looks,
        verdict.watched
    ));
    let LimitCounts { undercuts, taken_over, bound, holds } = history.replay.counts;
    say(&format!(
        "limits put below what there is {undercuts}, excess taken over {taken_over}, growth below ceilings {bound}, holds {holds}"
    ));
    for line in verdict.findings.lines() {
        say(&line);
    }
}
