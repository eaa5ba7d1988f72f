//! Creates of 1.5 kB objects, beside pgbench inserting the same body row by row into the same server.
//!
//! `cargo run --release -p store --example bench -- [--rounds N] [--seconds N] [--settle N] [--objects N] [--only TEXT]`

use meta::quantity::{Quantity, ResourceList};
use runtime::{Metrics, Tasks};
use std::collections::BTreeMap;
use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::model::{Before, Change, Growth, NewState, Write};
use store::quota::{Account, Claim, Grants, Limits, Scope, ScopeKind};
use store::testing::{Database, Server};
use store::{Access, Attributes, Config, Key, Kind, KindId, Revision, ScopeRole, Store};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PROJECTS: KindId = KindId(1);
const NAMESPACES: KindId = KindId(2);
const NOTES: KindId = KindId(3);
const TENANTS: KindId = KindId(4);
const CLUSTERS: KindId = KindId(5);
/// What projects stand for.
const PROJECT: ScopeKind = ScopeKind(1);
/// What tenants stand for.
const TENANT: ScopeKind = ScopeKind(2);
/// What clusters are carved out of.
const FLEET: ScopeKind = ScopeKind(3);
const WRITERS: [usize; 3] = [16, 64, 256];
/// Goals in percent of pgbench: one replica, three replicas.
const GOALS: [[f64; 2]; 3] = [[110.0, 60.0], [150.0, 110.0], [200.0, 200.0]];
const QUOTA_GOAL: f64 = 75.0;
const SETTINGS: [&str; 5] =
    ["shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min", "max_connections=400", "fsync=on"];

struct Options {
    rounds: usize,
    measured: Duration,
    settle: Duration,
    /// How many objects there are already.
    objects: u64,
    /// Only the points whose name contains this.
    only: String,
}

/// What is measured: a rival, or so many replicas with so many writers, with or without quota.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Point {
    Pgbench(usize),
    Create {
        writers: usize,
        replicas: usize,
    },
    Quota {
        writers: usize,
    },
    /// The same in a project below the ceiling of a tenant, which lies below a cluster's capacity.
    Below {
        writers: usize,
    },
    /// The same while somebody writes the status of the project all the time, as controllers do.
    Mixed {
        writers: usize,
    },
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Notes,
    Namespaces,
    Below,
    Mixed,
}

struct Sample(&'static str, Option<ScopeRole>);

impl Kind for Sample {
    fn group(&self) -> &'static str {
        "bench"
    }
    fn resource(&self) -> &'static str {
        self.0
    }
    fn stands_for(&self) -> Option<ScopeRole> {
        self.1
    }
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }
    fn attributes(&self, _body: &[u8]) -> Attributes {
        Attributes::default()
    }
}

fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Sample("projects", Some(ScopeRole { scope: PROJECT, required: true }))),
        Arc::new(Sample("namespaces", None)),
        Arc::new(Sample("notes", None)),
        Arc::new(Sample("tenants", Some(ScopeRole { scope: TENANT, required: false }))),
        Arc::new(Sample("clusters", None)),
    ]
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program that prints a table")]
async fn main() -> Result<()> {
    let options = options()?;
    let server = Server::start(&SETTINGS).await?;
    let mut points = Vec::new();
    for writers in WRITERS {
        points.push(Point::Pgbench(writers));
        points.push(Point::Create { writers, replicas: 1 });
        points.push(Point::Create { writers, replicas: 3 });
    }
    points.push(Point::Quota { writers: 64 });
    points.push(Point::Below { writers: 64 });
    points.push(Point::Mixed { writers: 64 });
    points.retain(|point| name(*point).contains(&options.only));
    let mut results: BTreeMap<Point, Vec<f64>> = BTreeMap::new();
    for round in 1..=options.rounds {
        for point in &points {
            let rate = measure(&server, *point, &options).await?;
            println!("round {round}: {}: {rate:.0}/s", name(*point));
            results.entry(*point).or_default().push(rate);
        }
    }
    println!("\n| measure | ours /s | pgbench /s | ratio | goal |\n|---|---:|---:|---:|---:|");
    for (writers, goals) in WRITERS.into_iter().zip(GOALS) {
        for (replicas, goal) in [1, 3].into_iter().zip(goals) {
            print_row(&results, Point::Create { writers, replicas }, writers, goal);
        }
    }
    print_row(&results, Point::Quota { writers: 64 }, 64, QUOTA_GOAL);
    print_row(&results, Point::Below { writers: 64 }, 64, QUOTA_GOAL);
    print_row(&results, Point::Mixed { writers: 64 }, 64, QUOTA_GOAL);
    let of = |point| median(results.get(&point));
    let ratio = 100.0 * of(Point::Below { writers: 64 }) / of(Point::Quota { writers: 64 });
    println!("\nbelow a ceiling: {ratio:.0} % of what a project makes that lies below nothing (goal 95 %)");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program that prints a table")]
fn print_row(results: &BTreeMap<Point, Vec<f64>>, point: Point, writers: usize, goal: f64) {
    let ours = median(results.get(&point));
    let rival = median(results.get(&Point::Pgbench(writers)));
    let ratio = 100.0 * ours / rival;
    println!("| {} | {ours:.0} | {rival:.0} | {ratio:.0} % | {goal:.0} % |", name(point));
}

fn name(point: Point) -> String {
    match point {
        Point::Pgbench(writers) => format!("pgbench, {writers} clients"),
        Point::Create { writers, replicas } => format!("create, {writers} writers, {replicas} replica(s)"),
        Point::Quota { writers } => format!("namespace create in one hot project, {writers} clients"),
        Point::Below { writers } => format!("the same below a tenant's ceiling, {writers} clients"),
        Point::Mixed { writers } => {
            format!("the same while the project's status is written, {writers} clients")
        }
    }
}

fn median(values: Option<&Vec<f64>>) -> f64 {
    let mut values = values.cloned().unwrap_or_default();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn options() -> Result<Options> {
    let (measured, settle) = (Duration::from_secs(4), Duration::from_secs(1));
    let mut options = Options { rounds: 3, measured, settle, objects: 0, only: String::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or("a value is missing")?;
        if argument == "--only" {
            options.only = value;
            continue;
        }
        let value: u64 = value.parse()?;
        match argument.as_str() {
            "--rounds" => options.rounds = usize::try_from(value)?,
            "--seconds" => options.measured = Duration::from_secs(value),
            "--settle" => options.settle = Duration::from_secs(value),
            "--objects" => options.objects = value,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(options)
}

/// A fresh database, a checkpoint, a rest; then writes a second.
async fn measure(server: &Server, point: Point, options: &Options) -> Result<f64> {
    let database = server.database().await?;
    if options.objects > 0 && !matches!(point, Point::Pgbench(_)) {
        fill(&database, options.objects).await?;
    }
    sqlx::raw_sql("CHECKPOINT").execute(&mut server.admin().await?).await?;
    tokio::time::sleep(options.settle).await;
    match point {
        Point::Pgbench(clients) => pgbench(&database, clients, options).await,
        Point::Create { writers, replicas } => {
            create(&database, writers, replicas, Load::Notes, options).await
        }
        Point::Quota { writers } => create(&database, writers, 1, Load::Namespaces, options).await,
        Point::Below { writers } => create(&database, writers, 1, Load::Below, options).await,
        Point::Mixed { writers } => create(&database, writers, 1, Load::Mixed, options).await,
    }
}

/// Makes objects of the size that is measured.
async fn fill(database: &Database, objects: u64) -> Result<()> {
    let sql = format!(
        "SET statement_timeout = 0; \
         INSERT INTO objects SELECT {}, 'ns-' || i % 2000, 'n' || i, gen_random_uuid(), i + 1, i + 1, \
         't', NULL, NULL, false, false, '{}' FROM generate_series(1, {objects}) i; \
         UPDATE rev SET v = {objects} + 1; ANALYZE",
        NOTES.0,
        body("old", &[])
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut database.connect().await?).await?;
    Ok(())
}

async fn pgbench(database: &Database, clients: usize, options: &Options) -> Result<f64> {
    let table = "CREATE TABLE rival (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)";
    sqlx::raw_sql(table).execute(&mut database.connect().await?).await?;
    let script = std::env::temp_dir().join(format!("bench-{}.sql", Uuid::new_v4()));
    std::fs::write(&script, "INSERT INTO rival (body) VALUES (:body);\n")?;
    let mut command = Command::new("pgbench");
    command.args(["--no-vacuum", "--protocol=prepared", "--jobs=2"]);
    command.arg(format!("--client={clients}")).arg(format!("--time={}", options.measured.as_secs()));
    command.arg(format!("--define=body={}", body("rival", &[])));
    command.arg("--file").arg(&script).arg(&database.url);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    std::fs::remove_file(&script)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let number = line.and_then(|line| line.split_whitespace().next());
    let Some(number) = number else {
        return Err(format!("pgbench: {text}{}", String::from_utf8_lossy(&output.stderr)).into());
    };
    Ok(number.parse()?)
}

async fn create(
    database: &Database,
    writers: usize,
    replicas: usize,
    load: Load,
    options: &Options,
) -> Result<f64> {
    let tasks = Tasks::new();
    let metrics = Metrics::new();
    // the hot project outgrows what a project may have in seconds
    let config = Config { children_max: i64::MAX, ..Config::new(&database.url) };
    let open = |_| Store::open(config.clone(), kinds(), &tasks, &metrics);
    let stores = (0..replicas).map(open).collect::<std::result::Result<Vec<_>, _>>()?;
    let access = Access::internal("bench");
    for store in &stores {
        store.until_synced().await;
        while !store.database_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let quota = load != Load::Notes;
    let mut hot = None;
    if quota && let Some(store) = stores.first() {
        if load == Load::Below {
            store.write(&access, granting(CLUSTERS, "c1", fleet(), None)).await?;
            store.write(&access, granting(TENANTS, "t", tenant(), Some(fleet()))).await?;
        }
        let write = project((load == Load::Below).then(tenant));
        hot = Some((store.clone(), write.uid, store.write(&access, write).await?));
    }
    let (counting, ending) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let done = Arc::new(AtomicU64::new(0));
    let mut running = tokio::task::JoinSet::new();
    for (writer, store) in (0..writers).zip(stores.iter().cycle().cloned()) {
        let (counting, ending, done) = (Arc::clone(&counting), Arc::clone(&ending), Arc::clone(&done));
        let access = access.clone();
        running.spawn(async move {
            for number in 0_u64.. {
                if ending.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("w{writer}-{number}");
                let write = if quota { namespace(&name) } else { note(&name) };
                store.write(&access, write).await?;
                if counting.load(Ordering::Relaxed) {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok::<_, store::Error>(())
        });
    }
    if let Some((store, uid, mut revision)) = hot.filter(|_| load == Load::Mixed) {
        let (ending, access) = (Arc::clone(&ending), access.clone());
        running.spawn(async move {
            while !ending.load(Ordering::Relaxed) {
                revision = store.write(&access, project_status(uid, revision)).await?;
            }
            Ok::<_, store::Error>(())
        });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    counting.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    tokio::time::sleep(options.measured).await;
    let rate = f64::from(u32::try_from(done.load(Ordering::Relaxed))?) / begun.elapsed().as_secs_f64();
    ending.store(true, Ordering::Relaxed);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    tasks.cancel();
    tasks.join(Duration::from_secs(10)).await?;
    Ok(rate)
}

/// About 1.5 kB, as an API server would store it.
fn body(name: &str, extra: &[(&str, &str)]) -> String {
    let labels: Vec<String> =
        (0..12).map(|n| format!("\"example.io/label-{n}\":\"value-{n}-of-{name}\"")).collect();
    let extra: Vec<String> = extra.iter().map(|(key, value)| format!(",\"{key}\":{value}")).collect();
    let filler = "a reason that somebody has written down once and nobody reads ".repeat(11);
    format!(
        "{{\"metadata\":{{\"name\":\"{name}\",\"uid\":\"{}\",\"labels\":{{{}}}}},\"spec\":{{\"note\":\"{filler}\"}}{}}}",
        Uuid::nil(),
        labels.join(","),
        extra.concat()
    )
}

fn create_write(key: Key, account: Account) -> Write {
    let account = Account { tenant: "t".to_owned(), ..account };
    let change = Change::Create(NewState { body: body(&key.name, &[]), account });
    Write { key, uid: Uuid::new_v4(), change, growth: Growth::Free, hold: None }
}

fn note(name: &str) -> Write {
    create_write(Key::new(NOTES, "default", name), Account::default())
}

fn list(cpu: i64, memory: i64) -> ResourceList {
    let list = [("cpu", cpu), ("memory", memory)];
    list.into_iter().map(|(name, units)| (name.to_owned(), Quantity::from_units(units))).collect()
}

fn domain<T>(of: T) -> BTreeMap<String, T> {
    BTreeMap::from([("c1".to_owned(), of)])
}

fn hot() -> Scope {
    Scope::new(PROJECT, "hot")
}

fn tenant() -> Scope {
    Scope::new(TENANT, "t")
}

fn fleet() -> Scope {
    Scope::new(FLEET, "")
}

fn project(pays: Option<Scope>) -> Write {
    granting(PROJECTS, "hot", hot(), pays)
}

/// What grants a budget, and takes it from the scope above.
fn granting(kind: KindId, name: &str, scope: Scope, pays: Option<Scope>) -> Write {
    let hard = list(1_000_000_000, 1_000_000_000_000);
    let keys = || hard.keys().cloned().collect();
    let (costs, carries) =
        if pays.is_some() { (domain(hard.clone()), domain(keys())) } else { Default::default() };
    let grants = Some(Grants { scope, domains: domain(Limits::new(hard.clone(), true)) });
    create_write(Key::new(kind, "", name), Account { grants, pays, costs, carries, ..Account::default() })
}

fn namespace(name: &str) -> Write {
    let account = Account {
        pays: Some(hot()),
        costs: domain(list(1, 1024)),
        carries: domain(vec!["cpu".to_owned(), "memory".to_owned()]),
        claims: vec![Claim { domain: "c1".to_owned(), place: name.to_owned() }],
        ..Account::default()
    };
    create_write(Key::new(NAMESPACES, "hot", name), account)
}

/// A write of the project's status: nothing that is charged or granted changes.
fn project_status(uid: Uuid, expected: Revision) -> Write {
    let Write { key, change: Change::Create(state), .. } = project(None) else { return project(None) };
    let before = Before { attributes: Attributes::default(), account: state.account.clone() };
    Write {
        key,
        uid,
        change: Change::Update { expected, before, state },
        growth: Growth::Refused,
        hold: None,
    }
}
