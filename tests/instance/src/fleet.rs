//! Several controllers for many clusters, most of them simulated. Each has its own credentials in every cluster, so that
//! audit logs show which one wrote, and its own cable to the host cluster's kube-apiserver.

use crate::controlplane::ControlPlane;
use crate::kubeconfig::{Kubeconfig, token};
use crate::layout::{self, Layout};
use crate::programs;
use crate::supervisor::{Spec, Supervisor};
use crate::wait::Progress;
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The program that is all simulated clusters.
pub const SIMULATED: &str = "simulated";
const READY: Duration = Duration::from_mins(2);

/// What there is besides the usual.
#[derive(Clone, Copy, Debug)]
pub struct FleetOptions {
    /// Simulated clusters.
    pub simulated: u16,
    pub times: LeaseTimes,
}

/// Times of the controllers, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    pub lease: u64,
    pub renew: u64,
    pub retry: u64,
    pub write: u64,
}

impl LeaseTimes {
    /// As the controller takes them.
    pub fn args(&self) -> [(&'static str, String); 4] {
        let Self { lease, renew, retry, write } = self;
        [
            ("lease-duration", format!("{lease}s")),
            ("renew-deadline", format!("{renew}s")),
            ("retry-period", format!("{retry}s")),
            ("write-deadline", format!("{write}s")),
        ]
    }
}

/// Simulated clusters, and how controllers are told apart.
#[derive(Clone, Debug)]
pub struct Fleet {
    layout: Layout,
    /// Names of the simulated clusters.
    pub clusters: Vec<String>,
    /// Where they all are.
    pub port: u16,
}

impl Fleet {
    pub(crate) fn choose(
        layout: &Layout,
        options: FleetOptions,
        mut port: impl FnMut(&str, &str) -> Result<u16>,
    ) -> Result<Self> {
        let clusters = (1..=options.simulated).map(|number| format!("sim-{number:03}")).collect();
        Ok(Self { layout: layout.clone(), clusters, port: port(SIMULATED, SIMULATED)? })
    }

    /// The process of all simulated clusters.
    pub(crate) fn simulated(&self) -> Result<Spec> {
        let audit = self.layout.path("audit");
        Ok(Spec::new(SIMULATED, &layout::program_path(SIMULATED)?).args([
            format!("--port={}", self.port),
            format!("--clusters={}", self.clusters.join(",")),
            format!("--audit={}", audit.display()),
        ]))
    }

    pub(crate) fn wait(&self, supervisor: &Supervisor) -> Result<()> {
        supervisor.wait(SIMULATED, READY, || {
            Ok(match programs::get(self.port, "/healthz") {
                Ok((200, _)) => Progress::Done(()),
                Ok((code, text)) => Progress::Pending(format!("{code} {text}")),
                Err(error) => Progress::Pending(error.to_string()),
            })
        })
    }

    /// The file that lists the clusters for a controller.
    pub fn members(&self, controller: &str) -> PathBuf {
        self.layout.path(&format!("programs/{controller}-members.kubeconfig"))
    }

    /// Adds the simulated clusters, where a controller is known by its name.
    pub(crate) fn with_simulated(&self, file: Kubeconfig, controller: &str) -> Kubeconfig {
        self.clusters
            .iter()
            .fold(file, |file, name| file.plain_context(name, &self.server(name), &token(controller)))
    }

    /// Where a simulated cluster is.
    pub fn server(&self, cluster: &str) -> String {
        format!("http://127.0.0.1:{}{}", self.port, path(cluster))
    }

    /// GET at a simulated cluster.
    pub fn get(&self, cluster: &str, rest: &str) -> Result<Value> {
        let (code, body) = programs::get(self.port, &format!("{}{rest}", path(cluster)))?;
        anyhow::ensure!(code == 200, "{cluster}: {rest}: {code} {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// What becomes of writes to simulated clusters from now on.
    pub fn set_faults(&self, faults: &Value) -> Result<()> {
        let (body, length) = (faults.to_string(), faults.to_string().len());
        let request =
            format!("PUT /faults HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
        let (code, told) = programs::exchange(self.port, &request, READY)?;
        anyhow::ensure!(code == 200, "faults: {code} {told}");
        Ok(())
    }

    /// Where the writes to a cluster are noted.
    pub fn audit_log(&self, cluster: &str) -> PathBuf {
        if self.clusters.iter().any(|name| name == cluster) {
            self.layout.path("audit").join(format!("{cluster}.jsonl"))
        } else {
            ControlPlane::audit_log(&self.layout, cluster)
        }
    }

    /// The identifiers of a controller's tokens in the real clusters, as audit logs have them.
    pub fn credentials(&self, controller: &str) -> Result<BTreeMap<String, String>> {
        let file = self.members(controller);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let config: Value = serde_yaml_ng::from_str(&text)?;
        let users = config.get("users").and_then(Value::as_array).context("a kubeconfig without users")?;
        let identifier = |user: &Value| {
            let claims = user.pointer("/user/token")?.as_str()?.split('.').nth(1)?;
            let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
            Some((format!("JTI={}", claims.get("jti")?.as_str()?), controller.to_owned()))
        };
        Ok(users.iter().filter_map(identifier).collect())
    }
}

fn path(cluster: &str) -> String {
    format!("/clusters/{cluster}")
}

/// The name of the cable between a controller and kube-apiserver.
pub fn cable_of(controller: &str) -> String {
    format!("cable-{controller}")
}

/// The cable itself.
pub(crate) fn cable(controller: &str, port: u16, server: &str) -> Result<Spec> {
    let to = server.rsplit_once(':').map(|(_, port)| port.trim_end_matches('/'));
    let way = format!("{port}:{}", to.with_context(|| format!("{server} names no port"))?);
    Ok(Spec::new(&cable_of(controller), &layout::program_path("instance")?).args(["cable".to_owned(), way]))
}

/// The same kubeconfig by way of a cable.
pub(crate) fn through(like: &Value, port: u16) -> Value {
    let mut through = like.clone();
    if let Some(server) = through.pointer_mut("/clusters/0/cluster/server") {
        *server = format!("https://127.0.0.1:{port}").into();
    }
    through
}
