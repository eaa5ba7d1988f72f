//! A replica that reads from a standby shows what the primary has committed, no more, and waits for it where a reader
//! must not be told less.

use crate::fixture::*;
use crate::proxy::{Proxy, host, through};
use runtime::Tasks;
use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};
use store::cache::{Cache, CacheConfig, Listen};
use store::read::{At, WatchEnd, WatchFrom};
use store::testing::{Database, Server};
use store::{Error, Revision};

struct StandbyPair {
    primary: Server,
    standby: Server,
    database: Database,
}

async fn run(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.unwrap();
}

impl StandbyPair {
    async fn new() -> Self {
        let mut primary = Server::start(&["fsync=off"]).await.unwrap();
        let database = primary.database().await.unwrap();
        let standby = primary.standby(&["fsync=off"]).await.unwrap();
        Self { primary, standby, database }
    }

    fn copy(&self) -> Database {
        Database { url: self.standby.url(self.database.url.rsplit_once('/').unwrap().1) }
    }

    fn config(&self) -> CacheConfig {
        CacheConfig { primary: Some(self.database.url.clone()), ..config() }
    }

    async fn replica(&self, config: CacheConfig) -> (Cache, Tasks) {
        replica(&self.copy(), config).await
    }

    async fn pause(&self) {
        pause(&self.standby).await;
    }

    async fn resume(&self) {
        run(&mut self.standby.admin().await.unwrap(), "SELECT pg_wal_replay_resume()").await;
    }
}

/// Pauses the replay of a standby: it still receives, but shows nothing new.
async fn pause(standby: &Server) {
    run(&mut standby.admin().await.unwrap(), "SELECT pg_wal_replay_pause()").await;
    eventually("the pause", async || {
        let state: String = sqlx::query_scalar("SELECT pg_get_wal_replay_pause_state()")
            .fetch_one(&mut standby.admin().await.unwrap())
            .await
            .unwrap();
        state == "paused"
    })
    .await;
}

fn thing(name: &str) -> serde_json::Value {
    object("x", name, "", &json!({}))
}

async fn names(cache: &Cache, at: At) -> Result<Vec<String>, Error> {
    let page = cache.list(&everything(), &list(all(THINGS), at)).await?;
    Ok(page.items.iter().map(|entry| path_of(entry)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_followed_and_a_fresh_read_waits_for_it() {
    let pair = StandbyPair::new().await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let (cache, tasks) = pair.replica(pair.config()).await;
    assert_eq!(names(&cache, At::Latest).await.unwrap(), ["x/first"]);
    let mut watching = cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();

    pair.pause().await;
    let second = writer.put(thing("second")).await;
    assert_eq!(names(&cache, At::Any).await.unwrap(), ["x/first"], "what is not here is not shown");
    let fresh = tokio::spawn({
        let cache = cache.clone();
        async move { names(&cache, At::Latest).await }
    });
    let refused = names(&cache, At::NotOlderThan(second)).await.unwrap_err();
    assert!(matches!(refused, Error::TooFarAhead { .. }), "{refused}");
    let late = fresh.await.unwrap().unwrap_err();
    assert!(matches!(&late, Error::Unavailable(why) if why.contains("behind")), "{late}");
    assert!(cache.status().lag > 0, "{:?}", cache.status());

    let fresh = tokio::spawn({
        let cache = cache.clone();
        async move {
            loop {
                // Whoever has waited in vain asks again.
                if let Ok(found) = names(&cache, At::Latest).await {
                    return found;
                }
            }
        }
    });
    pair.resume().await;
    let fresh = tokio::time::timeout(WAIT_MAX, fresh).await.unwrap().unwrap();
    assert_eq!(fresh, ["x/first", "x/second"]);
    assert_eq!(lines(&mut watching, 1).await, [format!("ADDED x/second {second}")]);
    tasks.cancel();
}

/// Standbys have no serializable transactions.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_followed_where_transactions_are_serializable_by_default() {
    let pair = StandbyPair::new().await;
    let mut writer = DirectWriter::new(&pair.database).await;
    let (_, name) = pair.database.url.rsplit_once('/').unwrap();
    let serializable = format!("ALTER DATABASE {name} SET default_transaction_isolation = serializable");
    run(&mut writer.connection, &serializable).await;
    writer.put(thing("first")).await;
    let (cache, tasks) = pair.replica(pair.config()).await;
    writer.put(thing("second")).await;
    eventually("the standby", async || names(&cache, At::Latest).await.is_ok_and(|names| names.len() == 2))
        .await;
    tasks.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_after_what_only_the_primary_has_waits_and_after_what_nobody_has_ends() {
    let pair = StandbyPair::new().await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let (cache, tasks) = pair.replica(pair.config()).await;
    assert_eq!(names(&cache, At::Latest).await.unwrap(), ["x/first"]);
    pair.pause().await;
    let second = writer.put(thing("second")).await;
    let after = |revision| watch(all(THINGS), WatchFrom::After(revision));
    let mut waiting = cache.watch(&everything(), &after(second)).await.unwrap();
    let ahead = Revision(second.0 + 1);
    let untold = cache.watch(&everything(), &after(ahead)).await.unwrap_err();
    assert!(matches!(&untold, Error::Unavailable(why) if why.contains("behind")), "{untold}");
    pair.resume().await;
    eventually("the standby", async || names(&cache, At::Latest).await.is_ok_and(|names| names.len() == 2))
        .await;
    let mut lost = cache.watch(&everything(), &after(ahead)).await.unwrap();
    let end = tokio::time::timeout(WAIT_MAX, lost.next()).await.unwrap().unwrap_err();
    assert_eq!(end, WatchEnd::Expired { asked: ahead, current: second });
    let third = writer.put(thing("third")).await;
    assert_eq!(lines(&mut waiting, 1).await, [format!("ADDED x/third {third}")]);
    tasks.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_before_the_primary_shows_it() {
    let pair = StandbyPair::new().await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let (cache, tasks) = pair.replica(CacheConfig { listen: Listen::Off, ..pair.config() }).await;
    let mut watching = cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();

    // Commits now wait for a standby that is not there, invisible on the primary; ours has replayed them already.
    let mut admin = pair.primary.admin().await.unwrap();
    run(&mut admin, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
    run(&mut admin, "SELECT pg_reload_conf()").await;
    run(&mut writer.connection, "SET synchronous_commit = on").await;
    eventually("the new setting", async || {
        let names: String = sqlx::query_scalar("SHOW synchronous_standby_names")
            .fetch_one(&mut writer.connection)
            .await
            .unwrap();
        names == "nobody"
    })
    .await;
    pair.database.until_commits_wait().await.unwrap();
    let writing = tokio::spawn(async move { (writer.put(thing("second")).await, writer) });
    let mut copy = pair.copy().connect().await.unwrap();
    eventually("the standby's copy", async || {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM objects").fetch_one(&mut copy).await.unwrap();
        count == 2
    })
    .await;
    assert_eq!(names(&cache, At::Latest).await.unwrap(), ["x/first"]);
    let other_tasks = Tasks::new();
    let behind = Cache::open(&pair.copy().url, kinds(), pair.config()).unwrap();
    behind.start(&other_tasks);
    eventually("a try", async || behind.database_trouble().is_some()).await;
    assert!(!behind.synced(), "a first state that the primary does not show is shown to nobody");
    assert!(!writing.is_finished());

    run(&mut admin, "ALTER SYSTEM RESET synchronous_standby_names").await;
    run(&mut admin, "SELECT pg_reload_conf()").await;
    let (second, _hand) = writing.await.unwrap();
    assert_eq!(lines(&mut watching, 1).await, [format!("ADDED x/second {second}")]);
    tokio::time::timeout(WAIT_MAX, behind.until_synced()).await.unwrap();
    assert_eq!(names(&behind, At::Latest).await.unwrap(), ["x/first", "x/second"]);
    tasks.cancel();
    other_tasks.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_epoch_comes_through_the_standby() {
    let pair = StandbyPair::new().await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let (cache, tasks) = pair.replica(pair.config()).await;
    let mut watching = cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    run(&mut writer.connection, "UPDATE rev SET v = v + 1000, epoch = gen_random_uuid()").await;
    run(&mut writer.connection, "UPDATE compaction SET compacted = (SELECT v FROM rev)").await;
    let end = tokio::time::timeout(WAIT_MAX, watching.next()).await.unwrap().unwrap_err();
    assert!(matches!(end, WatchEnd::Expired { .. }), "{end:?}");
    writer.put(thing("second")).await;
    eventually("the new history", async || {
        names(&cache, At::Latest).await.is_ok_and(|names| names == ["x/first", "x/second"])
    })
    .await;
    tasks.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_of_something_else_is_told_and_not_served() {
    let pair = StandbyPair::new().await;
    let other = pair.primary.database().await.unwrap();
    let tasks = Tasks::new();
    let cache = Cache::open(&other.url, kinds(), pair.config()).unwrap();
    cache.start(&tasks);
    eventually("the trouble", async || {
        cache.database_trouble().is_some_and(|trouble| trouble.contains("another history"))
    })
    .await;
    assert!(!cache.synced());
    tasks.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_primary_a_standby_serves_what_it_has() {
    let mut pair = StandbyPair::new().await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let (cache, tasks) = pair.replica(pair.config()).await;
    assert_eq!(names(&cache, At::Latest).await.unwrap(), ["x/first"]);
    drop(writer);
    pair.primary.kill().unwrap();
    eventually("the trouble", async || cache.database_trouble().is_some()).await;
    assert_eq!(names(&cache, At::Any).await.unwrap(), ["x/first"]);
    assert!(names(&cache, At::Latest).await.is_err());
    pair.primary.launch().await.unwrap();
    eventually("fresh reads", async || names(&cache, At::Latest).await.is_ok()).await;
    tokio::time::timeout(WAIT_MAX, cache.until_synced()).await.unwrap();
    tasks.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_that_is_read_becomes_the_primary_and_nothing_is_missed() {
    let mut pair = StandbyPair::new().await;
    let proxy = Proxy::new(host(&pair.database.url)).await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let primary = Some(through(&pair.database.url, proxy.address));
    let (cache, tasks) = pair.replica(CacheConfig { primary, ..config() }).await;
    let mut watching = cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    let second = writer.put(thing("second")).await;
    assert_eq!(lines(&mut watching, 1).await, [format!("ADDED x/second {second}")]);

    let now = writer.now.clone();
    drop(writer);
    pair.primary.kill().unwrap();
    let copy = pair.copy();
    run(&mut pair.standby.admin().await.unwrap(), "SELECT pg_promote()").await;
    proxy.redirect(Some(host(&copy.url)));
    let mut writer = DirectWriter::new(&copy).await;
    writer.now = now;
    let third = writer.put(thing("third")).await;
    assert_eq!(lines(&mut watching, 1).await, [format!("ADDED x/third {third}")]);
    assert_eq!(names(&cache, At::Latest).await.unwrap(), ["x/first", "x/second", "x/third"]);
    tasks.cancel();
}

/// A replica reads one standby, and another one is to become the primary. All have one object.
struct PromotionFixture {
    pair: StandbyPair,
    other: Server,
    copy: Database,
    /// The replica's connections to the primary go through it.
    proxy: Proxy,
    writer: DirectWriter,
    cache: Cache,
    tasks: Tasks,
}

impl PromotionFixture {
    async fn new() -> Self {
        let mut pair = StandbyPair::new().await;
        let other = pair.primary.standby(&["fsync=off"]).await.unwrap();
        let proxy = Proxy::new(host(&pair.database.url)).await;
        let mut writer = DirectWriter::new(&pair.database).await;
        writer.put(thing("first")).await;
        let primary = Some(through(&pair.database.url, proxy.address));
        let (cache, tasks) = pair.replica(CacheConfig { primary, ..config() }).await;
        let copy = Database { url: other.url(pair.database.url.rsplit_once('/').unwrap().1) };
        eventually("the copy", async || count_objects(&copy).await == 1).await;
        Self { pair, other, copy, proxy, writer, cache, tasks }
    }
}

async fn count_objects(database: &Database) -> i64 {
    let mut connection = database.connect().await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM objects").fetch_one(&mut connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_next_primary_has_lost_begins_a_new_epoch() {
    let PromotionFixture { mut pair, mut other, copy, proxy, mut writer, cache, tasks } =
        PromotionFixture::new().await;
    // It is down while the last write is made, and becomes the primary all the same.
    other.stop().unwrap();
    let mut watching = cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    let lost = writer.put(thing("lost")).await;
    assert_eq!(lines(&mut watching, 1).await, [format!("ADDED x/lost {lost}")]);
    pair.primary.kill().unwrap();
    other.launch().await.unwrap();
    run(&mut other.admin().await.unwrap(), "SELECT pg_promote()").await;
    proxy.redirect(Some(host(&copy.url)));

    let end = tokio::time::timeout(WAIT_MAX, watching.next()).await.unwrap().unwrap_err();
    assert!(matches!(end, WatchEnd::Expired { .. }), "{end:?}");
    assert!(names(&cache, At::Any).await.is_err(), "the standby has what nobody may see any more");
    let held: bool = sqlx::query_scalar("SELECT held FROM rev")
        .fetch_one(&mut copy.connect().await.unwrap())
        .await
        .unwrap();
    assert!(held);
    tasks.cancel();
}

/// The server that is read had a commit that the next primary lacks, and that no replica had seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_was_ahead_of_the_next_primary_is_told_and_nothing_of_it_is_shown() {
    let PromotionFixture { mut pair, mut other, copy, proxy, mut writer, cache, tasks } =
        PromotionFixture::new().await;
    assert_eq!(names(&cache, At::Latest).await.unwrap(), ["x/first"]);
    other.stop().unwrap();
    proxy.redirect(None);
    let now = writer.now.clone();
    let lost = writer.put(thing("lost")).await;
    let read = pair.copy();
    eventually("the lost write", async || count_objects(&read).await == 2).await;
    drop(writer);
    pair.primary.kill().unwrap();

    other.launch().await.unwrap();
    run(&mut other.admin().await.unwrap(), "SELECT pg_promote()").await;
    let mut writer = DirectWriter::new(&copy).await;
    writer.now = now;
    assert_eq!(writer.put(thing("second")).await, lost, "the revision is given again");
    proxy.redirect(Some(host(&copy.url)));
    eventually("the trouble", async || {
        cache.database_trouble().is_some_and(|trouble| trouble.contains("another history"))
    })
    .await;
    assert_eq!(names(&cache, At::Any).await.unwrap(), ["x/first"]);
    let held: bool =
        sqlx::query_scalar("SELECT held FROM rev").fetch_one(&mut writer.connection).await.unwrap();
    assert!(!held, "the primary's history is the one that counts");
    tasks.cancel();
}

/// Whatever the standby has that another connection finds: nobody has compared it.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_the_past_is_told_what_the_primary_has() {
    let mut pair = StandbyPair::new().await;
    let far = pair.primary.standby(&["fsync=off"]).await.unwrap();
    let proxy = Proxy::new(host(&pair.copy().url)).await;
    let mut writer = DirectWriter::new(&pair.database).await;
    writer.put(thing("first")).await;
    let copy = Database { url: far.url(pair.database.url.rsplit_once('/').unwrap().1) };
    eventually("the copy", async || count_objects(&copy).await == 1).await;
    pause(&far).await;

    // It was read from one that is further, and has forgotten what came in between.
    let by_way = Database { url: through(&pair.copy().url, proxy.address) };
    let (cache, tasks) = replica(&by_way, CacheConfig { ring_changes: 1, ..pair.config() }).await;
    let start = writer.put(thing("second")).await;
    let mut expected = Vec::new();
    for name in ["third", "fourth", "fifth"] {
        expected.push(format!("ADDED x/{name} {}", writer.put(thing(name)).await));
    }
    eventually("the standby", async || names(&cache, At::Latest).await.is_ok_and(|names| names.len() == 5))
        .await;
    proxy.redirect(Some(host(&copy.url)));
    let mut watching =
        cache.watch(&everything(), &watch(all(THINGS), WatchFrom::After(start))).await.unwrap();
    assert_eq!(lines(&mut watching, 3).await, expected);
    assert_eq!(count_objects(&copy).await, 1, "it has none of them");
    tasks.cancel();
}
