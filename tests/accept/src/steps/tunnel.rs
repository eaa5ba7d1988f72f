use super::directory::Directory;
use super::outage::condition;
use anyhow::{Context, Result, bail, ensure};
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::layout;
use instance::pki::{CertificateSubject, Pki, secret};
use instance::programs::{self, TUNNEL_SOCKET};
use instance::supervisor::Spec;
use instance::{HOST_CLUSTER, Instance, manifests};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use terminal::say;

const SERVER: &str = "proxy-server";
const AGENT: &str = "proxy-agent";
/// What deploy/ makes of both ends.
const SERVER_SIDE: &str = "tests/accept/deploy/tunnel";
const AGENT_SIDE: &str = "deploy/member-tunnel/agent.yaml";
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

/// What a container in deploy/ is started with.
struct Flags(BTreeMap<String, String>);

impl Flags {
    fn of(objects: &[Value], container: &str) -> Result<Self> {
        let containers = |object: &Value| {
            object.pointer("/spec/template/spec/containers").and_then(Value::as_array).cloned()
        };
        let mut all = objects.iter().filter_map(containers).flatten();
        let found = all.find(|one| one.get("name").and_then(Value::as_str) == Some(container));
        let args = found.as_ref().and_then(|one| one.get("args")?.as_array());
        let flag = |arg: &Value| {
            let (name, value) = arg.as_str()?.strip_prefix("--")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let flags: Option<BTreeMap<_, _>> =
            args.with_context(|| format!("no arguments of {container}"))?.iter().map(flag).collect();
        flags.map(Self).with_context(|| format!("{container} has an argument that is no flag with a value"))
    }

    /// The same with what is otherwise on this machine. Whatever a pod or `join` would fill in must be among that.
    fn with(mut self, here: &[(&str, String)]) -> Result<Vec<String>> {
        let is_given = |name: &String| here.iter().any(|(given, _)| given == name);
        let open = self.0.iter().find(|(name, value)| is_to_be_filled_in(value) && !is_given(name));
        if let Some((name, value)) = open {
            bail!("nothing is filled in for --{name}={value}");
        }
        self.0.extend(here.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Ok(self.0.into_iter().map(|(name, value)| format!("--{name}={value}")).collect())
    }
}

/// A variable of the pod, or a word in capitals.
fn is_to_be_filled_in(value: &str) -> bool {
    value.contains('$') || value.as_bytes().windows(2).any(|pair| pair.iter().all(u8::is_ascii_uppercase))
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
        let server = Flags::of(&manifests::render(&instance.kubectl, SERVER_SIDE)?, "tunnel")?.with(&[
            ("uds-name", instance.layout.path(TUNNEL_SOCKET).display().to_string()),
            ("agent-bind-address", LOOPBACK.to_owned()),
            ("agent-port", entrance.to_string()),
            ("admin-bind-address", LOOPBACK.to_owned()),
            ("admin-port", admin.to_string()),
            ("health-bind-address", LOOPBACK.to_owned()),
            ("health-port", health.to_string()),
            ("cluster-cert", pki.cert("tunnel").display().to_string()),
            ("cluster-key", pki.key("tunnel").display().to_string()),
            ("server-id", "one".to_owned()),
            ("server-count", "1".to_owned()),
            ("kubeconfig", instance.kubectl.kubeconfig().display().to_string()),
        ])?;
        let agent = Flags::of(&manifests::read(&layout::workspace().join(AGENT_SIDE))?, "agent")?.with(&[
            ("proxy-server-host", LOOPBACK.to_owned()),
            ("proxy-server-port", entrance.to_string()),
            ("ca-cert", pki.cert("tunnel-ca").display().to_string()),
            ("service-account-token-path", token(instance)?.display().to_string()),
            // What the cluster's kubeconfig calls its server.
            ("agent-identifiers", format!("ipv4={LOOPBACK}")),
            ("admin-server-port", agent_admin.to_string()),
            ("health-server-host", LOOPBACK.to_owned()),
            ("health-server-port", agent_health.to_string()),
        ])?;
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
