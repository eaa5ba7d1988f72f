//! Starts the program: watches, reconcilers, and leader election for the shares.

use crate::audit::Audit;
use crate::business::Business;
use crate::config::{self, Config, RegistryConfig};
use crate::context::{Context, GROUP_RUNNING_MAX};
use crate::descriptions::Descriptions;
use crate::directory::{Directory, open_source};
use crate::error::Error;
use crate::fence::{Fence, LeaseTimes};
use crate::issuer::clusters::{self, ClusterLookup};
use crate::issuer::{serve, worker};
use crate::member::memory_budget::MemoryBudget;
use crate::member_cluster::capacity::Capacities;
use crate::members::Members;
use crate::metrics::ControllerMetrics;
use crate::objects::Objects;
use crate::queue::Queue;
use crate::registry::backend::Backend;
use crate::registry::backend::Registry;
use crate::registry::oci::OciRegistry;
use crate::registry::oci::client::{RegistryClient, RegistryEndpoint};
use crate::registry::tenant_limiter::TenantLimiter;
use crate::registry::tke::TkeRegistry;
use crate::reloading_client::ReloadingClient;
use crate::seal::SealKeys;
use crate::seal::key_manager::KeyManager;
use crate::shares::candidate::Candidate;
use crate::shares::lease::Leases;
use crate::shares::{Share, Shares};
use crate::{dispatch, events, tunnel};
use kube::{Api, Client};
use runtime::{Clock, Health, Metrics, Tasks, admin::Admin, shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// How long releasing the shares may take.
const DRAIN: Duration = Duration::from_secs(10);
/// How long tasks may take to end. A certificate that is being issued takes 15 s, and 5 s more until its request is
/// deleted in its cluster; a pod is given 30 s.
const TASKS_DRAIN: Duration = Duration::from_secs(22);
/// Time between two tries to reach kube-apiserver at the start.
const START_RETRY: Duration = Duration::from_secs(1);

/// Runs until a signal comes or a share is lost.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let times = config.times()?;
    let client = config::client(config.kubeconfig.as_deref()).await?;
    let tasks = Tasks::new();
    let metrics = Metrics::of_process();
    let controller_metrics = ControllerMetrics::register(&metrics);
    let ready = Health::new();
    let (individual, tunnel_certificate_end) = (Health::new(), tunnel::register(&metrics));
    if let Some(server) = config.tunnel_server() {
        tasks.spawn("tunnel", server.watch(individual.clone(), tunnel_certificate_end));
    }
    let issuer_metrics = metrics.clone();
    let admin = Admin { live: live(), ready: ready.clone(), individual, metrics };
    let listener = TcpListener::bind(config.admin_bind).await?;
    tasks.spawn_draining("admin", runtime::admin::serve(listener, admin, tasks.clone()));
    tasks.spawn_draining("signal", shutdown::on_signal(tasks.clone()));
    issue(&config, &client, &issuer_metrics, &tasks).await?;
    let standing_by = Arc::new(AtomicBool::new(false));
    let standby = Arc::clone(&standing_by);
    ready.add("kubernetes", move || reached(&standby));

    let identity = config.identity();
    let replica = Replica { config: &config, client: client.clone(), metrics: controller_metrics, times };
    let cx = replica.start(&identity, &tasks, &ready).await?;
    let leases = Leases::new(client, &config.namespace, identity.clone(), times, config.shards);
    let mut candidate = Candidate::new(leases, Arc::clone(&cx.shares), cx);
    let end = tasks.token();
    if end.run_until_cancelled(first_contact(&candidate)).await.is_none() {
        return Ok(tasks.join(TASKS_DRAIN).await?);
    }
    standing_by.store(true, Ordering::Relaxed);
    tracing::info!(identity, shards = config.shards, namespace = config.namespace, "standing by");
    let ended = candidate.run(&end).await;
    tasks.cancel();
    // A share is held until everything that runs in it has ended.
    let (joined, ()) = tokio::join!(tasks.join(TASKS_DRAIN), candidate.retire(DRAIN));
    ended?;
    Ok(joined?)
}

/// Starts the issuer of certificates. Every replica has one: it changes no object of ours.
async fn issue(config: &Config, client: &Client, metrics: &Metrics, tasks: &Tasks) -> anyhow::Result<()> {
    let (settings, ends) = (&config.issuer, serve::register(metrics));
    let Some((address, identity)) = settings.identity() else { return Ok(()) };
    identity.config()?;
    let source = match (&settings.signers_kubeconfig, &settings.endpoints_kubeconfig) {
        (Some(signers), Some(endpoints)) => {
            clusters::IssuerSource::Files { signers: signers.clone(), endpoints: endpoints.clone() }
        }
        _ => clusters::IssuerSource::Secrets(Box::new(Api::namespaced(
            client.clone(),
            &config.members_namespace,
        ))),
    };
    let (queue, worker) =
        worker::new_queue(ClusterLookup::new(source, client.clone(), config.dialer()), metrics);
    let listener = TcpListener::bind(address).await?;
    tracing::info!(%address, "issuing certificates");
    tasks.spawn("issuer's certificate", ends.follow(identity.certificate_file.clone(), serve::end_of));
    tasks.spawn_draining("certificates", worker.run(tasks.token()));
    tasks.spawn_draining("issuer", serve::run(listener, identity, queue, tasks.token()));
    Ok(())
}

fn live() -> Health {
    let live = Health::new();
    live.add("ping", || Ok(()));
    live
}

fn reached(standing_by: &AtomicBool) -> Result<(), String> {
    if standing_by.load(Ordering::Relaxed) {
        Ok(())
    } else {
        Err("kube-apiserver was not reached yet".to_owned())
    }
}

async fn first_contact(candidate: &Candidate) {
    while let Err(failure) = candidate.reach().await {
        tracing::warn!(error = %failure, "cannot reach kube-apiserver");
        tokio::time::sleep(START_RETRY).await;
    }
}

async fn registry(config: &RegistryConfig, fence: &Arc<Fence>) -> Result<Registry, Error> {
    let backend: Option<Box<dyn Backend>> = match (&config.registry_url, &config.registry_kubeconfig) {
        (Some(url), _) => {
            let endpoint = RegistryEndpoint {
                url: url.clone(),
                authority: config.registry_ca.clone(),
                credentials: config.registry_credentials.clone(),
            };
            Some(Box::new(OciRegistry::new(RegistryClient::new(endpoint).await?, Arc::clone(fence))))
        }
        (None, Some(path)) => {
            Some(Box::new(TkeRegistry::new(ReloadingClient::open(path.clone()).await?, Arc::clone(fence))))
        }
        (None, None) => None,
    };
    Ok(Registry {
        backend,
        pull_host: config.pull_host()?,
        grace: config.registry_grace,
        scan_period: config.registry_scan_period,
        limiter: TenantLimiter::default(),
    })
}

/// One replica, before it is started. It works only in shares that it holds.
struct Replica<'a> {
    config: &'a Config,
    client: Client,
    metrics: ControllerMetrics,
    times: LeaseTimes,
}

impl Replica<'_> {
    async fn start(self, identity: &str, tasks: &Tasks, ready: &Health) -> Result<Arc<Context>, Error> {
        let Self { config, client, metrics, times } = self;
        let (kubeconfig, platform) =
            (config.members_kubeconfig.as_deref(), config.platform_kubeconfig.as_deref());
        let source = open_source(kubeconfig, platform, &config.members_namespace, &client).await?;
        let shares = Arc::new(Shares::new(config.shards, times));
        let registry = registry(&config.registry, &shares.state(Share::Fleet).fence).await?;
        let dropped = metrics.events_dropped.clone();
        let (recorder, sender) = events::channel(client.clone(), identity, dropped);
        let secrets = Api::namespaced(client.clone(), &config.namespace);
        let seen_max = usize::try_from(config.seen_max).unwrap_or(usize::MAX);
        metrics.seen_max.set(i64::try_from(seen_max).unwrap_or(i64::MAX));
        let cx = Arc::new(Context {
            business: Business::new(client),
            objects: Objects::default(),
            members: Members::new(MemoryBudget::new(seen_max), config.quota_recount),
            queue: Queue::new(GROUP_RUNNING_MAX),
            shares,
            events: recorder,
            metrics,
            registry,
            seals: SealKeys::default(),
            clock: Clock::system(),
            forbidden: config.forbidden(),
            audit_wanted: tokio::sync::Notify::new(),
        });
        cx.show_shares();
        let shown = Arc::clone(&cx);
        ready.add("objects", move || {
            if shown.objects.is_synced() { Ok(()) } else { Err("our kinds were not listed yet".to_owned()) }
        });
        let shown = Arc::clone(&cx);
        ready.add("clusters", move || {
            if shown.members.is_read() { Ok(()) } else { Err("no directory was read yet".to_owned()) }
        });
        dispatch::watch(&cx, tasks);
        tasks.spawn("seal-keys", KeyManager::new(secrets, Arc::clone(&cx)).run());
        tasks.spawn("directory", Directory::new(Arc::clone(&cx), source, config.dialer()).run());
        tasks.spawn("events", sender.run());
        let descriptions = Descriptions { cx: Arc::clone(&cx) };
        tasks.spawn("descriptions", descriptions.run());
        tasks.spawn("capacities", Capacities { cx: Arc::clone(&cx) }.run());
        let audit = Audit { cx: Arc::clone(&cx), period: config.audit_period };
        tasks.spawn("audit", audit.run(tasks.token()));
        tasks.spawn_draining("controller", dispatch::run(Arc::clone(&cx), tasks.token()));
        Ok(cx)
    }
}
