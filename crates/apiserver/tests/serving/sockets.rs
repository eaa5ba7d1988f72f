#![expect(clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use crate::support::served::Served;
use crate::support::socket::{HANDSHAKE, Socket, SocketMessage, ask};
use crate::support::{WIDGETS, World, few, until};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

fn watch() -> String {
    format!("{WIDGETS}?watch=1")
}

#[tokio::test]
async fn a_watch_speaks_text_answers_pings_and_ends_with_the_server() {
    let mut world = World::start().await;
    let master = world.master();
    let to = (world.address, &world.serving_ca, Some(&master));
    let mut socket = Socket::open(to, &watch(), &[("audit-id", "mine")]).await.unwrap();
    assert_eq!(socket.headers["audit-id"], "mine");
    assert!(!socket.headers.contains_key("sec-websocket-protocol"));
    assert_eq!(socket.next().await, SocketMessage::Event(json!({"type": "ADDED"})));
    socket.send_message(Message::Text("nobody listens".into())).await;
    socket.send_message(Message::Ping("there?".into())).await;
    assert_eq!(socket.next().await, SocketMessage::Pong(b"there?".to_vec()));
    let metrics = world.metrics().await;
    assert!(metrics.contains("apiserver_longrunning_requests 1"), "{metrics}");

    world.tasks.cancel();
    assert_eq!(
        socket.next().await,
        SocketMessage::Event(json!({"type": "BOOKMARK"})),
        "what was due is still said"
    );
    assert_eq!(socket.next().await, SocketMessage::Close(1001), "going away");
    assert_eq!(socket.next().await, SocketMessage::Disconnected);
    (&mut world.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_closes_gives_its_place_back() {
    let world = World::start_with(|settings| settings.limits = few(1)).await;
    let token = format!("Bearer {}", world.signer.token(|_| {}));
    let to = (world.address, &world.serving_ca, None);
    let credentials = [("authorization", token.as_str())];
    let mut first = Socket::open(to, &watch(), &credentials).await.unwrap();
    let (code, headers, _) = Socket::open(to, &watch(), &credentials).await.err().unwrap();
    assert_eq!((code, headers["retry-after"].as_bytes()), (429, b"1".as_slice()));
    first.send_message(Message::Close(None)).await;
    until("the place is free", async || Socket::open(to, &watch(), &credentials).await.is_ok()).await;
    assert_eq!(first.next().await, SocketMessage::Event(json!({"type": "ADDED"})));
    assert_eq!(first.next().await, SocketMessage::CloseReply);
    assert_eq!(first.next().await, SocketMessage::Disconnected);
    // The second one ended without a close frame.
    until("both are gone", async || world.metrics().await.contains("apiserver_longrunning_requests 0")).await;
}

#[tokio::test]
async fn the_sockets_of_one_user_make_room_as_his_connections_do() {
    let world = World::start_with(|settings| {
        settings.connections = 16;
        settings.unauthenticated_connections = 4;
    })
    .await;
    let (master, aggregator) = (world.master(), world.aggregator());
    let token = format!("Bearer {}", world.signer.token(|_| {}));
    let direct = [("authorization", token.as_str())];
    let through_proxy =
        [("x-remote-user", "jane"), ("x-remote-group", "tenant-admins"), ("x-remote-extra-tenantid", "acme")];
    for (identity, credentials) in [(None, direct.as_slice()), (Some(&aggregator), &through_proxy)] {
        let mut sockets = Vec::new();
        let watch = watch();
        for number in 0..24 {
            let opened = Socket::open((world.address, &world.serving_ca, identity), &watch, credentials);
            let opened = tokio::time::timeout(Duration::from_secs(30), opened).await;
            let Ok(Ok(socket)) = opened else { panic!("no place for number {number}") };
            sockets.push(socket);
        }
        let (mut first, mut last) = (sockets.swap_remove(0), sockets.pop().unwrap());
        assert_eq!(first.next().await, SocketMessage::Event(json!({"type": "ADDED"})));
        assert_eq!(first.next().await, SocketMessage::Disconnected, "it made room");
        assert_eq!(last.next().await, SocketMessage::Event(json!({"type": "ADDED"})));
        last.send_message(Message::Ping("there?".into())).await;
        assert_eq!(last.next().await, SocketMessage::Pong(b"there?".to_vec()));
        let other = Socket::open((world.address, &world.serving_ca, Some(&master)), &watch, &[]).await;
        assert!(other.is_ok(), "another one's");
    }
}

#[tokio::test]
async fn what_is_no_handshake_is_answered_over_http() {
    let world = World::start().await;
    let (address, ca, master) = (world.address, &world.serving_ca, world.master());
    let code = async |path: &str, change: (&str, Option<&str>)| {
        let headers = HANDSHAKE.iter().filter(|(name, _)| *name != change.0).copied();
        let headers: Vec<_> = headers.chain(change.1.map(|value| (change.0, value))).collect();
        let response = ask(address, ca, Some(&master), path, &headers).await;
        let (head, body) = response.into_parts();
        if head.status == 400 {
            assert_eq!(head.headers["sec-websocket-version"], "13", "{change:?}");
            let status: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            assert_eq!(status["reason"], "BadRequest");
        }
        head.status.as_u16()
    };
    let path = watch();
    for (change, want) in [
        (("accept", Some("application/json")), 101),
        (("connection", Some("keep-alive, UPGRADE")), 101),
        (("sec-websocket-protocol", Some("base64.binary.k8s.io")), 101),
        (("origin", Some("https://localhost")), 101),
        (("sec-websocket-version", Some("8")), 400),
        (("sec-websocket-version", None), 400),
        (("sec-websocket-key", None), 400),
        (("sec-websocket-protocol", Some("a, b")), 400),
        (("origin", Some("https://evil.example.io")), 403),
        (("origin", Some("null")), 403),
        (("connection", None), 200),
        (("upgrade", Some("h2c")), 200),
    ] {
        assert_eq!(code(&path, change).await, want, "{change:?}");
    }
    assert_eq!(code(WIDGETS, ("accept", Some("*/*"))).await, 200, "only watches go on over a socket");
    let (refused, _, text) = Socket::open((address, ca, None), &path, &[]).await.err().unwrap();
    assert_eq!(refused, 403, "{text}");
    let echoed =
        Socket::open((address, ca, Some(&master)), &path, &[("sec-websocket-protocol", "json.k8s.io")]).await;
    assert_eq!(echoed.unwrap().headers["sec-websocket-protocol"], "json.k8s.io");
}

#[tokio::test]
async fn a_page_brings_its_token_among_the_subprotocols() {
    let world = World::start().await;
    let to = (world.address, &world.serving_ca, None);
    let encoded = |token: &str| {
        format!("base64url.bearer.authorization.k8s.io.{}", BASE64_URL_SAFE_NO_PAD.encode(token))
    };
    let good = encoded(&world.signer.token(|_| {}));
    let expired = encoded(&world.signer.token(|claims| claims["exp"] = json!(1)));
    let open = async |protocols: &str| {
        let headers = [("sec-websocket-protocol", protocols), ("origin", "https://console.example.io")];
        Socket::open(to, &watch(), &headers).await.map_err(|(code, ..)| code)
    };
    let mut socket = open(&format!("{good}, json.k8s.io")).await.ok().unwrap();
    assert_eq!(socket.headers["sec-websocket-protocol"], "json.k8s.io", "the token is not echoed");
    assert_eq!(socket.next().await, SocketMessage::Event(json!({"type": "ADDED"})));
    for bad in [good.clone(), format!("{expired}, json.k8s.io"), format!("{good}, {good}, json.k8s.io")] {
        assert_eq!(open(&bad).await.err(), Some(401));
    }
    let plain = world.get(None, &[("sec-websocket-protocol", &format!("{good}, json.k8s.io"))]).await;
    assert_eq!(plain.code, 403, "not without a handshake");
}

#[tokio::test]
async fn a_stream_that_panics_is_cut_and_counted_whatever_it_runs_over() {
    let world = World::start().await;
    let (address, ca, master) = (world.address, &world.serving_ca, world.master());
    let path = format!("{}&fieldSelector=metadata.name%3Dbroken", watch());
    let mut socket = Socket::open((address, ca, Some(&master)), &path, &[]).await.unwrap();
    assert_eq!(socket.next().await, SocketMessage::Event(json!({"type": "ADDED"})));
    assert_eq!(socket.next().await, SocketMessage::Close(1011), "an internal error");
    let chunked = ask(address, ca, Some(&master), &path, &[]).await;
    assert_eq!(chunked.status(), 200);
    assert!(chunked.into_body().collect().await.is_err(), "not a clean end");
    assert!(world.metrics().await.contains("apiserver_panics_total 2"));
}

fn brief(said: SocketMessage) -> (String, String) {
    let SocketMessage::Event(event) = said else { panic!("{said:?}") };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

#[tokio::test]
async fn a_real_watch_tells_what_the_chunked_one_tells() {
    let mut served = Served::start().await;
    served.create("a").await;
    let informer = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut socket = served.open(informer).await.unwrap();
    assert_eq!(brief(socket.next().await), ("ADDED".to_owned(), "a".to_owned()));
    assert_eq!(brief(socket.next().await).0, "BOOKMARK");
    served.create("b").await;
    assert_eq!(brief(socket.next().await), ("ADDED".to_owned(), "b".to_owned()));

    let mut short = served
        .open("timeoutSeconds=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
        .await
        .unwrap();
    assert_eq!(short.next().await, SocketMessage::Close(1000), "its time is over");
    assert_eq!(short.next().await, SocketMessage::Disconnected);

    let mut future = served.open(&format!("{informer}&resourceVersion=999999999")).await.unwrap();
    assert_eq!(brief(future.next().await).0, "ERROR");
    assert_eq!(future.next().await, SocketMessage::Close(1000));

    let (code, ..) = served.open("sendInitialEvents=true").await.err().unwrap();
    assert_eq!(code, 422, "parameters are refused over HTTP");

    served.tasks.cancel();
    assert_eq!(socket.next().await, SocketMessage::Close(1001), "the server goes away");
    (&mut served.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn metadata_comes_in_protobuf_one_binary_message_an_event() {
    let served = Served::start().await;
    served.create("a").await;
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut socket = served.open_with("resourceVersion=0", &[("accept", accept)]).await.unwrap();
    let SocketMessage::Event(event) = socket.next().await else { panic!("no event") };
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    served.create("b").await;
    assert_eq!(brief(socket.next().await), ("ADDED".to_owned(), "b".to_owned()));
}

#[tokio::test]
async fn many_events_at_once_all_come_in_order() {
    let served = Served::start().await;
    for number in 0..200 {
        served.create(&format!("w-{number:03}")).await;
    }
    let mut socket = served.open("resourceVersion=0").await.unwrap();
    for number in 0..200 {
        assert_eq!(brief(socket.next().await), ("ADDED".to_owned(), format!("w-{number:03}")));
    }
}
