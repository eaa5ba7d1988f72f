//! A replica that reads from a standby, or cannot read, learns late of what others write.

use crate::support::{World, member_cluster, namespace, namespaces, project, until};
use rcgen::KeyPair;
use serde_json::json;
use store::testing::{Database, Server};

/// PostgreSQL with a standby, and a replica that reads from the primary.
struct Pair {
    primary: Server,
    standby: Server,
    database: Database,
    /// The flag of a replica that reads from the standby.
    read_from: String,
    direct: World,
}

impl Pair {
    async fn start() -> Self {
        let mut primary = Server::start(&["fsync=off"]).await.unwrap();
        let database = primary.database().await.unwrap();
        let standby = primary.standby(&["fsync=off"]).await.unwrap();
        let read_from = format!("--read-from={}", standby.url(database.url.rsplit_once('/').unwrap().1));
        let direct = World::started(database.clone(), &["--tenant-grant"]).await;
        direct.until_ready().await;
        Self { primary, standby, database, read_from, direct }
    }
}

#[tokio::test]
async fn who_was_removed_writes_nothing_through_a_standby_that_stands_still() {
    let Pair { primary: _primary, standby, database, read_from, direct } = Pair::start().await;
    let file = std::env::temp_dir().join(format!("registry-key-{}", uuid::Uuid::new_v4()));
    std::fs::write(&file, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let key = format!("--registry-token-key-file={}", file.display());
    let late = World::started(database, &["--tenant-grant", &read_from, &key]).await;
    late.until_ready().await;
    let mut web = project("web", json!({"pods": "1"}));
    web["spec"]["members"] = json!(["alice"]);
    direct.admin("acme").post("/projects", web).await.expect(201);
    let alice = late.member("alice", "acme");
    let rehearsal = format!("{}?dryRun=All", namespaces("web"));
    let write = async || alice.post(&rehearsal, namespace("app", json!({"pods": "1"}))).await;
    until("she may write", async || write().await.code == 201).await;
    let pull =
        async || alice.get("/registry/token?service=registry&scope=repository:acme/shop/app:pull").await;
    until("she may pull", async || pull().await.code == 200).await;

    let mut replay = standby.admin().await.unwrap();
    sqlx::raw_sql("SELECT pg_wal_replay_pause()").execute(&mut replay).await.unwrap();
    let removed = json!({"spec": {"members": []}});
    direct.admin("acme").patch("/projects/web", removed).await.expect(200);
    until("what is known is too old", async || write().await.code == 503).await;
    let refused = write().await;
    assert!(refused.message().starts_with("who may do what: "), "{refused:?}");
    assert_eq!(pull().await.code, 503);
    assert_eq!(alice.get("/projects/web?resourceVersion=0").await.code, 200, "what is read may be old");
    assert_ne!(late.operator().get("/readyz/standby").await.code, 200);
    assert_eq!(direct.operator().get("/readyz/standby").await.code, 200);
    let probe = late.operator().get("/readyz?exclude=postgres&exclude=standby").await;
    assert_eq!(probe.code, 200, "discovery and operators need it as long as it is all there is");

    sqlx::raw_sql("SELECT pg_wal_replay_resume()").execute(&mut replay).await.unwrap();
    until("her removal is known", async || [403, 404].contains(&write().await.code)).await;
    until("it is ready again", async || late.operator().get("/readyz").await.code == 200).await;
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn a_cluster_that_was_just_registered_is_known_before_a_namespace_in_it_is_refused() {
    let Pair { primary: _primary, standby, database, read_from, direct } = Pair::start().await;
    let late = World::started(database, &["--tenant-grant", &read_from]).await;
    late.until_ready().await;
    for world in [&late, &direct] {
        world.register(member_cluster("c1", &["*"]), json!({})).await;
    }
    let (admin, path) = (late.admin("acme"), namespaces("web"));
    admin.post("/projects", project("web", json!({"pods": "1"}))).await.expect(201);
    until("the project is known", async || admin.get("/projects/web?resourceVersion=0").await.code == 200)
        .await;

    let mut replay = standby.admin().await.unwrap();
    sqlx::raw_sql("SELECT pg_wal_replay_pause()").execute(&mut replay).await.unwrap();
    direct.register(member_cluster("c2", &["*"]), json!({})).await;
    let listed = json!({"spec": {"clusters": {"c2": {"hard": {"pods": "1"}}}}});
    direct.admin("acme").patch("/projects/web", listed).await.expect(200);
    let mut app = namespace("app", json!({"pods": "1"}));
    app["spec"]["clusterName"] = json!("c2");
    let resume = async {
        until("the namespace waits for the cluster", async || late.metric("store_reads_waiting") > 0.0).await;
        sqlx::raw_sql("SELECT pg_wal_replay_resume()").execute(&mut replay).await.unwrap();
    };
    let (made, ()) = tokio::join!(admin.post(&path, app), resume);
    made.expect(201);
}

/// What is read comes over another connection than what is written, without a standby, too.
#[tokio::test]
async fn a_replica_whose_reader_stands_still_says_so_although_its_writer_is_well() {
    let database = store::testing::database().await.unwrap();
    let world = World::started(database.clone(), &["--tenant-grant"]).await;
    world.until_ready().await;
    let operator = world.operator();
    let check = async |name: &str| operator.get(&format!("/readyz/{name}")).await.code;
    assert_eq!(check("standby").await, 200);
    let mut sql = database.connect().await.unwrap();
    let lock =
        "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut sql).await.unwrap();
    until("it is told", async || check("standby").await != 200).await;
    assert_eq!(check("postgres").await, 200);
    sqlx::raw_sql("ROLLBACK").execute(&mut sql).await.unwrap();
    until("it reads again", async || check("standby").await == 200).await;
}
