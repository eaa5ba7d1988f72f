//! The whole store through a real pgbouncer that pools by transaction, without LISTEN and NOTIFY.

use crate::kit::{Kit, NAMESPACES, Object, refused};
use meta::selector::{FieldSelector, LabelSelector};
use std::cell::Cell;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use store::cache::Listen;
use store::read::{At, ListQuery, Op, Selection, WatchFrom, WatchItem, WatchQuery};
use store::testing::postgres::NOT_DURABLE;
use store::testing::{Database, Server};
use store::{Config, Error, Revision};

const NOBODY: u32 = 65_534;
/// How long sessions are killed.
const KILLING: Duration = Duration::from_secs(3);

/// A pgbouncer in front of a server. It ends when this is dropped.
pub(crate) struct Bouncer {
    pub(crate) url: String,
    process: Child,
    folder: PathBuf,
}

impl Bouncer {
    /// Starts one in front of the server of this database; `None` if pgbouncer is not installed.
    pub(crate) fn start(database: &Database) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        let program = places.map(|place| place.join("pgbouncer")).find(|program| program.is_file())?;
        let (server, name) = database.url.rsplit_once('/').unwrap();
        let (_, port) = server.rsplit_once(':').unwrap();
        let own = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let folder = PathBuf::from(format!("/var/tmp/store-test-bouncer-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {own}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 6\nserver_round_robin = 1\nignore_startup_parameters = extra_float_digits\n\
             logfile = {}\n",
            folder.join("log").display()
        );
        std::fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
        let mut command = Command::new(program);
        command.arg(folder.join("pgbouncer.ini")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if is_root(&folder) {
            std::os::unix::fs::chown(&folder, Some(NOBODY), None).unwrap();
            command.uid(NOBODY);
        }
        let url = format!("postgres://postgres@127.0.0.1:{own}/{name}");
        Some(Self { url, process: command.spawn().unwrap(), folder })
    }
}

fn is_root(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).unwrap().uid() == 0
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _waited = self.process.wait();
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

fn config(bouncer: &Bouncer, database: &Database) -> Config {
    let mut config = Config::new(&bouncer.url);
    config.direct = Some(database.url.clone());
    config.notify = false;
    config.cache.prepared = false;
    config.cache.listen = Listen::Off;
    config
}

fn namespaces() -> Selection {
    let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
    Selection { kind: NAMESPACES, namespace: None, labels, fields }
}

#[tokio::test]
async fn the_store_runs_through_a_pool_of_transactions() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let Some(bouncer) = Bouncer::start(&database) else {
        eprintln!("skipped: there is no pgbouncer");
        return;
    };
    let kit = Kit::with(config(&bouncer, &database), database.clone()).await;
    let other = Kit::with(config(&bouncer, &database), database.clone()).await;
    kit.until("the cache is filled", || kit.store.synced() && other.store.synced()).await;
    kit.create(Object::project("p", "", "c1: cpu=10")).await.unwrap();
    let query = WatchQuery { selection: namespaces(), from: WatchFrom::State(At::Latest) };
    let mut watch = other.store.watch(&other.access, &query).await.unwrap();

    let creating = (0..64).map(|n| {
        let kit = if n % 2 == 0 { &kit } else { &other };
        kit.create(Object::namespace("p", &format!("n{n}"), "c1: cpu=1"))
    });
    let made = futures_util::future::join_all(creating).await;
    let (made, denied): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 10);
    assert!(denied.into_iter().all(|denied| refused(denied).len() == 1));
    let mut made: Vec<Object> = made.into_iter().map(Result::unwrap).collect();
    made.sort_by_key(|object| object.revision);
    let more = Object::namespace("p", "more", "c1: cpu=1").create();
    assert!(matches!(kit.store.check(&kit.access, more).await, Err(Error::Refused(_))));

    let mut seen: Vec<Revision> = Vec::new();
    while seen.len() < made.len() {
        let item = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.unwrap().unwrap();
        if let WatchItem::Event { op, entry, .. } = item {
            assert_eq!(op, Op::Added);
            seen.push(entry.revision);
        }
    }
    assert_eq!(seen, made.iter().map(|object| object.revision).collect::<Vec<_>>());
    let list = ListQuery { selection: namespaces(), at: At::Latest, limit: None, continue_token: None };
    assert_eq!(other.store.list(&other.access, &list).await.unwrap().items.len(), 10);
    let smaller = kit.update(&made[0], |object| object.locked = true).await.unwrap();
    let read = other.store.get(&other.access, &smaller.key(), At::Latest).await.unwrap();
    assert_eq!(read.revision, smaller.revision);
    kit.check().await;
    kit.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn no_write_is_lost_or_made_twice_when_the_pools_sessions_die() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let Some(bouncer) = Bouncer::start(&database) else {
        eprintln!("skipped: there is no pgbouncer");
        return;
    };
    let kit = Kit::with(config(&bouncer, &database), database).await;
    let ended = Cell::new(false);
    let writing = (0..8).map(|writer| {
        let (kit, ended) = (&kit, &ended);
        async move {
            let (mut sure, mut unsure) = (Vec::new(), 0);
            for n in 0.. {
                if ended.get() {
                    break;
                }
                match kit.create(Object::note(&format!("w{writer}-{n}"))).await {
                    Ok(object) => sure.push(object),
                    Err(Error::Unknown) => unsure += 1,
                    Err(Error::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(other) => panic!("{other:?}"),
                }
            }
            (sure, unsure)
        }
    });
    let mut sql = kit.sql().await;
    let killing = async {
        let begun = Instant::now();
        let mut killed = 0;
        // A slow machine takes longer for as many.
        while begun.elapsed() < KILLING || (killed <= 10 && begun.elapsed() < KILLING * 10) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
                 AND datname = current_database() ORDER BY random() LIMIT 1";
            killed += sqlx::query(kill).execute(&mut sql).await.unwrap().rows_affected();
        }
        ended.set(true);
        killed
    };
    let (results, killed) = tokio::join!(futures_util::future::join_all(writing), killing);
    let stored: Vec<String> =
        sqlx::query_scalar("SELECT name FROM objects").fetch_all(&mut kit.sql().await).await.unwrap();
    let unsure: usize = results.iter().map(|(_, unsure)| unsure).sum();
    let sure: Vec<&Object> = results.iter().flat_map(|(sure, _)| sure).collect();
    assert!(killed > 10 && !sure.is_empty(), "{killed} killed, {} made", sure.len());
    for object in &sure {
        assert!(stored.contains(&object.name), "{} is lost", object.name);
    }
    assert!(
        stored.len() <= sure.len() + unsure,
        "{} stored, {} sure, {unsure} unsure",
        stored.len(),
        sure.len()
    );
    assert_eq!(kit.events().await.len(), stored.len());
    kit.stop().await;
}
