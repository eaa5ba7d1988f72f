use super::directory::Directory;
use super::outage::condition;
use anyhow::{Context, Result, ensure};
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::layout;
use instance::pki::{CertificateSubject, Pki, secret};
use instance::programs::{self, TUNNEL_SOCKET};
use instance::supervisor::Spec;
use instance::{HOST_CLUSTER, Instance};
use serde_json::json;
use std::path::PathBuf;
use terminal::say;

const SERVER: &str = "proxy-server";
const AGENT: &str = "proxy-agent";
/// As in deploy/components/tunnel.
const ACCOUNT_NAMESPACE: &str = "tke-business";
const ACCOUNT: &str = "business-tunnel";
const LOOPBACK: &str = "127.0.0.1";
const HARD: Hard<'_> = &[("cpu", "4"), ("memory", "4Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];

/// A cluster that only dials out: Konnectivity's agent there dials its server beside the controller, which reaches the
/// cluster through it, and not while the agent is gone.
pub(super) fn tunnel(instance: &Instance) -> Result<()> {
    if ![SERVER, AGENT].iter().all(|program| layout::bin().join(program).exists()) {
        say::skipped("the tunnel's programs are not there");
        return Ok(());
    }
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let directory = Directory::of(instance)?;
    Parts::of(instance)?.start(instance)?;
    apply(&instance.kubectl, &project("tunnel", None, &[(cluster, HARD), (HOST_CLUSTER, HARD)]))?;
    until_active(&instance.kubectl, "tunnel")?;
    // A way that works would go on until the new one does.
    directory.strike_out(cluster)?;
    let worked = is_away(instance, cluster)
        .and_then(|()| directory.reach_by(&format!("tunnel://{cluster}"), cluster))
        .and_then(|()| works(instance, cluster));
    directory.put_back()?;
    worked?;
    for program in [AGENT, SERVER] {
        instance.supervisor.pause(program)?;
    }
    instance.kubectl.run(&["delete", "project", "tunnel", "--wait=false"])?;
    until_gone(&instance.kubectl, &["project", "tunnel"])?;
    until_gone(&instance.member(cluster), &["namespace", "later"])
}

fn is_away(instance: &Instance, cluster: &str) -> Result<()> {
    job::until(&instance.kubectl, &["membercluster", cluster], |object| {
        condition(object, "Reachable").is_some_and(|one| one.get("status") != Some(&json!("True")))
    })
    .map(drop)
}

fn works(instance: &Instance, cluster: &str) -> Result<()> {
    let k = &instance.kubectl;
    let reachable = |status: &str| {
        job::until(k, &["membercluster", cluster], |object| {
            condition(object, "Reachable").is_some_and(|one| one.get("status") == Some(&json!(status)))
        })
    };
    reachable("True")?;
    apply(k, &namespace("tunnel", cluster, "first", SMALL))?;
    until_available(k, "tunnel", &format!("{cluster}-first"))?;
    instance.supervisor.fell(AGENT)?;
    reachable("False")?;
    apply(k, &namespace("tunnel", cluster, "later", SMALL))?;
    let elsewhere = format!("{HOST_CLUSTER}-elsewhere");
    apply(k, &namespace("tunnel", HOST_CLUSTER, "elsewhere", SMALL))?;
    until_available(k, "tunnel", &elsewhere)?;
    let waiting = k.json(&["get", "bns", &format!("{cluster}-later"), "-n", "tunnel"])?;
    ensure!(waiting.pointer("/status/phase") == Some(&json!("Pending")), "without an agent: {waiting}");
    instance.supervisor.resume(AGENT)?;
    reachable("True")?;
    until_available(k, "tunnel", &format!("{cluster}-later")).map(drop)
}

/// Both ends of the tunnel, on this machine.
struct Parts {
    server: Spec,
    agent: Spec,
    server_health: u16,
    agent_health: u16,
}

impl Parts {
    fn of(instance: &Instance) -> Result<Self> {
        let port = |name: &str| instance.supervisor.port(instance.layout.first_port, name, name);
        let (entrance, admin, health) = (port("tunnel")?, port("tunnel-admin")?, port("tunnel-health")?);
        let (agent_admin, agent_health) = (port("tunnel-agent-admin")?, port("tunnel-agent-health")?);

        let pki = Pki::open(&instance.layout.path("pki"))?;
        pki.authority("tunnel-ca")?;
        pki.issue("tunnel-ca", "tunnel", &CertificateSubject::server(&[LOOPBACK]))?;
        let server = [
            "--mode=http-connect".to_owned(),
            format!("--uds-name={}", instance.layout.path(TUNNEL_SOCKET).display()),
            "--server-port=0".to_owned(),
            format!("--agent-bind-address={LOOPBACK}"),
            format!("--agent-port={entrance}"),
            format!("--admin-bind-address={LOOPBACK}"),
            format!("--admin-port={admin}"),
            format!("--health-bind-address={LOOPBACK}"),
            format!("--health-port={health}"),
            format!("--cluster-cert={}", pki.cert("tunnel").display()),
            format!("--cluster-key={}", pki.key("tunnel").display()),
            "--proxy-strategies=destHost".to_owned(),
            format!("--agent-namespace={ACCOUNT_NAMESPACE}"),
            format!("--agent-service-account={ACCOUNT}"),
            format!("--authentication-audience={ACCOUNT}"),
            format!("--kubeconfig={}", instance.kubectl.kubeconfig().display()),
        ];
        let agent = [
            format!("--proxy-server-host={LOOPBACK}"),
            format!("--proxy-server-port={entrance}"),
            format!("--ca-cert={}", pki.cert("tunnel-ca").display()),
            format!("--service-account-token-path={}", token(instance)?.display()),
            // What the cluster's kubeconfig calls its server.
            format!("--agent-identifiers=ipv4={LOOPBACK}"),
            format!("--admin-server-port={agent_admin}"),
            format!("--health-server-host={LOOPBACK}"),
            format!("--health-server-port={agent_health}"),
        ];
        let spec = |program: &str, args: &[String]| {
            Spec::new(program, &layout::bin().join(program)).args(args.iter().cloned())
        };
        Ok(Self {
            server: spec(SERVER, &server),
            agent: spec(AGENT, &agent),
            server_health: health,
            agent_health,
        })
    }

    fn start(self, instance: &Instance) -> Result<()> {
        let supervisor = &instance.supervisor;
        supervisor.start(self.server)?;
        supervisor.start(self.agent)?;
        // The server is ready when an agent has come, and the agent when a server has taken it.
        programs::ready(supervisor, SERVER, self.server_health)?;
        programs::ready(supervisor, AGENT, self.agent_health)
    }
}

/// What the agent shows to the server: a token of the host cluster that is good for nothing else.
fn token(instance: &Instance) -> Result<PathBuf> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": ACCOUNT_NAMESPACE},
    });
    instance.kubectl.apply(&account.to_string())?;
    let audience = format!("--audience={ACCOUNT}");
    let made = instance.kubectl.run(&["create", "token", ACCOUNT, "-n", ACCOUNT_NAMESPACE, &audience])?;
    let path = instance.layout.path("tunnel.token");
    secret(&path, made.trim())?;
    Ok(path)
}
