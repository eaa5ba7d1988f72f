use super::client::tls;
use super::pki::{Ca, Identity};
use axum::body::Body;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const WAIT: Duration = Duration::from_secs(30);

/// A client of a WebSocket.
pub(crate) struct Socket {
    pub(crate) headers: HeaderMap,
    stream: WebSocketStream<TokioIo<Upgraded>>,
}

/// A message of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum SocketMessage {
    Event(Value),
    Pong(Vec<u8>),
    /// A close frame, with its code.
    Close(u16),
    /// The close frame that answers the client's.
    CloseReply,
    /// The connection ended without a close frame.
    Disconnected,
}

/// The server refused the upgrade: its code, headers and text.
pub(crate) type RefusedUpgrade = (u16, HeaderMap, String);

/// The headers of a valid handshake.
pub(crate) const HANDSHAKE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

impl Socket {
    /// Opens a WebSocket with the usual headers and these.
    pub(crate) async fn open(
        (address, ca, identity): (SocketAddr, &Ca, Option<&Identity>),
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, RefusedUpgrade> {
        let all: Vec<_> = HANDSHAKE.iter().chain(headers).copied().collect();
        let response = ask(address, ca, identity, path, &all).await;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (head, body) = response.into_parts();
            let text = body.collect().await.unwrap().to_bytes();
            return Err((head.status.as_u16(), head.headers, String::from_utf8_lossy(&text).into_owned()));
        }
        let headers = response.headers().clone();
        assert_eq!(headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(
            (&headers["upgrade"], &headers["connection"]),
            (&"websocket".parse().unwrap(), &"Upgrade".parse().unwrap())
        );
        let upgraded = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
        Ok(Self { headers, stream })
    }

    pub(crate) async fn next(&mut self) -> SocketMessage {
        let message = tokio::time::timeout(WAIT, self.stream.next()).await.unwrap();
        match message {
            Some(Ok(Message::Text(text))) => SocketMessage::Event(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Binary(event))) => {
                SocketMessage::Event(meta::protobuf::decode_event(&event).unwrap())
            }
            Some(Ok(Message::Pong(bytes))) => SocketMessage::Pong(bytes.to_vec()),
            Some(Ok(Message::Close(Some(frame)))) => SocketMessage::Close(frame.code.into()),
            Some(Ok(Message::Close(None))) => SocketMessage::CloseReply,
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => SocketMessage::Disconnected,
        }
    }

    pub(crate) async fn send_message(&mut self, message: Message) {
        self.stream.send(message).await.unwrap();
    }
}

/// Sends a GET over HTTP/1.1 on a new connection.
pub(crate) async fn ask(
    address: SocketAddr,
    ca: &Ca,
    identity: Option<&Identity>,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Incoming> {
    let stream = tls(address, ca, identity, "http/1.1").await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::get(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    sender.send_request(request.body(Body::empty()).unwrap()).await.unwrap()
}
