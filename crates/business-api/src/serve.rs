//! Puts the program together: database, rules, server, admin port; and ends it in the opposite order.

use crate::audit::{AccountReader, Auditor};
use crate::certificates::{CertificateIssuer, Certificates};
use crate::clusters::Clusters;
use crate::config::{Jwt, Serve};
use crate::console::Console;
use crate::finalizers::TenantFinalizers;
use crate::freshness;
use crate::host_cluster::HostCluster;
use crate::initial::InitialPlatform;
use crate::kinds::{KINDS, KindTable, RoleSource, StrategyDependencies};
use crate::levels::Levels;
use crate::numbers;
use crate::policy::BusinessPolicy;
use crate::registry_routes::RegistryRoutes;
use crate::role_changes::RoleChanges;
use crate::roles::Roles;
use crate::roster::Roster;
use anyhow::{Context, Result};
use apiserver::Api;
use apiserver::authn::fetch::IssuerAuthorities;
use apiserver::authn::issuers::{IssuerSettings, JwtSettings};
use apiserver::authn::jwks::KeySource;
use apiserver::authz::Policy;
use apiserver::openapi::About;
use apiserver::server::{Parts, Server, ServerSettings};
use kube::Client;
use kube::config::Kubeconfig;
use runtime::admin::{self, Admin};
use runtime::trace::{self, Tracer};
use runtime::{Backoff, CertificateEnd, Clock, Health, Metrics, Tasks};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{Footprint, Store};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the program's own tasks may take to end.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);
/// Longest silence of a kube-apiserver while an answer is under way. It ends a quiet watch before that.
const SILENCE_MAX: Duration = Duration::from_mins(5);
const RETRY_FLOOR: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(5);

/// Where the program listens.
#[derive(Debug)]
pub struct Listeners {
    /// The API, over TLS.
    pub api: TcpListener,
    /// Probes and metrics, over plain HTTP.
    pub admin: TcpListener,
    /// The console, over TLS, where there is one.
    pub console: Option<TcpListener>,
}

impl Listeners {
    /// Listens where the settings say.
    pub async fn bind(settings: &Serve) -> Result<Self> {
        let listen =
            async |address| TcpListener::bind(address).await.with_context(|| format!("listen on {address}"));
        let console = if settings.console.is_served() {
            Some(listen(settings.console.console_bind).await?)
        } else {
            None
        };
        Ok(Self { api: listen(settings.bind).await?, admin: listen(settings.admin_bind).await?, console })
    }
}

/// What a program serves, and with which parts.
#[derive(Clone)]
pub struct Program {
    /// What it serves.
    pub kinds: KindTable,
    /// Issues certificates instead of the controller.
    pub issuer: Option<Arc<dyn CertificateIssuer>>,
    /// What time it is.
    pub clock: Clock,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl Default for Program {
    fn default() -> Self {
        Self { kinds: KINDS, issuer: None, clock: Clock::system() }
    }
}

/// Serves until `tasks` is cancelled and what was under way has ended.
pub async fn serve(settings: &Serve, listeners: Listeners, program: Program, tasks: Tasks) -> Result<()> {
    serve_counted(settings, listeners, program, Metrics::of_process(), tasks).await
}

/// The same, with metrics that somebody else reads, too.
pub async fn serve_counted(
    settings: &Serve,
    listeners: Listeners,
    program: Program,
    metrics: Metrics,
    tasks: Tasks,
) -> Result<()> {
    let Program { kinds, issuer, clock } = program;
    let url = &settings.database.database_url;
    let kube = client(settings).await?;
    // The tasks that requests need; they end after the requests.
    let below = Tasks::new();
    if settings.migrate {
        below.spawn("migration", migrate_in_background(url.clone()));
    }
    let (live, ready) = (Health::new(), Health::new());
    let config = store::Config {
        read_from: settings.read_from.clone(),
        tenant_max: Footprint { objects: settings.tenant_objects_max, bytes: settings.tenant_bytes_max },
        ..store::Config::new(url)
    };
    let store = kinds.open(config, &below, &metrics)?;
    let changes = RoleChanges::default();
    add_checks(&ready, &store);
    let roles = follow_roles(settings, kinds, &store, &changes, &below);
    check_roles(&ready, &roles);
    let levels = Levels::new(kinds.charged_accounts());
    below.spawn("levels", levels.clone().follow_all(store.clone()));
    let clusters = follow_clusters(settings, &store, kube.as_ref(), &below);
    check_clusters(&ready, &clusters);
    let account_reader = AccountReader::new(kinds);
    below.spawn("audit", Auditor::new(store.clone(), account_reader, &clusters, &metrics).run());
    let beside = Health::new();
    let served = Admin { live: live.clone(), ready: ready.clone(), beside, metrics: metrics.clone() };
    below.spawn_draining("admin port", admin::serve(listeners.admin, served, below.clone()));

    let draining = CancellationToken::new();
    make_initial(settings, &store, &clock, &below)?;
    let policy: Arc<dyn Policy> =
        Arc::new(BusinessPolicy::new(roles.clone(), kinds.rights(), changes).over(store.clone()));
    let resources = kinds.resources(&directories(settings, clusters, levels, roles.clone(), issuer));
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let about = About { title: "TKEStack business".to_owned(), version };
    let pages = RegistryRoutes {
        store: &store,
        kinds,
        roles: &roles,
        clock: &clock,
        tasks: &below,
        metrics: &metrics,
    };
    let routes = pages.routes(&settings.registry)?;
    let api = Api::new(resources.clone(), store, clock.clone(), draining.clone(), &about)?;
    let console = Console::load(&settings.console, &clock, &below)?;
    let mut server = server_settings(settings);
    server.tracer = tracer(settings, &below, &metrics)?;
    let console_end = follow_certificates(settings, &metrics, &below);
    let handler = Arc::new(api);
    let parts = Parts { handler, resources, routes, policy, kube, metrics, live, ready, draining, clock };
    let mut server = Server::new(server, parts).await?;
    if let Some((console, listener)) = console.zip(listeners.console) {
        console.check(server.authenticator())?;
        let door = console.side_door(listener, settings.console_certificate(), console_end)?;
        server = server.with_side_door(door).await?;
    }
    // A task below that ends by itself ends the server, too.
    let (end, failed) = (tasks.clone(), below.token());
    tasks.spawn_draining("store", async move {
        let told = end.token();
        tokio::select! { () = failed.cancelled() => end.cancel(), () = told.cancelled() => {} }
    });
    tracing::info!(address = %settings.bind, "serving");
    let outcome = server.run(listeners.api, tasks).await;
    below.cancel();
    below.join(JOIN_DEADLINE).await?;
    Ok(outcome?)
}

/// Registers the metrics for the ends of the certificates other than the API's. The return value is for the console's
/// certificate, whose end its socket tells.
fn follow_certificates(settings: &Serve, metrics: &Metrics, tasks: &Tasks) -> CertificateEnd {
    let client = CertificateEnd::register(
        metrics,
        "business_issuer_client_certificate_expiration_timestamp_seconds",
        "When the certificate ends that is shown to the issuer of certificates",
    );
    if let Some(controller) = settings.certificates.controller() {
        let following = client.follow(controller.certificate_file, apiserver::tls::end_of_pem);
        tasks.spawn("client certificate for the issuer", following);
    }
    CertificateEnd::register(
        metrics,
        "business_console_certificate_expiration_timestamp_seconds",
        "When the certificate ends that the console shows",
    )
}

/// Brings the schema to this version while discovery and probes are served already, however long the database is
/// away. A migration that can never succeed ends the program.
async fn migrate_in_background(url: String) {
    match migrate(&url, None).await {
        Ok(()) => std::future::pending().await,
        Err(error) => tracing::error!("{error:#}"),
    }
}

/// Brings the schema to this version; a database that does not answer yet is waited for, with patience or without end.
pub async fn migrate(url: &str, patience: Option<Duration>) -> Result<()> {
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    let deadline = patience.map(|patience| Instant::now() + patience);
    loop {
        match Store::migrate(url).await {
            Err(store::Error::Unavailable(why))
                if deadline.is_none_or(|deadline| Instant::now() < deadline) =>
            {
                tracing::warn!(why, "the database cannot be migrated yet");
                backoff.wait().await;
            }
            outcome => return outcome.context("migrate the database"),
        }
    }
}

async fn client(settings: &Serve) -> Result<Option<Client>> {
    if settings.no_kubernetes {
        return Ok(None);
    }
    let client = kubernetes(settings.kubeconfig.as_deref()).await;
    client.context("with --no-kubernetes direct callers only are served").map(Some)
}

/// The cluster of a kubeconfig, or the one around this program.
pub(crate) async fn kubernetes(kubeconfig: Option<&Path>) -> Result<Client> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
            kubeconfig::config(&file, None).await.context("kubeconfig")?
        }
        None => kube::Config::incluster().context("no cluster around this program: give --kubeconfig")?,
    };
    // Calls have no deadline of their own. The time counts from the last request on.
    config.read_timeout = Some(SILENCE_MAX);
    config.reset_reader_on_write = true;
    Client::try_from(config).context("connect to Kubernetes")
}

fn follow_clusters(settings: &Serve, store: &Store, kube: Option<&Client>, tasks: &Tasks) -> Clusters {
    // Without Kubernetes there may be no controller, which registers them.
    let clusters = if settings.no_kubernetes { Clusters::open() } else { Clusters::registered() };
    let host = if kube.is_some() { HostCluster::sought() } else { HostCluster::default() };
    let clusters = clusters.beside(host.clone());
    tasks.spawn("member clusters", clusters.clone().follow(store.clone(), numbers::MEMBER_CLUSTER));
    if let Some(client) = kube.cloned() {
        tasks.spawn("host cluster", async {
            host.find(client).await;
            std::future::pending::<()>().await;
        });
    }
    clusters
}

fn check_clusters(ready: &Health, clusters: &Clusters) {
    let clusters = clusters.clone();
    let unread = || "the member clusters have not been read yet".to_owned();
    ready.add("clusters", move || if clusters.is_loaded() { Ok(()) } else { Err(unread()) });
}

/// `/readyz` fails until the cache is filled and the roles are known for the first time, while the database is away,
/// and while what is read, from a standby or over a connection of its own, stands still though the primary takes writes.
/// Probes leave out the checks `postgres` and `standby`: all replicas lose the same server at once, and without any
/// replica nothing is discovered and no namespace of the host cluster can be deleted.
fn add_checks(ready: &Health, store: &Store) {
    let synced = store.clone();
    ready.add("cache-sync", move || if synced.synced() { Ok(()) } else { Err("not filled yet".to_owned()) });
    let database = store.clone();
    ready.add("postgres", move || database.database());
    let read = store.clone();
    ready.add("standby", move || {
        let is_measured = read.synced() && read.database().is_ok();
        if is_measured { freshness::check(&read) } else { Ok(()) }
    });
}

/// Keeps the roles that objects give.
fn follow_roles(
    settings: &Serve,
    kinds: KindTable,
    store: &Store,
    changes: &RoleChanges,
    tasks: &Tasks,
) -> Roles {
    let mut roles = settings.roles();
    for (kind, gives) in kinds.role_sources() {
        let follow = |read, who| {
            let roster = Roster::new(read, changes.clone());
            tasks.spawn(who, roster.clone().follow(store.clone(), kind, who));
            roster
        };
        match gives {
            RoleSource::Administrators(read) => roles.administrators.push(follow(read, "administrators")),
            RoleSource::Projects(read) => roles.projects = follow(read, "roles in projects"),
        }
    }
    roles
}

fn check_roles(ready: &Health, roles: &Roles) {
    let roles = roles.clone();
    let unread = || "not all objects that give roles have been read yet".to_owned();
    ready.add("roles", move || if roles.are_settled() { Ok(()) } else { Err(unread()) });
}

/// Makes what shall be there from the start.
fn make_initial(settings: &Serve, store: &Store, clock: &Clock, below: &Tasks) -> Result<()> {
    if let Some(spec) = settings.initial_platform() {
        let initial = InitialPlatform::new(spec)?;
        below.spawn("initial platform", initial.make(store.clone(), clock.clone()));
    }
    Ok(())
}

fn directories(
    settings: &Serve,
    clusters: Clusters,
    levels: Levels,
    roles: Roles,
    issuer: Option<Arc<dyn CertificateIssuer>>,
) -> StrategyDependencies {
    let controller = settings.certificates.controller();
    let issuer =
        issuer.or_else(|| controller.map(|controller| Arc::new(controller) as Arc<dyn CertificateIssuer>));
    StrategyDependencies {
        clusters,
        levels,
        roles,
        finalizers: TenantFinalizers::new(settings.tenant_finalizers.iter().cloned()),
        forbidden: settings.forbidden(),
        certificates: Certificates::new(issuer, settings.certificates.days()),
        credential_days_max: settings.registry.registry_credential_days_max,
    }
}

fn server_settings(settings: &Serve) -> ServerSettings {
    let mut server =
        ServerSettings::new(settings.tls_cert_file.clone(), settings.tls_private_key_file.clone());
    let authentication = &mut server.authentication;
    authentication.tenant_keys = settings.tenant_extra_keys.iter().map(|key| key.to_lowercase()).collect();
    authentication.token_review = !settings.no_kubernetes;
    authentication.trust.client_ca_file.clone_from(&settings.client_ca_file);
    authentication.issuers = issuers(&settings.jwt);
    server.shutdown_delay = settings.shutdown_delay;
    server
}

/// Traces are sent until after the requests, so their task is one of `below`.
fn tracer(settings: &Serve, below: &Tasks, metrics: &Metrics) -> Result<Tracer> {
    let Some(endpoint) = settings.traces.otlp_endpoint.clone() else { return Ok(Tracer::default()) };
    let ratio = settings.traces.otlp_sampling_ratio;
    let (service, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let settings = trace::TraceSettings { endpoint, ratio, service, version };
    Tracer::start(&settings, below, metrics).context("--otlp-endpoint")
}

fn issuers(settings: &Jwt) -> IssuerSettings {
    match settings.authentication_config.clone() {
        Some(path) => IssuerSettings::File {
            path,
            naming_tenants: settings.tenant_issuers.clone(),
            of_cluster: settings.cluster_issuers.clone(),
        },
        None => IssuerSettings::Given(issuer(settings).into_iter().collect()),
    }
}

fn issuer(settings: &Jwt) -> Option<JwtSettings> {
    let (issuer, audience) = (settings.jwt_issuer.clone()?, settings.jwt_audience.clone()?);
    let authorities = settings.jwt_ca_file.clone().map_or(IssuerAuthorities::System, IssuerAuthorities::File);
    let keys = match (&settings.jwt_jwks_file, &settings.jwt_jwks_url) {
        (Some(file), _) => KeySource::File(file.clone()),
        (None, Some(url)) => KeySource::Url { url: url.clone(), authorities },
        (None, None) => KeySource::Discovery { url: None, authorities },
    };
    Some(JwtSettings {
        user_claim: settings.jwt_username_claim.clone(),
        user_prefix: settings.jwt_username_prefix.clone(),
        groups_claim: settings.jwt_groups_claim.clone(),
        groups_prefix: settings.jwt_groups_prefix.clone(),
        tenant_claim: settings.jwt_tenant_claim.clone(),
        ..JwtSettings::new(issuer, vec![audience], keys)
    })
}
