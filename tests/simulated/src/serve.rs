use crate::audit::AuditLog;
use crate::calls::{Body, Call, ServedCluster, error_response, json_response};
use crate::cluster::Cluster;
use crate::faults::Faults;
use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use meta::status::Status;
use runtime::{Tasks, shutdown};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Where the clusters are: `/clusters/NAME/api/v1/…`
const CLUSTERS: &str = "/clusters/";
/// What becomes of writes from now on: PUT of [`Faults`].
const FAULTS: &str = "/faults";
const HEALTH: &str = "/healthz";
/// How often the clusters' own controllers look.
const TEND_PERIOD: Duration = Duration::from_millis(20);
const BODY_BYTES_MAX: usize = 3 << 20;
const DRAIN: Duration = Duration::from_secs(2);

/// What is served, and where.
#[derive(Clone, Debug, clap::Parser)]
#[command(about = "Serves simulated member clusters on 127.0.0.1.")]
pub struct Settings {
    /// Port of 127.0.0.1.
    #[arg(long)]
    pub port: u16,
    /// Names of the clusters.
    #[arg(long, value_delimiter = ',', required = true)]
    pub clusters: Vec<String>,
    /// Where the audit logs are: one a cluster, NAME.jsonl, with the one before it.
    #[arg(long)]
    pub audit: PathBuf,
    /// No audit log becomes larger.
    #[arg(long, default_value_t = 64 << 20)]
    pub audit_bytes: u64,
}

/// The HTTP server of all clusters, with the faults of their writes.
#[derive(Debug)]
struct Server {
    clusters: BTreeMap<String, Arc<ServedCluster>>,
    faults: Mutex<Faults>,
    tasks: Tasks,
}

/// Serves until it is told to end.
pub async fn run(settings: Settings) -> Result<()> {
    let tasks = Tasks::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.port)).await?;
    tasks.spawn_draining("signal", shutdown::on_signal(tasks.clone()));
    serve(listener, &settings, &tasks)?;
    Ok(tasks.join(DRAIN).await?)
}

/// Serves on this socket until the tasks are cancelled.
pub fn serve(listener: TcpListener, settings: &Settings, tasks: &Tasks) -> Result<()> {
    std::fs::create_dir_all(&settings.audit)
        .with_context(|| format!("create {}", settings.audit.display()))?;
    let mut clusters = BTreeMap::new();
    for name in &settings.clusters {
        let log = AuditLog::open(settings.audit.join(format!("{name}.jsonl")), settings.audit_bytes)?;
        let cluster = ServedCluster::new(Arc::new(Cluster::new(name)), log);
        clusters.insert(name.clone(), Arc::new(cluster));
    }
    let server = Arc::new(Server { clusters, faults: Mutex::default(), tasks: tasks.clone() });
    tasks.spawn("controllers", run_controllers(Arc::clone(&server)));
    tasks.spawn("connections", accept(listener, server));
    Ok(())
}

#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end")]
async fn run_controllers(server: Arc<Server>) {
    loop {
        server.clusters.values().for_each(|served| served.cluster.run_controllers());
        tokio::time::sleep(TEND_PERIOD).await;
    }
}

#[expect(clippy::infinite_loop, reason = "the task is cancelled at the end")]
async fn accept(listener: TcpListener, server: Arc<Server>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => server.tasks.spawn_transient(connection(stream, Arc::clone(&server))),
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken");
                tokio::time::sleep(TEND_PERIOD).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>) {
    drop(stream.set_nodelay(true));
    let service = service_fn(|request| {
        let server = Arc::clone(&server);
        async move { server.answer(request).await }
    });
    // Whoever was at the other end knows why it broke.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

/// The connection breaks instead of an answer.
#[derive(Debug)]
struct Unanswered;

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not answered")
    }
}

impl std::error::Error for Unanswered {}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Unanswered> {
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            return Ok(error_response(&Status::too_large("the body is too large or has no end")));
        };
        let body = body.to_bytes();
        let path = parts.uri.path().to_owned();
        if path == HEALTH {
            return Ok(json_response(200, &json!("ok")));
        }
        if path == FAULTS {
            return Ok(self.faults(&parts.method, &body));
        }
        let found = path.strip_prefix(CLUSTERS).and_then(|rest| rest.split_once('/'));
        let found = found.and_then(|(name, rest)| Some((self.clusters.get(name)?, rest)));
        let Some((served, rest)) = found else { return Ok(error_response(&Status::no_such_path())) };
        match served.read(&format!("/{rest}"), &parts, body) {
            Call::Answered(response) => Ok(response),
            Call::Write(write) => {
                let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).pick();
                let (told, heard) = oneshot::channel();
                let served = Arc::clone(served);
                // What has arrived is made, even if nobody waits for the answer any more.
                self.tasks.spawn_transient(async move {
                    drop(told.send(served.make(*write, fault).await));
                });
                heard.await.ok().flatten().ok_or(Unanswered)
            }
        }
    }

    fn faults(&self, method: &Method, body: &Bytes) -> Response<Body> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if method == Method::PUT {
            match serde_json::from_slice(body) {
                Ok(wanted) => *faults = wanted,
                Err(error) => return error_response(&Status::bad_request(error.to_string())),
            }
        }
        json_response(200, &json!(*faults))
    }
}
