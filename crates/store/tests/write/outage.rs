//! A database that goes away, half-way or whole: no write is guessed, lost or made twice.

use crate::kit::{Kit, Object};
use crate::proxy::Proxy;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};
use store::testing::Server;
use store::testing::postgres::NOT_DURABLE;
use store::{Config, Error};

pub(crate) async fn pid_of_writer(sql: &mut PgConnection) -> Option<i32> {
    let query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'store writer' AND datname = current_database()";
    sqlx::query_scalar(query).fetch_optional(sql).await.unwrap()
}

/// Ends the writer's backend, and waits until it has another one.
pub(crate) async fn terminate_writer(sql: &mut PgConnection) {
    let pid = pid_of_writer(sql).await;
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut *sql).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while pid_of_writer(sql).await == pid {
        assert!(Instant::now() < deadline, "backend {pid:?} of the writer does not end");
    }
}

/// Waits until so many backends of the writer wait as told.
pub(crate) async fn until_waiting(sql: &mut PgConnection, how: &str, count: i64) {
    until_task_waiting(sql, "store writer", how, count).await;
}

/// Waits until so many backends of a task wait as told.
pub(crate) async fn until_task_waiting(sql: &mut PgConnection, task: &str, how: &str, count: i64) {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $2 \
         AND datname = current_database() AND (wait_event_type = $1 OR wait_event = $1)";
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let waiting: i64 = sqlx::query_scalar(query).bind(how).bind(task).fetch_one(&mut *sql).await.unwrap();
        if waiting >= count {
            return;
        }
        assert!(Instant::now() < deadline, "{waiting} backends wait for {how}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_write_whose_backend_is_terminated_is_made_once() {
    let kit = Kit::new().await;
    let (mut lock, mut sql) = (kit.sql().await, kit.sql().await);
    let mut held = lock.begin().await.unwrap();
    sqlx::query("SELECT FROM rev FOR UPDATE").execute(&mut *held).await.unwrap();
    let disturbing = async {
        until_waiting(&mut sql, "Lock", 1).await;
        terminate_writer(&mut sql).await;
        until_waiting(&mut sql, "Lock", 1).await;
        held.rollback().await.unwrap();
    };
    let (created, ()) = tokio::join!(kit.create(Object::note("a")), disturbing);
    created.unwrap();
    assert_eq!(kit.events().await, ["c a"]);
}

/// The server takes the connection and its session, and then says no more.
#[tokio::test]
async fn an_opening_that_is_never_answered_is_given_up_and_begun_again() {
    let database = store::testing::database().await.unwrap();
    let proxy = Proxy::start(&database.url).await;
    let kit = Kit::with(Config::new(&proxy.url), database).await;
    proxy.mute_openings(true);
    proxy.cut();
    let told = || kit.store.database().err().unwrap_or_default();
    kit.until("the opening is given up", || told().contains("does not answer on a new connection")).await;
    proxy.mute_openings(false);
    kit.until("the next one is answered", || kit.store.database_ok()).await;
    kit.create(Object::note("a")).await.unwrap();
    proxy.close();
}

#[tokio::test]
async fn an_old_backend_that_goes_on_after_its_batch_was_cancelled_commits_nothing() {
    let database = store::testing::database().await.unwrap();
    let proxy = Proxy::start(&database.url).await;
    let kit = Kit::with(Config::new(&proxy.url), database).await;
    let (mut lock, mut sql) = (kit.sql().await, kit.sql().await);
    let mut held = lock.begin().await.unwrap();
    sqlx::query("SELECT FROM rev FOR UPDATE").execute(&mut *held).await.unwrap();
    let disturbing = async {
        until_waiting(&mut sql, "Lock", 1).await;
        proxy.cut();
        // the old backend and the new one
        until_waiting(&mut sql, "Lock", 2).await;
        held.rollback().await.unwrap();
    };
    let (created, ()) = tokio::join!(kit.create(Object::note("a")), disturbing);
    let created = created.unwrap();
    assert_eq!(kit.events().await, ["c a"]);
    kit.update(&created, |note| note.locked = true).await.unwrap();
    proxy.close();
}

#[tokio::test]
async fn a_batch_that_commits_after_the_first_look_is_answered_with_its_own_outcome() {
    let server = Server::start(&["fsync=off", "full_page_writes=off"]).await.unwrap();
    let database = server.database().await.unwrap();
    let proxy = Proxy::start(&database.url).await;
    let kit = Kit::with(Config::new(&proxy.url), database).await;
    kit.create(Object::note("first")).await.unwrap();
    let mut sql = kit.sql().await;
    // a commit now waits for a standby that is not there, after it was written
    standby(&mut sql, "nobody").await;
    kit.database.until_commits_wait().await.unwrap();
    let disturbing = async {
        until_waiting(&mut sql, "SyncRep", 1).await;
        proxy.cut();
        // the look at the batch's fate waits for the old backend
        until_waiting(&mut sql, "Lock", 1).await;
        standby(&mut sql, "").await;
    };
    let (created, ()) = tokio::join!(kit.create(Object::note("a")), disturbing);
    let created = created.unwrap();
    let rv: i64 =
        sqlx::query_scalar("SELECT rv FROM objects WHERE name = 'a'").fetch_one(&mut sql).await.unwrap();
    assert_eq!(created.revision.0, u64::try_from(rv).unwrap());
    assert_eq!(kit.events().await, ["c first", "c a"]);
    proxy.close();
}

#[tokio::test]
async fn a_batch_whose_backend_ended_before_the_standby_had_it_is_answered_when_it_has() {
    let server = Server::start(&["fsync=off", "full_page_writes=off"]).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.create(Object::note("first")).await.unwrap();
    let mut sql = kit.sql().await;
    standby(&mut sql, "nobody").await;
    kit.database.until_commits_wait().await.unwrap();
    let disturbing = async {
        until_waiting(&mut sql, "SyncRep", 1).await;
        // it is committed here, and nowhere else
        terminate_writer(&mut sql).await;
        until_waiting(&mut sql, "SyncRep", 1).await;
        assert_eq!(kit.events().await, ["c first", "c a"]);
        standby(&mut sql, "").await;
    };
    let (created, ()) = tokio::join!(kit.create(Object::note("a")), disturbing);
    created.unwrap();
    assert_eq!(kit.events().await, ["c first", "c a"]);
}

async fn standby(sql: &mut PgConnection, name: &'static str) {
    let statement = format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'");
    // the administrator's own commits wait for nobody
    sqlx::query("SET synchronous_commit = off").execute(&mut *sql).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut *sql).await.unwrap();
    sqlx::query("SELECT pg_reload_conf()").execute(&mut *sql).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now: String =
            sqlx::query_scalar("SHOW synchronous_standby_names").fetch_one(&mut *sql).await.unwrap();
        if now == name {
            return;
        }
        assert!(Instant::now() < deadline, "synchronous_standby_names stays {now:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stopped_server_is_unavailable_and_comes_back_without_a_restart_of_ours() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.create(Object::note("a")).await.unwrap();
    server.stop().unwrap();
    let refused = kit.create(Object::note("b")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_) | Error::Unknown)), "{refused:?}");
    kit.until("health says so", || !kit.store.database_ok()).await;
    server.launch().await.unwrap();
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    kit.create(Object::note("c")).await.unwrap();
}

#[tokio::test]
async fn a_write_sent_right_after_the_server_stopped_is_answered_soon_and_later_ones_at_once() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.create(Object::note("a")).await.unwrap();
    server.stop().unwrap();
    let begun = Instant::now();
    let first = async {
        let refused = kit.create(Object::note("b")).await;
        assert!(matches!(refused, Err(Error::Unavailable(_) | Error::Unknown)), "{refused:?}");
        // a batch that nobody settles waits for thirty seconds
        assert!(begun.elapsed() < Duration::from_secs(15), "answered after {:?}", begun.elapsed());
    };
    let quickly = |name: &'static str| {
        let creating = kit.create(Object::note(name));
        async {
            let refused = tokio::time::timeout(Duration::from_secs(1), creating).await;
            matches!(refused, Ok(Err(Error::Unavailable(_))))
        }
    };
    let later = async {
        while !quickly("c").await {
            assert!(begun.elapsed() < Duration::from_secs(15), "no write is answered at once");
        }
    };
    tokio::join!(first, later);
    assert!(quickly("d").await);
    assert!(!kit.store.database_ok());
    server.launch().await.unwrap();
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    kit.create(Object::note("b")).await.unwrap();
    assert_eq!(kit.events().await, ["c a", "c b"]);
}

#[tokio::test]
async fn a_batch_whose_callers_were_told_unknown_is_settled_before_anything_else_is_sent() {
    let database = store::testing::database().await.unwrap();
    let proxy = Proxy::start(&database.url).await;
    let kit = Kit::with(Config::new(&proxy.url), database).await;
    kit.lay_trap().await;
    kit.set_trap(9.0, "").await;
    let mut sql = kit.sql().await;
    let begun = Instant::now();
    let disturbing = async {
        until_waiting(&mut sql, "PgSleep", 1).await;
        proxy.refuse(true);
        proxy.cut();
    };
    let (told, ()) = tokio::join!(kit.create(Object::note("a")), disturbing);
    assert!(matches!(told, Err(Error::Unknown)), "{told:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "told after {:?}", begun.elapsed());
    kit.set_trap(0.0, "").await;
    proxy.refuse(false);
    kit.until("the batch is settled", || kit.store.database_ok()).await;
    let settled = kit.events().await;
    let query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' \
         AND datname = current_database()";
    let deadline = Instant::now() + Duration::from_secs(30);
    while sqlx::query_scalar::<_, i64>(query).fetch_one(&mut sql).await.unwrap() > 0 {
        assert!(Instant::now() < deadline, "the old backend goes on for ever");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kit.create(Object::note("b")).await.unwrap();
    let events = kit.events().await;
    assert_eq!(events[..settled.len()], settled);
    assert_eq!(events[settled.len()..], ["c b"], "the old backend has committed after its batch was settled");
    proxy.close();
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_and_none_is_made_twice_when_the_server_is_killed() {
    let mut server = Server::start(&["full_page_writes=off"]).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    for writer in 0..16 {
        // each has its own: a fast machine makes more children than one may have
        kit.create(Object::project(&format!("p{writer}"), "", "c1: cpu=1000000")).await.unwrap();
    }
    let end = Instant::now() + Duration::from_secs(4);
    let writers = (0..16).map(|writer| {
        let kit = &kit;
        async move {
            let (mut sure, mut unsure) = (Vec::new(), 0);
            for n in 0.. {
                if Instant::now() > end {
                    break;
                }
                match kit
                    .create(Object::namespace(&format!("p{writer}"), &format!("w{writer}-{n}"), "c1: cpu=1"))
                    .await
                {
                    Ok(object) => sure.push(object),
                    Err(Error::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                    Err(Error::Unknown) => unsure += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            (sure, unsure)
        }
    });
    let killing = async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            server.kill().unwrap();
            server.launch().await.unwrap();
        }
    };
    let (results, ()) = tokio::join!(futures_util::future::join_all(writers), killing);
    let rows: Vec<(String, i64)> = sqlx::query_as("SELECT name, rv FROM objects WHERE kind = 2")
        .fetch_all(&mut kit.sql().await)
        .await
        .unwrap();
    let rows: std::collections::HashMap<String, i64> = rows.into_iter().collect();
    let (mut sure, mut unsure) = (0, 0);
    for (objects, unknown) in results {
        unsure += unknown;
        sure += objects.len();
        for object in objects {
            let rv = rows.get(&object.name).copied();
            assert_eq!(rv.and_then(|rv| u64::try_from(rv).ok()), Some(object.revision.0), "{}", object.name);
        }
    }
    assert!(sure > 0 && rows.len() >= sure && rows.len() <= sure + unsure, "{sure} {unsure} {}", rows.len());
    assert_eq!(kit.events().await.len(), rows.len() + 16);
    kit.check().await;
}

#[tokio::test]
async fn a_read_only_server_is_told_and_left_when_it_takes_writes_again() {
    let kit = Kit::new().await;
    let mut sql = kit.sql().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut sql).await.unwrap();
    let set = |value: &str| {
        let statement = format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}");
        sqlx::query(sqlx::AssertSqlSafe(statement))
    };
    set("on").execute(&mut sql).await.unwrap();
    let pid = pid_of_writer(&mut sql).await;
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut sql).await.unwrap();
    kit.until("health says so", || kit.store.database().is_err_and(|reason| reason.contains("read-only")))
        .await;
    let refused = kit.create(Object::note("a")).await;
    assert!(matches!(&refused, Err(Error::Unavailable(text)) if text.contains("read-only")), "{refused:?}");
    set("off").execute(&mut sql).await.unwrap();
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    kit.create(Object::note("a")).await.unwrap();
}

#[tokio::test]
async fn a_lock_held_by_an_administrator_gives_a_clear_error_and_harms_nothing_later() {
    let kit = Kit::new().await;
    let mut lock = kit.sql().await;
    let mut held = lock.begin().await.unwrap();
    sqlx::query("SET idle_in_transaction_session_timeout = 0").execute(&mut *held).await.unwrap();
    sqlx::query("LOCK TABLE events").execute(&mut *held).await.unwrap();
    let refused = kit.create(Object::note("a")).await;
    assert!(matches!(&refused, Err(Error::Unavailable(text)) if text.contains("lock")), "{refused:?}");
    held.rollback().await.unwrap();
    kit.create(Object::note("a")).await.unwrap();
    assert_eq!(kit.events().await, ["c a"]);
}

#[tokio::test]
async fn without_a_schema_the_store_waits_and_says_so() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = store::testing::Database { url: server.url("postgres") };
    let tasks = runtime::Tasks::new();
    let metrics = runtime::Metrics::new();
    let config = Config::new(&database.url);
    let store = store::Store::open(config, crate::kit::kinds(), &tasks, &metrics).unwrap();
    let access = store::Access::internal("test");
    assert!(!store.schema_ready().await.unwrap());
    let refused = store.write(&access, Object::note("a").create()).await;
    assert!(matches!(&refused, Err(Error::Unavailable(text)) if text.contains("schema")), "{refused:?}");
    tokio::try_join!(store::Store::migrate(&database.url), store::Store::migrate(&database.url)).unwrap();
    assert!(store.schema_ready().await.unwrap());
    let kit = Kit { store, database, tasks, access };
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    kit.create(Object::note("a")).await.unwrap();
}

#[tokio::test]
async fn a_database_with_other_kinds_is_refused() {
    let kit = Kit::new().await;
    let tasks = runtime::Tasks::new();
    let mut kinds = crate::kit::kinds();
    kinds.reverse();
    let config = Config::new(&kit.database.url);
    let store = store::Store::open(config, kinds, &tasks, &runtime::Metrics::new()).unwrap();
    let refused = store.write(&kit.access, Object::project("a", "", "c1:").create()).await;
    assert!(matches!(&refused, Err(Error::Unavailable(text)) if text.contains("kind number")), "{refused:?}");
}
