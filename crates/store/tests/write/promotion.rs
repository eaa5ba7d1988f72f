//! A standby becomes the primary while writers write: it must have the writes that were acknowledged before.

use crate::kit::{Kit, NAMESPACES, Object, kinds};
use crate::proxy::Proxy;
use crate::restore::{BACK_UP, RESTORE, folder, resume_growth, script, start_held, until_held};
use meta::selector::{FieldSelector, LabelSelector};
use sqlx::Connection as _;
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
        let config = Config { direct: Some(database.url.clone()), ..Config::new(&proxy.url) };
        let kit = Kit::with(config, database).await;
        let data = folder(&server).await;
        let this = Self { server, proxy, kit, data };
        this.kit.until("the cache is filled", || this.kit.store.synced()).await;
        let project = this.kit.create(Object::project("p", "", "c1: cpu=9")).await.unwrap();
        this.kit.store.get(&this.kit.access, &project.key(), At::Latest).await.unwrap();
        this
    }

    /// Allows only the writer's connections: writes are acknowledged, and the tail does not get their events.
    fn block_tail(&self) {
        self.proxy.allow_only(Some(WRITER));
        self.proxy.cut();
    }

    fn unblock_tail(&self) {
        self.proxy.allow_only(None);
    }

    /// Takes a copy of the server, as it is before what comes. Another replica, which has read it, hears nothing until
    /// its `other_proxy` lets somebody through.
    async fn back_up_beside_isolated_replica(&mut self) -> (Kit, Proxy) {
        self.server.stop().unwrap();
        script(BACK_UP, &self.data);
        self.server.launch().await.unwrap();
        let other_proxy = Proxy::start(&self.kit.database.url).await;
        let other = Kit::with(Config::new(&other_proxy.url), self.kit.database.clone()).await;
        other.until("its cache is filled", || other.store.synced()).await;
        other_proxy.allow_only(Some("nobody"));
        other_proxy.cut();
        (other, other_proxy)
    }

    async fn write(&self, name: &str) -> Object {
        write(&self.kit, name).await
    }

    async fn promote(&mut self, before: impl FnOnce(&str)) {
        promote(&mut self.server, &self.data, before).await;
    }
}

/// Writes until the write succeeds.
async fn write(kit: &Kit, name: &str) -> Object {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match kit.create(Object::namespace("p", name, "c1: cpu=1")).await {
            Ok(object) => return object,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Turns the server into one with the same data on a new timeline.
async fn promote(server: &mut Server, data: &str, before: impl FnOnce(&str)) {
    server.stop().unwrap();
    before(data);
    std::fs::write(format!("{data}/standby.signal"), "").unwrap();
    server.launch().await.unwrap();
    become_primary(server).await;
}

async fn become_primary(server: &Server) {
    let mut admin = server.admin().await.unwrap();
    let promoted: bool = sqlx::query_scalar("SELECT pg_promote()").fetch_one(&mut admin).await.unwrap();
    assert!(promoted);
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
    pair.block_tail();
    pair.write("before").await;
    pair.promote(|_data| {}).await;
    let after = pair.write("after").await;
    pair.unblock_tail();
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
    let (other, other_proxy) = pair.back_up_beside_isolated_replica().await;
    pair.write("kept").await;
    pair.block_tail();
    pair.write("lost").await;
    pair.promote(|data| script(RESTORE, data)).await;
    // Another replica, which has heard of nothing, gives the lost revisions again.
    other_proxy.allow_only(None);
    for name in ["new", "newer", "newest"] {
        write(&other, name).await;
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
    pair.unblock_tail();
    let held = until_held(&pair.kit.store, &pair.kit).await;
    assert!(held.starts_with(store::divergence::DIVERGED), "{held}");
    pair.kit.until("the database takes writes", || pair.kit.store.database_ok()).await;
    let more = pair.kit.create(Object::namespace("p", "more", "c1: cpu=1")).await;
    assert!(matches!(more, Err(Error::Held)), "{more:?}");
    other.stop().await;
}

/// Who writes together has a connection of his own. All that the cache has seen is there; only what was answered is
/// not.
#[tokio::test]
async fn nothing_is_granted_together_by_a_new_primary_that_lacks_an_answer() {
    let mut pair = Pair::new().await;
    let kept = pair.write("kept").await;
    pair.kit.store.get(&pair.kit.access, &kept.key(), At::Latest).await.unwrap();
    let (other, other_proxy) = pair.back_up_beside_isolated_replica().await;
    pair.block_tail();
    pair.write("lost").await;
    pair.promote(|data| script(RESTORE, data)).await;
    other_proxy.allow_only(None);
    for name in ["new", "newer", "newest"] {
        write(&other, name).await;
    }
    let more = Object::namespace("p", "more", "c1: cpu=1");
    let together = pair.kit.store.write_together(&pair.kit.access, vec![more.create()], false).await;
    let refused = matches!(&together, Err(Error::Unavailable(why)) if why.contains("compared first"));
    assert!(refused, "{together:?}");
    other.stop().await;
}

/// Nobody served meanwhile, so nobody knows what was lost.
#[tokio::test]
async fn who_starts_after_a_restore_holds_growth_although_he_has_seen_nothing() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let data = folder(&server).await;
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    let old = kit.create(Object::namespace("p", "old", "c1: cpu=1")).await.unwrap();
    server.stop().unwrap();
    script(BACK_UP, &data);
    server.launch().await.unwrap();
    let lost = write(&kit, "lost").await;
    let database = kit.database.clone();
    kit.stop().await;
    promote(&mut server, &data, |data| script(RESTORE, data)).await;

    let kit = start_held(database).await;
    let gone = kit.store.get(&kit.access, &lost.key(), At::Latest).await;
    assert!(matches!(gone, Err(Error::NotFound)), "{gone:?}");
    let kept = kit.store.get(&kit.access, &old.key(), At::Latest).await.unwrap();
    assert!(kept.revision < lost.revision);
    assert!(kit.store.seen() > lost.revision, "the lost revisions are never given again");
    resume_growth(kit).await;
}

/// Otherwise a copy of it would be of no server, and whoever starts on that would grant at once what others have of it.
#[tokio::test]
async fn a_database_remembers_its_server_before_the_first_write_whoever_has_read_it() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let proxy = Proxy::start(&database.url).await;
    proxy.allow_only(Some(WRITER));
    let config = Config { direct: Some(database.url.clone()), ..Config::new(&proxy.url) };
    let kit = Kit::with(config, database).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    assert!(!kit.store.synced(), "nobody has read it");
    let mut connection = sqlx::PgConnection::connect(&kit.database.url).await.unwrap();
    let query = "SELECT identity FROM server WHERE id = 1";
    let identity: Option<String> = sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap();
    assert!(identity.is_some_and(|identity| identity.contains('/')));
    kit.stop().await;
}

/// A server that recovers answers reads already: what it has then is no history to begin with.
#[tokio::test]
async fn who_starts_before_the_recovery_has_ended_holds_growth_too() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let data = folder(&server).await;
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    server.stop().unwrap();
    script(BACK_UP, &data);
    let database = kit.database.clone();
    kit.stop().await;
    script(RESTORE, &data);
    std::fs::write(format!("{data}/standby.signal"), "").unwrap();
    server.launch().await.unwrap();

    let tasks = runtime::Tasks::new();
    let store =
        store::Store::open(Config::new(&database.url), kinds(), &tasks, &runtime::Metrics::new()).unwrap();
    let access = store::Access::internal("test");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !store.database().is_err_and(|why| why.contains("read-only") || why.contains("recovers")) {
        assert!(Instant::now() < deadline, "{:?}", store.database());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    become_primary(&server).await;
    loop {
        match store.write(&access, Object::namespace("p", "more", "c1: cpu=1").create()).await {
            Err(Error::Held) => break,
            Err(error) => assert!(Instant::now() < deadline + Duration::from_secs(30), "{error}"),
            Ok(_) => panic!("it was granted"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tasks.cancel();
    tasks.join(Duration::from_secs(30)).await.unwrap();
}

/// The backup is of an earlier epoch. Whoever takes it over while it is replayed knows nothing of what was lost any
/// more.
#[tokio::test]
async fn who_ran_while_a_server_of_an_earlier_epoch_recovered_holds_growth() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let data = folder(&server).await;
    let kit = Kit::on(server.database().await.unwrap()).await;
    kit.until("the cache is filled", || kit.store.synced()).await;
    kit.create(Object::project("p", "", "c1: cpu=4")).await.unwrap();
    server.stop().unwrap();
    script(BACK_UP, &data);
    server.launch().await.unwrap();
    kit.until("the database takes writes", || kit.store.database_ok()).await;
    let begun = kit.store.declare_restored(&kit.access).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), kit.store.until_filled(begun)).await.unwrap();
    assert_eq!(kit.store.resume_growth(&kit.access).await.unwrap(), None);
    let lost = write(&kit, "lost").await;
    kit.store.get(&kit.access, &lost.key(), At::Latest).await.unwrap();

    server.stop().unwrap();
    script(RESTORE, &data);
    std::fs::write(format!("{data}/standby.signal"), "").unwrap();
    server.launch().await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let recovers = async || match kit.store.current_revision().await {
        Err(Error::Unavailable(why)) => why.contains("recovers"),
        Ok(_) | Err(_) => false,
    };
    let knows_still = async || kit.store.get(&kit.access, &lost.key(), At::Any).await.is_ok();
    while !recovers().await && knows_still().await {
        assert!(Instant::now() < deadline, "it has not met the server that recovers");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    become_primary(&server).await;

    let held = until_held(&kit.store, &kit).await;
    assert!(held.starts_with(store::divergence::DIVERGED), "{held}");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match kit.create(Object::namespace("p", "more", "c1: cpu=1")).await {
            Err(Error::Held) => break,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
            Ok(_) => panic!("it was granted"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(kit.store.seen() > lost.revision, "the lost revisions are never given again");
    kit.stop().await;
}

#[tokio::test]
async fn who_starts_during_a_promotion_that_lost_nothing_waits_for_one_who_can_compare() {
    let mut pair = Pair::new().await;
    pair.write("before").await;
    pair.block_tail();
    pair.promote(|_data| {}).await;
    let tasks = runtime::Tasks::new();
    let config = Config::new(&pair.kit.database.url);
    let fresh = store::Store::open(config, kinds(), &tasks, &runtime::Metrics::new()).unwrap();
    let starts = fresh.write(&pair.kit.access, Object::namespace("p", "early", "c1: cpu=1").create()).await;
    assert!(starts.is_err(), "it was granted before anybody has compared");
    pair.unblock_tail();
    pair.kit.until("it takes writes", || fresh.database_ok()).await;
    fresh.write(&pair.kit.access, Object::namespace("p", "more", "c1: cpu=1").create()).await.unwrap();
    assert_eq!(pair.kit.store.growth_held(&pair.kit.access).await.unwrap(), None);
    pair.kit.check().await;
    tasks.cancel();
    tasks.join(Duration::from_secs(30)).await.unwrap();
}
