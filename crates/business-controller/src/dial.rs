//! Clients of member clusters, which are reached at their URL, by a proxy that their kubeconfig names, or through the
//! tunnel.
//!
//! The tunnel is Konnectivity: an agent in the member dials out to a proxy-server beside this process, which takes
//! HTTP CONNECT at a Unix socket. A kubeconfig says so with `proxy-url: tunnel://AGENT`. TLS is spoken through the
//! tunnel, with the cluster itself: whoever holds the tunnel sees neither credentials nor objects.

/// Limits of what a cluster may answer.
mod response_limits;

pub(crate) use response_limits::ResponseLimits;

use crate::error::{Error, chain};
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Builder, Client as Http};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::UnixStream;
use tower::{BoxError, Service, ServiceBuilder};

/// Connecting to a member cluster must not take longer.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);
/// The longest silence on a connection that something is awaited on. Servers end watches earlier.
const SILENCE_MAX: Duration = Duration::from_mins(5);
/// Scheme of a `proxy-url` that stands for the tunnel.
const TUNNEL_SCHEME: &str = "tunnel";

/// Makes clients of member clusters.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    /// The socket at which the tunnel's server takes CONNECT.
    tunnel: Option<Arc<Path>>,
}

impl Dialer {
    /// With the socket of the tunnel's server, if there is one.
    pub fn new(tunnel: Option<PathBuf>) -> Self {
        Self { tunnel: tunnel.map(Arc::from) }
    }

    /// A client of a member cluster. It never retries: the caller does, with what it knows by then.
    pub fn client(&self, mut config: kube::Config) -> Result<kube::Client, Error> {
        config.connect_timeout = Some(CONNECT_DEADLINE);
        config.default_retry = false;
        limit_silence(&mut config);
        let through = config.proxy_url.clone().filter(|_| is_tunnelled(&config));
        let limits = ResponseLimits::default();
        let Some(agent) = through else {
            return Ok(ClientBuilder::try_from(config)?.with_layer(&limits).build());
        };
        let Some(socket) = self.tunnel.clone() else {
            return Err(Error::Config(format!(
                "its proxy-url {agent} stands for the tunnel, and this program was started without --tunnel-socket"
            )));
        };
        let tunnel = WithDeadline(Tunnel::new(agent, Socket(socket)));
        let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tunnel)?);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        let http: Http<_, Body> = Builder::new(TokioExecutor::new()).build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(http);
        Ok(ClientBuilder::new(service, config.default_namespace).with_layer(&limits).build())
    }
}

/// Whether a cluster is reached through the tunnel.
pub fn is_tunnelled(config: &kube::Config) -> bool {
    config.proxy_url.as_ref().and_then(Uri::scheme_str) == Some(TUNNEL_SCHEME)
}

/// Limits how long an answer may take: lists and watch requests have no deadline of their own. The time counts from the
/// last request, since each request on a connection is answered before the next.
pub fn limit_silence(config: &mut kube::Config) {
    config.read_timeout = Some(SILENCE_MAX);
    config.reset_reader_on_write = true;
}

/// Connects to the socket, whatever the address: the tunnel's server gets it by CONNECT.
#[derive(Clone, Debug)]
struct Socket(Arc<Path>);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let path = Arc::clone(&self.0);
        Box::pin(async move { UnixStream::connect(&*path).await.map(TokioIo::new) })
    }
}

/// Adds a deadline: the tunnel's server answers CONNECT only when the agent has connected.
#[derive(Clone, Debug)]
struct WithDeadline<S>(S);

impl<S> Service<Uri> for WithDeadline<S>
where
    S: Service<Uri>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<S::Response, std::io::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx).map_err(|error| failed(&error))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(CONNECT_DEADLINE, self.0.call(uri));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected.map_err(|error| failed(&error)),
                Err(_elapsed) => Err(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    format!("no connection through the tunnel within {} s", CONNECT_DEADLINE.as_secs()),
                )),
            }
        })
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> std::io::Error {
    std::io::Error::other(format!("cannot reach the cluster through the tunnel: {}", chain(error)))
}

#[cfg(test)]
mod tests;
