//! Failover to a standby without the last commits: they are lost, and with them the record of granted budget. The namespaces
//! still exist in the clusters. Nothing may grow until the clusters have been compared and their namespaces count again.

use super::budget::{BUDGET, Budget};
use super::calls::{Caller, Calls};
use super::fault::{ActiveFault, Fault, cluster};
use super::{WHOLE, audit_command};
use crate::audit;
use crate::findings::Findings;
use crate::say;
use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::patroni::{PatroniNode, Role};
use kit::Endpoint;
use serde_json::json;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

const PROJECT: &str = "lossy";
/// Four commits that will be lost beside one that will not: all of the budget.
const KEPT: [&str; 1] = ["kept"];
const LOST: [&str; 4] = ["lost-1", "lost-2", "lost-3", "lost-4"];
const STANDBYS: i64 = 2;
const SOON: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(200);

/// Runs it; `Ok(false)` when something was found.
pub(super) async fn run(instance: &Instance, endpoints: &[Endpoint]) -> Result<bool> {
    say(&format!("{} …", Fault::LoseCommits.words()));
    let endpoint = endpoints.first().context("no replica")?;
    let calls = Calls::default();
    let mut caller = Caller::new(endpoint.clone(), &calls, "lossy".to_owned(), 1);
    let budget = Budget::make(instance, endpoint, PROJECT).await?;
    budget.spend(&KEPT).await?;

    let leader = block_in_place(|| cluster(instance)?.node(Role::Leader).cloned())?;
    stop_replication(instance, &leader).await?;
    budget.spend(&LOST).await?;
    ensure!(
        budget.granted()? == BUDGET,
        "before the failover, {} of {BUDGET} are granted",
        budget.granted()?
    );

    let begin = Instant::now();
    let struck = block_in_place(|| ActiveFault::inject(Fault::LoseCommits, instance))?;
    let waiting = budget.until_refused(&mut caller, begin).await?;
    let released = begin.elapsed();
    let mut connection = PgConnection::connect(&instance.database_url).await?;
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM objects WHERE namespace = $1")
        .bind(PROJECT)
        .fetch_one(&mut connection)
        .await?;
    ensure!(kept == i64::try_from(KEPT.len())?, "{kept} namespaces are left: no commit was lost");
    let mut findings = Findings::default();
    audit::compare_ledger_and_objects(&mut connection, &mut findings).await?;
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
async fn restore(instance: &Instance, struck: &ActiveFault) -> Result<()> {
    let cluster = cluster(instance)?;
    let leader = block_in_place(|| cluster.node(Role::Leader).cloned())?;
    let mut connection = PgConnection::connect(&cluster.superuser_url(&leader)).await?;
    sqlx::raw_sql("ALTER ROLE replicator LOGIN").execute(&mut connection).await?;
    block_in_place(|| {
        struck.recover(instance)?;
        cluster.configure(&json!({"synchronous_mode": true}))?;
        cluster.until_whole(WHOLE)
    })
}
