//! Updates without a pause over many objects, while history is compacted and, for a part of the time, a foreign
//! snapshot keeps PostgreSQL from cleaning up: the rate and the sizes must stay as they are.

use crate::replica;
use crate::say;
use crate::world::TestKind;
use anyhow::Result;
use runtime::Tasks;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::model::{Before, Change, Growth, NewState, Write};
use store::quota::Account;
use store::testing::Server;
use store::{Access, Error, Key, KindId, Revision, Store};
use tokio::task::JoinSet;
use uuid::Uuid;

/// Bytes of padding, for a body of one and a half kilobytes.
const PADDING: usize = 1380;
/// Until somebody comes back whom the store could not serve.
const RETRY: Duration = Duration::from_millis(20);

/// How long and how hard.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FloodSettings {
    /// Objects.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Updates a second at most.
    #[arg(long, default_value_t = 5_000)]
    rate: u64,
    /// Writers.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// How long, in minutes.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// The minute in which somebody else begins a snapshot and keeps it; 0 is never.
    #[arg(long, default_value_t = 5)]
    snapshot_from: u64,
    /// For how many minutes he keeps it.
    #[arg(long, default_value_t = 2)]
    snapshot_minutes: u64,
    /// How long events are kept, in seconds.
    #[arg(long, default_value_t = 60)]
    retention: u64,
    /// Seconds of a minute, for a short trial.
    #[arg(long, default_value_t = 60)]
    minute_seconds: u64,
}

/// What the writers share.
struct Flood {
    store: Store,
    begun: Instant,
    end: Instant,
    rate: u64,
    /// Updates that were begun; each has its time.
    begun_updates: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    micros: Mutex<Vec<u64>>,
}

/// An object as its only writer knows it.
struct FloodObject {
    key: Key,
    uid: Uuid,
    revision: Revision,
    round: u64,
}

/// Runs it; a person judges the report.
pub(crate) async fn run(settings: FloodSettings) -> Result<()> {
    let options = ["shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min"];
    let server = Server::start(&options).await.map_err(anyhow::Error::from_boxed)?;
    let database = server.database().await.map_err(anyhow::Error::from_boxed)?;
    let tasks = Tasks::new();
    let store = replica::open(&database.url, Duration::from_secs(settings.retention), &tasks)?;
    let kind = TestKind::Namespace.id();
    store.until_synced().await;
    let begun = Instant::now();
    let shares = create(&store, kind, &settings).await?;
    let took = begun.elapsed();
    say(&format!("{} objects created in {took:.1?}; at most {} updates/s", settings.objects, settings.rate));

    let minute = Duration::from_secs(settings.minute_seconds);
    let begun = Instant::now();
    let flood = Arc::new(Flood {
        store,
        begun,
        end: begun + minute * u32::try_from(settings.minutes)?,
        rate: settings.rate,
        begun_updates: AtomicU64::new(0),
        done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        micros: Mutex::default(),
    });
    let mut work = JoinSet::new();
    for share in shares {
        work.spawn(update(Arc::clone(&flood), share));
    }
    watch(&flood, &settings, &database.url, minute).await?;
    while let Some(ended) = work.join_next().await {
        ended??;
    }
    tasks.cancel();
    tasks.join(Duration::from_secs(10)).await?;
    Ok(())
}

/// Makes the objects, and deals them out to the writers.
async fn create(store: &Store, kind: KindId, settings: &FloodSettings) -> Result<Vec<Vec<FloodObject>>> {
    let mut work = JoinSet::new();
    for writer in 0..settings.writers {
        let (store, settings) = (store.clone(), settings.clone());
        work.spawn(async move {
            let access = Access::internal("flood");
            let mut share = Vec::new();
            for n in (writer..settings.objects).step_by(settings.writers) {
                let key = Key::new(kind, "flood", &format!("o{n:07}"));
                let uid = Uuid::new_v4();
                let change = Change::Create(state(&key, 0));
                let write = Write { key: key.clone(), uid, change, growth: Growth::Free, hold: None };
                let revision = store.write(&access, write).await?;
                share.push(FloodObject { key, uid, revision, round: 0 });
            }
            Ok::<_, Error>(share)
        });
    }
    let mut shares = Vec::new();
    while let Some(share) = work.join_next().await {
        shares.push(share??);
    }
    Ok(shares)
}

fn state(key: &Key, round: u64) -> NewState {
    let Key { name, namespace, .. } = key;
    let padding = "x".repeat(PADDING);
    let body = format!(
        r#"{{"apiVersion":"stress/v1","kind":"Namespace","metadata":{{"name":"{name}","namespace":"{namespace}"}},"round":{round},"text":"{padding}"}}"#
    );
    NewState { body, account: Account { tenant: "t".to_owned(), ..Account::default() } }
}

async fn update(flood: Arc<Flood>, mut share: Vec<FloodObject>) -> Result<()> {
    let access = Access::internal("flood");
    while Instant::now() < flood.end {
        for object in &mut share {
            let number = flood.begun_updates.fetch_add(1, Ordering::Relaxed);
            let due = flood.begun + Duration::from_micros(number * 1_000_000 / flood.rate);
            if due > flood.end {
                return Ok(());
            }
            tokio::time::sleep_until(due.into()).await;
            object.round += 1;
            let change = Change::Update {
                expected: object.revision,
                before: Before::default(),
                state: state(&object.key, object.round),
            };
            let write =
                Write { key: object.key.clone(), uid: object.uid, change, growth: Growth::Free, hold: None };
            let sent = Instant::now();
            match flood.store.write(&access, write).await {
                Ok(revision) => {
                    object.revision = revision;
                    flood.done.fetch_add(1, Ordering::Relaxed);
                    let micros = u64::try_from(sent.elapsed().as_micros())?;
                    flood.micros.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
                }
                Err(error @ (Error::Conflict | Error::NotFound | Error::Refused(_) | Error::Corrupt(_))) => {
                    return Err(error.into());
                }
                Err(_) => {
                    flood.failed.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(RETRY).await;
                }
            }
            if Instant::now() >= flood.end {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reports every minute, and holds the foreign snapshot.
async fn watch(flood: &Flood, settings: &FloodSettings, url: &str, minute: Duration) -> Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    let mut foreign: Option<PgConnection> = None;
    say(
        "minute  updates/s   p50 ms   p99 ms  failed  objects MB (indexes)  events MB (rows)  rev+batches kB  behind  snapshot",
    );
    let (mut done, mut failed) = (0, 0);
    for number in 1..=settings.minutes {
        let last = settings.snapshot_from + settings.snapshot_minutes;
        if settings.snapshot_from > 0 && number == settings.snapshot_from {
            let mut reader = PgConnection::connect(url).await?;
            sqlx::raw_sql("SET idle_in_transaction_session_timeout = 0").execute(&mut reader).await?;
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM objects";
            sqlx::raw_sql(begin).execute(&mut reader).await?;
            foreign = Some(reader);
        } else if number == last
            && let Some(reader) = foreign.take()
        {
            reader.close().await?;
        }
        tokio::time::sleep_until((flood.begun + minute * u32::try_from(number)?).into()).await;
        let mut micros = std::mem::take(&mut *flood.micros.lock().unwrap_or_else(PoisonError::into_inner));
        micros.sort_unstable();
        let (all, bad) = (flood.done.load(Ordering::Relaxed), flood.failed.load(Ordering::Relaxed));
        let sizes = sizes(&mut connection).await?;
        say(&format!(
            "{number:6}  {:9}  {:7.2}  {:7.2}  {:6}  {sizes}  {}",
            (all - done) / settings.minute_seconds.max(1),
            at(&micros, 50),
            at(&micros, 99),
            bad - failed,
            if foreign.is_some() { "held" } else { "-" }
        ));
        (done, failed) = (all, bad);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds for a person")]
fn at(sorted: &[u64], percent: usize) -> f64 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).copied().unwrap_or_default() as f64 / 1000.0
}

async fn sizes(connection: &mut PgConnection) -> Result<String> {
    let query = "SELECT pg_table_size('objects') >> 20, pg_indexes_size('objects') >> 20, \
         pg_total_relation_size('events') >> 20, (SELECT count(*) FROM events), \
         (pg_total_relation_size('rev') + pg_total_relation_size('batches')) >> 10, \
         (SELECT v FROM rev) - (SELECT compacted FROM compaction)";
    let row = sqlx::query(query).fetch_one(connection).await?;
    let number = |at: usize| row.try_get::<i64, _>(at);
    Ok(format!(
        "{:10} ({:7})  {:9} ({:6})  {:14}  {:6}",
        number(0)?,
        number(1)?,
        number(2)?,
        number(3)?,
        number(4)?,
        number(5)?
    ))
}
