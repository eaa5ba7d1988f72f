//! The parent: starts everything, kills, looks, and judges.

use crate::faults::{Cuts, Kills, Reaper, Replicas};
use crate::follower::History;
use crate::log::{Line, LoggedOutcome};
use crate::plants::{NotPlanted, PLANTS, Plant};
use crate::{audit, log, proxy, replica, say, writers};
use anyhow::{Context, Result, ensure};
use runtime::Tasks;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use std::collections::HashMap;
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
    /// Scopes at the leaves.
    #[arg(long, default_value_t = 20)]
    pub(crate) leaves: usize,
    /// Seed of kills and writers.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A bug that is planted before the start, and that the test must catch.
    #[arg(long)]
    pub(crate) plant: Option<String>,
}

/// What was found, in the end.
#[derive(Debug, Default)]
struct RunVerdict {
    snapshots: u64,
    over_commits: Vec<String>,
    differences: Vec<String>,
    lost: Vec<String>,
    applied_though_refused: Vec<String>,
    watch_errors: Vec<String>,
    torn: Vec<String>,
    told: HashMap<&'static str, u64>,
    watched: u64,
}

/// Runs the test; `Ok(false)` when something was found.
pub(crate) async fn run(settings: RunSettings) -> Result<bool> {
    let folder = std::env::temp_dir().join(format!("stress-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&folder)?;
    let mut server = Server::start(&[]).await.map_err(anyhow::Error::from_boxed)?;
    let database = server.database().await.map_err(anyhow::Error::from_boxed)?;
    let scopes = prepare(&database.url, &settings).await?;
    say(&format!(
        "seed {}: {} replicas with {} writers each",
        settings.seed, settings.replicas, settings.writers
    ));

    let cuts = Arc::new(Cuts::new(settings.cut_one_in, settings.seed));
    let (server_address, proxied) = address(&database.url)?;
    let port = proxy::start(server_address, Arc::clone(&cuts)).await?;
    let mut replicas = Replicas::start(&folder, &proxied(port), &settings)?;
    let mut verdict = RunVerdict::default();
    let mut history = History::default();
    let mut kills = Kills::default();
    let mut scene =
        Scene { server: &mut server, url: &database.url, scopes, replicas: &mut replicas, cuts: &cuts };
    torment(&mut scene, &settings, &mut history, &mut kills, &mut verdict).await?;

    replicas.finish()?;
    let mut connection = PgConnection::connect(&database.url).await?;
    while history.read(&mut connection).await? > 0 {}
    look(&mut connection, scopes, &mut verdict).await?;
    compare_state(&mut connection, &history, &mut verdict).await?;
    verdict.torn = history.torn();
    let items = scopes + 1;
    for file in replicas.logs() {
        judge(&log::read(&file)?, &history, scopes, items, &mut verdict);
    }
    let clean = report(&verdict, &history, &kills);
    if clean {
        std::fs::remove_dir_all(&folder)?;
    } else {
        say(&format!("the replicas' logs are in {}", folder.display()));
    }
    Ok(clean)
}

/// Plants every bug in turn; `Ok(false)` when one was not caught.
pub(crate) async fn plants(settings: RunSettings) -> Result<bool> {
    let mut missed = Vec::new();
    for plant in &PLANTS {
        say(&format!("== {}", plant.name));
        let settings = RunSettings { plant: Some(plant.name.to_owned()), ..settings.clone() };
        match run(settings).await {
            Ok(false) => say("caught"),
            Err(error) if error.is::<NotPlanted>() => return Err(error),
            // Some bugs break the reading of history itself.
            Err(error) => say(&format!("caught: {error:#}")),
            Ok(true) => missed.push(plant.name),
        }
    }
    say(&format!("planted {}, missed {}: {}", PLANTS.len(), missed.len(), missed.join(", ")));
    Ok(missed.is_empty())
}

/// Makes the tree of scopes and plants the bug; tells the number of the scopes' kind.
async fn prepare(url: &str, settings: &RunSettings) -> Result<i16> {
    let tasks = Tasks::new();
    let store = replica::open(url, Duration::from_mins(1), &tasks)?;
    let kind = store.kind_id("stress", "scopes").context("the kind is not registered")?;
    let access = Access::internal("stress");
    for body in writers::tree(settings.leaves) {
        let name = body.name().to_owned();
        store.write(&access, writers::create_scope(kind, &body, &name)).await?;
    }
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    if let Some(name) = &settings.plant {
        Plant::named(name)?.apply(&mut PgConnection::connect(url).await?).await?;
    }
    Ok(kind.0)
}

/// What is running.
struct Scene<'a> {
    server: &'a mut Server,
    url: &'a str,
    scopes: i16,
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
async fn torment(
    scene: &mut Scene<'_>,
    settings: &RunSettings,
    history: &mut History,
    kills: &mut Kills,
    verdict: &mut RunVerdict,
) -> Result<()> {
    let begin = Instant::now();
    let mut reaper = Reaper::new(settings.seed);
    let mut admin = None;
    let mut next_kill = begin + Duration::from_secs(2);
    let mut next_word = begin + Duration::from_secs(10);
    loop {
        kills.answers = scene.cuts.count();
        let enough = history.last >= settings.operations && kills.total() >= settings.kills;
        if enough || begin.elapsed() > Duration::from_secs(settings.seconds_max) {
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
        if let Some(connection) = &mut admin {
            let read = history.read(connection).await?;
            if read < 20_000 {
                look(connection, scene.scopes, verdict).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        if Instant::now() >= next_word {
            next_word += Duration::from_secs(10);
            say(&format!(
                "  {} s: revision {}, {} kills, {} looks",
                begin.elapsed().as_secs(),
                history.last,
                kills.total(),
                verdict.snapshots
            ));
        }
    }
}

async fn look(connection: &mut PgConnection, scopes: i16, verdict: &mut RunVerdict) -> Result<()> {
    let findings = audit::look(connection, scopes).await?;
    verdict.snapshots += 1;
    verdict.over_commits.extend(findings.over_commits);
    verdict.differences.extend(findings.differences);
    Ok(())
}

/// The events must add up to the objects.
async fn compare_state(
    connection: &mut PgConnection,
    history: &History,
    verdict: &mut RunVerdict,
) -> Result<()> {
    let rows: Vec<(i16, String, String, i64)> =
        sqlx::query_as("SELECT kind, namespace, name, rv FROM objects").fetch_all(connection).await?;
    let mut state = history.state.clone();
    for (kind, namespace, name, revision) in rows {
        let key = (kind, namespace, name);
        if state.remove(&key) != u64::try_from(revision).ok() {
            verdict.differences.push(format!("{key:?} is at {revision}, its last event is another"));
        }
    }
    verdict.differences.extend(state.into_keys().map(|key| format!("{key:?} has events and does not exist")));
    Ok(())
}

fn judge(lines: &[Line], history: &History, scopes: i16, items: i16, verdict: &mut RunVerdict) {
    for line in lines {
        match line {
            Line::Write { op, token, told } => {
                let stored = history.tokens.get(token).map(Vec::as_slice).unwrap_or_default();
                let (name, wrong) = match told {
                    LoggedOutcome::Done(revision) => ("done", !stored.contains(revision)),
                    LoggedOutcome::No => ("refused", !stored.is_empty()),
                    LoggedOutcome::Unavailable => ("unavailable", !stored.is_empty()),
                    LoggedOutcome::Unknown => ("unknown", false),
                };
                *verdict.told.entry(name).or_default() += 1;
                if wrong && matches!(told, LoggedOutcome::Done(_)) {
                    verdict.lost.push(format!("{op} {token}: told {told:?}, stored at {stored:?}"));
                } else if wrong || stored.len() > 1 {
                    verdict
                        .applied_though_refused
                        .push(format!("{op} {token}: told {told:?}, stored at {stored:?}"));
                }
            }
            Line::Watched { resource, after, to, events, xor } => {
                let kind = if resource == "scopes" { scopes } else { items };
                verdict.watched += 1;
                if history.between(kind, *after, *to) != (*events, *xor) {
                    verdict.watch_errors.push(format!(
                        "{resource} ({after}, {to}]: {events} events seen, {:?} made",
                        history.between(kind, *after, *to).0
                    ));
                }
            }
            Line::Broken { what } => verdict.watch_errors.push(what.clone()),
        }
    }
}

fn report(verdict: &RunVerdict, history: &History, kills: &Kills) -> bool {
    let told = |name| verdict.told.get(name).copied().unwrap_or_default();
    let operations: u64 = verdict.told.values().sum();
    say(&format!(
        "operations {operations}: done {}, refused {}, unavailable {}, unknown {}",
        told("done"),
        told("refused"),
        told("unavailable"),
        told("unknown")
    ));
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
        verdict.snapshots,
        verdict.watched
    ));
    let findings = [
        ("over-commits", &verdict.over_commits),
        ("differences between ledger and objects", &verdict.differences),
        ("acknowledged writes lost", &verdict.lost),
        ("refused writes applied", &verdict.applied_though_refused),
        ("lists made in part", &verdict.torn),
        ("events missed, doubled or out of order", &verdict.watch_errors),
    ];
    for (name, found) in findings {
        say(&format!("{name}: {}", found.len()));
        for example in found.iter().take(5) {
            say(&format!("    {example}"));
        }
    }
    findings.iter().all(|(_, found)| found.is_empty())
}
