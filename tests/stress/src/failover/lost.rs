//! Failover to a standby that has not heard of the last commits: they are lost, and with them budget that was handed out. The
//! clusters have the namespaces all the same. Nothing may grow until they have been compared, and what they hold counts.

use super::calls::{Caller, Calls, PROJECTS, Told, namespaces};
use super::fault::{Fault, Struck, cluster};
use super::{WHOLE, audit_command};
use crate::audit;
use crate::findings::Findings;
use crate::say;
use anyhow::{Context, Result, bail, ensure};
use http::Method;
use instance::job::{Hard, namespace, project};
use instance::patroni::{PatroniNode, Role};
use instance::wait::{self, Look};
use instance::{HOST_CLUSTER, Instance};
use kit::Endpoint;
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

const BUDGET: u64 = 10;
const PROJECT: &str = "lossy";
/// Four commits that will be lost beside one that will not: all of the budget.
const KEPT: [&str; 1] = ["kept"];
const LOST: [&str; 4] = ["lost-1", "lost-2", "lost-3", "lost-4"];
const EACH: Hard<'_> = &[("pods", "2")];
const STANDBYS: i64 = 2;
const SOON: Duration = Duration::from_mins(1);
const RELEASED: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(200);

/// Runs it; `Ok(false)` when something was found.
pub(super) async fn run(instance: &Instance, endpoints: &[Endpoint]) -> Result<bool> {
    say(&format!("{} …", Fault::LoseCommits.words()));
    let endpoint = endpoints.first().context("no replica")?;
    let calls = Calls::default();
    let mut caller = Caller::new(endpoint.clone(), &calls, "lossy".to_owned(), 1);
    let body = project(PROJECT, None, &[(HOST_CLUSTER, &[("pods", "10")])]);
    endpoint.connect().await?.json(Method::POST, PROJECTS, &body).await?;
    make(instance, endpoint, &KEPT).await?;

    let leader = block_in_place(|| cluster(instance)?.node(Role::Leader).cloned())?;
    stop_replication(instance, &leader).await?;
    make(instance, endpoint, &LOST).await?;
    ensure!(
        granted(instance)? == BUDGET,
        "before the failover, {} of {BUDGET} are granted",
        granted(instance)?
    );

    let begin = Instant::now();
    let struck = block_in_place(|| Struck::strike(Fault::LoseCommits, instance))?;
    let waiting = caller.until_refused(instance).await?;
    let released = begin.elapsed();
    let mut connection = PgConnection::connect(&instance.database_url).await?;
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM objects WHERE namespace = $1")
        .bind(PROJECT)
        .fetch_one(&mut connection)
        .await?;
    ensure!(kept == i64::try_from(KEPT.len())?, "{kept} namespaces are left: no commit was lost");
    let mut findings = Findings::default();
    audit::look(&mut connection, &mut findings).await?;
    audit_command(instance)?;
    restore(instance, &struck).await?;
    let over = waiting.most > BUDGET;
    say(&format!(
        "commits lost {}; growth held after {:.1} s, released after {:.1} s; at most {} of {BUDGET} pods granted in the cluster",
        LOST.len(),
        waiting.held.context("growth was never held")?.as_secs_f64(),
        released.as_secs_f64(),
        waiting.most
    ));
    for line in findings.lines() {
        say(&line);
    }
    Ok(findings.is_empty() && !over)
}

/// What was seen until growth went on.
struct Waiting {
    /// From the beginning until a caller heard that growth is held.
    held: Option<Duration>,
    /// The most that the cluster ever granted.
    most: u64,
}

impl Caller {
    /// Asks for more than there is until it is refused because of the budget; whatever is granted before is too much.
    async fn until_refused(&mut self, instance: &Instance) -> Result<Waiting> {
        let begin = Instant::now();
        let mut waiting = Waiting { held: None, most: 0 };
        for number in 0.. {
            let name = format!("more-{number}");
            let body = namespace(PROJECT, HOST_CLUSTER, &name, EACH);
            let told = self.ask(Method::POST, namespaces(PROJECT), &name, &body).await?;
            let call = self.last_call().context("no call was noted")?;
            waiting.most = waiting.most.max(granted(instance)?);
            match told {
                // Backends outlive their postmaster for a moment: what they refuse is not refused by the new primary.
                Told::Refused if call.code == 403 && waiting.held.is_none() => {}
                Told::Refused if call.code == 403 => return Ok(waiting),
                Told::Retriable if call.message.contains("growth is held") => {
                    waiting.held.get_or_insert(begin.elapsed());
                }
                Told::Retriable | Told::Unknown => {}
                Told::Done(_) => bail!("{name} was granted out of a budget that is used up"),
                Told::Refused | Told::Wrong => bail!("{name}: {} {}", call.code, call.message),
            }
            ensure!(begin.elapsed() < RELEASED, "growth is held for {RELEASED:?}: {}", call.message);
            tokio::time::sleep(POLL).await;
        }
        Ok(waiting)
    }
}

/// Namespaces that are there in the cluster, with their quota.
async fn make(instance: &Instance, endpoint: &Endpoint, names: &[&str]) -> Result<()> {
    let mut connection = endpoint.connect().await?;
    for name in names {
        let body = namespace(PROJECT, HOST_CLUSTER, name, EACH);
        connection.json(Method::POST, &namespaces(PROJECT), &body).await?;
    }
    block_in_place(|| {
        wait::until("quotas in the cluster", SOON, || {
            let quotas = quotas(instance)?;
            let missing = names.iter().find(|name| !quotas.iter().any(|quota| quota.namespace == **name));
            Ok(missing.map_or(Look::Yes(()), |name| Look::NotYet(format!("{name} has none"))))
        })
    })
}

/// The quota of a namespace in the cluster.
struct Quota {
    namespace: String,
    pods: u64,
}

fn quotas(instance: &Instance) -> Result<Vec<Quota>> {
    let list = instance.member(HOST_CLUSTER).json(&["get", "resourcequotas", "-A"])?;
    let items = list.get("items").and_then(Value::as_array).context("no list of quotas")?;
    let quota = |item: &Value| {
        let namespace = item.pointer("/metadata/namespace")?.as_str()?.to_owned();
        let pods = item.pointer("/spec/hard/pods")?.as_str()?.parse().ok()?;
        Some(Quota { namespace, pods })
    };
    Ok(items.iter().filter_map(quota).collect())
}

/// What the cluster's namespaces of the project may use together.
fn granted(instance: &Instance) -> Result<u64> {
    let ours = |quota: &Quota| {
        KEPT.iter().chain(&LOST).any(|name| quota.namespace == *name) || quota.namespace.starts_with("more-")
    };
    Ok(block_in_place(|| quotas(instance))?.iter().filter(|quota| ours(quota)).map(|quota| quota.pods).sum())
}

/// From now on commits need no standby, and none hears of them.
async fn stop_replication(instance: &Instance, leader: &PatroniNode) -> Result<()> {
    let settings = json!({"synchronous_mode": false, "maximum_lag_on_failover": 1 << 30});
    block_in_place(|| cluster(instance)?.configure(&settings))?;
    let mut connection = PgConnection::connect(&cluster(instance)?.superuser_url(leader)).await?;
    let begin = Instant::now();
    loop {
        let names: String =
            sqlx::query_scalar("SHOW synchronous_standby_names").fetch_one(&mut connection).await?;
        if names.is_empty() {
            break;
        }
        ensure!(begin.elapsed() < SOON, "the standby stays synchronous: {names}");
        tokio::time::sleep(POLL).await;
    }
    // Who is only coming back would bring along what is to be lost.
    loop {
        let streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        let followers: i64 = sqlx::query_scalar(streaming).fetch_one(&mut connection).await?;
        if followers == STANDBYS {
            break;
        }
        ensure!(begin.elapsed() < SOON * 2, "{followers} standbys follow");
        tokio::time::sleep(POLL).await;
    }
    sqlx::raw_sql("ALTER ROLE replicator NOLOGIN").execute(&mut connection).await?;
    loop {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_replication";
        let followers: i64 = sqlx::query_scalar(ended).fetch_one(&mut connection).await?;
        if followers == 0 {
            return Ok(());
        }
        ensure!(begin.elapsed() < SOON * 3, "standbys go on following");
        tokio::time::sleep(POLL).await;
    }
}

/// Standbys follow again, and one of them has every commit.
async fn restore(instance: &Instance, struck: &Struck) -> Result<()> {
    let cluster = cluster(instance)?;
    let leader = block_in_place(|| cluster.node(Role::Leader).cloned())?;
    let mut connection = PgConnection::connect(&cluster.superuser_url(&leader)).await?;
    sqlx::raw_sql("ALTER ROLE replicator LOGIN").execute(&mut connection).await?;
    block_in_place(|| {
        struck.mend(instance)?;
        cluster.configure(&json!({"synchronous_mode": true}))?;
        cluster.until_whole(WHOLE)
    })
}
