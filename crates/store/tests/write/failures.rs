//! What a server that runs refuses: a clear error, health that says so, and recovery without a restart of ours.

use crate::kit::{Kit, Object};
use crate::outage::pid_of_writer;
use crate::proxy::Proxy;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};
use store::testing::postgres::NOT_DURABLE;
use store::testing::{Database, Server};
use store::{Config, Error};

/// A write fails for this reason, and the store's health has the same reason.
async fn assert_unavailable(kit: &Kit, reason: &str) {
    let refused = kit.create(Object::note("refused")).await;
    assert!(
        matches!(&refused, Err(Error::Unavailable(text)) if text.contains(reason)),
        "{reason}: {refused:?}"
    );
    let health = kit.store.database();
    assert!(health.as_ref().is_err_and(|text| text.contains(reason)), "{reason}: {health:?}");
}

async fn assert_recovered(kit: &Kit) {
    let well = kit.create(Object::note("well")).await.unwrap();
    kit.until("health says so", || kit.store.database_ok()).await;
    kit.delete(&well).await.unwrap();
}

#[tokio::test]
async fn what_postgresql_is_out_of_is_unavailable_and_passes() {
    let kit = Kit::new().await;
    kit.lay_trap().await;
    for (code, reason) in [
        ("53100", "disk is full"),
        ("53200", "trapped"),
        ("53400", "trapped"),
        ("58030", "trapped"),
        ("57014", "too slow"),
        ("55P03", "holds a lock"),
        ("40P01", "trapped"),
        ("40001", "trapped"),
    ] {
        kit.set_trap(0.0, code).await;
        assert_unavailable(&kit, reason).await;
        kit.set_trap(0.0, "").await;
        assert_recovered(&kit).await;
    }
    assert!(!kit.events().await.iter().any(|event| event.ends_with("refused")));
}

#[tokio::test]
async fn health_recovers_under_writes_that_leave_no_pause() {
    let kit = Kit::new().await;
    kit.lay_trap().await;
    kit.set_trap(0.0, "53100").await;
    assert_unavailable(&kit, "disk is full").await;
    kit.set_trap(0.0, "").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    for n in 0.. {
        assert!(Instant::now() < deadline, "health never learns of writes that succeed");
        kit.create(Object::note(&format!("n{n}"))).await.unwrap();
        if kit.store.database_ok() {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_out_of_something_is_not_well_before_a_write_succeeds() {
    let kit = Kit::new().await;
    kit.lay_trap().await;
    kit.set_trap(0.0, "53100").await;
    assert_unavailable(&kit, "disk is full").await;
    // an idle writer looks every second
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let health = kit.store.database();
    assert!(health.as_ref().is_err_and(|text| text.contains("disk is full")), "{health:?}");
    kit.set_trap(0.0, "55P03").await;
    assert_unavailable(&kit, "holds a lock").await;
    kit.set_trap(0.0, "").await;
    assert_recovered(&kit).await;
    kit.set_trap(0.0, "55P03").await;
    assert_unavailable(&kit, "holds a lock").await;
    kit.until("one lock is forgotten without a write", || kit.store.database_ok()).await;
}

#[tokio::test]
async fn an_idle_replica_says_what_the_server_is_out_of_until_another_one_writes() {
    let kit = Kit::new().await;
    let other = Kit::on(kit.database.clone()).await;
    kit.lay_trap().await;
    kit.set_trap(0.0, "53100").await;
    assert_unavailable(&kit, "disk is full").await;
    kit.set_trap(0.0, "55P03").await;
    assert_unavailable(&kit, "holds a lock").await;
    let is_full = || kit.store.database().is_err_and(|text| text.contains("disk is full"));
    kit.until("the lock is forgotten, and the disk is not", is_full).await;
    kit.set_trap(0.0, "").await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(is_full(), "nobody has written");
    other.create(Object::note("theirs")).await.unwrap();
    kit.until("another replica's write is heard of", || kit.store.database_ok()).await;
    other.stop().await;
}

#[tokio::test]
async fn a_batch_that_takes_too_long_is_given_up_by_the_server() {
    let kit = Kit::new().await;
    kit.lay_trap().await;
    kit.set_trap(60.0, "").await;
    assert_unavailable(&kit, "too slow").await;
    kit.set_trap(0.0, "").await;
    assert_recovered(&kit).await;
}

/// Fills a small disk that holds the events, and makes room again.
#[tokio::test]
async fn a_full_disk_is_told_and_harms_nothing_once_there_is_room() {
    let Some((server, place)) = Server::start_with_small_disk(&NOT_DURABLE, 16 << 20).await.unwrap() else {
        eprintln!("skipped: a small disk can be mounted by root only");
        return;
    };
    let kit = Kit::on(server.database().await.unwrap()).await;
    let mut sql = kit.sql().await;
    let small = format!("CREATE TABLESPACE small LOCATION '{}'", place.display());
    sqlx::query(sqlx::AssertSqlSafe(small)).execute(&mut sql).await.unwrap();
    let filler = "ALTER TABLE events SET TABLESPACE small; \
         CREATE TABLE filler (text text) TABLESPACE small; \
         ALTER TABLE filler ALTER COLUMN text SET STORAGE EXTERNAL";
    sqlx::raw_sql(filler).execute(&mut sql).await.unwrap();
    for bytes in [1_000_000, 100_000, 1_000] {
        let fill = sqlx::query("INSERT INTO filler VALUES (repeat('x', $1))").bind(bytes);
        let mut full = fill.execute(&mut sql).await;
        while full.is_ok() {
            let fill = sqlx::query("INSERT INTO filler VALUES (repeat('x', $1))").bind(bytes);
            full = fill.execute(&mut sql).await;
        }
        let code =
            full.unwrap_err().into_database_error().and_then(|e| e.code().map(|code| code.to_string()));
        assert_eq!(code.as_deref(), Some("53100"));
    }
    let mut made = 0;
    let refused = loop {
        match kit.create(Object::note(&format!("n{made}"))).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 100_000, "the disk never fills");
    };
    assert!(matches!(&refused, Error::Unavailable(text) if text.contains("disk is full")), "{refused:?}");
    assert_unavailable(&kit, "disk is full").await;
    sqlx::raw_sql("DROP TABLE filler; CHECKPOINT").execute(&mut sql).await.unwrap();
    assert_recovered(&kit).await;
    assert_eq!(kit.events().await.len(), made + 2);
}

#[tokio::test]
async fn connections_that_others_have_taken_are_told_and_not_waited_for() {
    let settings = ["max_connections=20", "superuser_reserved_connections=0"];
    let server = Server::start(&[&NOT_DURABLE[..], &settings].concat()).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.create(Object::note("a")).await.unwrap();
    let mut sql = kit.sql().await;
    let mut taken: Vec<PgConnection> = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !kit.store.database().is_err_and(|reason| reason.contains("too many connections")) {
        assert!(Instant::now() < deadline, "{} taken: {:?}", taken.len(), kit.store.database());
        while let Ok(another) = kit.database.connect().await {
            taken.push(another);
        }
        if let Some(pid) = pid_of_writer(&mut sql).await {
            sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut sql).await.unwrap();
        }
    }
    let begun = Instant::now();
    assert_unavailable(&kit, "too many connections").await;
    assert!(begun.elapsed() < Duration::from_secs(10), "told after {:?}", begun.elapsed());
    for connection in taken {
        connection.close().await.unwrap();
    }
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    assert_recovered(&kit).await;
}

#[tokio::test]
async fn a_lock_on_the_counter_or_the_ledger_gives_a_clear_error_and_harms_nothing_later() {
    let kit = Kit::new().await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let mut lock = kit.sql().await;
    sqlx::raw_sql("SET idle_in_transaction_session_timeout = 0").execute(&mut lock).await.unwrap();
    for statement in ["SELECT FROM rev FOR UPDATE", "SELECT FROM ledger WHERE scope = 'p' FOR UPDATE"] {
        let mut held = lock.begin().await.unwrap();
        sqlx::query(statement).execute(&mut *held).await.unwrap();
        let refused = kit.create(Object::namespace("p", "n", "c1: cpu=1")).await;
        assert!(matches!(&refused, Err(Error::Unavailable(text)) if text.contains("lock")), "{refused:?}");
        assert!(kit.store.database().is_err_and(|reason| reason.contains("lock")));
        held.rollback().await.unwrap();
        assert_recovered(&kit).await;
    }
    kit.create(Object::namespace("p", "n", "c1: cpu=1")).await.unwrap();
    kit.check().await;
}

#[tokio::test]
async fn a_server_made_read_only_under_a_living_connection_is_told() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    let mut sql = kit.sql().await;
    let mut set = async |value: &str| {
        let statement = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        sqlx::raw_sql("SET default_transaction_read_only = off").execute(&mut sql).await.unwrap();
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut sql).await.unwrap();
        sqlx::query("SELECT pg_reload_conf()").execute(&mut sql).await.unwrap();
    };
    set("on").await;
    kit.until("health says so", || kit.store.database().is_err_and(|reason| reason.contains("read-only")))
        .await;
    assert_unavailable(&kit, "read-only").await;
    set("off").await;
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    assert_recovered(&kit).await;
}

/// Somebody sets the server's clock, by years: what proves the fate of a batch is kept all the same.
#[tokio::test]
async fn a_clock_that_jumps_takes_no_proof_away() {
    let kit = Kit::new().await;
    kit.create(Object::note("a")).await.unwrap();
    let mut sql = kit.sql().await;
    let rows = "SELECT count(*) FROM batches";
    let before: i64 = sqlx::query_scalar(rows).fetch_one(&mut sql).await.unwrap();
    for (n, jump) in ["- interval '10 years'", "+ interval '10 years'"].into_iter().enumerate() {
        let query = format!("UPDATE batches SET created = created {jump}");
        sqlx::query(sqlx::AssertSqlSafe(query)).execute(&mut sql).await.unwrap();
        let database = Database { url: kit.database.url.clone() };
        let mut config = Config::new(&database.url);
        config.cache.retention = Duration::from_millis(20);
        config.cache.compact_every = Duration::from_millis(10);
        let other = Kit::with(config, database).await;
        let note = other.create(Object::note(&format!("b{n}"))).await.unwrap();
        // compaction has run
        let deadline = Instant::now() + Duration::from_secs(30);
        let mark = "SELECT compacted FROM compaction";
        while sqlx::query_scalar::<_, i64>(mark).fetch_one(&mut sql).await.unwrap()
            < i64::try_from(note.revision.0).unwrap()
        {
            assert!(Instant::now() < deadline, "nothing is compacted");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        other.stop().await;
    }
    let after: i64 = sqlx::query_scalar(rows).fetch_one(&mut sql).await.unwrap();
    assert_eq!(after, before + 2);
    assert_recovered(&kit).await;
}

/// A replica that stalls in a dry run, at whatever point of it, stops nobody: a rehearsal is one statement.
#[tokio::test]
async fn a_rehearsal_whose_answer_is_never_taken_stops_no_writer() {
    let database = store::testing::database().await.unwrap();
    let stalled = Proxy::start(&database.url).await;
    let kit = Kit::on(database.clone()).await;
    kit.create(Object::project("p", "", "c1: cpu=100")).await.unwrap();
    let dry = Kit::with(Config::new(&stalled.url), database).await;
    stalled.stall_next_batch();
    let waiting = tokio::spawn({
        let (store, access) = (dry.store.clone(), dry.access.clone());
        async move { store.check(&access, Object::namespace("p", "dry", "c1: cpu=1").create()).await }
    });
    stalled.stalled().await;
    let begun = Instant::now();
    for n in 0..10 {
        kit.create(Object::namespace("p", &format!("n{n}"), "c1: cpu=1")).await.unwrap();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "ten writes took {took:?}");
    let held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'store rehearsal' \
         AND datname = current_database() AND state LIKE 'idle in transaction%'";
    let holding: i64 = sqlx::query_scalar(held).fetch_one(&mut kit.sql().await).await.unwrap();
    assert_eq!(holding, 0, "no transaction of it is open");
    waiting.abort();
    dry.stop().await;
    kit.check().await;
}
