use crate::support::client::{Client, tls};
use crate::support::{WIDGETS, World};
use http::Method;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_panic_is_one_requests_500_and_is_counted() {
    let world = World::start().await;
    let mut client = world.client(Some(&world.master())).await;
    let answer = client.send(Method::GET, &format!("{WIDGETS}/panic"), &[]).await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.message().ends_with("This request caused apiserver to panic. Look in the logs for details.")
    );
    assert_eq!(client.send(Method::GET, WIDGETS, &[]).await.code, 200, "the connection lives on");
    assert!(world.metrics().await.contains("apiserver_panics_total 1"));
}

#[tokio::test]
async fn both_http_versions_are_served_and_every_answer_has_an_audit_id() {
    let world = World::start().await;
    for protocol in ["http/1.1", "h2"] {
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        let answer = client.send(Method::GET, WIDGETS, &[("audit-id", "mine")]).await;
        assert_eq!((answer.code, answer.headers["audit-id"].as_bytes()), (200, b"mine".as_slice()));
        assert_eq!(answer.headers["cache-control"], "no-cache, private");
        let answer = client.send(Method::GET, "/apis/example.io/v1/namespaces/x", &[]).await;
        assert_eq!((answer.code, answer.headers["audit-id"].len()), (404, 36));
        let long = "x".repeat(300);
        let answer = client.send(Method::GET, WIDGETS, &[("audit-id", &long)]).await;
        assert_eq!(answer.headers["audit-id"].len(), 36);
    }
}

#[tokio::test]
async fn heads_and_urls_beyond_their_limits_are_refused() {
    let world = World::start().await;
    let big = "x".repeat(300 * 1024);
    for protocol in ["http/1.1", "h2"] {
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        match client.try_send(Method::GET, WIDGETS, &[("x-big", &big)]).await {
            Ok(answer) => assert_eq!(answer.code, 431, "{protocol}"),
            Err(error) => assert!(!error.is_user(), "{protocol}: {error}"),
        }
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        let url = format!("{WIDGETS}?labelSelector={}", "x".repeat(33 * 1024));
        assert_eq!(client.send(Method::GET, &url, &[]).await.code, 414, "{protocol}");
    }
    assert_eq!(world.get(Some(&world.master()), &[]).await.code, 200);
}

#[tokio::test]
async fn the_order_of_refusals_is_kubernetes() {
    let world = World::start().await;
    let mut client = world.client(None).await;
    let bad = [("authorization", "Bearer x")];
    assert_eq!(client.send(Method::GET, "/apis/example.io/v1/namespaces/x", &bad).await.code, 401);
    assert_eq!(client.send(Method::GET, WIDGETS, &[]).await.code, 403);
    let unauthorized = client.send(Method::GET, WIDGETS, &bad).await.json();
    let want = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(unauthorized, want);
}

#[tokio::test]
async fn probes_are_open_to_all_and_the_rest_is_not() {
    let world = World::start().await;
    let mut client = world.client(None).await;
    for (path, code) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz?verbose", 200),
        ("/readyz?exclude=nothing", 200),
        ("/readyz/ping", 403),
        ("/version", 403),
        ("/metrics", 403),
        ("/apis", 403),
    ] {
        assert_eq!(client.send(Method::GET, path, &[]).await.code, code, "{path}");
    }
    assert_eq!(client.send(Method::GET, "/readyz?verbose", &[]).await.text, "ok");
    let mut master = world.client(Some(&world.master())).await;
    let verbose = master.send(Method::GET, "/readyz?verbose", &[]).await;
    assert!(verbose.text.contains("[+]extension-apiserver-authentication ok\n"), "{}", verbose.text);
    assert!(verbose.text.ends_with("readyz check passed\n"));
    assert_eq!(master.send(Method::GET, "/readyz/shutdown", &[]).await.text, "ok");
    let version = master.send(Method::GET, "/version", &[]).await.json();
    let text = |field: &str| version[field].as_str().unwrap().to_owned();
    let ours = format!("v{}.{}.0+tke-business-{}", text("major"), text("minor"), env!("CARGO_PKG_VERSION"));
    assert_eq!(text("gitVersion"), ours);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    [[a, b, c, kind, flags].as_slice(), stream.to_be_bytes().as_slice(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads a frame of HTTP/2: its kind, its flags and its stream.
async fn read_frame(connection: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    connection.read_exact(&mut payload).await?;
    Ok((kind, flags, u32::from_be_bytes(stream)))
}

#[tokio::test]
async fn requests_that_are_cancelled_at_once_do_not_end_their_connection() {
    const LAST: u32 = 201;
    /// `GET https://localhost/`
    const REQUEST: &[u8] = b"\x82\x87\x84\x01\x09localhost";
    const CANCEL: &[u8] = &[0, 0, 0, 8];
    let world = World::start().await;
    let mut connection = tls(world.address, &world.serving_ca, Some(&world.master()), "h2").await.unwrap();
    let mut frames = PREFACE.to_vec();
    frames.extend(frame(SETTINGS, 0, 0, &[]));
    for stream in (1..LAST).step_by(2) {
        frames.extend(frame(HEADERS, 5, stream, REQUEST));
        frames.extend(frame(RST_STREAM, 0, stream, CANCEL));
    }
    frames.extend(frame(HEADERS, 5, LAST, REQUEST));
    connection.write_all(&frames).await.unwrap();
    connection.flush().await.unwrap();
    let answered = async {
        loop {
            let (kind, _flags, stream) = read_frame(&mut connection).await.expect("the connection lives on");
            if (kind, stream) == (HEADERS, LAST) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), answered).await.expect("an answer in time");
}

#[tokio::test]
async fn bodies_that_come_behind_their_refusal_do_not_end_their_connection() {
    const END_STREAM: u8 = 1;
    const LAST: u32 = 201;
    /// `POST https://localhost/`, whose body follows.
    const REFUSED: &[u8] = b"\x83\x87\x84\x01\x09localhost";
    const REQUEST: &[u8] = b"\x82\x87\x84\x01\x09localhost";
    let world = World::start().await;
    let mut connection = tls(world.address, &world.serving_ca, Some(&world.master()), "h2").await.unwrap();
    let mut frames = PREFACE.to_vec();
    frames.extend(frame(SETTINGS, 0, 0, &[]));
    for stream in (1..LAST).step_by(2) {
        frames.extend(frame(HEADERS, 4, stream, REFUSED));
    }
    connection.write_all(&frames).await.unwrap();
    let exchanged = async {
        let mut answered = 0;
        while answered < LAST / 2 {
            let (kind, flags, _stream) = read_frame(&mut connection).await.expect("the connection lives on");
            let has_ended = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
            answered += u32::from(has_ended);
        }
        // More than the 1024 errors that end a connection, if only the streams that h2 remembers do not count.
        for _ in 0..40 {
            let data = (1..LAST).step_by(2).flat_map(|stream| frame(DATA, 0, stream, &[b'x'; 300]));
            connection.write_all(&data.collect::<Vec<u8>>()).await.unwrap();
            connection.flush().await.unwrap();
            // So that the server does not read all of it at once.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        connection.write_all(&frame(HEADERS, 5, LAST, REQUEST)).await.unwrap();
        connection.flush().await.unwrap();
        loop {
            let (kind, _flags, stream) = read_frame(&mut connection).await.expect("the connection lives on");
            if (kind, stream) == (HEADERS, LAST) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), exchanged).await.expect("an answer in time");
}
