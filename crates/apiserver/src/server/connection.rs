use super::body::Streams;
use super::coalescing::CoalescingWriter;
use super::entry_point::EntryPoint;
use super::pipeline::{self, ConnectionContext};
use super::websocket::UpgradedSession;
use super::{Handler, ServerShared};
use crate::connection_limit::{ConnectionLimiter, ConnectionSlot};
use crate::error::Error;
use crate::tls::Peer;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an HTTP/1.1 connection may be idle: longer than the 90 s for which Go's clients keep one.
const IDLE_TIMEOUT: Duration = Duration::from_mins(3);
/// How often the client of an HTTP/2 connection is pinged, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Concurrent streams of a connection: kube-apiserver sends all requests through one.
const STREAMS: u32 = 1000;
/// Most requests of a connection that its client has cancelled before the server has looked at them; more end the
/// connection. The default is 20: after a short stall of the network that many cancelled requests arrive at once, and
/// the connection of kube-apiserver carries the watches and writes of all users.
const CANCELLED_STREAMS: usize = 1000;
/// Flow-control window of one stream.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Flow-control window of a connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Largest head of a request. A front proxy sends a line for each group of its caller, which may be very many.
const HEADER_LIMIT: usize = 256 * 1024;
/// Most header lines in HTTP/1.1. Each group and each extra value is a line.
const HEADER_LINES: usize = 1024;
/// How long an evicted connection may take to finish its requests.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after accepting failed, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket with its certificate and its entry point.
pub(super) struct ListeningSocket {
    pub(super) listener: TcpListener,
    pub(super) tls_config: ServerConfig,
    pub(super) entry_point: EntryPoint,
}

/// Serves until the token is cancelled, and then shuts down gracefully: `/readyz` fails, requests are still accepted
/// for the shutdown delay, the socket closes, watches end, connections are closed, and requests in flight may finish.
pub(super) async fn serve<H: Handler>(
    shared: Arc<ServerShared<H>>,
    socket: ListeningSocket,
    stop: CancellationToken,
) -> Result<(), Error> {
    let ListeningSocket { listener, tls_config, entry_point } = socket;
    let address = listener.local_addr().map_err(Error::Listen)?;
    tracing::info!(%address, "serving");
    let mut acceptor = Acceptor {
        listener,
        tls: TlsAcceptor::from(Arc::new(tls_config)),
        http: http(),
        connection_permits: Arc::new(Semaphore::new(shared.settings.connections)),
        slots: ConnectionLimiter::new(
            shared.settings.connections,
            shared.settings.unauthenticated_connections,
        ),
        connections: JoinSet::new(),
        closing: CancellationToken::new(),
        shared: Arc::clone(&shared),
        entry_point: Arc::new(entry_point),
    };
    tokio::select! {
        () = acceptor.accept() => {}
        () = stop.cancelled() => {}
    }
    shared.stopping.store(true, Ordering::Relaxed);
    tracing::info!(delay = ?shared.settings.shutdown_delay, "not ready any more");
    tokio::select! {
        () = acceptor.accept() => {}
        () = tokio::time::sleep(shared.settings.shutdown_delay) => {}
    }
    acceptor.drain().await;
    Ok(())
}

struct Acceptor<H> {
    listener: TcpListener,
    tls: TlsAcceptor,
    http: Builder<TokioExecutor>,
    connection_permits: Arc<Semaphore>,
    slots: Arc<ConnectionLimiter>,
    connections: JoinSet<()>,
    closing: CancellationToken,
    shared: Arc<ServerShared<H>>,
    entry_point: Arc<EntryPoint>,
}

impl<H: Handler> Acceptor<H> {
    /// Accepts connections for ever. When the limit is reached, they wait in the backlog of the kernel.
    async fn accept(&mut self) {
        while let Ok(permit) = Arc::clone(&self.connection_permits).acquire_owned().await {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, address)) => self.spawn(stream, address, permit),
                    Err(error) => {
                        tracing::warn!(%error, "accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_ended) = self.connections.join_next() => {}
            }
        }
    }

    fn spawn(&mut self, stream: TcpStream, address: SocketAddr, permit: OwnedSemaphorePermit) {
        let (shared, tls, http) = (Arc::clone(&self.shared), self.tls.clone(), self.http.clone());
        // Each poll of a connection locks its token. One token for all of them would pass from core to core.
        let closing = self.closing.child_token();
        let (entry_point, slot) = (Arc::clone(&self.entry_point), self.slots.acquire());
        let accepted = Accepted { stream, address, entry_point, slot };
        self.connections.spawn(async move {
            shared.metrics.connections.inc();
            if let Err(error) = connection(&shared, &tls, &http, accepted, closing).await {
                tracing::debug!(%address, error, "connection ended");
            }
            shared.metrics.connections.dec();
            drop(permit);
        });
    }

    /// Shuts down. Connections that are still in the backlog of the kernel are served.
    async fn drain(mut self) {
        while let Some(Ok((stream, address))) = self.listener.accept().now_or_never() {
            let Ok(permit) = Arc::clone(&self.connection_permits).try_acquire_owned() else { break };
            self.spawn(stream, address, permit);
        }
        drop(self.listener);
        self.shared.draining.cancel();
        self.closing.cancel();
        let open = self.connections.len();
        let ended = async { while self.connections.join_next().await.is_some() {} };
        match tokio::time::timeout(self.shared.settings.drain, ended).await {
            Ok(()) => tracing::info!(connections = open, "drained"),
            Err(_elapsed) => {
                tracing::warn!(connections = self.connections.len(), "connections did not end in time");
                self.connections.shutdown().await;
            }
        }
    }
}

fn http() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEADER_LIMIT)
        .max_headers(HEADER_LINES)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(CANCELLED_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(HEADER_LIMIT).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// An accepted connection before its TLS handshake.
struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
    entry_point: Arc<EntryPoint>,
    slot: ConnectionSlot,
}

async fn connection<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    tls: &TlsAcceptor,
    http: &Builder<TokioExecutor>,
    accepted: Accepted,
    closing: CancellationToken,
) -> Result<(), String> {
    let Accepted { stream, address, entry_point, slot } = accepted;
    let evicted = slot.evicted();
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = evicted.cancelled() => return Err("made room in its handshake".to_owned()),
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            shared.metrics.tls_handshake_errors.inc();
            return Err(format!("handshake: {error}"));
        }
        Err(_elapsed) => {
            shared.metrics.tls_handshake_errors.inc();
            return Err("handshake: no end in time".to_owned());
        }
    };
    let (_, session) = stream.get_ref();
    let chain =
        session.peer_certificates().unwrap_or_default().iter().map(|c| c.clone().into_owned()).collect();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let http = match session.alpn_protocol() {
        Some(b"h2") => http.clone().http2_only(),
        Some(_) => http.clone().http1_only(),
        None => http.clone(),
    };
    let peer = Arc::new(Peer::new(address, chain).with_slot(slot));
    let (upgraded_session, streams) = (UpgradedSession::default(), Streams::default());
    let unread_bodies = Arc::default();
    let context = Arc::new(ConnectionContext { entry_point, peer, upgraded_session, streams, unread_bodies });
    let service = service_fn(|request: http::Request<Incoming>| {
        // HTTP/2 keeps the memory of this future until its stream ends, which takes hours for a watch. Boxed, that is
        // only a pointer.
        let answered = Box::pin(pipeline::serve(Arc::clone(shared), Arc::clone(&context), request));
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let stream = TokioIo::new(CoalescingWriter::new(stream, is_http2));
    let mut served = pin!(http.serve_connection_with_upgrades(stream, service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        // With HTTP/2, the other streams of the connection go on.
        () = context.streams.terminate_stalls(!is_http2) => return Err("its client takes nothing".to_owned()),
        () = closing.cancelled() => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = served.as_mut() => ended,
                () = context.streams.terminate_stalls(!is_http2) => return Err("its client takes nothing".to_owned()),
            }
        }
        () = evicted.cancelled() => {
            served.as_mut().graceful_shutdown();
            match tokio::time::timeout(EVICTION_TIMEOUT, served).await {
                Ok(ended) => ended,
                Err(_elapsed) => return Err("made room for another one".to_owned()),
            }
        }
    };
    ended.map_err(|error| error.to_string())?;
    // In this task, so that the drain waits for the session, and the slot is held until it ends.
    let Some(session) = context.upgraded_session.take() else { return Ok(()) };
    tokio::select! {
        () = session => Ok(()),
        () = evicted.cancelled() => Err("made room for another one after its upgrade".to_owned()),
    }
}
