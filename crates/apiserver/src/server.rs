use crate::authn::{self, Authenticator, issuers::TokenIssuers, review::TokenReviews, trust::TrustStore};
use crate::authz::{Authorization, Policy};
use crate::delegate::Delegate;
use crate::error::Error;
use crate::flow::{InFlightLimiter, Limits};
use crate::interner::Interner;
use crate::metrics::ServerMetrics;
use crate::resource::Resource;
use crate::routes::{Route, Routes};
use crate::stream_authorization::AuthorizationInputs;
use crate::tls::{self, ClientCertificates, ServingCertificate};
use runtime::trace::Tracer;
use runtime::{CertificateExpiry, Clock, Health, Metrics, Tasks};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The handler of authorized requests.
mod handler;
/// The secondary listener and its filter.
mod entry_point;
/// Listening, TLS, HTTP, and graceful shutdown.
mod connection;
/// Coalesces the writes of responses that are ready at the same time.
mod coalescing;
/// Health, version and metrics: the routes that every server has.
mod builtin_routes;
/// Metrics, audit log and trace of a request.
mod request_record;
/// GET requests that change something.
mod mutating_gets;
/// The filter chain of a request, from parsing to the handler.
mod pipeline;
/// Bodies of streamed responses.
mod body;
/// Bodies of requests that are answered before their end.
mod request_body;
/// Watches over WebSockets.
mod websocket;

pub(crate) use body::CLIENT_STALL_TIMEOUT;
use builtin_routes::HealthChecks;
pub use builtin_routes::Version;
use connection::ListeningSocket;
use entry_point::EntryPoint;
pub use entry_point::{RequestFilter, SecondaryListener};
pub use handler::Handler;
use mutating_gets::MutatingGets;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// PEM file with the serving certificate and its chain.
    pub certificate_file: PathBuf,
    /// PEM file with its private key.
    pub key_file: PathBuf,
    /// How callers are identified.
    pub authentication: authn::AuthnSettings,
    /// Limits of requests in flight.
    pub limits: Limits,
    /// The limit of open connections.
    pub connections: usize,
    /// How many of them may have no authenticated caller.
    pub unauthenticated_connections: usize,
    /// How often certificates, CAs and keys in files are checked for changes.
    pub reload_every: Duration,
    /// How long an answer of kube-apiserver about a token or a right is cached.
    pub review_ttl: Duration,
    /// About how often it is checked that an open stream is still allowed.
    pub recheck_every: Duration,
    /// How long requests are still accepted after `/readyz` has begun to fail.
    pub shutdown_delay: Duration,
    /// How long requests in flight may then take.
    pub drain: Duration,
    /// The response at `/version`.
    pub version: Version,
    /// Traces requests; by default none.
    pub tracer: Tracer,
}

impl ServerSettings {
    /// Default settings.
    pub fn new(certificate_file: PathBuf, key_file: PathBuf) -> Self {
        Self {
            certificate_file,
            key_file,
            authentication: authn::AuthnSettings::default(),
            limits: Limits::default(),
            connections: 10_000,
            unauthenticated_connections: 1_000,
            reload_every: Duration::from_secs(5),
            review_ttl: Duration::from_secs(10),
            recheck_every: Duration::from_mins(1),
            shutdown_delay: Duration::ZERO,
            drain: Duration::from_mins(1),
            version: Version::default(),
            tracer: Tracer::default(),
        }
    }
}

/// What the program provides to the server.
pub struct ServerParts<H> {
    /// Answers requests for resources.
    pub handler: H,
    /// The resources that it serves, for the labels of metrics and to know which GET requests change something.
    pub resources: Vec<Arc<Resource>>,
    /// Routes of the program, in addition to those of the handler and of the server itself.
    pub routes: Vec<Route>,
    /// The program's own authorization rules.
    pub policy: Arc<dyn Policy>,
    /// The kube-apiserver that reviews tokens and rights, and publishes trusted CAs. Without one, only the configured
    /// CAs and the policy apply.
    pub kube: Option<kube::Client>,
    /// Where metrics are registered, and what `/metrics` prints.
    pub metrics: Metrics,
    /// Checks of `/livez` and `/healthz`.
    pub live: Health,
    /// Checks of `/readyz`.
    pub ready: Health,
    /// Cancelled when watches must end.
    pub draining: CancellationToken,
    /// The clock.
    pub clock: Clock,
}

impl<H> std::fmt::Debug for ServerParts<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerParts").finish_non_exhaustive()
    }
}

/// An API server that is ready to listen.
pub struct Server<H> {
    shared: Arc<ServerShared<H>>,
    certificate: Arc<ServingCertificate>,
    /// Served by all listeners.
    routes: Vec<Route>,
    secondary: Option<(SecondaryListener, Arc<ServingCertificate>)>,
    trust: Arc<TrustStore>,
    issuers: Arc<TokenIssuers>,
    kube: Option<kube::Client>,
}

impl<H> std::fmt::Debug for Server<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// What all requests share.
pub(crate) struct ServerShared<H> {
    pub(crate) handler: H,
    pub(crate) mutating_gets: MutatingGets,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorization: Arc<Authorization>,
    pub(crate) authorization_inputs: Interner<AuthorizationInputs>,
    pub(crate) reads: Arc<InFlightLimiter>,
    pub(crate) writes: Arc<InFlightLimiter>,
    pub(crate) watches: Arc<InFlightLimiter>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) draining: CancellationToken,
    pub(crate) settings: ServerSettings,
}

impl<H> std::fmt::Debug for ServerShared<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerShared").finish_non_exhaustive()
    }
}

impl<H: Handler> Server<H> {
    /// Loads certificates, CAs and keys. The CAs from kube-apiserver are loaded by [`Server::run`]; until then
    /// `/readyz` fails.
    pub async fn new(settings: ServerSettings, parts: ServerParts<H>) -> Result<Self, Error> {
        let end = CertificateExpiry::register(
            &parts.metrics,
            "apiserver_serving_certificate_expiration_timestamp_seconds",
            "When the serving certificate ends",
        );
        let (certificate, key) = (settings.certificate_file.clone(), settings.key_file.clone());
        let certificate = Arc::new(ServingCertificate::load(certificate, key, end).await?);
        let metrics = Arc::new(ServerMetrics::new(&parts.metrics, &parts.resources));
        let trust = Arc::new(
            TrustStore::load_files(settings.authentication.trust.clone(), parts.kube.is_some()).await?,
        );
        let authentication = settings.authentication.clone();
        let issuers = Arc::new(
            TokenIssuers::load(
                authentication.issuers,
                authentication.tenant_keys,
                parts.clock.clone(),
                Arc::clone(&metrics),
            )
            .await?,
        );
        let delegate = parts.kube.clone().map(|client| {
            let (unauthenticated_reviews, ttl) =
                (settings.limits.unauthenticated_reviews, settings.review_ttl);
            Delegate { client, unauthenticated_reviews, ttl }
        });
        let authenticator = Authenticator::new(
            settings.authentication.clone(),
            Arc::clone(&trust),
            Arc::clone(&issuers),
            delegate.clone().map(TokenReviews::new),
            parts.clock,
            Arc::clone(&metrics),
        );
        let authorization = Authorization::new(parts.policy, delegate, Arc::clone(&metrics));
        let stopping = Arc::new(AtomicBool::new(false));
        let checks = HealthChecks { live: parts.live, ready: parts.ready };
        add_checks(&checks, &stopping, parts.kube.is_some().then(|| Arc::clone(&trust)));
        let mut routes = builtin_routes::routes(&checks, &parts.metrics, &settings.version);
        routes.extend(parts.handler.routes());
        parts.handler.register_metrics(&parts.metrics);
        routes.extend(parts.routes);
        let shared = ServerShared {
            handler: parts.handler,
            mutating_gets: MutatingGets::of(&parts.resources),
            authenticator: Arc::new(authenticator),
            authorization: Arc::new(authorization),
            authorization_inputs: Interner::default(),
            reads: InFlightLimiter::new(settings.limits.reads, metrics.reads.clone()),
            writes: InFlightLimiter::new(settings.limits.writes, metrics.writes.clone()),
            watches: InFlightLimiter::new(settings.limits.watches, metrics.watches.clone()),
            metrics,
            stopping,
            draining: parts.draining,
            settings,
        };
        let shared = Arc::new(shared);
        Ok(Self { shared, certificate, routes, secondary: None, trust, issuers, kube: parts.kube })
    }

    /// The same server with a further listener.
    pub async fn with_secondary_listener(self, listener: SecondaryListener) -> Result<Self, Error> {
        let (certificate, key) = (listener.certificate_file.clone(), listener.key_file.clone());
        let certificate =
            ServingCertificate::load(certificate, key, listener.certificate_end.clone()).await?;
        Ok(Self { secondary: Some((listener, Arc::new(certificate))), ..self })
    }

    /// The authenticator of callers.
    pub fn authenticator(&self) -> &Authenticator {
        &self.shared.authenticator
    }

    /// Serves until `tasks` is cancelled and the requests in flight have ended. Tasks that the handler needs must live
    /// as long, so start them in another set.
    pub async fn run(self, listener: TcpListener, tasks: Tasks) -> Result<(), Error> {
        let every = self.shared.settings.reload_every;
        tasks.spawn("serving certificate", Arc::clone(&self.certificate).follow(every));
        tasks.spawn("trusted CAs", Arc::clone(&self.trust).follow_files(every));
        tasks.spawn("issuers of tokens", self.issuers.follow(every));
        if let Some(client) = self.kube {
            tasks.spawn("extension-apiserver-authentication", self.trust.follow_config_map(client));
        }
        let main = ListeningSocket {
            listener,
            tls_config: tls::server_config(self.certificate, ClientCertificates::Requested)?,
            entry_point: EntryPoint { routes: Routes::new(self.routes.clone())?, filter: None },
        };
        let main = connection::serve(Arc::clone(&self.shared), main, tasks.token());
        let Some((listener, certificate)) = self.secondary else { return main.await };
        tasks.spawn("serving certificate at the side", Arc::clone(&certificate).follow(every));
        let secondary = ListeningSocket {
            listener: listener.listener,
            tls_config: tls::server_config(certificate, ClientCertificates::None)?,
            entry_point: EntryPoint {
                routes: Routes::new([self.routes, listener.routes].concat())?,
                filter: Some(listener.filter),
            },
        };
        tokio::try_join!(main, connection::serve(self.shared, secondary, tasks.token())).map(drop)
    }
}

fn add_checks(checks: &HealthChecks, stopping: &Arc<AtomicBool>, trust: Option<Arc<TrustStore>>) {
    let HealthChecks { live, ready } = checks;
    live.add("ping", || Ok(()));
    ready.add("ping", || Ok(()));
    let stopping = Arc::clone(stopping);
    ready.add("shutdown", move || {
        if stopping.load(Ordering::Relaxed) { Err("shutting down".to_owned()) } else { Ok(()) }
    });
    if let Some(trust) = trust {
        ready.add("extension-apiserver-authentication", move || {
            if trust.is_loaded() { Ok(()) } else { Err("not read yet".to_owned()) }
        });
    }
}
