//! A writer, watchers on two replicas, and a task that kills their connections, all at the same time.

use crate::fixture::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::cache::{Cache, CacheConfig};
use store::read::{At, Selection, WatchEnd, WatchFrom, WatchItem};
use store::testing::{Database, database};
use store::{Access, Revision};

const BATCHES: usize = 400;
const WATCHERS: u64 = 12;
/// The last revision of the run, once it is known.
type LastRevision = Arc<AtomicU64>;

/// What one watcher sees, as a selection of the store and as code of the test.
#[derive(Clone, Copy, Debug)]
struct Viewer {
    labels: &'static str,
    tenant: Option<&'static str>,
    namespace: Option<&'static str>,
}

const VIEWERS: [Viewer; 5] = [
    Viewer { labels: "", tenant: None, namespace: None },
    Viewer { labels: "app=web", tenant: None, namespace: None },
    Viewer { labels: "", tenant: Some("t1"), namespace: None },
    Viewer { labels: "app!=web", tenant: Some("t2"), namespace: None },
    Viewer { labels: "", tenant: None, namespace: Some("y") },
];

impl Viewer {
    fn sees(self, object: &Value) -> bool {
        let web = object["metadata"]["labels"]["app"] == "web";
        let labels = match self.labels {
            "app=web" => web,
            "app!=web" => !web,
            _ => true,
        };
        labels
            && self.tenant.is_none_or(|tenant| object["spec"]["tenant"] == tenant)
            && self.namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
    }

    fn selection(self) -> Selection {
        select(THINGS, self.namespace, self.labels, "")
    }

    async fn access(self) -> Access {
        match self.tenant {
            Some(name) => tenant(name).await,
            None => everything(),
        }
    }
}

struct Change {
    revision: u64,
    old: Option<Value>,
    new: Option<Value>,
}

fn path_in(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    path(&text("namespace"), &text("name"))
}

async fn write(database: Database, mut random: StdRng) -> Vec<Change> {
    let mut writer = DirectWriter::new(&database).await;
    let mut history = Vec::new();
    for number in 0..BATCHES {
        let mut now: BTreeMap<String, Value> =
            writer.now.values().map(|(_, _, object)| (path_in(object), object.clone())).collect();
        let (mut writes, mut changes) = (Vec::new(), Vec::new());
        for _ in 0..random.random_range(1..6) {
            let pick = |random: &mut StdRng, from: &[&'static str]| from[random.random_range(0..from.len())];
            let (namespace, name) =
                (pick(&mut random, &["x", "y", "x-b"]), format!("n{}", random.random_range(0..8)));
            let old = now.get(&path(namespace, &name)).cloned();
            if let (Some(object), true) = (&old, random.random_bool(0.2)) {
                now.remove(&path_in(object));
                writes.push((THINGS, object.clone(), true));
                changes.push((old, None));
                continue;
            }
            let spec = json!({"tenant": pick(&mut random, &["t1", "t2"]), "number": number});
            let new = object(namespace, &name, pick(&mut random, &["app=web", "app=db", ""]), &spec);
            now.insert(path_in(&new), new.clone());
            writes.push((THINGS, new.clone(), false));
            changes.push((old, Some(new)));
        }
        let count = u64::try_from(writes.len()).unwrap();
        let last = writer.batch(writes).await.0;
        let revisions = last + 1 - count..;
        history.extend(revisions.zip(changes).map(|(revision, (old, new))| Change { revision, old, new }));
        if number % 50 == 0 {
            writer.skip_revisions(3).await;
        }
    }
    history
}

/// Kills every connection of the read side, again and again.
async fn kill(database: Database, mut random: StdRng) {
    let mut connection = database.connect().await.unwrap();
    let mut alive = true;
    while alive {
        tokio::time::sleep(Duration::from_millis(random.random_range(20..150))).await;
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'store-read' AND datname = current_database()";
        alive = sqlx::query(sql).execute(&mut connection).await.is_ok();
    }
}

struct Observed {
    viewer: Viewer,
    start: Revision,
    state: BTreeMap<String, u64>,
    events: Vec<(String, u64)>,
}

/// Lists at one replica and then watches at any, again and again, until the last revision.
async fn follow(replicas: [Cache; 2], viewer: Viewer, mut random: StdRng, end: LastRevision) -> Observed {
    let access = viewer.access().await;
    let query = list(viewer.selection(), At::Latest);
    let page = loop {
        if let Ok(page) = replicas[random.random_range(0..2)].list(&access, &query).await {
            break page;
        }
    };
    let state = page.items.iter().map(|entry| (path_of(entry), entry.revision.0)).collect();
    let mut observed = Observed { viewer, start: page.revision, state, events: Vec::new() };
    let mut reached = page.revision;
    loop {
        let query = watch(viewer.selection(), WatchFrom::After(reached));
        let Ok(mut watch) = replicas[random.random_range(0..2)].watch(&access, &query).await else {
            continue;
        };
        for _ in 0..random.random_range(1..200) {
            match tokio::time::timeout(Duration::from_millis(20), watch.next()).await {
                Ok(Ok(item)) => {
                    let at = record(&mut observed, &item);
                    assert!(at >= reached, "{item:?} after {reached}");
                    reached = at;
                }
                Ok(Err(WatchEnd::Slow)) => break,
                Ok(Err(other)) => panic!("{other:?}"),
                Err(_) => watch.bookmark(),
            }
            if reached.0 >= end.load(Ordering::SeqCst) {
                return observed;
            }
        }
    }
}

fn record(observed: &mut Observed, item: &WatchItem) -> Revision {
    match item {
        WatchItem::Event { entry, .. } => {
            let (op, place) =
                line(item).split_once(' ').map(|(op, _)| (op.to_owned(), path_of(entry))).unwrap();
            observed.events.push((format!("{op} {place}"), entry.revision.0));
            if op == "DELETED" {
                observed.state.remove(&place);
            } else {
                observed.state.insert(place, entry.revision.0);
            }
            entry.revision
        }
        WatchItem::InitialEnd(revision) | WatchItem::Bookmark(revision) => *revision,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_sees_every_change_once_while_connections_die() {
    let seed = std::env::var("SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let random = |stream: u64| StdRng::seed_from_u64(u64::wrapping_add(seed, stream));
    let database = database().await.unwrap();
    let (whole, whole_tasks) = replica(&database, config()).await;
    let (short, short_tasks) = replica(&database, CacheConfig { ring_changes: 40, ..config() }).await;
    let end = Arc::new(AtomicU64::new(u64::MAX));
    let writing = tokio::spawn(write(database.clone(), random(1)));
    let killing = tokio::spawn(kill(database.clone(), random(2)));
    let mut watching = tokio::task::JoinSet::new();
    for (number, viewer) in (0..WATCHERS).zip(VIEWERS.into_iter().cycle()) {
        let replicas = [whole.clone(), short.clone()];
        watching.spawn(follow(replicas, viewer, random(10 + number), Arc::clone(&end)));
    }
    let history = writing.await.unwrap();
    let last = history.last().unwrap().revision;
    end.store(last, Ordering::SeqCst);
    while let Some(observed) = watching.join_next().await {
        let Observed { viewer, start, state, events } = observed.unwrap();
        let sees = |object: &Option<Value>| object.as_ref().is_some_and(|object| viewer.sees(object));
        let mut expected = Vec::new();
        let mut now = BTreeMap::new();
        for Change { revision, old, new } in &history {
            let place = path_in(new.as_ref().or(old.as_ref()).unwrap());
            let op = match (sees(old), sees(new)) {
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
                (false, false) => continue,
            };
            if op == "DELETED" {
                now.remove(&place);
            } else {
                now.insert(place.clone(), *revision);
            }
            if *revision > start.0 {
                expected.push((format!("{op} {place}"), *revision));
            }
        }
        assert_eq!(events, expected, "{viewer:?} from {start}, SEED={seed}");
        assert_eq!(state, now, "{viewer:?} from {start}, SEED={seed}");
    }
    killing.abort();
    whole_tasks.cancel();
    short_tasks.cancel();
}
