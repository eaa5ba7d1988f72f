//! Servers that will do, and servers that will not.

use crate::pgbouncer::Bouncer;
use crate::restore::folder;
use std::time::{Duration, Instant};
use store::conformance::{Check, Verdict, check};
use store::testing::Server;
use store::testing::postgres::NOT_DURABLE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};

async fn tried(url: &str) -> Vec<Check> {
    check(url).await.unwrap()
}

fn named<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check {name}"))
}

/// The names with this verdict.
fn with(checks: &[Check], verdict: Verdict) -> Vec<&'static str> {
    checks.iter().filter(|check| check.verdict == verdict).map(|check| check.name).collect()
}

async fn schemas(server: &Server) -> i64 {
    let query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'store_check%'";
    sqlx::query_scalar(query).fetch_one(&mut server.admin().await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_postgresql_as_it_comes_will_do_and_nothing_is_left_in_it() {
    let server = Server::start(&[]).await.unwrap();
    let checks = tried(&server.url("postgres")).await;
    assert_eq!(with(&checks, Verdict::Broken), Vec::<&str>::new(), "{checks:#?}");
    assert_eq!(with(&checks, Verdict::Skipped), Vec::<&str>::new());
    assert_eq!(named(&checks, "synchronous standby").verdict, Verdict::Doubtful);
    for name in [
        "tells its identity",
        "row locks",
        "what waited for a row looks again",
        "snapshots",
        "NOTIFY",
        "the batch function",
    ] {
        assert_eq!(named(&checks, name).verdict, Verdict::Holds, "{:?}", named(&checks, name));
    }
    assert_eq!(schemas(&server).await, 0);
}

#[tokio::test]
async fn settings_that_lose_what_was_acknowledged_are_told() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let checks = tried(&server.url("postgres")).await;
    assert_eq!(with(&checks, Verdict::Broken), ["fsync", "full_page_writes"]);
    let commits = named(&checks, "synchronous_commit");
    assert_eq!(commits.verdict, Verdict::Doubtful, "sessions of the store set it themselves");
    assert!(commits.found.starts_with("off for everybody else"), "{}", commits.found);
    let server =
        Server::start(&["synchronous_commit=off", "default_transaction_isolation=serializable"]).await;
    let checks = tried(&server.unwrap().url("postgres")).await;
    assert_eq!(with(&checks, Verdict::Broken), Vec::<&str>::new());
    assert!(named(&checks, "isolation").found.starts_with("serializable by default"));
}

#[tokio::test]
async fn a_pool_of_transactions_is_told_from_a_server() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let database = server.database().await.unwrap();
    let Some(bouncer) = Bouncer::start(&database) else {
        eprintln!("skipped: there is no pgbouncer");
        return;
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let checks = loop {
        match check(&bouncer.url).await {
            Ok(checks) => break checks,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let sessions = named(&checks, "sessions of one's own");
    assert_eq!(sessions.verdict, Verdict::Broken);
    assert!(sessions.found.contains("pools transactions"), "{}", sessions.found);
    assert!(with(&checks, Verdict::Skipped).contains(&"the batch function"));
    assert_eq!(schemas(&server).await, 0);
}

#[tokio::test]
async fn a_standby_and_a_read_only_server_are_told() {
    let mut server = Server::start(&NOT_DURABLE).await.unwrap();
    let data = folder(&server).await;
    server.stop().unwrap();
    std::fs::write(format!("{data}/standby.signal"), "").unwrap();
    server.launch().await.unwrap();
    let checks = tried(&server.url("postgres")).await;
    assert!(named(&checks, "takes writes").found.contains("standby"), "{checks:#?}");
    assert_eq!(named(&checks, "row locks").verdict, Verdict::Skipped);
    let server = Server::start(&["default_transaction_read_only=on", "fsync=off"]).await.unwrap();
    let checks = tried(&server.url("postgres")).await;
    assert!(named(&checks, "takes writes").found.starts_with("read-only"), "{checks:#?}");
}

/// In front of a server: what either side sends is altered.
async fn before(url: &str, from_client: fn(&mut [u8]), from_server: fn(&mut [u8])) -> String {
    let (head, rest) = url.split_once("127.0.0.1:").unwrap();
    let (port, name) = rest.split_once('/').unwrap();
    let server = format!("127.0.0.1:{port}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(async move {
                let (client_says, to_client) = client.split();
                let (server_says, to_server) = server.split();
                tokio::select! {
                    () = relay(server_says, to_client, from_server) => {}
                    () = relay(client_says, to_server, from_client) => {}
                }
            });
        }
    });
    format!("{head}127.0.0.1:{own}/{name}")
}

async fn relay(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, alter: fn(&mut [u8])) {
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        alter(&mut buffer[..read]);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

fn as_it_is(_bytes: &mut [u8]) {}

/// The number in an answer of one text field: its length comes before it.
fn older(bytes: &mut [u8]) {
    for at in 4..bytes.len().saturating_sub(5) {
        let is_version = matches!(&bytes[at..at + 2], b"15" | b"17");
        if is_version && bytes[at - 4..at] == [0, 0, 0, 6] {
            bytes[at..at + 6].copy_from_slice(b"110022");
        }
    }
}

/// In their place is a setting that nobody looks at, with a name as long.
fn without_options(bytes: &mut [u8]) {
    let name = b"\0options\0";
    if let Some(at) = bytes.windows(name.len()).position(|found| found == name) {
        bytes[at..at + name.len()].copy_from_slice(b"\0o.ption\0");
    }
}

#[tokio::test]
async fn behind_a_proxy_that_drops_options_nothing_is_migrated() {
    let server = Server::start(&[]).await.unwrap();
    let checks = tried(&before(&server.url("postgres"), without_options, as_it_is).await).await;
    assert_eq!(with(&checks, Verdict::Broken), Vec::<&str>::new(), "{checks:#?}");
    assert!(named(&checks, "the schema").found.contains("drops `options`"), "{checks:#?}");
    let skipped = ["the schema", "the batch function", "the audit", "commit latency"];
    assert_eq!(with(&checks, Verdict::Skipped), skipped);
    let tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    let made: i64 = sqlx::query_scalar(tables).fetch_one(&mut server.admin().await.unwrap()).await.unwrap();
    assert_eq!(made, 0);
    assert_eq!(schemas(&server).await, 0);
}

#[tokio::test]
async fn a_server_that_is_too_old_is_told_and_not_migrated() {
    let server = Server::start(&NOT_DURABLE).await.unwrap();
    let url = before(&server.url("postgres"), as_it_is, older).await;
    let checks = tried(&url).await;
    assert!(named(&checks, "server version").found.contains("11.22 is too old"), "{checks:#?}");
    let refused = store::Store::migrate(&url).await.unwrap_err().to_string();
    assert!(refused.contains("PostgreSQL 11.22 is too old"), "{refused}");
}

#[tokio::test]
async fn a_database_that_lacks_characters_is_told_and_not_migrated() {
    let server = Server::start(&[]).await.unwrap();
    let make = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    sqlx::query(make).execute(&mut server.admin().await.unwrap()).await.unwrap();
    let url = server.url("latin");
    let checks = tried(&url).await;
    assert_eq!(with(&checks, Verdict::Broken), ["encoding", "the schema"], "{checks:#?}");
    assert!(named(&checks, "encoding").found.contains("LATIN1"), "{checks:#?}");
    let refused = store::Store::migrate(&url).await.unwrap_err().to_string();
    assert!(refused.contains("ENCODING 'UTF8'"), "{refused}");
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_identity_is_told() {
    let server = Server::start(&[]).await.unwrap();
    let plain = "CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE postgres TO plain;
         REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC";
    sqlx::raw_sql(plain).execute(&mut server.admin().await.unwrap()).await.unwrap();
    let checks = tried(&server.url("postgres").replace("postgres@", "plain@")).await;
    assert_eq!(with(&checks, Verdict::Broken), Vec::<&str>::new(), "{checks:#?}");
    assert_eq!(with(&checks, Verdict::Skipped), Vec::<&str>::new(), "{checks:#?}");
    let identity = named(&checks, "tells its identity");
    assert_eq!(identity.verdict, Verdict::Doubtful);
    assert!(identity.found.contains("audit --restored"), "{}", identity.found);
}
