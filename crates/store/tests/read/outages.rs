//! The database goes away, and comes back, or is reached through something in between.

use crate::fixture::*;
use crate::proxy::{Proxy, host, through};
use runtime::Tasks;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _};
use std::time::Duration;
use store::cache::{Cache, CacheConfig, Listen};
use store::read::{At, WatchFrom};
use store::testing::{Database, database};
use store::{Error, Key};

#[tokio::test]
async fn without_the_database_old_answers_are_given_and_new_ones_refused() {
    let database = database().await.unwrap();
    let mut writer = DirectWriter::new(&database).await;
    let proxy = Proxy::new(host(&database.url)).await;
    let (cache, tasks) = replica(&Database { url: through(&database.url, proxy.address) }, config()).await;
    let access = everything();
    let key = Key::new(THINGS, "x", "a");
    let first = writer.put(object("x", "a", "", &json!({"n": 1}))).await;
    assert_eq!(cache.get(&access, &key, At::Latest).await.unwrap().revision, first);
    let mut watch = cache.watch(&access, &watch(all(THINGS), WatchFrom::After(first))).await.unwrap();

    proxy.redirect(None);
    let error = cache.get(&access, &key, At::Latest).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert!(!cache.database_ok() && cache.synced());
    assert_eq!(cache.get(&access, &key, At::Any).await.unwrap().revision, first);
    assert_eq!(
        cache.list(&access, &list(all(THINGS), At::NotOlderThan(first))).await.unwrap().items.len(),
        1
    );
    let second = writer.put(object("x", "a", "", &json!({"n": 2}))).await;
    let error = cache.get(&access, &key, At::NotOlderThan(second)).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");

    proxy.redirect(Some(host(&database.url)));
    eventually("the database", async || cache.database_ok()).await;
    assert_eq!(cache.get(&access, &key, At::Latest).await.unwrap().revision, second);
    assert_eq!(lines(&mut watch, 1).await, [format!("MODIFIED x/a {second}")]);
    tasks.cancel();
}

#[tokio::test]
async fn who_starts_while_the_database_takes_no_writes_serves_reads() {
    let mut fixture = Fixture::new().await;
    let first = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    set_for_all(&mut fixture, "default_transaction_read_only = on").await;
    let (cache, tasks) = fixture.replica(config()).await;
    let key = Key::new(THINGS, "x", "a");
    assert_eq!(cache.get(&everything(), &key, At::Latest).await.unwrap().revision, first);
    tasks.cancel();
}

/// The read of everything has a limit of its own, for a server that is silent.
#[tokio::test]
async fn a_roles_limit_for_statements_does_not_end_the_first_read() {
    let mut fixture = Fixture::new().await;
    set_for_all(&mut fixture, "statement_timeout = '1s'").await;
    let mut slow = fixture.writer.connection.begin().await.unwrap();
    sqlx::query("LOCK TABLE objects IN ACCESS EXCLUSIVE MODE").execute(&mut *slow).await.unwrap();
    let tasks = Tasks::new();
    let cache = Cache::open(&fixture.database.url, kinds(), config()).unwrap();
    cache.start(&tasks);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cache.database_trouble(), None);
    assert!(!cache.synced(), "it waits");
    slow.rollback().await.unwrap();
    tokio::time::timeout(WAIT_MAX, cache.until_synced()).await.unwrap();
    tasks.cancel();
}

/// For every session that begins from now on.
async fn set_for_all(fixture: &mut Fixture, setting: &str) {
    let (_, name) = fixture.database.url.rsplit_once('/').unwrap();
    let alter = AssertSqlSafe(format!("ALTER DATABASE {name} SET {setting}"));
    sqlx::raw_sql(alter).execute(&mut fixture.writer.connection).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_lost_is_no_trouble() {
    let database = database().await.unwrap();
    let mut writer = DirectWriter::new(&database).await;
    let proxy = Proxy::new(host(&database.url)).await;
    let (cache, tasks) = replica(&Database { url: through(&database.url, proxy.address) }, config()).await;
    let access = everything();
    let mut watch = cache.watch(&access, &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    let mut expected = Vec::new();
    for number in 0..40 {
        let revision = writer.put(object("x", &format!("n{number}"), "", &json!({}))).await;
        proxy.redirect(Some(host(&database.url)));
        let key = Key::new(THINGS, "x", &format!("n{number}"));
        assert_eq!(cache.get(&access, &key, At::Latest).await.unwrap().revision, revision);
        expected.push(format!("ADDED x/n{number} {revision}"));
    }
    assert_eq!(lines(&mut watch, 40).await, expected);
    tasks.cancel();
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let database = database().await.unwrap();
    let proxy = Proxy::new(host(&database.url)).await;
    let (cache, tasks) = replica(&Database { url: through(&database.url, proxy.address) }, config()).await;
    proxy.redirect(Some(&silent.local_addr().unwrap().to_string()));
    let started = tokio::time::Instant::now();
    let error = cache.current_revision().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10), "a read waits 3 s at most");
    proxy.redirect(Some(host(&database.url)));
    eventually("an answer", async || cache.current_revision().await.is_ok()).await;
    tasks.cancel();
}

#[tokio::test]
async fn before_the_first_state_nothing_is_answered() {
    let nowhere = Proxy::new("127.0.0.1:1").await;
    let url = format!("postgres://postgres@{}/none", nowhere.address);
    let cache = Cache::open(&url, kinds(), config()).unwrap();
    let tasks = Tasks::new();
    cache.start(&tasks);
    let access = everything();
    for at in [At::Any, At::Latest, At::NotOlderThan(store::Revision(1))] {
        assert!(matches!(cache.list(&access, &list(all(THINGS), at)).await, Err(Error::Starting)));
    }
    let opened = cache.watch(&access, &watch(all(THINGS), WatchFrom::Now)).await;
    assert!(matches!(opened, Err(Error::Starting)));
    eventually("the trouble", async || !cache.database_ok()).await;
    assert!(!cache.synced());
    tasks.cancel();
}

/// A proxy that hands each transaction to another session keeps no prepared statement: plain text needs none.
#[tokio::test]
async fn statements_need_no_session() {
    let mut fixture =
        Fixture::with(CacheConfig { prepared: false, listen: Listen::Off, ring_changes: 1, ..config() })
            .await;
    let first = fixture.writer.put(object("x", "a", "app=web", &json!({"n": 1}))).await;
    let second = fixture.writer.put(object("x", "a", "", &json!({"n": "two's"}))).await;
    let third = fixture.writer.put(object("x", "b", "app=web", &json!({}))).await;
    let page = fixture.cache.list(&everything(), &list(all(THINGS), At::Latest)).await.unwrap();
    assert_eq!((page.revision, page.items.len()), (third, 2));
    let query = watch(select(THINGS, None, "app=web", ""), WatchFrom::After(first));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    let expected = [format!("DELETED x/a {second}"), format!("ADDED x/b {third}")];
    assert_eq!(lines(&mut watch, 2).await, expected, "from the table of events");
    let plain: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'store-read' \
         AND datname = current_database() AND query LIKE '%$1%'",
    )
    .fetch_one(&mut fixture.writer.connection)
    .await
    .unwrap();
    assert_eq!(plain, 0, "a statement had parameters");
    let (second, tasks) =
        fixture.replica(CacheConfig { prepared: false, listen: Listen::Off, ..config() }).await;
    assert_eq!(second.revision(), third);
    tasks.cancel();
}

/// When it reconnects, a listener asks again for all that it was ever told to listen to.
#[tokio::test]
async fn who_hears_nothing_for_long_asks_for_the_channel_no_second_time() {
    let check = Duration::from_millis(500);
    let mut fixture = Fixture::with(CacheConfig { listen_check: check, ..config() }).await;
    tokio::time::sleep(check * 4).await;
    let ours = "FROM pg_stat_activity WHERE application_name = 'store-read' AND datname = current_database()";
    let connection = &mut fixture.writer.connection;
    let pids = AssertSqlSafe(format!("SELECT pid {ours}"));
    let former: Vec<i32> = sqlx::query_scalar(pids).fetch_all(&mut *connection).await.unwrap();
    let listens = format!("SELECT query {ours} AND query LIKE 'LISTEN %' AND pid <> ALL($1)");
    // What a connection asks later hides what it asked at its beginning. Then it has to begin again.
    let terminate = format!(
        "SELECT pg_terminate_backend(pid) {ours} AND (pid = ANY($1) \
         OR query NOT LIKE 'LISTEN %' AND clock_timestamp() - state_change > interval '300 ms')"
    );
    let mut asked: Option<String> = None;
    eventually("the channel", async || {
        let query = sqlx::query_scalar(AssertSqlSafe(listens.clone())).bind(&former);
        asked = query.fetch_optional(&mut *connection).await.unwrap();
        if asked.is_none() {
            let query = sqlx::query(AssertSqlSafe(terminate.clone())).bind(&former);
            query.execute(&mut *connection).await.unwrap();
        }
        asked.is_some()
    })
    .await;
    // A listener whose check is cut off gives way to another one, which sends the statement without a semicolon.
    let asked = asked.unwrap();
    assert_eq!(asked.trim_end_matches(';'), "LISTEN \"store\"");
}

/// The network swallows what is sent: nobody says that the connection is gone.
#[tokio::test]
async fn a_listener_whose_connection_hangs_keeps_the_next_one_from_nothing() {
    let database = database().await.unwrap();
    let mut writer = DirectWriter::new(&database).await;
    let proxy = Proxy::new(host(&database.url)).await;
    let config = CacheConfig {
        listen: Listen::At(through(&database.url, proxy.address)),
        listen_check: Duration::from_millis(200),
        poll: Duration::from_hours(1),
        ..config()
    };
    let (cache, tasks) = replica(&database, config).await;
    let mut watch = cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    for name in ["a", "b"] {
        let revision = writer.put(object("x", name, "", &json!({}))).await;
        assert_eq!(lines(&mut watch, 1).await, [format!("ADDED x/{name} {revision}")]);
        proxy.freeze();
    }
    tasks.cancel();
}
