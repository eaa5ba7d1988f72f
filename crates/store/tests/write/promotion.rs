//! A standby takes over while writers write: what was answered before is looked for there.

use crate::kit::{Kit, NAMESPACES, Object};
use crate::proxy::Proxy;
use crate::restore::{BACK_UP, RESTORE, folder, script, until_held};
use meta::selector::{FieldSelector, LabelSelector};
use std::time::{Duration, Instant};
use store::read::{At, Selection, WatchFrom, WatchItem, WatchQuery};
use store::testing::Server;
use store::testing::postgres::NOT_DURABLE;
use store::{Config, Error};

const WRITER: &str = "store writer";

struct Pair {
    server: Server,
    proxy: Proxy,
    kit: Kit,
    data: String,
}

impl Pair {
    async fn new() -> Self {
        let server = Server::start(&NOT_DURABLE).await.unwrap();
        let database = server.database().await.unwrap();
        let proxy = Proxy::start(&database.url).await;
        let kit = Kit::with(Config::new(&proxy.url), database).await;
        let data = folder(&server).await;
        let this = Self { server, proxy, kit, data };
        let project = this.kit.create(Object::project("p", "", "c1: cpu=9")).await.unwrap();
        this.kit.store.get(&this.kit.access, &project.key(), At::Latest).await.unwrap();
        this
    }

    /// Only the writer gets to the database: answers come, their events do not.
    fn blind(&self) {
        self.proxy.let_through(Some(WRITER));
        self.proxy.cut();
    }

    fn see(&self) {
        self.proxy.let_through(None);
    }

    async fn write(&self, name: &str) -> Object {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match self.kit.create(Object::namespace("p", name, "c1: cpu=1")).await {
                Ok(object) => return object,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Somebody with the same data, on a timeline of his own, answers from now on.
    async fn promote(&mut self, before: impl FnOnce(&str)) {
        self.server.stop().unwrap();
        before(&self.data);
        std::fs::write(format!("{}/standby.signal", self.data), "").unwrap();
        self.server.launch().await.unwrap();
        let mut admin = self.server.admin().await.unwrap();
        let promoted: bool = sqlx::query_scalar("SELECT pg_promote()").fetch_one(&mut admin).await.unwrap();
        assert!(promoted);
    }
}

#[tokio::test]
async fn answers_that_the_new_primary_has_are_no_divergence_although_their_events_never_came() {
    let mut pair = Pair::new().await;
    let (kit, access) = (&pair.kit, &pair.kit.access);
    let selection = Selection {
        kind: NAMESPACES,
        namespace: None,
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
    };
    let query = WatchQuery { selection, from: WatchFrom::After(kit.store.seen()) };
    let mut watch = kit.store.watch(access, &query).await.unwrap();
    pair.blind();
    pair.write("before").await;
    pair.promote(|_data| {}).await;
    let after = pair.write("after").await;
    pair.see();
    let (kit, access) = (&pair.kit, &pair.kit.access);
    for name in ["before", "after"] {
        let told = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.unwrap();
        let told = told.unwrap_or_else(|end| panic!("the watch has ended: {end:?}"));
        let WatchItem::Event { entry, .. } = told else { panic!("{told:?}") };
        assert_eq!(&*entry.key.name, name);
    }
    kit.store.get(access, &after.key(), At::Latest).await.unwrap();
    assert_eq!(kit.store.growth_held(access).await.unwrap(), None);
    kit.check().await;
}

#[tokio::test]
async fn nothing_is_granted_by_a_new_primary_that_lacks_an_answer_until_history_was_compared() {
    let mut pair = Pair::new().await;
    pair.server.stop().unwrap();
    script(BACK_UP, &pair.data);
    pair.server.launch().await.unwrap();
    pair.write("kept").await;
    pair.blind();
    pair.write("lost").await;
    pair.promote(|data| script(RESTORE, data)).await;
    // Another replica, which has heard of nothing, gives the lost revisions again.
    let other = Kit::on(pair.kit.database.clone()).await;
    for name in ["new", "newer", "newest"] {
        other.create(Object::namespace("p", name, "c1: cpu=1")).await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match pair.kit.create(Object::namespace("p", "more", "c1: cpu=1")).await {
            Err(Error::Unavailable(why)) if why.contains("compared first") => break,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
            Ok(_) => panic!("it was granted"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pair.see();
    let held = until_held(&pair.kit.store, &pair.kit).await;
    assert!(held.starts_with(store::divergence::DIVERGED), "{held}");
    pair.kit.until("the database takes writes", || pair.kit.store.database_ok()).await;
    let more = pair.kit.create(Object::namespace("p", "more", "c1: cpu=1")).await;
    assert!(matches!(more, Err(Error::Held)), "{more:?}");
    other.stop().await;
}
