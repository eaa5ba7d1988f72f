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
use runtime::{CertificateEnd, Clock, Health, Metrics, Tasks};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The handler, behind all of this.
mod handler;
/// Further sockets, and their gates.
mod door;
/// Sockets, TLS, HTTP, and how they end.
mod connection;
/// Sends answers together that are ready together.
mod gathering;
/// Health, version and metrics: the routes that every server has.
mod endpoints;
/// What is recorded of a request when it ends.
mod trail;
/// Reads that act as writes.
mod acting_reads;
/// The steps of a request between its parse and its handler.
mod pipeline;
/// Bodies that hold something until they end.
mod body;
/// Watches over WebSockets.
mod websocket;

use acting_reads::ActingReads;
pub(crate) use body::CLIENT_WAIT;
use connection::Socket;
use door::Door;
pub use door::{Gate, SideDoor};
use endpoints::Checks;
pub use endpoints::Version;
pub use handler::Handler;

/// How a server runs.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// PEM file with the serving certificate and its chain.
    pub certificate_file: PathBuf,
    /// PEM file with its private key.
    pub key_file: PathBuf,
    /// How callers are identified.
    pub authentication: authn::AuthnSettings,
    /// Requests under way.
    pub limits: Limits,
    /// Open connections.
    pub connections: usize,
    /// How many of them may be without a known caller.
    pub unauthenticated_connections: usize,
    /// How often credentials in files are looked at.
    pub reload_every: Duration,
    /// How long an answer of kube-apiserver about a token or a right holds.
    pub review_ttl: Duration,
    /// About how often an open stream is checked for whether it may go on.
    pub recheck_every: Duration,
    /// How long requests are still taken after `/readyz` has begun to fail.
    pub shutdown_delay: Duration,
    /// How long requests under way may then take.
    pub drain: Duration,
    /// The answer at `/version`.
    pub version: Version,
    /// Traces some requests; by default none.
    pub tracer: Tracer,
}

impl ServerSettings {
    /// The usual limits.
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

/// What the program brings.
pub struct Parts<H> {
    /// Answers requests.
    pub handler: H,
    /// The kinds it serves, for the metrics' labels, and to know which reads do something.
    pub resources: Vec<Arc<Resource>>,
    /// Routes beside the resources, the handler's own documents and the server's health, version and metrics.
    pub routes: Vec<Route>,
    /// The program's own rules.
    pub policy: Arc<dyn Policy>,
    /// The kube-apiserver that is asked about tokens and rights, and publishes whom to trust; without one, only
    /// configured trust and built-in rules hold.
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

impl<H> std::fmt::Debug for Parts<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// An API server that is ready to listen.
pub struct Server<H> {
    shared: Arc<ServerShared<H>>,
    certificate: Arc<ServingCertificate>,
    /// Served at every door.
    routes: Vec<Route>,
    side: Option<(SideDoor, Arc<ServingCertificate>)>,
    trust: Arc<TrustStore>,
    issuers: Arc<TokenIssuers>,
    kube: Option<kube::Client>,
}

impl<H> std::fmt::Debug for Server<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// What every request uses.
pub(crate) struct ServerShared<H> {
    pub(crate) handler: H,
    pub(crate) acting_reads: ActingReads,
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
    /// Loads certificates, CAs and keys. The trust that only a running kube-apiserver can give comes later; until
    /// then `/readyz` fails.
    pub async fn new(settings: ServerSettings, parts: Parts<H>) -> Result<Self, Error> {
        let end = CertificateEnd::register(
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
        let told = settings.authentication.clone();
        let issuers = Arc::new(
            TokenIssuers::load(told.issuers, told.tenant_keys, parts.clock.clone(), Arc::clone(&metrics))
                .await?,
        );
        let asking = parts.kube.clone().map(|client| {
            let (unauthenticated_reviews, ttl) =
                (settings.limits.unauthenticated_reviews, settings.review_ttl);
            Delegate { client, unauthenticated_reviews, ttl }
        });
        let authenticator = Authenticator::new(
            settings.authentication.clone(),
            Arc::clone(&trust),
            Arc::clone(&issuers),
            asking.clone().map(TokenReviews::new),
            parts.clock,
            Arc::clone(&metrics),
        );
        let authorization = Authorization::new(parts.policy, asking, Arc::clone(&metrics));
        let stopping = Arc::new(AtomicBool::new(false));
        let checks = Checks { live: parts.live, ready: parts.ready };
        add_checks(&checks, &stopping, parts.kube.is_some().then(|| Arc::clone(&trust)));
        let mut routes = endpoints::routes(&checks, &parts.metrics, &settings.version);
        routes.extend(parts.handler.routes());
        parts.handler.measure(&parts.metrics);
        routes.extend(parts.routes);
        let shared = ServerShared {
            handler: parts.handler,
            acting_reads: ActingReads::of(&parts.resources),
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
        Ok(Self { shared, certificate, routes, side: None, trust, issuers, kube: parts.kube })
    }

    /// The same, with another way in.
    pub async fn with_side_door(self, door: SideDoor) -> Result<Self, Error> {
        let (certificate, key) = (door.certificate_file.clone(), door.key_file.clone());
        let certificate = ServingCertificate::load(certificate, key, door.certificate_end.clone()).await?;
        Ok(Self { side: Some((door, Arc::new(certificate))), ..self })
    }

    /// The authenticator of callers.
    pub fn authenticator(&self) -> &Authenticator {
        &self.shared.authenticator
    }

    /// Serves until `tasks` is cancelled and the requests under way have ended. Tasks that the handler needs must
    /// live as long: start them in another set.
    pub async fn run(self, listener: TcpListener, tasks: Tasks) -> Result<(), Error> {
        let every = self.shared.settings.reload_every;
        tasks.spawn("serving certificate", Arc::clone(&self.certificate).follow(every));
        tasks.spawn("trusted CAs", Arc::clone(&self.trust).follow_files(every));
        tasks.spawn("issuers of tokens", self.issuers.follow(every));
        if let Some(client) = self.kube {
            tasks.spawn("extension-apiserver-authentication", self.trust.follow_config_map(client));
        }
        let front = Socket {
            listener,
            config: tls::server_config(self.certificate, ClientCertificates::Requested)?,
            door: Door { routes: Routes::new(self.routes.clone())?, gate: None },
        };
        let front = connection::serve(Arc::clone(&self.shared), front, tasks.token());
        let Some((door, certificate)) = self.side else { return front.await };
        tasks.spawn("serving certificate at the side", Arc::clone(&certificate).follow(every));
        let side = Socket {
            listener: door.listener,
            config: tls::server_config(certificate, ClientCertificates::None)?,
            door: Door { routes: Routes::new([self.routes, door.routes].concat())?, gate: Some(door.gate) },
        };
        tokio::try_join!(front, connection::serve(self.shared, side, tasks.token())).map(drop)
    }
}

fn add_checks(checks: &Checks, stopping: &Arc<AtomicBool>, trust: Option<Arc<TrustStore>>) {
    let Checks { live, ready } = checks;
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
