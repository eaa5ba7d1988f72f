//! A watch over a WebSocket (RFC 6455), over HTTP/1.1, with one event per message. The events are those of the chunked
//! stream; only their framing differs.

use super::CLIENT_STALL_TIMEOUT;
use crate::authn::subprotocol;
use crate::caller::{Caller, Via};
use crate::response::PROTOBUF_STREAM;
use axum::body::{Body, Bytes};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Buf;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use meta::status::Status;
use sha1::{Digest, Sha1};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

/// The only version of the WebSocket protocol.
pub(super) const VERSION: HeaderValue = HeaderValue::from_static("13");
/// The text that every server appends to the client's key (RFC 6455).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Largest message of a client, which has nothing to send but pings and a close message.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// Events are buffered up to this size while more are ready.
const WRITE_BUFFER: usize = 64 * 1024;
/// How long the closing handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection does after its upgrade, if it was upgraded.
#[derive(Default)]
pub(super) struct UpgradedSession(Mutex<Option<BoxFuture<'static, ()>>>);

impl UpgradedSession {
    pub(super) fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, session: BoxFuture<'static, ()>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }
}

/// A valid upgrade request.
pub(super) struct Upgrade {
    connection: OnUpgrade,
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
}

impl Upgrade {
    /// The upgrade that a watch requests. Call it for watches only: other requests are never upgraded, as in Go.
    pub(super) fn from_request(
        request: &mut Request<Body>,
        caller: &Caller,
    ) -> Result<Option<Box<Self>>, Status> {
        let headers = request.headers();
        if request.version() != Version::HTTP_11 || !subprotocol::is_websocket(headers) {
            return Ok(None);
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
            return Err(Status::bad_request("missing or bad WebSocket Version"));
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
            return Err(Status::bad_request("mismatch challenge/response"));
        };
        let accept = accept(key.as_bytes());
        check_origin(headers, caller)?;
        let protocol = protocol(headers)?;
        Ok(Some(Box::new(Self { connection: hyper::upgrade::on(request), accept, protocol })))
    }

    /// Replaces the response to a watch by that to the handshake. The body of the watch is sent after the upgrade.
    pub(super) fn accept(
        self,
        response: Response<Body>,
        upgraded_session: &UpgradedSession,
        draining: CancellationToken,
    ) -> Response<Body> {
        let protobuf = response.headers().get(header::CONTENT_TYPE).is_some_and(|ty| ty == PROTOBUF_STREAM);
        let take = if protobuf { take_binary } else { take_text };
        let session = session(self.connection, response.into_body(), take, draining);
        upgraded_session.set(session.boxed());
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

fn accept(key: &[u8]) -> HeaderValue {
    let digest = Sha1::new_with_prefix(key).chain_update(KEY_SUFFIX).finalize();
    HeaderValue::try_from(BASE64_STANDARD.encode(digest)).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The subprotocol for the response. This server knows none, so it cannot choose between several.
fn protocol(headers: &HeaderMap) -> Result<Option<HeaderValue>, Status> {
    let offered: Vec<&str> = subprotocol::offered(headers).collect();
    match offered.as_slice() {
        [] => Ok(None),
        [one] => {
            HeaderValue::try_from(*one).map(Some).map_err(|error| Status::bad_request(error.to_string()))
        }
        several => Err(Status::bad_request(format!(
            "a watch has no subprotocols to choose from: offer one at most, not {}",
            several.join(", ")
        ))),
    }
}

/// Checks the origin of the web page that opens the socket. A browser sends its client certificate whatever the page
/// is, so a caller with a certificate must come from a page of this server. A token, however, was sent by the page
/// itself. Clients that are not browsers send no origin.
fn check_origin(headers: &HeaderMap, caller: &Caller) -> Result<(), Status> {
    let Some(value) = headers.get(header::ORIGIN) else { return Ok(()) };
    let refused = |why: &str| Err(Status::failure(403, "Forbidden", format!("forbidden: {why}")));
    let origin = value.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    let Some((Some(_scheme), Some(origin))) = origin.as_ref().map(|uri| (uri.scheme(), uri.authority()))
    else {
        return refused("the origin is no URL");
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let without_port = |name: &str| name.strip_suffix(":443").unwrap_or(name).to_ascii_lowercase();
    let by_certificate = matches!(caller.via, Via::Certificate | Via::Impersonation);
    if by_certificate && without_port(origin.as_str()) != without_port(host) {
        return refused("a page of another origin may not use the browser's certificate");
    }
    Ok(())
}

/// Sends the events of a watch until the watch ends or the client leaves.
async fn session(connection: OnUpgrade, events: Body, take: TakeEvent, draining: CancellationToken) {
    let upgraded = match connection.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "the connection was not handed over"),
    };
    let config = WebSocketConfig::default()
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT));
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let close_code = match send_events(&mut socket, events, take).await {
        SessionEnd::ClientGone => None,
        SessionEnd::StreamFailed => Some(CloseCode::Error),
        // The code tells the client to connect to another server.
        SessionEnd::Completed if draining.is_cancelled() => Some(CloseCode::Away),
        SessionEnd::Completed => Some(CloseCode::Normal),
    };
    if timeout(CLOSE_TIMEOUT, close(socket, close_code)).await.is_err() {
        tracing::debug!("a client did not agree to the end of its watch");
    }
}

enum SessionEnd {
    /// All events were sent.
    Completed,
    /// The stream of events failed.
    StreamFailed,
    /// The client has left, or reads nothing.
    ClientGone,
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn send_events(socket: &mut Socket, events: Body, take: TakeEvent) -> SessionEnd {
    let mut chunks = events.into_data_stream();
    let mut next_chunk = None;
    loop {
        let chunk = if let Some(chunk) = next_chunk.take() {
            chunk
        } else {
            if !matches!(timeout(CLIENT_STALL_TIMEOUT, socket.flush()).await, Ok(Ok(()))) {
                return SessionEnd::ClientGone;
            }
            tokio::select! {
                chunk = chunks.next() => chunk,
                // The library answers pings. Other messages of the client are ignored.
                message = socket.next() => match message {
                    None | Some(Err(_) | Ok(Message::Close(_))) => return SessionEnd::ClientGone,
                    Some(Ok(_)) => continue,
                },
            }
        };
        let mut events = match chunk {
            None => return SessionEnd::Completed,
            Some(Ok(events)) => events,
            Some(Err(_)) => return SessionEnd::StreamFailed,
        };
        while !events.is_empty() {
            let message = take(&mut events);
            if !matches!(timeout(CLIENT_STALL_TIMEOUT, socket.feed(message)).await, Ok(Ok(()))) {
                return SessionEnd::ClientGone;
            }
        }
        next_chunk = chunks.next().now_or_never();
    }
}

/// Removes the first event from a chunk of the stream and returns it as a message.
type TakeEvent = fn(&mut Bytes) -> Message;

/// JSON events are text messages. In the stream each is a line.
fn take_text(events: &mut Bytes) -> Message {
    let end = events.iter().position(|byte| *byte == b'\n').map_or(events.len(), |newline| newline + 1);
    let event = events.split_to(end);
    match Utf8Bytes::try_from(event.clone()) {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(event),
    }
}

/// Protobuf events are binary messages. The length before the event is left out, since a message has one of its own.
fn take_binary(events: &mut Bytes) -> Message {
    let Ok(length) = events.try_get_u32() else { return Message::Binary(std::mem::take(events)) };
    let end = usize::try_from(length).unwrap_or(usize::MAX).min(events.len());
    Message::Binary(events.split_to(end))
}

async fn close(mut socket: Socket, code: Option<CloseCode>) {
    if let Some(code) = code {
        let frame = CloseFrame { code, reason: Utf8Bytes::default() };
        if socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    } else if let Err(error) = socket.flush().await {
        tracing::debug!(%error, "answer a client's end");
    }
    if let Err(error) = socket.get_mut().shutdown().await {
        tracing::debug!(%error, "end a connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_key_is_answered_as_the_rfcs_example() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_page_may_use_its_own_token_anywhere_and_the_browsers_certificate_at_home() {
        for (origin, via, allowed) in [
            (None, Via::Certificate, true),
            (Some("https://console.example.io"), Via::Jwt, true),
            (Some("https://API.example.io"), Via::Certificate, true),
            (Some("https://api.example.io:443"), Via::Certificate, true),
            (Some("https://api.example.io:8443"), Via::Certificate, false),
            (Some("https://evil.example.io"), Via::Certificate, false),
            (Some("https://evil.example.io"), Via::Impersonation, false),
            (Some("https://console.example.io"), Via::FrontProxy, true),
            (Some("null"), Via::Jwt, false),
            (Some("/path"), Via::Jwt, false),
        ] {
            let mut headers = headers(&[("host", "api.example.io")]);
            if let Some(origin) = origin {
                headers.insert("origin", HeaderValue::from_static(origin));
            }
            let caller = Caller { via, ..Caller::default() };
            assert_eq!(check_origin(&headers, &caller).is_ok(), allowed, "{origin:?} {via:?}");
        }
    }

    #[test]
    fn an_event_in_protobuf_is_a_binary_message_without_the_length_before_it() {
        let frame = meta::protobuf::event_frame("ADDED", |object| object.text(1, "x")).freeze();
        assert_eq!(frame.first_chunk(), Some(&14_u32.to_be_bytes()));
        let mut two = Bytes::from([&*frame, &*frame].concat());
        assert_eq!(take_binary(&mut two), Message::Binary(frame.slice(4..)));
        assert_eq!(take_binary(&mut two), Message::Binary(frame.slice(4..)));
        assert!(two.is_empty());
        for broken in [&b"abc"[..], b"\0\0\0\x09abc"] {
            let mut events = Bytes::from_static(broken);
            take_binary(&mut events);
            assert!(events.is_empty());
        }
    }

    #[test]
    fn events_in_json_are_a_message_each() {
        let mut events = Bytes::from_static(b"{\"n\":1}\n{\"n\":2}\n");
        assert_eq!(take_text(&mut events), Message::text("{\"n\":1}\n"));
        assert_eq!(take_text(&mut events), Message::text("{\"n\":2}\n"));
        assert!(events.is_empty());
    }

    #[test]
    fn one_subprotocol_is_echoed_and_several_are_refused() {
        assert_eq!(protocol(&headers(&[])).unwrap(), None);
        let one = headers(&[("sec-websocket-protocol", " json.k8s.io ")]);
        assert_eq!(protocol(&one).unwrap().unwrap(), "json.k8s.io");
        for pairs in [
            vec![("sec-websocket-protocol", "a, b")],
            vec![("sec-websocket-protocol", "a"), ("sec-websocket-protocol", "b")],
        ] {
            assert_eq!(protocol(&headers(&pairs)).unwrap_err().code, 400);
        }
    }
}
