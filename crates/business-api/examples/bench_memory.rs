//! Measures what an object with managed fields costs the API server in memory, all told: the watch cache with its
//! indices, and what the allocations of projects keep of it. The object is a namespace that Argo CD and a platform team
//! apply together, and whose status the controller writes.
//!
//! `cargo run --release -p business-api --example bench_memory -- [objects]`

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use business_api::allocations::Allocations;
use business_api::kind_ids::{NAMESPACE, PROJECT};
use business_api::kinds::KINDS;
use runtime::{Metrics, Tasks};
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::{Duration, Instant};
use store::KindId;
use store::testing::Server;

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A stored body; `@i` stands for the object's number, `@p` for its project's.
const NAMESPACE_BODY: &str = include_str!("bench_memory/namespace.json");
const PROJECT_BODY: &str = include_str!("bench_memory/project.json");
const OBJECTS: usize = 100_000;
/// Namespaces of a project.
const EACH: usize = 50;
const GOAL: &str = "2.0 ×";
/// The allocations have taken everything when memory has not grown for so long.
const STILL: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(100);

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

async fn fill(connection: &mut PgConnection, kind: KindId, count: usize, body: &str) -> Outcome<()> {
    let (namespace, name) = match kind {
        PROJECT => ("''", "'shop-' || i"),
        _ => ("'shop-' || p", "'c1-web-' || i"),
    };
    let number = kind.0;
    let sql = format!(
        "INSERT INTO objects SELECT {number}, {namespace}, {name}, gen_random_uuid(), rv, rv, 'tenant-' || p, NULL, NULL, \
         false, false, replace(replace($1, '@i', i::text), '@p', p::text) \
         FROM (SELECT i, i / $2 AS p, {number} * 10000000 + i AS rv FROM generate_series(0, $3 - 1) i) numbered"
    );
    let each = if kind == PROJECT { 1 } else { EACH };
    sqlx::query(AssertSqlSafe(sql))
        .bind(body.trim_end())
        .bind(i32::try_from(each)?)
        .bind(i32::try_from(count)?)
        .execute(connection)
        .await?;
    Ok(())
}

/// Mean bytes of a namespace's body.
async fn length(connection: &mut PgConnection) -> Outcome<f64> {
    let query = "SELECT avg(octet_length(body))::float8 FROM objects WHERE kind = $1";
    Ok(sqlx::query_scalar(query).bind(NAMESPACE.0).fetch_one(connection).await?)
}

fn managed_length() -> Outcome<usize> {
    let body: serde_json::Value = serde_json::from_str(NAMESPACE_BODY)?;
    let fields = body.pointer("/metadata/managedFields").ok_or("a body without managed fields")?;
    Ok(fields.to_string().len())
}

fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0
}

/// What is resident once it grows no more.
async fn settled() -> f64 {
    let (mut most, mut since) = (resident(), Instant::now());
    while since.elapsed() < STILL {
        tokio::time::sleep(POLL).await;
        if resident() > most {
            (most, since) = (resident(), Instant::now());
        }
    }
    resident()
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let objects: usize = std::env::args().nth(1).map_or(Ok(OBJECTS), |text| text.parse())?;
    let server = Server::start(&["fsync=off", "max_wal_size=4GB"]).await?;
    let database = server.database().await?;
    let mut connection = database.connect().await?;
    sqlx::raw_sql("SET statement_timeout = 0").execute(&mut connection).await?;
    fill(&mut connection, PROJECT, objects.div_ceil(EACH), PROJECT_BODY).await?;
    fill(&mut connection, NAMESPACE, objects, NAMESPACE_BODY).await?;
    sqlx::raw_sql("UPDATE rev SET v = 100000000; ANALYZE").execute(&mut connection).await?;
    let length = length(&mut connection).await?;

    let tasks = Tasks::new();
    let before = settled().await;
    let store = KINDS.open(store::Config::new(&database.url), &tasks, &Metrics::new())?;
    store.until_synced().await;
    let cached = settled().await;
    tasks.spawn("levels", Allocations::new(KINDS.accounts()).follow_all(store.clone()));
    let followed = settled().await;
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let each = |bytes: f64| bytes / objects as f64;
    let whole = each(followed - before);
    println!("{objects} namespaces; body {length:.0} B, of which managed fields {} B", managed_length()?);
    println!("{:<58} {:.0} B", "watch cache, for each", each(cached - before));
    println!("{:<58} {:.0} B", "levels of projects, for each", each(followed - cached));
    println!("{:<58} {whole:.0} B, {:.2} × its body (goal {GOAL})", "memory for each", whole / length);
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    Ok(())
}
