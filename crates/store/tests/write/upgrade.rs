//! A new version comes while the old one serves: migrations only add, and both write.

use crate::kit::{Bodies, Kit, Object, kinds};
use crate::outage::until_task_waiting;
use runtime::{Metrics, Tasks};
use sqlx::{Connection as _, PgConnection};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::testing::postgres::NOT_DURABLE;
use store::testing::{Database, Server};
use store::{Access, Config, Error, Store};
use uuid::Uuid;

/// How the program of a former release creates an object without quota.
const OLD_APPLY: &str = "SELECT base, outcome FROM apply_batch_former($1, $2, 10000, true, false, false, '{}', '{}', \
     true, false, NULL, ARRAY['c']::\"char\"[], ARRAY[3]::smallint[], ARRAY[''], ARRAY[$3], ARRAY[$4], \
     ARRAY[0]::bigint[], ARRAY['t'], ARRAY[NULL]::smallint[], ARRAY[NULL]::text[], ARRAY[false], ARRAY[false], \
     ARRAY[NULL]::text[], ARRAY[$5], '{}', '{}', '{}', '{}', '{}', '{}', '{}', \
     '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')";

/// The program of the version before this one, as far as the database sees it.
struct OldProgram {
    sql: PgConnection,
    writer: Uuid,
    seq: i64,
}

impl OldProgram {
    async fn new(database: &Database) -> Self {
        let mut sql = database.connect().await.unwrap();
        for (id, resource) in [(1_i16, "projects"), (2, "namespaces"), (3, "notes")] {
            let known =
                "INSERT INTO kinds (id, grp, resource) VALUES ($1, 'sample', $2) ON CONFLICT DO NOTHING";
            sqlx::query(known).bind(id).bind(resource).execute(&mut sql).await.unwrap();
        }
        Self { sql, writer: Uuid::new_v4(), seq: 0 }
    }

    async fn create(&mut self, object: &Object) -> i64 {
        self.seq += 1;
        let (base, outcome): (i64, Vec<i16>) = sqlx::query_as(OLD_APPLY)
            .bind(self.writer)
            .bind(self.seq)
            .bind(&object.name)
            .bind(object.uid)
            .bind(object.state().body)
            .fetch_one(&mut self.sql)
            .await
            .unwrap();
        assert_eq!(outcome, [0]);
        base + 1
    }
}

fn open(database: &Database, tasks: &Tasks) -> Store {
    Store::open(Config::new(&database.url), kinds(), tasks, &Metrics::new()).unwrap()
}

#[tokio::test]
async fn the_old_version_and_the_new_one_write_side_by_side_while_the_schema_is_migrated() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.old_database().await.unwrap();
    let mut old = OldProgram::new(&database).await;
    let first = Object::note("before");
    old.create(&first).await;

    let tasks = Tasks::new();
    let store = open(&database, &tasks);
    assert!(!store.schema_ready().await.unwrap(), "the functions of this release are missing");
    let (stop, mut made) = (AtomicBool::new(false), vec![first]);
    let writing = async {
        while !stop.load(Ordering::SeqCst) {
            let object = Object::note(&format!("old{}", made.len()));
            old.create(&object).await;
            made.push(object);
        }
        made
    };
    let upgrading = async {
        tokio::try_join!(Store::migrate(&database.url), Store::migrate(&database.url)).unwrap();
        assert!(store.schema_ready().await.unwrap());
        let access = Access::internal("test");
        let kit = Kit { store: store.clone(), database: database.clone(), tasks: tasks.clone(), access };
        kit.until("the new version writes", || kit.store.database_ok()).await;
        kit.create(Object::project("p", "", "c1: cpu=100")).await.unwrap();
        for n in 0..20 {
            kit.create(Object::namespace("p", &format!("n{n}"), "c1: cpu=1")).await.unwrap();
            kit.create(Object::note(&format!("new{n}"))).await.unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        kit
    };
    let (made, kit) = tokio::join!(writing, upgrading);
    assert!(made.len() > 2, "the old version has stood still");
    let events = kit.events().await;
    assert_eq!(events.len(), made.len() + 41);
    for object in &made {
        assert!(events.contains(&format!("c {}", object.name)), "{}", object.name);
    }
    let behind: i64 = sqlx::query_scalar("SELECT count(*) FROM objects WHERE rv > (SELECT v FROM rev)")
        .fetch_one(&mut kit.sql().await)
        .await
        .unwrap();
    assert_eq!(behind, 0);
    kit.check().await;
    kit.stop().await;
}

/// Whoever else changes the schema, or an administrator, holds a lock for as long as he likes.
#[tokio::test]
async fn a_migration_that_waits_for_a_lock_stops_nobody() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.old_database().await.unwrap();
    let mut old = OldProgram::new(&database).await;
    let mut foreign = database.connect().await.unwrap();
    sqlx::raw_sql("SET idle_in_transaction_session_timeout = 0").execute(&mut foreign).await.unwrap();
    let mut held = foreign.begin().await.unwrap();
    // As who compacts does: others may, and who waits to be alone with the table keeps those waiting who come later.
    sqlx::raw_sql("LOCK TABLE compaction IN ROW EXCLUSIVE MODE").execute(&mut *held).await.unwrap();

    let migrated = AtomicBool::new(false);
    let migrating = async {
        Store::migrate(&database.url).await.unwrap();
        migrated.store(true, Ordering::SeqCst);
    };
    let writing = async {
        let mut observer = database.connect().await.unwrap();
        let patient = "SET lock_timeout = 0; SET statement_timeout = 0";
        sqlx::raw_sql(patient).execute(&mut observer).await.unwrap();
        until_task_waiting(&mut observer, "migrate", "Lock", 1).await;
        for n in 0..20 {
            old.create(&Object::note(&format!("old{n}"))).await;
        }
        let compacts = sqlx::query("UPDATE compaction SET compacted = compacted").execute(&mut observer);
        let ended = tokio::time::timeout(Duration::from_secs(30), compacts).await;
        ended.expect("who compacts waits behind the migration").unwrap();
        assert!(!migrated.load(Ordering::SeqCst), "the migration has waited for nobody");
        held.rollback().await.unwrap();
    };
    tokio::join!(migrating, writing);
    old.create(&Object::note("after")).await;
}

#[tokio::test]
async fn a_schema_that_is_newer_than_the_program_is_served_and_never_changed() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (99991231235959, 'from the future', true, '\\x00', 1)";
    let mut sql = database.connect().await.unwrap();
    sqlx::query(newer).execute(&mut sql).await.unwrap();
    Store::migrate(&database.url).await.unwrap();
    let versions = "SELECT count(*) FROM _sqlx_migrations WHERE version = 99991231235959";
    assert_eq!(sqlx::query_scalar::<_, i64>(versions).fetch_one(&mut sql).await.unwrap(), 1);
    // A replica of the version before, restarted in the middle of an upgrade, goes on.
    let kit = Kit::on(database).await;
    assert!(kit.store.schema_ready().await.unwrap());
    kit.create(Object::note("a")).await.unwrap();
    assert!(kit.store.audit(&kit.access, &Bodies).await.unwrap().differences.is_empty());
}

/// An unknown version among the known ones is no later release: somebody else's schema.
#[tokio::test]
async fn a_schema_with_an_unknown_past_is_refused() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let unknown = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (1, 'of another program', true, '\\x00', 1)";
    sqlx::query(unknown).execute(&mut database.connect().await.unwrap()).await.unwrap();
    let refused = Store::migrate(&database.url).await;
    assert!(
        matches!(&refused, Err(Error::Schema(why)) if why.contains("version 1,") && why.contains("another program")),
        "{refused:?}"
    );
}

/// The role's own schema comes first on the search path, and somebody may make it at any time.
#[tokio::test]
async fn no_second_platform_is_made_in_a_schema_that_hides_the_first() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let mut sql = database.connect().await.unwrap();
    sqlx::raw_sql("CREATE SCHEMA AUTHORIZATION CURRENT_USER").execute(&mut sql).await.unwrap();
    let refused = Store::migrate(&database.url).await;
    assert!(matches!(&refused, Err(Error::Schema(why)) if why.contains("schema \"public\"")), "{refused:?}");
    let tables =
        "SELECT count(*) FROM pg_class WHERE relname IN ('rev', '_sqlx_migrations') AND relkind = 'r'";
    assert_eq!(sqlx::query_scalar::<_, i64>(tables).fetch_one(&mut sql).await.unwrap(), 2);
}

#[tokio::test]
async fn a_new_program_before_its_schema_says_so_or_serves() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.old_database().await.unwrap();
    let tasks = Tasks::new();
    let store = open(&database, &tasks);
    let access = Access::internal("test");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match store.write(&access, Object::note("a").create()).await {
            Ok(_) => break,
            Err(Error::Unavailable(why)) if why.contains("schema") => break,
            Err(Error::Unavailable(why)) => assert!(Instant::now() < deadline, "the writer only says: {why}"),
            Err(other) => panic!("{other:?}"),
        }
    }
    tasks.cancel();
}
