//! A database, a cache of it, and a writer that writes objects and events without the store's writer.

use runtime::Tasks;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::cache::{Cache, CacheConfig, Kinds};
use store::read::{At, ListQuery, Op, Selection, WatchFrom, WatchItem, WatchQuery};
use store::testing::{Database, database};
use store::{Access, Attributes, Authorizer, Entry, Kind, KindId, Revision, Visibility, Watch, authorize};
use uuid::Uuid;

/// Objects in namespaces.
pub(crate) const THINGS: KindId = KindId(1);
/// Objects in cluster scope.
pub(crate) const PLACES: KindId = KindId(2);
/// Longest wait for something that has to happen. Less than the half minute after which the store tries anew by itself.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

pub(crate) struct Sample(&'static str);

impl Kind for Sample {
    fn group(&self) -> &'static str {
        "sample.io"
    }

    fn resource(&self) -> &'static str {
        self.0
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.color"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        attributes(&serde_json::from_slice(body).unwrap_or_default())
    }
}

pub(crate) fn attributes(object: &Value) -> Attributes {
    let text = |value: &Value| value.as_str().map(Box::from);
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((Box::from(key.as_str()), text(value)?)));
    Attributes {
        tenant: text(&object["spec"]["tenant"]),
        tenant_wide: object["spec"]["wide"].as_bool().unwrap_or_default(),
        public: object["spec"]["public"].as_bool().unwrap_or_default(),
        labels: labels.collect(),
        fields: Box::new([text(&object["spec"]["color"]).unwrap_or_default()]),
    }
}

pub(crate) fn kinds() -> Kinds {
    let things: Arc<dyn Kind> = Arc::new(Sample("things"));
    let places: Arc<dyn Kind> = Arc::new(Sample("places"));
    [(THINGS, things), (PLACES, places)].into_iter().collect()
}

/// Name and spec of an object; labels are given as `key=value,…`.
pub(crate) fn object(namespace: &str, name: &str, labels: &str, spec: &Value) -> Value {
    let labels: BTreeMap<&str, &str> = labels.split(',').filter_map(|label| label.split_once('=')).collect();
    json!({
        "apiVersion": "sample.io/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    })
}

pub(crate) type ObjectKey = (KindId, String, String);

/// Writes to the tables as a batch would, and keeps the current objects: the oracle of the tests.
pub(crate) struct DirectWriter {
    pub(crate) connection: PgConnection,
    pub(crate) now: BTreeMap<ObjectKey, (Revision, Uuid, Value)>,
    pub(crate) notify: bool,
}

impl DirectWriter {
    pub(crate) async fn new(database: &Database) -> Self {
        Self { connection: database.connect().await.unwrap(), now: BTreeMap::new(), notify: true }
    }

    pub(crate) async fn put(&mut self, object: Value) -> Revision {
        self.put_as(THINGS, object).await
    }

    pub(crate) async fn put_as(&mut self, kind: KindId, object: Value) -> Revision {
        self.batch(vec![(kind, object, false)]).await
    }

    pub(crate) async fn delete(&mut self, namespace: &str, name: &str) -> Revision {
        let place = (THINGS, namespace.to_owned(), name.to_owned());
        let object = self.now[&place].2.clone();
        self.batch(vec![(THINGS, object, true)]).await
    }

    /// Makes these writes in one transaction, and returns the last revision.
    pub(crate) async fn batch(&mut self, writes: Vec<(KindId, Value, bool)>) -> Revision {
        let mut transaction = self.connection.begin().await.unwrap();
        let count = i64::try_from(writes.len()).unwrap();
        let last: i64 = sqlx::query_scalar("UPDATE rev SET v = v + $1 RETURNING v")
            .bind(count)
            .fetch_one(&mut *transaction)
            .await
            .unwrap();
        for (rv, (kind, object, delete)) in (last - count + 1..).zip(writes) {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            let place = (kind, namespace.clone(), name.clone());
            let known = self.now.remove(&place);
            let op = match (&known, delete) {
                (None, _) => "c",
                (Some(_), false) => "u",
                (Some(_), true) => "d",
            };
            let uid = known.as_ref().map_or_else(Uuid::new_v4, |(_, uid, _)| *uid);
            let before = known.map(|(_, _, object)| serde_json::to_string(&attributes(&object)).unwrap());
            let body = object.to_string();
            sqlx::query("INSERT INTO events VALUES ($1, $2, $3::text::\"char\", $4, $5, $6, $7, $8)")
                .bind(rv)
                .bind(kind.0)
                .bind(op)
                .bind(&namespace)
                .bind(&name)
                .bind(uid)
                .bind(before)
                .bind(&body)
                .execute(&mut *transaction)
                .await
                .unwrap();
            sqlx::query("DELETE FROM objects WHERE kind = $1 AND namespace = $2 AND name = $3")
                .bind(kind.0)
                .bind(&namespace)
                .bind(&name)
                .execute(&mut *transaction)
                .await
                .unwrap();
            if !delete {
                sqlx::query(
                    "INSERT INTO objects VALUES ($1, $2, $3, $4, $5, $5, '', NULL, NULL, false, false, $6)",
                )
                .bind(kind.0)
                .bind(&namespace)
                .bind(&name)
                .bind(uid)
                .bind(rv)
                .bind(&body)
                .execute(&mut *transaction)
                .await
                .unwrap();
                let revision = Revision(u64::try_from(rv).unwrap());
                self.now.insert(place, (revision, uid, object));
            }
        }
        if self.notify {
            sqlx::query("SELECT pg_notify('store', '')").execute(&mut *transaction).await.unwrap();
        }
        transaction.commit().await.unwrap();
        Revision(u64::try_from(last).unwrap())
    }

    /// Raises the counter without an event, as a batch does whose writes are all refused.
    pub(crate) async fn skip_revisions(&mut self, count: i64) -> Revision {
        let last: i64 = sqlx::query_scalar("UPDATE rev SET v = v + $1 RETURNING v")
            .bind(count)
            .fetch_one(&mut self.connection)
            .await
            .unwrap();
        Revision(u64::try_from(last).unwrap())
    }
}

pub(crate) fn path(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

pub(crate) fn path_of(entry: &Entry) -> String {
    path(&entry.key.namespace, &entry.key.name)
}

pub(crate) fn body(entry: &Entry) -> Value {
    serde_json::from_slice(&entry.body).unwrap()
}

/// A database with one replica's cache.
pub(crate) struct Fixture {
    pub(crate) database: Database,
    pub(crate) cache: Cache,
    pub(crate) tasks: Tasks,
    pub(crate) writer: DirectWriter,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with(config: CacheConfig) -> Self {
        let database = database().await.unwrap();
        let writer = DirectWriter::new(&database).await;
        let (cache, tasks) = replica(&database, config).await;
        Self { database, cache, tasks, writer }
    }

    /// Another replica's cache.
    pub(crate) async fn replica(&self, config: CacheConfig) -> (Cache, Tasks) {
        replica(&self.database, config).await
    }

    pub(crate) async fn names(&self, query: &ListQuery) -> Vec<String> {
        let page = self.cache.list(&everything(), query).await.unwrap();
        page.items.iter().map(|entry| path_of(entry)).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

pub(crate) async fn replica(database: &Database, config: CacheConfig) -> (Cache, Tasks) {
    let tasks = Tasks::new();
    let cache = Cache::open(&database.url, kinds(), config).unwrap();
    cache.start(&tasks);
    tokio::time::timeout(WAIT_MAX, cache.until_synced()).await.unwrap();
    (cache, tasks)
}

/// The default configuration.
pub(crate) fn config() -> CacheConfig {
    CacheConfig::default()
}

pub(crate) fn everything() -> Access {
    Access::internal("test")
}

struct Grant(Visibility);

impl Authorizer for Grant {
    type Request = ();
    type Refusal = ();

    async fn decide(&self, (): &()) -> Result<(Arc<str>, Visibility), ()> {
        Ok((Arc::from("somebody"), self.0.clone()))
    }
}

pub(crate) async fn access_with(visibility: Visibility) -> Access {
    authorize(&Grant(visibility), &()).await.unwrap()
}

pub(crate) async fn tenant(name: &str) -> Access {
    access_with(Visibility::tenant(name)).await
}

pub(crate) fn select(kind: KindId, namespace: Option<&str>, labels: &str, fields: &str) -> Selection {
    Selection {
        kind,
        namespace: namespace.map(str::to_owned),
        labels: labels.parse().unwrap(),
        fields: fields.parse().unwrap(),
    }
}

pub(crate) fn all(kind: KindId) -> Selection {
    select(kind, None, "", "")
}

pub(crate) fn list(selection: Selection, at: At) -> ListQuery {
    ListQuery { selection, at, limit: None, continue_token: None }
}

pub(crate) fn watch(selection: Selection, from: WatchFrom) -> WatchQuery {
    WatchQuery { selection, from }
}

/// An item as a line: `ADDED ns/name 7`.
pub(crate) fn line(item: &WatchItem) -> String {
    match item {
        WatchItem::Event { op, entry, .. } => {
            let op = match op {
                Op::Added => "ADDED",
                Op::Modified => "MODIFIED",
                Op::Deleted => "DELETED",
            };
            format!("{op} {} {}", path_of(entry), entry.revision)
        }
        WatchItem::InitialEnd(revision) => format!("INITIAL {revision}"),
        WatchItem::Bookmark(revision) => format!("BOOKMARK {revision}"),
    }
}

pub(crate) async fn next(watch: &mut Watch) -> WatchItem {
    tokio::time::timeout(WAIT_MAX, watch.next())
        .await
        .expect("the watch is silent")
        .expect("the watch has ended")
}

pub(crate) async fn lines(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.push(line(&next(watch).await));
    }
    lines
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + WAIT_MAX;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
