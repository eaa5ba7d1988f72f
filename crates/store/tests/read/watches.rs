//! What a watch owes its caller.

use crate::fixture::*;
use serde_json::json;
use std::sync::Arc;
use store::read::{At, WatchEnd, WatchFrom, WatchItem};
use store::{Sight, TenantSight, Visibility};

#[tokio::test]
async fn a_watch_from_now_tells_creates_changes_and_deletions() {
    let mut fixture = Fixture::new().await;
    fixture.writer.put(object("x", "old", "", &json!({}))).await;
    let mut watch = fixture.cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    let created = fixture.writer.put(object("x", "a", "", &json!({"n": 1}))).await;
    let changed = fixture.writer.put(object("x", "a", "", &json!({"n": 2}))).await;
    let deleted = fixture.writer.delete("x", "a").await;
    assert_eq!(line(&next(&mut watch).await), format!("ADDED x/a {created}"));
    assert_eq!(line(&next(&mut watch).await), format!("MODIFIED x/a {changed}"));
    let WatchItem::Event { entry, .. } = next(&mut watch).await else { panic!("no event") };
    assert_eq!(entry.revision, deleted, "a deletion has its own revision");
    assert_eq!(body(&entry)["spec"]["n"], json!(2), "and the last state");
}

#[tokio::test]
async fn a_watch_from_a_state_begins_with_all_of_it() {
    let mut fixture = Fixture::new().await;
    let empty = fixture.cache.current_revision().await.unwrap();
    let query = watch(all(THINGS), WatchFrom::State(At::Latest));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    assert_eq!(line(&next(&mut watch).await), format!("INITIAL {empty}"));
    let b = fixture.writer.put(object("x", "b", "", &json!({}))).await;
    let a = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    let mut second = fixture.cache.watch(&everything(), &query).await.unwrap();
    let c = fixture.writer.put(object("x", "c", "", &json!({}))).await;
    let expected = [
        format!("ADDED x/a {a}"),
        format!("ADDED x/b {b}"),
        format!("INITIAL {a}"),
        format!("ADDED x/c {c}"),
    ];
    assert_eq!(lines(&mut second, 4).await, expected);
    let expected = [format!("ADDED x/b {b}"), format!("ADDED x/a {a}"), format!("ADDED x/c {c}")];
    assert_eq!(lines(&mut watch, 3).await, expected);
}

#[tokio::test]
async fn a_watch_after_a_revision_begins_right_there() {
    let mut fixture = Fixture::new().await;
    let a = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    let b = fixture.writer.put(object("x", "b", "", &json!({}))).await;
    let gone = fixture.writer.delete("x", "a").await;
    fixture.cache.current_revision().await.unwrap();
    let mut watch =
        fixture.cache.watch(&everything(), &watch(all(THINGS), WatchFrom::After(a))).await.unwrap();
    let c = fixture.writer.put(object("x", "c", "", &json!({}))).await;
    let expected = [format!("ADDED x/b {b}"), format!("DELETED x/a {gone}"), format!("ADDED x/c {c}")];
    assert_eq!(lines(&mut watch, 3).await, expected);
}

/// Another replica has answered with it, and nobody has told this one.
#[tokio::test]
async fn a_watch_after_a_revision_that_the_cache_does_not_know_yet_begins_right_there() {
    let quiet = store::cache::CacheConfig {
        listen: store::cache::Listen::Off,
        poll: std::time::Duration::from_hours(1),
        ..config()
    };
    let mut fixture = Fixture::with(quiet).await;
    fixture.writer.notify = false;
    fixture.cache.current_revision().await.unwrap();
    let first = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    let query = watch(all(THINGS), WatchFrom::After(first));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    let second = fixture.writer.put(object("x", "b", "", &json!({}))).await;
    fixture.cache.current_revision().await.unwrap();
    assert_eq!(lines(&mut watch, 1).await, [format!("ADDED x/b {second}")]);
}

/// It is a lost history's, and this one will make something else of it.
#[tokio::test]
async fn a_watch_after_a_revision_that_the_database_has_not_come_to_ends() {
    let mut fixture = Fixture::new().await;
    let now = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    let ahead = store::Revision(now.0 + 1);
    let query = watch(all(THINGS), WatchFrom::After(ahead));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    let end = tokio::time::timeout(WAIT_MAX, watch.next()).await.unwrap().unwrap_err();
    assert_eq!(end, WatchEnd::Expired { asked: ahead, current: now });
}

/// The next history begins before it; what this replica was told of the lost one says nothing of that.
#[tokio::test]
async fn a_watch_after_a_revision_of_a_lost_history_ends_although_it_was_shown_here() {
    let mut fixture = Fixture::new().await;
    let now = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    let (lost, begun) = (store::Revision(now.0 + 1000), store::Revision(now.0 + 100));
    let connection = &mut fixture.writer.connection;
    sqlx::raw_sql("UPDATE rev SET v = v + 1000").execute(&mut *connection).await.unwrap();
    assert_eq!(fixture.cache.current_revision().await.unwrap(), lost);
    fixture.cache.note_acknowledged(lost);
    let back = "UPDATE rev SET v = v - 900, epoch = gen_random_uuid()";
    sqlx::raw_sql(back).execute(connection).await.unwrap();
    let is_read = async || fixture.cache.current_revision().await.is_ok_and(|at| at == begun);
    eventually("the new history", is_read).await;
    let query = watch(all(THINGS), WatchFrom::After(lost));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    let end = tokio::time::timeout(WAIT_MAX, watch.next()).await.unwrap().unwrap_err();
    assert_eq!(end, WatchEnd::Expired { asked: lost, current: begun });
    assert_eq!(fixture.cache.status().lag, 0);
}

#[tokio::test]
async fn an_object_enters_and_leaves_a_selection() {
    let mut fixture = Fixture::new().await;
    let query = watch(select(THINGS, None, "app=web", "spec.color=red"), WatchFrom::Now);
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    let writer = &mut fixture.writer;
    writer.put(object("x", "a", "app=db", &json!({"color": "red"}))).await;
    let enters = writer.put(object("x", "a", "app=web", &json!({"color": "red", "n": 1}))).await;
    let stays = writer.put(object("x", "a", "app=web", &json!({"color": "red", "n": 2}))).await;
    let leaves = writer.put(object("x", "a", "app=web", &json!({"color": "blue", "n": 3}))).await;
    writer.put(object("x", "a", "app=web", &json!({"color": "blue", "n": 4}))).await;
    writer.delete("x", "a").await;
    let again = writer.put(object("x", "a", "app=web", &json!({"color": "red", "n": 5}))).await;
    let deleted = writer.delete("x", "a").await;
    assert_eq!(lines(&mut watch, 2).await, [format!("ADDED x/a {enters}"), format!("MODIFIED x/a {stays}")]);
    let WatchItem::Event { entry, op, .. } = next(&mut watch).await else { panic!("no event") };
    assert_eq!((op, entry.revision), (store::read::Op::Deleted, leaves));
    assert_eq!(body(&entry)["spec"]["n"], json!(2), "the last state that matched");
    assert_eq!(lines(&mut watch, 2).await, [format!("ADDED x/a {again}"), format!("DELETED x/a {deleted}")]);
}

#[tokio::test]
async fn an_object_that_changes_hands_leaves_one_tenant_and_enters_the_other() {
    let mut fixture = Fixture::new().await;
    let query = watch(all(THINGS), WatchFrom::Now);
    let mut first = fixture.cache.watch(&tenant("t1").await, &query).await.unwrap();
    let mut second = fixture.cache.watch(&tenant("t2").await, &query).await.unwrap();
    let created = fixture.writer.put(object("x", "a", "", &json!({"tenant": "t1", "secret": 1}))).await;
    let moved = fixture.writer.put(object("x", "a", "", &json!({"tenant": "t2", "secret": 2}))).await;
    assert_eq!(lines(&mut first, 1).await, [format!("ADDED x/a {created}")]);
    let WatchItem::Event { entry, .. } = next(&mut first).await else { panic!("no event") };
    assert_eq!((entry.revision, &body(&entry)["spec"]["secret"]), (moved, &json!(1)));
    assert_eq!(lines(&mut second, 1).await, [format!("ADDED x/a {moved}")]);
}

#[tokio::test]
async fn what_is_public_reaches_the_watches_of_all_tenants_once() {
    let mut fixture = Fixture::new().await;
    let query = watch(all(PLACES), WatchFrom::Now);
    let both = ["t1", "t2"].map(|tenant| TenantSight { tenant: Arc::from(tenant), sight: Sight::Whole });
    let mut watches = Vec::new();
    for access in
        [tenant("t1").await, tenant("t2").await, access_with(Visibility::tenants(both)).await, everything()]
    {
        watches.push(fixture.cache.watch(&access, &query).await.unwrap());
    }
    let writer = &mut fixture.writer;
    let shown = writer.put_as(PLACES, object("", "p", "", &json!({"public": true}))).await;
    let hidden = writer.put_as(PLACES, object("", "p", "", &json!({"tenant": "t2"}))).await;
    let end = writer.put_as(PLACES, object("", "q", "", &json!({"public": true}))).await;
    let (added, ended) = (format!("ADDED p {shown}"), format!("ADDED q {end}"));
    for (at, watch) in watches.iter_mut().enumerate() {
        let left = if at == 0 { "DELETED" } else { "MODIFIED" };
        assert_eq!(lines(watch, 3).await, [added.clone(), format!("{left} p {hidden}"), ended.clone()]);
    }
}

#[tokio::test]
async fn a_watch_sees_its_kind_namespace_and_name_alone() {
    let mut fixture = Fixture::new().await;
    let open = async |selection| {
        fixture.cache.watch(&everything(), &watch(selection, WatchFrom::Now)).await.unwrap()
    };
    let mut all_things = open(all(THINGS)).await;
    let mut places = open(all(PLACES)).await;
    let mut namespace = open(select(THINGS, Some("x"), "", "")).await;
    let mut one = open(select(THINGS, Some("x"), "", "metadata.name=a")).await;
    let mut by_field = open(select(THINGS, None, "", "metadata.namespace=y")).await;
    let writer = &mut fixture.writer;
    let xb = writer.put(object("x", "b", "", &json!({}))).await;
    let ya = writer.put(object("y", "a", "", &json!({}))).await;
    let p = writer.put_as(PLACES, object("", "a", "", &json!({}))).await;
    let xa = writer.put(object("x", "a", "", &json!({}))).await;
    let last = [format!("ADDED x/a {xa}")];
    assert_eq!(lines(&mut one, 1).await, last);
    assert_eq!(lines(&mut namespace, 2).await, [format!("ADDED x/b {xb}"), last[0].clone()]);
    assert_eq!(lines(&mut places, 1).await, [format!("ADDED a {p}")]);
    assert_eq!(lines(&mut by_field, 1).await, [format!("ADDED y/a {ya}")]);
    let expected = [format!("ADDED x/b {xb}"), format!("ADDED y/a {ya}"), last[0].clone()];
    assert_eq!(lines(&mut all_things, 3).await, expected);
}

#[tokio::test]
async fn a_bookmark_tells_a_revision_that_was_reached() {
    let mut fixture = Fixture::new().await;
    let query = watch(select(THINGS, Some("x"), "", ""), WatchFrom::State(At::Latest));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    watch.bookmark();
    let first = next(&mut watch).await;
    assert!(matches!(first, WatchItem::InitialEnd(_)), "no bookmark before the end of the state");
    assert!(matches!(next(&mut watch).await, WatchItem::Bookmark(_)));
    // What happens elsewhere moves the bookmark of an idle watch.
    let elsewhere = fixture.writer.put(object("y", "a", "", &json!({}))).await;
    let mut seen = store::Revision(0);
    eventually("the bookmark", async || {
        tokio::time::timeout(std::time::Duration::from_millis(1), watch.next()).await.unwrap_err();
        watch.bookmark();
        let WatchItem::Bookmark(revision) = next(&mut watch).await else { panic!("no bookmark") };
        assert!(revision >= seen);
        seen = revision;
        revision == elsewhere
    })
    .await;
    // One that waits in the queue is not passed over.
    let here = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    fixture.cache.current_revision().await.unwrap();
    watch.bookmark();
    assert_eq!(lines(&mut watch, 2).await, [format!("BOOKMARK {elsewhere}"), format!("ADDED x/a {here}")]);
}

#[tokio::test]
async fn a_watcher_may_be_behind_by_so_many_bytes_and_by_one_object_of_any_size() {
    let mut fixture = Fixture::new().await;
    let mut slow = fixture.cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    tokio::time::timeout(std::time::Duration::from_millis(1), slow.next()).await.unwrap_err();
    let large = json!({"text": "x".repeat(1 << 20)});
    let write = |number: usize| (THINGS, object("x", &format!("n{number:02}"), "", &large), false);
    let last = fixture.writer.batch((0..12).map(write).collect()).await;
    until_revision(&fixture, last).await;
    for _ in 0..12 {
        assert!(matches!(next(&mut slow).await, WatchItem::Event { .. }), "twelve megabytes wait");
    }
    let last = fixture.writer.batch((12..40).map(write).collect()).await;
    until_revision(&fixture, last).await;
    assert!(matches!(slow.next().await, Err(WatchEnd::Slow)), "twenty-eight do not, few events as they are");
}

async fn until_revision(fixture: &Fixture, revision: store::Revision) {
    eventually("the cache has it", async || fixture.cache.revision() >= revision).await;
}

#[tokio::test]
async fn a_slow_watcher_is_let_go_and_harms_nobody() {
    let mut fixture = Fixture::new().await;
    let query = watch(all(THINGS), WatchFrom::Now);
    let mut slow = fixture.cache.watch(&everything(), &query).await.unwrap();
    let mut quick = fixture.cache.watch(&everything(), &query).await.unwrap();
    let before = fixture.cache.current_revision().await.unwrap();
    // Both wait for what happens.
    for watch in [&mut slow, &mut quick] {
        tokio::time::timeout(std::time::Duration::from_millis(1), watch.next()).await.unwrap_err();
    }
    let mut last = 0;
    for round in 0..3 {
        let write = |number| (THINGS, object("x", &format!("n{round}{number:03}"), "", &json!({})), false);
        fixture.writer.batch((0..500).map(write).collect()).await;
        for _ in 0..500 {
            let WatchItem::Event { entry, .. } = next(&mut quick).await else { panic!("no event") };
            assert!(entry.revision.0 > last);
            last = entry.revision.0;
        }
    }
    // What it was let go with was not taken, and is not promised.
    slow.bookmark();
    let WatchItem::Bookmark(promised) = slow.next().await.unwrap() else { panic!("no bookmark") };
    assert_eq!(promised, before);
    assert!(matches!(slow.next().await, Err(WatchEnd::Slow)));
    assert!(matches!(slow.next().await, Err(WatchEnd::Slow)));
}

#[tokio::test]
async fn a_watch_ends_with_the_server() {
    let fixture = Fixture::new().await;
    let query = watch(all(THINGS), WatchFrom::Now);
    let mut waiting = fixture.cache.watch(&everything(), &query).await.unwrap();
    let unread = fixture.cache.watch(&everything(), &query).await.unwrap();
    let waits = tokio::spawn(async move { waiting.next().await });
    fixture.tasks.cancel();
    let end = tokio::time::timeout(WAIT_MAX, waits).await.unwrap().unwrap();
    assert!(matches!(end, Err(WatchEnd::Shutdown)));
    let mut unread = unread;
    eventually("the end", async || matches!(unread.next().await, Err(WatchEnd::Shutdown))).await;
}

#[tokio::test]
async fn there_is_a_limit_of_watches() {
    let fixture = Fixture::with(store::cache::CacheConfig { watches: 2, ..config() }).await;
    let query = watch(all(THINGS), WatchFrom::Now);
    let first = fixture.cache.watch(&everything(), &query).await.unwrap();
    let _second = fixture.cache.watch(&everything(), &query).await.unwrap();
    let third = fixture.cache.watch(&everything(), &query).await;
    assert!(matches!(third, Err(store::Error::Busy)));
    drop(first);
    assert!(fixture.cache.watch(&everything(), &query).await.is_ok());
}

#[tokio::test]
async fn changes_arrive_without_notifications() {
    let mut fixture =
        Fixture::with(store::cache::CacheConfig { listen: store::cache::Listen::Off, ..config() }).await;
    fixture.writer.notify = false;
    let mut watch = fixture.cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    let created = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    assert_eq!(lines(&mut watch, 1).await, [format!("ADDED x/a {created}")]);
}
