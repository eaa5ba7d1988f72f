//! The database is replaced by one that did not see the last commits.

use crate::fixture::*;
use crate::proxy::{Proxy, host, through};
use serde_json::json;
use sqlx::PgConnection;
use std::process::Command;
use store::divergence::{DIVERGED, EPOCH_JUMP};
use store::read::{At, ListQuery, WatchEnd, WatchFrom};
use store::testing::{Database, Server};
use store::{Error, Key, Revision};
use uuid::Uuid;

struct Pair {
    primary: Server,
    copy: Server,
}

async fn folder(server: &Server) -> String {
    sqlx::query_scalar("SHOW data_directory").fetch_one(&mut server.admin().await.unwrap()).await.unwrap()
}

impl Pair {
    /// A primary with a database, and a server to come after it.
    async fn new() -> (Self, Database) {
        let primary = Server::start(&["fsync=off"]).await.unwrap();
        let copy = Server::start(&["fsync=off"]).await.unwrap();
        let database = primary.database().await.unwrap();
        (Self { primary, copy }, database)
    }

    /// Copies the primary's data to the other server.
    async fn back_up(&mut self) {
        let (from, to) = (folder(&self.primary).await, folder(&self.copy).await);
        self.primary.stop().unwrap();
        self.copy.stop().unwrap();
        let script = "rm -rf \"$2\"/* && cp -a \"$1\"/. \"$2\"/ && rm -f \"$2\"/postmaster.pid";
        let copied = Command::new("sh").args(["-c", script, "sh", &from, &to]).status().unwrap();
        assert!(copied.success());
        self.primary.launch().await.unwrap();
    }

    /// The primary is lost; the other one takes its place.
    async fn fail_over(&mut self, database: &Database) -> Database {
        self.primary.kill().unwrap();
        self.copy.launch().await.unwrap();
        self.other(database)
    }

    /// The same, but the other one was a standby and begins a new timeline.
    async fn promote(&mut self, database: &Database, data: &str) -> Database {
        std::fs::write(format!("{data}/standby.signal"), "").unwrap();
        let database = self.fail_over(database).await;
        let promoted: bool = sqlx::query_scalar("SELECT pg_promote()")
            .fetch_one(&mut database.connect().await.unwrap())
            .await
            .unwrap();
        assert!(promoted);
        database
    }

    fn other(&self, database: &Database) -> Database {
        Database { url: self.copy.url(database.url.rsplit_once('/').unwrap().1) }
    }
}

async fn counter(connection: &mut PgConnection) -> (Revision, Uuid, bool) {
    let (v, epoch, held): (i64, Uuid, bool) =
        sqlx::query_as("SELECT v, epoch, held FROM rev").fetch_one(connection).await.unwrap();
    (Revision(u64::try_from(v).unwrap()), epoch, held)
}

async fn hold(connection: &mut PgConnection, reason: &str) {
    let hold = "UPDATE rev SET held = $1 <> '', held_reason = $1";
    sqlx::query(hold).bind(reason).execute(connection).await.unwrap();
}

async fn held_reason(connection: &mut PgConnection) -> String {
    sqlx::query_scalar("SELECT held_reason FROM rev").fetch_one(connection).await.unwrap()
}

/// Fails over after `lost` commits that the copy has not, and lets the new history go on by `ahead` writes
/// before the replicas find it, in which growth may be held already. Why it is held afterwards.
async fn lose(lost: usize, ahead: usize, held_for: &str) -> String {
    let (mut pair, database) = Pair::new().await;
    let mut writer = DirectWriter::new(&database).await;
    writer.put(object("x", "kept", "", &json!({}))).await;
    let kept = writer.now.clone();
    drop(writer);
    pair.back_up().await;

    let proxy = Proxy::new(host(&database.url)).await;
    let way = Database { url: through(&database.url, proxy.address) };
    let (first, first_tasks) = replica(&way, config()).await;
    let (second, second_tasks) = replica(&way, config()).await;
    let mut writer = DirectWriter::new(&database).await;
    writer.now = kept.clone();
    for number in 0..lost {
        writer.put(object("x", &format!("lost{number}"), "", &json!({}))).await;
    }
    let seen = first.current_revision().await.unwrap();
    second.current_revision().await.unwrap();
    let (_, epoch, held) = counter(&mut writer.connection).await;
    assert!(!held);
    let access = everything();
    let page = ListQuery { limit: Some(1), ..list(all(THINGS), At::Latest) };
    let token = first.list(&access, &page).await.unwrap().continue_token;
    let query = watch(all(THINGS), WatchFrom::After(seen));
    let mut watches =
        [first.watch(&access, &query).await.unwrap(), second.watch(&access, &query).await.unwrap()];

    proxy.redirect(None);
    let copy = pair.fail_over(&database).await;
    let mut writer = DirectWriter::new(&copy).await;
    writer.now = kept;
    for number in 0..ahead {
        writer.put(object("x", &format!("new{number}"), "", &json!({}))).await;
    }
    hold(&mut writer.connection, held_for).await;
    let (before, _, _) = counter(&mut writer.connection).await;
    proxy.redirect(Some(host(&copy.url)));

    for watch in &mut watches {
        let end = tokio::time::timeout(WAIT_MAX, watch.next()).await.unwrap().unwrap_err();
        assert!(matches!(end, WatchEnd::Expired { .. }), "{end:?}");
    }
    eventually("a new epoch", async || counter(&mut writer.connection).await.1 != epoch).await;
    let begun @ (after, _, held) = counter(&mut writer.connection).await;
    assert!(held, "growth waits for the audit");
    assert!(after.0 >= before.max(seen).0 + EPOCH_JUMP.unsigned_abs());
    for cache in [&first, &second] {
        eventually("the new history", async || cache.current_revision().await.is_ok_and(|at| at >= after))
            .await;
        let got = cache.get(&access, &Key::new(THINGS, "x", "lost0"), At::Latest).await;
        assert!(matches!(got, Err(Error::NotFound)));
        let page = cache.list(&access, &list(all(THINGS), At::Latest)).await.unwrap();
        assert_eq!((page.items.len(), page.revision), (ahead + 1, after));
        let mut watch = cache.watch(&access, &query).await.unwrap();
        assert!(
            matches!(watch.next().await, Err(WatchEnd::Expired { .. })),
            "an old revision means nothing now"
        );
        if let Some(token) = &token {
            let old = ListQuery { continue_token: Some(token.clone()), ..list(all(THINGS), At::Latest) };
            assert!(matches!(cache.list(&access, &old).await, Err(Error::ContinueExpired { .. })));
        }
    }
    assert_eq!(counter(&mut writer.connection).await, begun, "one replica has moved the counter, once");
    let query = watch(all(THINGS), WatchFrom::After(after));
    let mut watch = second.watch(&access, &query).await.unwrap();
    let next = writer.put(object("x", "after", "", &json!({}))).await;
    assert_eq!(lines(&mut watch, 1).await, [format!("ADDED x/after {next}")]);
    first_tasks.cancel();
    second_tasks.cancel();
    held_reason(&mut writer.connection).await
}

#[tokio::test]
async fn a_standby_that_lost_commits_begins_a_new_epoch() {
    assert_eq!(lose(3, 0, "").await, DIVERGED);
}

#[tokio::test]
async fn a_new_history_that_is_already_longer_is_noticed() {
    assert_eq!(lose(2, 5, "").await, DIVERGED);
}

#[tokio::test]
async fn a_new_history_of_the_same_length_is_noticed() {
    assert_eq!(lose(3, 3, "").await, DIVERGED);
}

#[tokio::test]
async fn a_standby_that_lost_nothing_goes_on() {
    let (mut pair, database) = Pair::new().await;
    let mut writer = DirectWriter::new(&database).await;
    let kept = writer.put(object("x", "kept", "", &json!({}))).await;
    let proxy = Proxy::new(host(&database.url)).await;
    let way = Database { url: through(&database.url, proxy.address) };
    let (cache, tasks) = replica(&way, config()).await;
    let access = everything();
    let mut watch = cache.watch(&access, &watch(all(THINGS), WatchFrom::After(kept))).await.unwrap();
    let now = writer.now.clone();
    drop(writer);
    pair.back_up().await;
    proxy.redirect(None);
    let copy = pair.fail_over(&database).await;
    let mut writer = DirectWriter::new(&copy).await;
    writer.now = now;
    let next = writer.put(object("x", "next", "", &json!({}))).await;
    proxy.redirect(Some(host(&copy.url)));
    assert_eq!(lines(&mut watch, 1).await, [format!("ADDED x/next {next}")]);
    assert!(!counter(&mut writer.connection).await.2);
    tasks.cancel();
}

#[tokio::test]
async fn a_write_that_was_answered_and_lost_is_noticed_although_no_event_of_it_came() {
    let mut fixture = Fixture::new().await;
    let revision = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    fixture.cache.current_revision().await.unwrap();
    let (_, epoch, _) = counter(&mut fixture.writer.connection).await;
    fixture.cache.note_acknowledged(Revision(revision.0 + 3));
    eventually("a new epoch", async || counter(&mut fixture.writer.connection).await.1 != epoch).await;
    let (after, _, held) = counter(&mut fixture.writer.connection).await;
    assert!(after.0 >= revision.0 + 3 + EPOCH_JUMP.unsigned_abs());
    assert!(held);
}

#[tokio::test]
async fn an_answer_that_cannot_be_found_again_after_a_promotion_is_not_trusted() {
    let (mut pair, database) = Pair::new().await;
    let mut writer = DirectWriter::new(&database).await;
    let kept = writer.put(object("x", "kept", "", &json!({}))).await;
    let proxy = Proxy::new(host(&database.url)).await;
    let (cache, tasks) = replica(&Database { url: through(&database.url, proxy.address) }, config()).await;
    let now = writer.now.clone();
    drop(writer);
    let data = folder(&pair.copy).await;
    pair.back_up().await;
    eventually("the tail", async || cache.current_revision().await.is_ok()).await;
    proxy.redirect(None);
    // A write was answered with the next revision; then the primary was lost, before the tail saw it.
    cache.note_acknowledged(Revision(kept.0 + 1));
    let copy = pair.promote(&database, &data).await;
    let mut writer = DirectWriter::new(&copy).await;
    writer.now = now;
    for name in ["new", "newer"] {
        writer.put(object("x", name, "", &json!({}))).await;
    }
    proxy.redirect(Some(host(&copy.url)));
    eventually("a new epoch", async || counter(&mut writer.connection).await.2).await;
    tasks.cancel();
}

#[tokio::test]
async fn who_holds_growth_goes_on_holding_it() {
    let importing = store::import::IMPORTING;
    for (held_for, told) in [
        ("maintenance", "maintenance; history has diverged"),
        ("maintenance; history has diverged", "maintenance; history has diverged"),
        ("I fear history has diverged", "I fear history has diverged; history has diverged"),
        (importing, importing),
        (store::import::IMPORTED, DIVERGED),
    ] {
        assert_eq!(lose(1, 0, held_for).await, told);
    }
}
