//! An older backup takes the place of the database while a replica serves.

use crate::kit::{Bodies, Kit, Object};
use std::process::Command;
use store::read::At;
use store::testing::Server;
use store::testing::postgres::NOT_DURABLE;
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
    assert!(hold.starts_with(store::divergence::DIVERGED), "{hold}");
    until_gone(&kit, &lost).await;
    assert!(matches!(kit.create(Object::namespace("p", "new", "c1: cpu=3")).await, Err(Error::Held)));
    let smaller = kit.account(&old, |object| object.amounts = crate::kit::amounts("c1: cpu=1")).await;
    smaller.unwrap();
    assert!(kit.store.audit(&kit.access, &Bodies).await.unwrap().differences.is_empty());
    assert_eq!(kit.store.go_on(&kit.access).await.unwrap(), None);
    kit.create(Object::namespace("p", "new", "c1: cpu=3")).await.unwrap();
    kit.check().await;
}

/// While the new history is read a reader may be told to come back, but nobody is shown the old one.
async fn until_gone(kit: &Kit, lost: &Object) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    loop {
        match kit.store.get(&kit.access, &lost.key(), At::Latest).await {
            Err(Error::NotFound) => return,
            Err(Error::Unavailable(_) | Error::Starting) if std::time::Instant::now() < deadline => {}
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

pub(crate) async fn until_held(store: &Store, kit: &Kit) -> String {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        if let Ok(Some(reason)) = store.growth_held(&kit.access).await {
            return reason;
        }
        assert!(std::time::Instant::now() < deadline, "nobody notices the restore");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
