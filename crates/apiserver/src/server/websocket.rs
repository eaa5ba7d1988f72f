//! A watch over a WebSocket (RFC 6455): one event a message, over HTTP/1.1. Only the wrapping is made here; the
//! frames are those of the chunked stream.

use super::CLIENT_WAIT;
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

/// The only version of the protocol.
pub(super) const VERSION: HeaderValue = HeaderValue::from_static("13");
/// The text that every server puts behind the client's key (RFC 6455).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Largest message of a client, which has nothing to send but pings and its end.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// Events are gathered up to this size while more are ready.
const WRITE_BUFFER: usize = 64 * 1024;
/// How long a client may take to agree to the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// The work of a connection after it has stopped speaking HTTP.
#[derive(Default)]
pub(super) struct Afterwards(Mutex<Option<BoxFuture<'static, ()>>>);

impl Afterwards {
    pub(super) fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, session: BoxFuture<'static, ()>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }
}

/// A client's checked request to go on over a WebSocket.
pub(super) struct Upgrade {
    connection: OnUpgrade,
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
}

impl Upgrade {
    /// The upgrade that a watch asks for. In other requests it is ignored, as in Go.
    pub(super) fn asked(request: &mut Request<Body>, caller: &Caller) -> Result<Option<Box<Self>>, Status> {
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

    /// Turns the answer of a watch into that of the handshake; its body is sent to the client afterwards.
    pub(super) fn accept(
        self,
        response: Response<Body>,
        afterwards: &Afterwards,
        draining: CancellationToken,
    ) -> Response<Body> {
        let protobuf = response.headers().get(header::CONTENT_TYPE).is_some_and(|ty| ty == PROTOBUF_STREAM);
        let take = if protobuf { take_binary } else { take_text };
        let session = session(self.connection, response.into_body(), take, draining);
        afterwards.set(session.boxed());
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

/// The subprotocol to echo. None is known here, so of several none can be chosen.
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

/// Checks the page that opens the socket, which a browser names. A browser sends a client certificate for any page,
/// so with a certificate the page must be of this server. A token comes from the page itself. Programs send no
/// origin.
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

/// Sends the events of a watch until they or the client end.
async fn session(connection: OnUpgrade, events: Body, take: Take, draining: CancellationToken) {
    let upgraded = match connection.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "the connection was not handed over"),
    };
    let config = WebSocketConfig::default()
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT));
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let ending = match tell(&mut socket, events, take).await {
        Ended::Left => None,
        Ended::Failed => Some(CloseCode::Error),
        // A client that is told that the server goes away asks another one.
        Ended::Told if draining.is_cancelled() => Some(CloseCode::Away),
        Ended::Told => Some(CloseCode::Normal),
    };
    if timeout(CLOSE_WAIT, close(socket, ending)).await.is_err() {
        tracing::debug!("a client did not agree to the end of its watch");
    }
}

enum Ended {
    /// All events were sent.
    Told,
    /// The stream of events broke.
    Failed,
    /// The client went, or takes nothing.
    Left,
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn tell(socket: &mut Socket, events: Body, take: Take) -> Ended {
    let mut chunks = events.into_data_stream();
    let mut ahead = None;
    loop {
        let chunk = if let Some(chunk) = ahead.take() {
            chunk
        } else {
            if !matches!(timeout(CLIENT_WAIT, socket.flush()).await, Ok(Ok(()))) {
                return Ended::Left;
            }
            tokio::select! {
                chunk = chunks.next() => chunk,
                // The library answers pings. Other messages of a client are ignored.
                said = socket.next() => match said {
                    None | Some(Err(_) | Ok(Message::Close(_))) => return Ended::Left,
                    Some(Ok(_)) => continue,
                },
            }
        };
        let mut events = match chunk {
            None => return Ended::Told,
            Some(Ok(events)) => events,
            Some(Err(_)) => return Ended::Failed,
        };
        while !events.is_empty() {
            let message = take(&mut events);
            if !matches!(timeout(CLIENT_WAIT, socket.feed(message)).await, Ok(Ok(()))) {
                return Ended::Left;
            }
        }
        ahead = chunks.next().now_or_never();
    }
}

/// Takes the first event from a chunk of the stream and makes it a message.
type Take = fn(&mut Bytes) -> Message;

/// JSON is text, an event a line.
fn take_text(events: &mut Bytes) -> Message {
    let end = events.iter().position(|byte| *byte == b'\n').map_or(events.len(), |newline| newline + 1);
    let event = events.split_to(end);
    match Utf8Bytes::try_from(event.clone()) {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(event),
    }
}

/// A message has an end of its own: the length before an event is left out.
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
