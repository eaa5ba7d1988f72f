//! A proxy that pools by transaction: each one may run in another session than the one before it.

use crate::fixture::*;
use crate::proxy::{host, through};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use store::cache::{CacheConfig, Listen};
use store::read::{At, WatchFrom};
use store::testing::{Database, database};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

const SSL_REQUEST: u32 = 80_877_103;

type IoResult = std::io::Result<()>;

/// Runs every transaction of a client in the other one of two sessions.
struct Pooler {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl Pooler {
    async fn new(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server.to_owned();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { serve(client, &server).await });
            }
        });
        Self { address, _accepting: AbortOnDropHandle::new(accepting) }
    }
}

async fn serve(mut client: TcpStream, server: &str) -> IoResult {
    let mut startup = Vec::new();
    loop {
        startup.clear();
        let length = client.read_u32().await?;
        startup.extend(length.to_be_bytes());
        startup.resize(usize::try_from(length).unwrap(), 0);
        client.read_exact(&mut startup[4..]).await?;
        if startup[4..8] != SSL_REQUEST.to_be_bytes() {
            break;
        }
        client.write_all(b"N").await?;
    }
    let mut sessions = [TcpStream::connect(server).await?, TcpStream::connect(server).await?];
    for (number, session) in sessions.iter_mut().enumerate() {
        session.write_all(&startup).await?;
        answer(session, (number == 0).then_some(&mut client)).await?;
    }
    let mut current = 0;
    loop {
        let (kind, message) = read(&mut client).await?;
        sessions[current].write_all(&message).await?;
        if matches!(kind, b'Q' | b'S') && answer(&mut sessions[current], Some(&mut client)).await? == b'I' {
            current = 1 - current;
        }
    }
}

/// Forwards an answer to its end, and returns the state of the transaction.
async fn answer(session: &mut TcpStream, mut client: Option<&mut TcpStream>) -> std::io::Result<u8> {
    loop {
        let (kind, message) = read(session).await?;
        if let Some(client) = &mut client {
            client.write_all(&message).await?;
        }
        if kind == b'Z' {
            return Ok(message[5]);
        }
    }
}

async fn read(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await?;
    let length = stream.read_u32().await?;
    let mut message = vec![kind];
    message.extend(length.to_be_bytes());
    message.resize(usize::try_from(length).unwrap() + 1, 0);
    stream.read_exact(&mut message[5..]).await?;
    Ok((kind, message))
}

#[tokio::test]
async fn a_proxy_that_pools_by_transaction_does_no_harm() {
    let database = database().await.unwrap();
    let pooler = Pooler::new(host(&database.url)).await;
    let pooled = Database { url: through(&database.url, pooler.address) };
    let mut writer = DirectWriter::new(&database).await;
    let first = writer.put(object("x", "a", "", &json!({}))).await;
    let config = CacheConfig {
        prepared: false,
        listen: Listen::At(database.url.clone()),
        ring_changes: 1,
        ..config()
    };
    let (cache, tasks) = replica(&pooled, config.clone()).await;
    let access = everything();
    let mut old = cache.watch(&access, &watch(all(THINGS), WatchFrom::After(first))).await.unwrap();
    let mut expected = Vec::new();
    for number in 0..20 {
        let revision = writer.put(object("x", &format!("n{number}"), "", &json!({}))).await;
        assert_eq!(cache.current_revision().await.unwrap(), revision);
        expected.push(format!("ADDED x/n{number} {revision}"));
    }
    assert_eq!(lines(&mut old, 20).await, expected, "from the table of events");
    assert_eq!(cache.list(&access, &list(all(THINGS), At::Latest)).await.unwrap().items.len(), 21);
    let quick = CacheConfig {
        retention: Duration::from_millis(50),
        compact_every: Duration::from_millis(20),
        ..config
    };
    let (_compacting, more_tasks) = replica(&pooled, quick).await;
    eventually("compaction", async || {
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM events")
            .fetch_one(&mut writer.connection)
            .await
            .unwrap();
        left == 1
    })
    .await;
    assert!(cache.database_ok());
    tasks.cancel();
    more_tasks.cancel();
}

#[tokio::test]
async fn the_proxy_of_these_tests_does_forget_prepared_statements() {
    let database = database().await.unwrap();
    let pooler = Pooler::new(host(&database.url)).await;
    let pooled = Database { url: through(&database.url, pooler.address) };
    let cache = store::cache::Cache::open(&pooled.url, kinds(), config()).unwrap();
    let tasks = runtime::Tasks::new();
    cache.start(&tasks);
    eventually("trouble", async || !cache.database_ok()).await;
    tasks.cancel();
}
