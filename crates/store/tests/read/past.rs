//! Watches and lists from the past: beyond the ring, across restarts, compacted.

use crate::fixture::*;
use runtime::Metrics;
use serde_json::json;
use std::time::Duration;
use store::cache::CacheConfig;
use store::read::{At, ListQuery, WatchEnd, WatchFrom, WatchItem};
use store::{Error, Revision};

#[tokio::test]
async fn a_watch_older_than_the_ring_is_told_everything_once() {
    let mut fixture = Fixture::with(CacheConfig { ring_changes: 7, ..config() }).await;
    let start = fixture.cache.current_revision().await.unwrap();
    let mut expected = Vec::new();
    for round in 0..3 {
        let write = |number| (THINGS, object("x", &format!("n{round}{number:03}"), "", &json!({})), false);
        let last = fixture.writer.batch((0..400).map(write).collect()).await;
        let revisions = last.0 - 399..;
        expected
            .extend(revisions.zip(0..400).map(|(at, number)| format!("ADDED x/n{round}{number:03} {at}")));
    }
    fixture.cache.current_revision().await.unwrap();
    let query = watch(all(THINGS), WatchFrom::After(start));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    let half = lines(&mut watch, 600).await;
    let live = fixture.writer.put(object("x", "live", "", &json!({}))).await;
    expected.push(format!("ADDED x/live {live}"));
    let rest = lines(&mut watch, 601).await;
    assert_eq!([half, rest].concat(), expected);
}

#[tokio::test]
async fn large_events_are_read_few_at_a_time_and_none_is_lost() {
    let mut fixture = Fixture::with(CacheConfig { ring_changes: 2, ..config() }).await;
    let start = fixture.cache.current_revision().await.unwrap();
    let mut expected = Vec::new();
    for (name, length) in
        [("a", 1), ("b", 600_000), ("c", 600_000), ("d", 2_000_000), ("e", 1), ("f", 1_200_000)]
    {
        let at = fixture.writer.put(object("x", name, "", &json!({"text": "x".repeat(length)}))).await;
        expected.push(format!("ADDED x/{name} {at}"));
    }
    fixture.writer.put(object("y", "g", "", &json!({"text": "x".repeat(1_200_000)}))).await;
    let last = fixture.writer.put(object("x", "h", "", &json!({}))).await;
    expected.push(format!("ADDED x/h {last}"));
    fixture.cache.current_revision().await.unwrap();
    let query = watch(select(THINGS, Some("x"), "", ""), WatchFrom::After(start));
    let mut watch = fixture.cache.watch(&everything(), &query).await.unwrap();
    assert_eq!(lines(&mut watch, expected.len()).await, expected);
}

/// Each on his own would read what all the others read.
#[tokio::test]
async fn many_who_come_back_at_once_cost_one_reading_of_the_past() {
    let mut fixture = Fixture::with(CacheConfig { ring_changes: 1, ..config() }).await;
    let metrics = Metrics::new();
    fixture.cache.register(&metrics);
    let start = fixture.cache.current_revision().await.unwrap();
    let write = |number: usize| (THINGS, object("x", &format!("n{number:04}"), "", &json!({})), false);
    let last = fixture.writer.batch((0..1200).map(write).collect()).await;
    fixture.cache.current_revision().await.unwrap();
    let mut watching = tokio::task::JoinSet::new();
    for missed in (20..=1200).step_by(20) {
        let (cache, after) = (fixture.cache.clone(), Revision(last.0 - missed));
        watching.spawn(async move {
            let query = watch(all(THINGS), WatchFrom::After(after));
            let mut watch = cache.watch(&everything(), &query).await.unwrap();
            (after, lines(&mut watch, usize::try_from(missed).unwrap()).await)
        });
    }
    while let Some(told) = watching.join_next().await {
        let (after, told) = told.unwrap();
        let added = |at: u64| format!("ADDED x/n{:04} {at}", at - start.0 - 1);
        let expected: Vec<String> = (after.0 + 1..=last.0).map(added).collect();
        assert_eq!(told, expected);
    }
    let text = metrics.encode();
    let reads = text.lines().find_map(|line| line.strip_prefix("store_history_reads_total ")).unwrap();
    assert!((3..=8).contains(&reads.parse::<u64>().unwrap()), "{reads}");
}

/// Its revisions may be those of the next one, too.
#[tokio::test]
async fn what_was_read_of_the_past_of_a_lost_epoch_is_told_to_nobody() {
    let mut fixture = Fixture::with(CacheConfig { ring_changes: 1, ..config() }).await;
    let start = fixture.cache.current_revision().await.unwrap();
    for name in ["a", "b", "c"] {
        fixture.writer.put(object("x", name, "", &json!({"epoch": "old"}))).await;
    }
    fixture.cache.current_revision().await.unwrap();
    let query = watch(all(THINGS), WatchFrom::After(start));
    let mut before = fixture.cache.watch(&everything(), &query).await.unwrap();
    let WatchItem::Event { entry, .. } = next(&mut before).await else { panic!("no event") };
    assert_eq!(body(&entry)["spec"]["epoch"], "old");

    let other = r#"BEGIN; UPDATE events SET body = replace(body, '"old"', '"new"');
        UPDATE objects SET body = replace(body, '"old"', '"new"');
        UPDATE rev SET v = v + 1, epoch = gen_random_uuid(); COMMIT"#;
    sqlx::raw_sql(other).execute(&mut fixture.writer.connection).await.unwrap();
    let begun = Revision(start.0 + 4);
    let is_read = async || fixture.cache.current_revision().await.is_ok_and(|at| at == begun);
    eventually("the new history", is_read).await;
    let mut after = fixture.cache.watch(&everything(), &query).await.unwrap();
    for name in ["a", "b", "c"] {
        let WatchItem::Event { entry, .. } = next(&mut after).await else { panic!("no event") };
        assert_eq!((&*entry.key.name, &body(&entry)["spec"]["epoch"]), (name, &json!("new")));
    }
    // What he has been given already is told; then he hears that it is over.
    lines(&mut before, 2).await;
    let end = tokio::time::timeout(WAIT_MAX, before.next()).await.unwrap().unwrap_err();
    assert!(matches!(end, WatchEnd::Expired { .. }), "{end:?}");
}

#[tokio::test]
async fn a_replica_that_starts_reads_as_much_of_the_past_as_its_ring_may_hold() {
    let mut fixture = Fixture::new().await;
    let start = fixture.cache.current_revision().await.unwrap();
    let many = r#"BEGIN; INSERT INTO events (rv, kind, op, namespace, name, uid, body)
            SELECT v + i, 1, 'c'::"char", 'x', 'n' || i, gen_random_uuid(), '{"text":"' || repeat('x', 1000) || '"}'
            FROM rev, generate_series(1, 12000) i;
        UPDATE rev SET v = v + 12000; COMMIT"#;
    sqlx::raw_sql(many).execute(&mut fixture.writer.connection).await.unwrap();
    let (whole, tasks) = fixture.replica(config()).await;
    let (small, small_tasks) = fixture.replica(CacheConfig { ring_bytes: 1_000_000, ..config() }).await;
    assert_eq!(whole.status().ring_changes, 12_000);
    let changes = small.status().ring_changes;
    assert!((1900..2000).contains(&changes), "{changes} have two megabytes");
    for cache in [&whole, &small] {
        let query = watch(all(THINGS), WatchFrom::After(start));
        let mut watch = cache.watch(&everything(), &query).await.unwrap();
        let expected = [1, 2].map(|number| format!("ADDED x/n{number} {}", start.0 + number));
        assert_eq!(lines(&mut watch, 2).await, expected);
    }
    tasks.cancel();
    small_tasks.cancel();
}

#[tokio::test]
async fn a_look_ends_after_so_many_bytes_and_the_next_goes_on() {
    let mut fixture = Fixture::new().await;
    let large = |number| {
        let spec = json!({"text": "x".repeat(1 << 20)});
        (THINGS, object("x", &format!("n{number:02}"), "", &spec), false)
    };
    let last = fixture.writer.batch((0..70).map(large).collect()).await;
    let page = fixture.cache.list(&everything(), &list(all(THINGS), At::Latest)).await.unwrap();
    assert_eq!((page.revision, page.items.len()), (last, 70));
}

#[tokio::test]
async fn a_watch_goes_on_at_a_replica_that_has_just_started() {
    let mut fixture = Fixture::new().await;
    let writer = &mut fixture.writer;
    let start = writer.put(object("x", "a", "app=web", &json!({"tenant": "t1", "secret": "old"}))).await;
    writer.put(object("x", "other", "", &json!({"tenant": "t1"}))).await;
    let left = writer.put(object("x", "a", "", &json!({"tenant": "t2", "secret": "new"}))).await;
    let entered = writer.put(object("x", "other", "app=web", &json!({"tenant": "t1"}))).await;
    for ring_changes in [100, 1] {
        let (cache, tasks) = fixture.replica(CacheConfig { ring_changes, ..config() }).await;
        let query = watch(select(THINGS, None, "app=web", ""), WatchFrom::After(start));
        let mut watch = cache.watch(&tenant("t1").await, &query).await.unwrap();
        let WatchItem::Event { entry, .. } = next(&mut watch).await else { panic!("no event") };
        assert_eq!((path_of(&entry), entry.revision), ("x/a".to_owned(), left));
        let body = body(&entry);
        assert_eq!(body["metadata"]["name"], "a");
        assert_ne!(body["spec"]["secret"], "new", "what another tenant has made of it is not his");
        assert_eq!(lines(&mut watch, 1).await, [format!("ADDED x/other {entered}")]);
        tasks.cancel();
    }
}

#[tokio::test]
async fn a_state_that_cannot_be_undone_to_is_expired() {
    let mut fixture = Fixture::with(CacheConfig { ring_changes: 2, ..config() }).await;
    let first = fixture.writer.put(object("x", "a", "", &json!({}))).await;
    for name in ["b", "c", "d"] {
        fixture.writer.put(object("x", name, "", &json!({}))).await;
    }
    let query = list(all(THINGS), At::Exact(first));
    fixture.cache.current_revision().await.unwrap();
    let error = fixture.cache.list(&everything(), &query).await.unwrap_err();
    assert!(matches!(error, Error::Expired { asked, .. } if asked == first));
    // A replica that has just started knows no bodies from before it.
    let update = fixture.writer.put(object("x", "a", "", &json!({"n": 1}))).await;
    let (cache, tasks) = fixture.replica(config()).await;
    let before = list(all(THINGS), At::Exact(Revision(update.0 - 1)));
    assert!(cache.list(&everything(), &before).await.is_ok(), "the object's create is among the events");
    tasks.cancel();
}

async fn compacted(fixture: &mut Fixture) -> Revision {
    let number: i64 = sqlx::query_scalar("SELECT compacted FROM compaction")
        .fetch_one(&mut fixture.writer.connection)
        .await
        .unwrap();
    Revision(u64::try_from(number).unwrap())
}

#[tokio::test]
async fn what_is_compacted_is_expired_and_a_token_tells_how_to_go_on() {
    let mut fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.writer.put(object("x", name, "", &json!({}))).await;
    }
    let query = ListQuery { limit: Some(1), ..list(all(THINGS), At::Latest) };
    let page = fixture.cache.list(&everything(), &query).await.unwrap();
    let old = page.revision;
    sqlx::query("INSERT INTO batches (writer, seq, base) SELECT gen_random_uuid(), 1, i * 1000 FROM generate_series(0, 1) i")
        .execute(&mut fixture.writer.connection)
        .await
        .unwrap();
    let quick = CacheConfig {
        retention: Duration::from_millis(50),
        batches_kept: Duration::from_millis(50),
        compact_every: Duration::from_millis(20),
        ..config()
    };
    let (_compacting, tasks) = fixture.replica(quick.clone()).await;
    let (_also, more_tasks) = fixture.replica(quick).await;
    let last = fixture.writer.put(object("x", "b", "", &json!({"n": 1}))).await;
    eventually("compaction", async || compacted(&mut fixture).await == last).await;
    fixture.cache.current_revision().await.unwrap();

    let mut watch =
        fixture.cache.watch(&everything(), &watch(all(THINGS), WatchFrom::After(old))).await.unwrap();
    let end = tokio::time::timeout(WAIT_MAX, watch.next()).await.unwrap().unwrap_err();
    assert_eq!(end, WatchEnd::Expired { asked: old, current: last });
    let exact = fixture.cache.list(&everything(), &list(all(THINGS), At::Exact(old))).await;
    assert!(matches!(exact, Err(Error::Expired { asked, .. }) if asked == old));
    let next = ListQuery { continue_token: page.continue_token, ..query };
    let error = fixture.cache.list(&everything(), &next).await.unwrap_err();
    let Error::ContinueExpired { continue_token } = error else { panic!("{error}") };
    let rest = ListQuery { continue_token: Some(continue_token), limit: None, ..next };
    let page = fixture.cache.list(&everything(), &rest).await.unwrap();
    let paths: Vec<String> = page.items.iter().map(|entry| path_of(entry)).collect();
    assert_eq!((paths, page.revision), (vec!["x/b".to_owned(), "x/c".to_owned()], last));

    eventually("deletion", async || {
        let counts: (i64, i64) =
            sqlx::query_as("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM batches)")
                .fetch_one(&mut fixture.writer.connection)
                .await
                .unwrap();
        counts == (1, 1)
    })
    .await;
    tasks.cancel();
    more_tasks.cancel();
}

#[tokio::test]
async fn history_of_too_many_bytes_is_compacted_before_its_time() {
    let mut fixture = Fixture::new().await;
    let by_size = CacheConfig {
        retention: Duration::from_hours(1),
        retention_bytes: 10_000,
        retention_min: Duration::from_millis(50),
        compact_every: Duration::from_millis(20),
        ..config()
    };
    let (compacting, tasks) = fixture.replica(by_size).await;
    let old = fixture.writer.put(object("x", "old", "", &json!({}))).await;
    compacting.current_revision().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(compacted(&mut fixture).await < old);
    let mut large = Vec::new();
    for name in ["a", "b", "c", "d"] {
        large.push(fixture.writer.put(object("x", name, "", &json!({"text": "x".repeat(4000)}))).await);
    }
    eventually("compaction", async || compacted(&mut fixture).await >= old).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(compacted(&mut fixture).await < large[1], "less than that came after it");
    tasks.cancel();
}

#[tokio::test]
async fn compaction_skips_a_stretch_without_events() {
    let mut fixture = Fixture::new().await;
    for name in ["a", "b"] {
        fixture.writer.put(object("x", name, "", &json!({}))).await;
        fixture.writer.skip_revisions(5_000_000).await;
    }
    let last = fixture.writer.put(object("x", "c", "", &json!({}))).await;
    let quick = CacheConfig {
        retention: Duration::from_millis(50),
        compact_every: Duration::from_millis(20),
        ..config()
    };
    let (_compacting, tasks) = fixture.replica(quick).await;
    eventually("compaction", async || {
        let left: Vec<i64> = sqlx::query_scalar("SELECT rv FROM events")
            .fetch_all(&mut fixture.writer.connection)
            .await
            .unwrap();
        left == [i64::try_from(last.0).unwrap()]
    })
    .await;
    tasks.cancel();
}

/// The mark would be beyond the counter, and everything read anew for ever.
#[tokio::test]
async fn what_a_lost_history_has_come_to_compacts_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.writer.put(object("x", "a", "", &json!({}))).await;
    let quick = CacheConfig {
        retention: Duration::from_millis(50),
        compact_every: Duration::from_millis(20),
        ..config()
    };
    let (compacting, tasks) = fixture.replica(quick).await;
    let connection = &mut fixture.writer.connection;
    sqlx::raw_sql("UPDATE rev SET v = v + 1000").execute(&mut *connection).await.unwrap();
    compacting.current_revision().await.unwrap();
    let restore = "BEGIN; UPDATE rev SET v = v - 900, epoch = gen_random_uuid(); \
                   UPDATE compaction SET compacted = 0; COMMIT";
    sqlx::raw_sql(restore).execute(&mut *connection).await.unwrap();
    let counter: i64 = sqlx::query_scalar("SELECT v FROM rev").fetch_one(connection).await.unwrap();
    let counter = Revision(u64::try_from(counter).unwrap());
    eventually("compaction", async || compacted(&mut fixture).await == counter).await;
    tasks.cancel();
}

#[tokio::test]
async fn a_replica_that_slept_through_a_compaction_starts_anew() {
    let mut fixture = Fixture::new().await;
    fixture.writer.put(object("x", "a", "", &json!({}))).await;
    fixture.cache.current_revision().await.unwrap();
    let mut watch = fixture.cache.watch(&everything(), &watch(all(THINGS), WatchFrom::Now)).await.unwrap();
    // Written and forgotten in one transaction: no look can have seen it.
    let sql = "BEGIN; UPDATE rev SET v = v + 5; UPDATE compaction SET compacted = (SELECT v - 1 FROM rev); \
               DELETE FROM objects; COMMIT";
    sqlx::raw_sql(sql).execute(&mut fixture.writer.connection).await.unwrap();
    let end = tokio::time::timeout(WAIT_MAX, watch.next()).await.unwrap().unwrap_err();
    assert!(matches!(end, WatchEnd::Expired { .. }), "{end:?}");
    assert!(fixture.names(&list(all(THINGS), At::Latest)).await.is_empty());
}
