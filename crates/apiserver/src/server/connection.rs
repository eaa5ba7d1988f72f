use super::body::Streams;
use super::door::Door;
use super::gathering::Gathering;
use super::pipeline::{self, Connected};
use super::websocket::Afterwards;
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

/// Longest time of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle HTTP/1.1 connection lives this long: longer than the 90 s for which Go's clients keep one.
const IDLE_TIMEOUT: Duration = Duration::from_mins(3);
/// How often the other end of an idle HTTP/2 connection is pinged, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// kube-apiserver sends everything through one connection.
const STREAMS: u32 = 1000;
/// Flow-control window of one stream.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Flow-control window of a connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Largest head of a request. A front proxy sends a line for each group of its caller, and some people are in very many.
const HEADER_LIMIT: usize = 256 * 1024;
/// Most header lines in HTTP/1.1: a group or an extra value each.
const HEADER_LINES: usize = 1024;
/// How long a connection that has to make room may take to end.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after an error of the socket, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket with its certificate and its door.
pub(super) struct Socket {
    pub(super) listener: TcpListener,
    pub(super) config: ServerConfig,
    pub(super) door: Door,
}

/// Serves until the token is cancelled, then ends in order: `/readyz` fails, requests are still taken for a while,
/// the socket closes, watches end, connections are told to go, and what is under way may finish.
pub(super) async fn serve<H: Handler>(
    shared: Arc<ServerShared<H>>,
    socket: Socket,
    stop: CancellationToken,
) -> Result<(), Error> {
    let Socket { listener, config, door } = socket;
    let address = listener.local_addr().map_err(Error::Listen)?;
    tracing::info!(%address, "serving");
    let mut acceptor = Acceptor {
        listener,
        tls: TlsAcceptor::from(Arc::new(config)),
        http: http(),
        connection_permits: Arc::new(Semaphore::new(shared.settings.connections)),
        slots: ConnectionLimiter::new(
            shared.settings.connections,
            shared.settings.unauthenticated_connections,
        ),
        connections: JoinSet::new(),
        closing: CancellationToken::new(),
        shared: Arc::clone(&shared),
        door: Arc::new(door),
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
    door: Arc<Door>,
}

impl<H: Handler> Acceptor<H> {
    /// Takes connections for ever; while there is no room, they wait in the kernel.
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
        let closing = self.closing.clone();
        let (door, slot) = (Arc::clone(&self.door), self.slots.acquire());
        let accepted = Accepted { stream, address, door, slot };
        self.connections.spawn(async move {
            shared.metrics.connections.inc();
            if let Err(error) = connection(&shared, &tls, &http, accepted, closing).await {
                tracing::debug!(%address, error, "connection ended");
            }
            shared.metrics.connections.dec();
            drop(permit);
        });
    }

    /// Still serves connections that the kernel has accepted already.
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
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(HEADER_LIMIT).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// A connection before anything was said.
struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
    door: Arc<Door>,
    slot: ConnectionSlot,
}

async fn connection<H: Handler>(
    shared: &Arc<ServerShared<H>>,
    tls: &TlsAcceptor,
    http: &Builder<TokioExecutor>,
    accepted: Accepted,
    closing: CancellationToken,
) -> Result<(), String> {
    let Accepted { stream, address, door, slot } = accepted;
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
    let is_shared = session.alpn_protocol() == Some(b"h2");
    let http = match session.alpn_protocol() {
        Some(b"h2") => http.clone().http2_only(),
        Some(_) => http.clone().http1_only(),
        None => http.clone(),
    };
    let peer = Arc::new(Peer::new(address, chain).with_slot(slot));
    let (afterwards, streams) = (Afterwards::default(), Streams::default());
    let connected = Arc::new(Connected { door, peer, afterwards, streams });
    let service = service_fn(|request: http::Request<Incoming>| {
        // A stream of HTTP/2 keeps the memory of its service's future to its end, a watch for hours. Boxed, that is
        // only a pointer.
        let answered = Box::pin(pipeline::serve(Arc::clone(shared), Arc::clone(&connected), request));
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let stream = TokioIo::new(Gathering::new(stream, is_shared));
    let mut served = pin!(http.serve_connection_with_upgrades(stream, service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        // Other streams on a shared connection go on.
        () = connected.streams.sweep(!is_shared) => return Err("its client takes nothing".to_owned()),
        () = closing.cancelled() => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = served.as_mut() => ended,
                () = connected.streams.sweep(!is_shared) => return Err("its client takes nothing".to_owned()),
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
    // In this task, so that the drain waits for it, too, and its place counts as long as it lasts.
    let Some(session) = connected.afterwards.take() else { return Ok(()) };
    tokio::select! {
        () = session => Ok(()),
        () = evicted.cancelled() => Err("made room for another one after its upgrade".to_owned()),
    }
}
