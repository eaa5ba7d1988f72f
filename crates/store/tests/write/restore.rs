//! An older backup takes the place of the database while a replica serves, or within the same server.

use crate::kit::{Bodies, Kit, NAMESPACES, Object};
use meta::selector::{FieldSelector, LabelSelector};
use sqlx::{AssertSqlSafe, PgConnection};
use std::process::Command;
use std::time::Duration;
use store::divergence::{DIVERGED, EPOCH_JUMP};
use store::read::{At, Selection, WatchEnd, WatchFrom, WatchQuery};
use store::testing::postgres::NOT_DURABLE;
use store::testing::{Database, Server};
use store::{Error, Store};

/// Runs a script on a folder.
pub(crate) fn script(text: &str, folder: &str) {
    assert!(Command::new("sh").args(["-e", "-c", text, "sh", folder]).status().unwrap().success());
}

pub(crate) const BACK_UP: &str =
    r#"cp -a "$1" "$1-copy"; rm -f "$1-copy/postmaster.pid"; mv "$1-copy" "$1/backup""#;
pub(crate) const RESTORE: &str =
    r#"cd "$1"; for file in *; do test "$file" = backup || rm -rf "$file"; done; mv backup/* ."#;

pub(crate) async fn folder(server: &Server) -> String {
    sqlx::query_scalar("SHOW data_directory").fetch_one(&mut server.admin().await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn after_a_restore_growth_waits_for_the_audit_and_everything_else_goes_on() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.until("the cache is filled", || kit.store.synced()).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let old = kit.create(Object::namespace("p", "old", "c1: cpu=1")).await.unwrap();
    let data = folder(&server).await;
    server.stop().unwrap();
    script(BACK_UP, &data);
    server.launch().await.unwrap();
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    let lost = kit.create(Object::namespace("p", "lost", "c1: cpu=3")).await.unwrap();
    kit.store.get(&kit.access, &lost.key(), At::Latest).await.unwrap();
    server.stop().unwrap();
    script(RESTORE, &data);
    server.launch().await.unwrap();
    kit.until("the database takes writes", || kit.store.database_ok()).await;

    let hold = until_held(&kit.store, &kit).await;
    assert!(hold.starts_with(DIVERGED), "{hold}");
    until_gone(&kit, &lost).await;
    assert!(matches!(kit.create(Object::namespace("p", "new", "c1: cpu=3")).await, Err(Error::Held)));
    let smaller = kit.account(&old, |object| object.amounts = crate::kit::amounts("c1: cpu=1")).await;
    smaller.unwrap();
    assert!(kit.store.audit(&kit.access, &Bodies).await.unwrap().differences.is_empty());
    assert_eq!(kit.store.resume_growth(&kit.access).await.unwrap(), None);
    kit.create(Object::namespace("p", "new", "c1: cpu=3")).await.unwrap();
    kit.check().await;
}

/// As after a restore of a copy of the files, which has the server and the timeline of the original.
#[tokio::test]
async fn a_restore_that_nobody_can_notice_is_declared_by_an_operator() {
    let kit = Kit::new().await;
    kit.until("the cache is filled", || kit.store.synced()).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let before = kit.store.current_revision().await.unwrap();
    let selection = Selection {
        kind: NAMESPACES,
        namespace: None,
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
    };
    let query = WatchQuery { selection, from: WatchFrom::After(before) };
    let mut open = kit.store.watch(&kit.access, &query).await.unwrap();

    let begun = kit.store.declare_restored(&kit.access).await.unwrap();
    assert!(begun.0 >= before.0 + EPOCH_JUMP.unsigned_abs());
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, kit.store.until_filled(begun)).await.unwrap();
    let mut back = kit.store.watch(&kit.access, &query).await.unwrap();
    for watch in [&mut open, &mut back] {
        let end = tokio::time::timeout(patience, watch.next()).await.unwrap().unwrap_err();
        assert!(matches!(end, WatchEnd::Expired { .. }), "{end:?}");
    }
    let hold = kit.store.growth_hold(&kit.access).await.unwrap().unwrap();
    assert_eq!((&*hold.reason, hold.since), (DIVERGED, begun));
    assert!(hold.waits_for_audit(), "and not for an operator");
    let web = || Object::namespace("p", "web", "c1: cpu=3");
    assert!(matches!(kit.create(web()).await, Err(Error::Held)));
    assert!(kit.store.release_growth(&kit.access, &hold).await.unwrap());
    let made = kit.create(web()).await.unwrap();
    assert!(made.revision > begun);
    kit.check().await;
}

/// Nothing in the database tells of the epochs that were lost; whoever has revisions of theirs may still be there.
#[tokio::test]
async fn epochs_that_begin_from_the_same_backup_have_no_revision_in_common() {
    let kit = Kit::new().await;
    let mut sql = kit.database.connect().await.unwrap();
    // The second is far beyond what the clock says: there they need not be in order.
    for (counter, in_order) in [(5_i64, true), (1 << 60, false)] {
        let mut begun = Vec::new();
        for _ in 0..3 {
            sqlx::query("UPDATE rev SET v = $1, epoch = gen_random_uuid()")
                .bind(counter)
                .execute(&mut sql)
                .await
                .unwrap();
            begun.push(kit.store.declare_restored(&kit.access).await.unwrap().0);
        }
        let least = u64::try_from(counter + EPOCH_JUMP).unwrap();
        assert!(begun.iter().all(|at| *at >= least), "{begun:?}");
        assert!(begun.is_sorted() || !in_order, "{begun:?}");
        begun.sort_unstable();
        assert!(begun.windows(2).all(|two| two[1] - two[0] > 1000), "{begun:?}");
    }
}

/// While the new history is read a reader may be told to come back, but nobody is shown the old one.
async fn until_gone(kit: &Kit, lost: &Object) {
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    loop {
        match kit.store.get(&kit.access, &lost.key(), At::Latest).await {
            Err(Error::NotFound) => return,
            Err(Error::Unavailable(_) | Error::Starting) if std::time::Instant::now() < deadline => {}
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn until_held(store: &Store, kit: &Kit) -> String {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(Some(reason)) = store.growth_held(&kit.access).await {
            return reason;
        }
        assert!(std::time::Instant::now() < deadline, "nobody notices the restore");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A database with a project and a namespace that no replica serves any more.
async fn abandoned_database(server: &Server) -> Database {
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.until("the cache is filled", || kit.store.synced()).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    kit.create(Object::namespace("p", "old", "c1: cpu=1")).await.unwrap();
    let database = kit.database.clone();
    kit.stop().await;
    database
}

/// A replica that starts on this database holds growth, once.
async fn assert_starts_held(database: Database) {
    resume_growth(start_held(database).await).await;
}

/// Starts a replica on a database with a project `p`. It must hold growth.
pub(crate) async fn start_held(database: Database) -> Kit {
    let kit = Kit::on(database).await;
    let held = until_held(&kit.store, &kit).await;
    assert!(held.starts_with(DIVERGED), "{held}");
    kit.until("its cache is filled", || kit.store.synced()).await;
    let more = kit.create(Object::namespace("p", "more", "c1: cpu=1")).await;
    assert!(matches!(more, Err(Error::Held)), "{more:?}");
    kit
}

/// An operator lets growth go on. A replica that starts later does not hold it again.
pub(crate) async fn resume_growth(kit: Kit) {
    assert_eq!(kit.store.resume_growth(&kit.access).await.unwrap(), None);
    let database = kit.database.clone();
    kit.stop().await;

    let kit = Kit::on(database).await;
    kit.create(Object::namespace("p", "more", "c1: cpu=1")).await.unwrap();
    assert_eq!(kit.store.growth_held(&kit.access).await.unwrap(), None);
    kit.check().await;
    kit.stop().await;
}

async fn epoch(sql: &mut PgConnection) -> uuid::Uuid {
    sqlx::query_scalar("SELECT epoch FROM rev").fetch_one(sql).await.unwrap()
}

#[tokio::test]
async fn who_starts_on_a_copy_in_the_same_server_holds_growth() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = abandoned_database(&server).await;
    let (_, name) = database.url.rsplit_once('/').unwrap();
    let copy = format!("CREATE DATABASE restored TEMPLATE {name}");
    sqlx::query(AssertSqlSafe(copy)).execute(&mut server.admin().await.unwrap()).await.unwrap();
    let before = epoch(&mut database.connect().await.unwrap()).await;
    let restored = Database { url: server.url("restored") };
    assert_starts_held(restored.clone()).await;
    assert_ne!(epoch(&mut restored.connect().await.unwrap()).await, before);
}

/// As `pg_restore --clean` does it.
#[tokio::test]
async fn who_starts_on_tables_that_were_made_anew_holds_growth() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = abandoned_database(&server).await;
    let mut sql = database.connect().await.unwrap();
    let before = epoch(&mut sql).await;
    let anew = "CREATE TABLE anew (LIKE rev INCLUDING ALL); INSERT INTO anew SELECT * FROM rev; \
         DROP TABLE rev; ALTER TABLE anew RENAME TO rev";
    sqlx::raw_sql(anew).execute(&mut sql).await.unwrap();
    assert_starts_held(database).await;
    assert_ne!(epoch(&mut sql).await, before);
}

#[tokio::test]
async fn what_an_earlier_release_has_not_remembered_is_added_and_holds_nothing() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = abandoned_database(&server).await;
    let mut sql = database.connect().await.unwrap();
    let before = epoch(&mut sql).await;
    sqlx::query("UPDATE server SET relation = NULL").execute(&mut sql).await.unwrap();
    let kit = Kit::on(database).await;
    kit.until("its cache is filled", || kit.store.synced()).await;
    kit.create(Object::namespace("p", "more", "c1: cpu=1")).await.unwrap();
    let remembered = "SELECT relation FROM server WHERE identity IS NOT NULL";
    let relation: Option<String> = sqlx::query_scalar(remembered).fetch_one(&mut sql).await.unwrap();
    assert!(relation.is_some_and(|relation| relation.contains('/')));
    assert_eq!(epoch(&mut sql).await, before);
    assert_eq!(kit.store.growth_held(&kit.access).await.unwrap(), None);
    kit.stop().await;
}
