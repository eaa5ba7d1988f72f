//! Starts the parts of the program: database, policy, server, admin port. Ends them in the opposite order.

use crate::allocations::Allocations;
use crate::audit::{AccountReader, Auditor};
use crate::certificates::{CertificateIssuer, Certificates};
use crate::clusters::Clusters;
use crate::config::{Jwt, Serve};
use crate::console::Console;
use crate::finalizers::TenantFinalizers;
use crate::freshness;
use crate::host_cluster::HostCluster;
use crate::initial::InitialPlatform;
use crate::kind_ids;
use crate::kinds::{KINDS, KindTable, RoleSource, StrategyDependencies};
use crate::policy::BusinessPolicy;
use crate::registry_routes::RegistryRoutes;
use crate::role_bindings::RoleBindings;
use crate::role_changes::RoleChanges;
use crate::roles::Roles;
use anyhow::{Context, Result};
use apiserver::Api;
use apiserver::authn::fetch::IssuerAuthorities;
use apiserver::authn::issuers::{IssuerSettings, JwtSettings};
use apiserver::authn::jwks::KeySource;
use apiserver::authz::Policy;
use apiserver::openapi::ApiInfo;
use apiserver::server::{Server, ServerParts, ServerSettings};
use kube::Client;
use kube::config::Kubeconfig;
use runtime::admin::{self, Admin};
use runtime::trace::{self, Tracer};
use runtime::{Backoff, CertificateExpiry, Clock, Health, Metrics, Tasks};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{Footprint, Store};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the background tasks may take to end.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);
/// A call of kube-apiserver fails if nothing is received for so long. kube-apiserver ends a quiet watch earlier.
const READ_TIMEOUT: Duration = Duration::from_mins(5);
const RETRY_FLOOR: Duration = Duration::from_millis(200);
const RETRY_CEILING: Duration = Duration::from_secs(5);

/// The sockets that the program listens at.
#[derive(Debug)]
pub struct Listeners {
    /// The API, over TLS.
    pub api: TcpListener,
    /// Probes and metrics, over plain HTTP.
    pub admin: TcpListener,
    /// The console, over TLS, if it is served.
    pub console: Option<TcpListener>,
}

impl Listeners {
    /// Binds the addresses of the settings.
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

/// What the program serves, and the parts that tests replace.
#[derive(Clone)]
pub struct Program {
    /// The kinds that it serves.
    pub kinds: KindTable,
    /// Issues certificates instead of the controller.
    pub issuer: Option<Arc<dyn CertificateIssuer>>,
    /// The clock.
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

/// Serves until `tasks` is cancelled, and then until the open requests have ended.
pub async fn serve(settings: &Serve, listeners: Listeners, program: Program, tasks: Tasks) -> Result<()> {
    serve_with_metrics(settings, listeners, program, Metrics::of_process(), tasks).await
}

/// Like [`serve`], with metrics that the caller reads, too.
pub async fn serve_with_metrics(
    settings: &Serve,
    listeners: Listeners,
    program: Program,
    metrics: Metrics,
    tasks: Tasks,
) -> Result<()> {
    let Program { kinds, issuer, clock } = program;
    let url = &settings.database.database_url;
    let kube = optional_client(settings).await?;
    // Requests need these tasks, which therefore end after the server.
    let background = Tasks::new();
    if settings.migrate {
        background.spawn("migration", migrate_in_background(url.clone()));
    }
    let (live, ready) = (Health::new(), Health::new());
    let config = store::Config {
        read_from: settings.read_from.clone(),
        tenant_max: Footprint { objects: settings.tenant_objects_max, bytes: settings.tenant_bytes_max },
        ..store::Config::new(url)
    };
    let store = kinds.open(config, &background, &metrics)?;
    let changes = RoleChanges::default();
    add_store_checks(&ready, &store);
    let roles = follow_roles(settings, kinds, &store, &changes, &background);
    add_roles_check(&ready, &roles);
    let allocations = Allocations::new(kinds.charged_accounts());
    background.spawn("levels", allocations.clone().follow_all(store.clone()));
    let clusters = follow_clusters(settings, &store, kube.as_ref(), &background);
    add_clusters_check(&ready, &clusters);
    let account_reader = AccountReader::new(kinds);
    background.spawn("audit", Auditor::new(store.clone(), account_reader, &clusters, &metrics).run());
    let individual = Health::new();
    let served = Admin { live: live.clone(), ready: ready.clone(), individual, metrics: metrics.clone() };
    background.spawn_draining("admin port", admin::serve(listeners.admin, served, background.clone()));

    let draining = CancellationToken::new();
    create_initial_platform(settings, &store, &clock, &background)?;
    let policy: Arc<dyn Policy> =
        Arc::new(BusinessPolicy::new(roles.clone(), kinds.rights(), changes).with_store(store.clone()));
    let resources =
        kinds.resources(&strategy_dependencies(settings, clusters, allocations, roles.clone(), issuer));
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let about = ApiInfo { title: "TKEStack business".to_owned(), version };
    let registry_routes = RegistryRoutes {
        store: &store,
        kinds,
        roles: &roles,
        clock: &clock,
        tasks: &background,
        metrics: &metrics,
    };
    let routes = registry_routes.routes(&settings.registry)?;
    let api = Api::new(resources.clone(), store, clock.clone(), draining.clone(), &about)?;
    let console = Console::load(&settings.console, &clock, &background)?;
    let mut server_settings = server_settings(settings);
    server_settings.tracer = tracer(settings, &background, &metrics)?;
    let console_end = register_certificate_ends(settings, &metrics, &background);
    let handler = Arc::new(api);
    let parts =
        ServerParts { handler, resources, routes, policy, kube, metrics, live, ready, draining, clock };
    let mut server = Server::new(server_settings, parts).await?;
    if let Some((console, listener)) = console.zip(listeners.console) {
        console.check(server.authenticator())?;
        let listener = console.secondary_listener(listener, settings.console_certificate(), console_end)?;
        server = server.with_secondary_listener(listener).await?;
    }
    // A background task that ends by itself ends the server, too.
    let (server_tasks, failed) = (tasks.clone(), background.token());
    tasks.spawn_draining("store", async move {
        let ended = server_tasks.token();
        tokio::select! { () = failed.cancelled() => server_tasks.cancel(), () = ended.cancelled() => {} }
    });
    tracing::info!(address = %settings.bind, "serving");
    let outcome = server.run(listeners.api, tasks).await;
    background.cancel();
    background.join(JOIN_DEADLINE).await?;
    Ok(outcome?)
}

/// Registers the expiration metrics of the client certificate for the issuer and of the console's certificate. Follows
/// the first one. Returns the second metric, which the console's socket sets.
fn register_certificate_ends(settings: &Serve, metrics: &Metrics, tasks: &Tasks) -> CertificateExpiry {
    let client = CertificateExpiry::register(
        metrics,
        "business_issuer_client_certificate_expiration_timestamp_seconds",
        "When the certificate ends that is shown to the issuer of certificates",
    );
    if let Some(controller) = settings.certificates.controller() {
        let following = client.follow(controller.certificate_file, apiserver::tls::end_of_pem);
        tasks.spawn("client certificate for the issuer", following);
    }
    CertificateExpiry::register(
        metrics,
        "business_console_certificate_expiration_timestamp_seconds",
        "When the certificate ends that the console shows",
    )
}

/// Migrates the schema while discovery and probes are already served, however long the database is away. A migration
/// that can never succeed ends the program.
async fn migrate_in_background(url: String) {
    match migrate(&url, None).await {
        Ok(()) => std::future::pending().await,
        Err(error) => tracing::error!("{error:#}"),
    }
}

/// Migrates the schema to this version. Waits for a database that does not answer yet: for the timeout, or for ever.
pub async fn migrate(url: &str, timeout: Option<Duration>) -> Result<()> {
    let mut backoff = Backoff::new(RETRY_FLOOR, RETRY_CEILING);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
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

async fn optional_client(settings: &Serve) -> Result<Option<Client>> {
    if settings.no_kubernetes {
        return Ok(None);
    }
    let client = kubernetes_client(settings.kubeconfig.as_deref()).await;
    client.context("with --no-kubernetes direct callers only are served").map(Some)
}

/// A client of the cluster of a kubeconfig, or of the cluster that this program runs in.
pub(crate) async fn kubernetes_client(kubeconfig: Option<&Path>) -> Result<Client> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("read {}", path.display()))?;
            kubeconfig::config(&file, None).await.context("kubeconfig")?
        }
        None => kube::Config::incluster().context("no cluster around this program: give --kubeconfig")?,
    };
    // Calls have no deadline of their own. The timeout counts from the last write.
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    Client::try_from(config).context("connect to Kubernetes")
}

fn follow_clusters(settings: &Serve, store: &Store, kube: Option<&Client>, tasks: &Tasks) -> Clusters {
    // Without Kubernetes there may be no controller to register them.
    let clusters =
        if settings.no_kubernetes { Clusters::registration_optional() } else { Clusters::registered() };
    let host = if kube.is_some() { HostCluster::pending() } else { HostCluster::default() };
    let clusters = clusters.with_host(host.clone());
    tasks.spawn("member clusters", clusters.clone().follow(store.clone(), kind_ids::MEMBER_CLUSTER));
    if let Some(client) = kube.cloned() {
        tasks.spawn("host cluster", async {
            host.resolve(client).await;
            std::future::pending::<()>().await;
        });
    }
    clusters
}

fn add_clusters_check(ready: &Health, clusters: &Clusters) {
    let clusters = clusters.clone();
    let not_synced = || "the member clusters have not been read yet".to_owned();
    ready.add("clusters", move || if clusters.has_synced() { Ok(()) } else { Err(not_synced()) });
}

/// Adds the checks of `/readyz` for the store. It fails until the cache has synced, while the database is away, and
/// while the events, from a standby or over a connection of their own, stand still although the primary takes writes.
/// Probes leave out the checks `postgres` and `standby`: all replicas lose the same server at once, and without any
/// replica discovery fails and no namespace of the host cluster can be deleted.
fn add_store_checks(ready: &Health, store: &Store) {
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

/// Follows the objects that give roles.
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
            let bindings = RoleBindings::new(read, changes.clone());
            tasks.spawn(who, bindings.clone().follow(store.clone(), kind, who));
            bindings
        };
        match gives {
            RoleSource::Administrators(read) => roles.administrators.push(follow(read, "administrators")),
            RoleSource::Projects(read) => roles.projects = follow(read, "roles in projects"),
        }
    }
    roles
}

fn add_roles_check(ready: &Health, roles: &Roles) {
    let roles = roles.clone();
    let not_synced = || "not all objects that give roles have been read yet".to_owned();
    ready.add("roles", move || if roles.has_synced() { Ok(()) } else { Err(not_synced()) });
}

/// Creates the initial platform, if the settings name one.
fn create_initial_platform(settings: &Serve, store: &Store, clock: &Clock, background: &Tasks) -> Result<()> {
    if let Some(spec) = settings.initial_platform() {
        let initial = InitialPlatform::new(spec)?;
        background.spawn("initial platform", initial.create(store.clone(), clock.clone()));
    }
    Ok(())
}

fn strategy_dependencies(
    settings: &Serve,
    clusters: Clusters,
    allocations: Allocations,
    roles: Roles,
    issuer: Option<Arc<dyn CertificateIssuer>>,
) -> StrategyDependencies {
    let controller = settings.certificates.controller();
    let issuer =
        issuer.or_else(|| controller.map(|controller| Arc::new(controller) as Arc<dyn CertificateIssuer>));
    StrategyDependencies {
        clusters,
        allocations,
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

/// Traces are sent until after the last request, so their task is a background task.
fn tracer(settings: &Serve, background: &Tasks, metrics: &Metrics) -> Result<Tracer> {
    let Some(endpoint) = settings.traces.otlp_endpoint.clone() else { return Ok(Tracer::default()) };
    let ratio = settings.traces.otlp_sampling_ratio;
    let (service, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let settings = trace::TraceSettings { endpoint, ratio, service, version };
    Tracer::start(&settings, background, metrics).context("--otlp-endpoint")
}

fn issuers(settings: &Jwt) -> IssuerSettings {
    match settings.authentication_config.clone() {
        Some(path) => IssuerSettings::File {
            path,
            naming_tenants: settings.tenant_issuers.clone(),
            of_cluster: settings.cluster_issuers.clone(),
        },
        None => IssuerSettings::Inline(issuer(settings).into_iter().collect()),
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
