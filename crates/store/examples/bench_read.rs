//! Measures the read side: start, memory, lists, gets and the fan-out of watches.
//!
//! `cargo run --release -p store --example bench_read -- [objects]`

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use runtime::Tasks;
use serde::Deserialize;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::cache::{Cache, CacheConfig, Kinds};
use store::read::{At, ListQuery, Selection, WatchFrom, WatchItem, WatchQuery};
use store::testing::{Database, Server};
use store::{Access, Attributes, Authorizer, Key, Kind, KindId, Visibility, authorize};

const THINGS: KindId = KindId(1);
const BODY: usize = 1500;
const TENANTS: usize = 1000;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

struct Things;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    tenant_id: Option<Box<str>>,
    cluster_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Box<str>,
}

impl Kind for Things {
    fn group(&self) -> &'static str {
        "bench.io"
    }

    fn resource(&self) -> &'static str {
        "things"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.clusterName", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let Body { metadata, spec, status } = serde_json::from_slice(body).unwrap_or_default();
        Attributes {
            tenant: spec.tenant_id,
            tenant_wide: false,
            public: false,
            labels: metadata.labels.into_iter().collect(),
            fields: Box::new([spec.cluster_name, status.phase]),
        }
    }
}

struct Tenant(Arc<str>);

impl Authorizer for Tenant {
    type Request = ();
    type Refusal = ();

    async fn decide(&self, (): &()) -> Result<(Arc<str>, Visibility), ()> {
        Ok((Arc::from("bench"), Visibility::tenant(&self.0)))
    }
}

/// SQL that makes the body of object number `i`.
fn body_sql() -> String {
    format!(
        "rpad('{{\"apiVersion\":\"bench.io/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"n' || i || \
         '\",\"namespace\":\"ns-' || i % 2000 || '\",\"labels\":{{\"app\":\"a' || i % 50 || '\",\"rare\":\"r' || \
         i / 10 || '\"}}}},\"spec\":{{\"tenantID\":\"t' || i % {TENANTS} || '\",\"clusterName\":\"c' || i % 20 || \
         '\"}},\"status\":{{\"phase\":\"Available\"}},\"pad\":\"', {}, md5(i::text)) || '\"}}'",
        BODY - 2
    )
}

async fn fill(connection: &mut PgConnection, objects: usize) -> Outcome<()> {
    let sql = format!(
        "INSERT INTO objects SELECT 1, 'ns-' || i % 2000, 'n' || i, gen_random_uuid(), i + 1, i + 1, \
         't' || i % {TENANTS}, NULL, NULL, false, false, {} FROM generate_series(1, {objects}) i",
        body_sql()
    );
    sqlx::raw_sql("SET statement_timeout = 0").execute(&mut *connection).await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
    sqlx::raw_sql(AssertSqlSafe(format!("UPDATE rev SET v = {}; ANALYZE; CHECKPOINT", objects + 1)))
        .execute(connection)
        .await?;
    Ok(())
}

fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096.0
}

fn percentile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((times.len() - 1) as f64 * part) as usize;
    times.get(at).copied().unwrap_or_default()
}

async fn timed<T>(rounds: usize, mut work: impl AsyncFnMut() -> Outcome<T>) -> Outcome<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        work().await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

fn report(what: &str, mut times: Vec<Duration>) {
    let (median, worst) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
    println!("{what:<58} p50 {median:>10.2?}   p99 {worst:>10.2?}");
}

fn select(labels: &str) -> Selection {
    let labels = labels.parse().unwrap_or_default();
    Selection { kind: THINGS, namespace: None, labels, fields: "".parse().unwrap_or_default() }
}

fn list(labels: &str) -> ListQuery {
    ListQuery { selection: select(labels), at: At::Latest, limit: None, continue_token: None }
}

async fn start(database: &Database, objects: usize) -> Outcome<(Cache, Tasks)> {
    let before = resident();
    let started = Instant::now();
    let tasks = Tasks::new();
    let things: Arc<dyn Kind> = Arc::new(Things);
    let cache = Cache::open(
        &database.url,
        [(THINGS, things)].into_iter().collect::<Kinds>(),
        CacheConfig::default(),
    )?;
    cache.start(&tasks);
    cache.until_synced().await;
    println!("{:<58} {:.2?}", format!("start with {objects} objects to ready"), started.elapsed());
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let each = (resident() - before) / objects as f64;
    println!("{:<58} {each:.0} B (body {BODY} B)", "memory for each object");
    Ok((cache, tasks))
}

async fn lists(cache: &Cache, everything: &Access) -> Outcome<()> {
    let whole = timed(10, async || Ok(cache.list(everything, &list("")).await?)).await?;
    report("list of everything, collected", whole);
    let written = timed(10, async || {
        let page = cache.list(everything, &list("")).await?;
        let mut out = bytes::BytesMut::with_capacity(96 << 10);
        let mut sum = 0;
        for entry in &page.items {
            entry.write_json(&mut out);
            if out.len() > 64 << 10 {
                sum += out.len();
                out.clear();
            }
        }
        Ok(std::hint::black_box(sum))
    })
    .await?;
    report("list of everything, collected and written", written);
    report(
        "list by a label of 10 objects",
        timed(200, async || Ok(cache.list(everything, &list("rare=r77")).await?)).await?,
    );
    report(
        "list by a label of 1 in 50",
        timed(50, async || Ok(cache.list(everything, &list("app=a7")).await?)).await?,
    );
    report(
        "list by a selector that no index serves",
        timed(20, async || Ok(cache.list(everything, &list("rare notin (x),!app")).await?)).await?,
    );
    let tenant = authorize(&Tenant(Arc::from("t7")), &()).await.map_err(|()| "refused")?;
    report(
        "list of one tenant in 1000",
        timed(200, async || Ok(cache.list(&tenant, &list("")).await?)).await?,
    );
    let page = ListQuery { limit: Some(500), ..list("") };
    report("first page of 500", timed(100, async || Ok(cache.list(everything, &page).await?)).await?);
    Ok(())
}

async fn gets(cache: &Cache, everything: &Access) -> Outcome<()> {
    let key = Key::new(THINGS, "ns-7", "n7");
    report(
        "get, newest, one at a time",
        timed(2000, async || Ok(cache.get(everything, &key, At::Latest).await?)).await?,
    );
    let started = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (cache, everything, key) = (cache.clone(), everything.clone(), key.clone());
        clients.spawn(async move {
            let mut times = Vec::with_capacity(1000);
            for _ in 0..1000 {
                let started = Instant::now();
                cache.get(&everything, &key, At::Latest).await?;
                times.push(started.elapsed());
            }
            Ok::<_, store::Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(client) = clients.join_next().await {
        times.extend(client??);
    }
    let rate = 64_000.0 / started.elapsed().as_secs_f64();
    report(&format!("get, newest, 64 at a time ({rate:.0}/s)"), times);
    Ok(())
}

/// One update in a batch of its own.
async fn update(connection: &mut PgConnection, i: usize) -> Outcome<()> {
    let sql = format!(
        "WITH r AS (UPDATE rev SET v = v + 1 RETURNING v), \
         o AS (UPDATE objects SET rv = r.v FROM r WHERE kind = 1 AND namespace = 'ns-' || {i} % 2000 AND name = 'n' || {i} \
               RETURNING namespace, name, uid, body) \
         INSERT INTO events SELECT r.v, 1, 'u', o.namespace, o.name, o.uid, '{{}}', o.body FROM r, o; \
         SELECT pg_notify('store', '')"
    );
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

async fn fan_out(database: &Database, cache: &Cache, everything: &Access, watchers: usize) -> Outcome<()> {
    const CHANGES: usize = 3000;
    let sent: Arc<Vec<std::sync::OnceLock<Instant>>> =
        Arc::new((0..=CHANGES).map(|_| std::sync::OnceLock::new()).collect());
    let first = cache.current_revision().await?.0;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..watchers {
        let query = WatchQuery { selection: select(""), from: WatchFrom::After(store::Revision(first)) };
        let mut watch = cache.watch(everything, &query).await?;
        let sent = Arc::clone(&sent);
        clients.spawn(async move {
            let mut times = Vec::with_capacity(CHANGES);
            while times.len() < CHANGES {
                let Ok(WatchItem::Event { entry, .. }) = watch.next().await else {
                    return Err("the watch ended");
                };
                let number = usize::try_from(entry.revision.0 - first).unwrap_or_default();
                if number != times.len() + 1 {
                    return Err("an event is missing");
                }
                times.push(
                    sent.get(number)
                        .and_then(std::sync::OnceLock::get)
                        .map_or(Duration::ZERO, Instant::elapsed),
                );
            }
            Ok(times)
        });
    }
    let mut connection = database.connect().await?;
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    let started = Instant::now();
    for i in 1..=CHANGES {
        tick.tick().await;
        if let Some(slot) = sent.get(i) {
            slot.get_or_init(Instant::now);
        }
        update(&mut connection, i).await?;
    }
    let rate = 3000.0 / started.elapsed().as_secs_f64();
    let mut times = Vec::new();
    while let Some(client) = clients.join_next().await {
        times.extend(client??);
    }
    report(&format!("write sent to event at each of {watchers} watches ({rate:.0}/s)"), times);
    Ok(())
}

async fn idle(cache: &Cache, everything: &Access, count: usize) -> Outcome<()> {
    let before = resident();
    let mut watches = Vec::with_capacity(count);
    for i in 0..count {
        let selection = Selection { namespace: Some(format!("ns-{}", i % 2000)), ..select("") };
        let mut watch = cache.watch(everything, &WatchQuery { selection, from: WatchFrom::Now }).await?;
        let silent = tokio::time::timeout(Duration::ZERO, watch.next()).await;
        if silent.is_ok() {
            return Err("an idle watch has an event".into());
        }
        watches.push(watch);
    }
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let each = (resident() - before) / count as f64;
    println!("{:<58} {each:.0} B", format!("memory for each of {count} idle watches"));
    Ok(())
}

/// Fresh reads one at a time while others write, and a watch: from the primary, from a standby, and from one that is late.
async fn from_standbys(server: &mut Server, database: &Database, everything: &Access) -> Outcome<()> {
    let prompt = server.standby(&["fsync=off", "shared_buffers=1GB"]).await?;
    let late = server.standby(&["fsync=off", "recovery_min_apply_delay=20ms"]).await?;
    let name = database.url.rsplit_once('/').map_or("", |(_, name)| name);
    let primary = Some(database.url.clone());
    let sources = [
        ("primary", database.url.clone(), None),
        ("standby", prompt.url(name), primary.clone()),
        ("standby, 20 ms late", late.url(name), primary),
    ];
    for (what, url, primary) in sources {
        let tasks = Tasks::new();
        let things: Arc<dyn Kind> = Arc::new(Things);
        let config = CacheConfig { primary, ..CacheConfig::default() };
        let cache = Cache::open(&url, [(THINGS, things)].into_iter().collect::<Kinds>(), config)?;
        cache.start(&tasks);
        cache.until_synced().await;
        let key = Key::new(THINGS, "ns-7", "n7");
        let read = async || Ok(cache.get(everything, &key, At::Latest).await?);
        report(&format!("from the {what}: get, newest, nobody writes"), timed(1000, read).await?);
        let mut connection = database.connect().await?;
        let writer = tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(2));
            for i in 1.. {
                tick.tick().await;
                update(&mut connection, i % 1000 + 1).await?;
            }
            Outcome::Ok(())
        });
        report(&format!("from the {what}: the same beside 500 writes/s"), timed(1000, read).await?);
        writer.abort();
        let _aborted = writer.await;
        println!("from the {what}:");
        fan_out(database, &cache, everything, 1).await?;
        tasks.cancel();
        tasks.join(Duration::from_secs(5)).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let objects: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let mut server = Server::start(&["fsync=off", "shared_buffers=1GB", "max_wal_size=4GB"]).await?;
    let database = server.database().await?;
    fill(&mut database.connect().await?, objects).await?;
    let (cache, tasks) = start(&database, objects).await?;
    let everything = Access::internal("bench");
    lists(&cache, &everything).await?;
    gets(&cache, &everything).await?;
    idle(&cache, &everything, 5000).await?;
    fan_out(&database, &cache, &everything, 1).await?;
    fan_out(&database, &cache, &everything, 100).await?;
    tasks.cancel();
    tasks.join(Duration::from_secs(5)).await?;
    from_standbys(&mut server, &database, &everything).await
}
