use super::background::Background;
use super::command_line::business;
use super::contains;
use super::directory::Directory;
use super::outage::condition;
use super::rotation::{self, MEMBERS_NAMESPACE, in_use, token};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::layout;
use instance::pki::{CertificateSubject, Pki, secret};
use instance::programs::{self, TUNNEL, TUNNEL_SOCKET};
use instance::supervisor::Spec;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance, manifests};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use terminal::say;

const SERVER: &str = "proxy-server";
const AGENT: &str = "proxy-agent";
/// The manifests of both ends.
const SERVER_SIDE: &str = "tests/accept/deploy/tunnel";
const AGENT_SIDE: &str = "deploy/member-tunnel/agent.yaml";
/// The namespace of the agents in the member cluster.
const AGENT_NAMESPACE: &str = "tke-business";
/// The name of the `ServiceAccount`, Deployment and Secret of the agents.
const ACCOUNT: &str = "business-tunnel";
/// The file with the token that the agent sends to the server.
const TOKEN_FILE: &str = "tunnel.token";
const AUTHORITY: &str = "tunnel-ca";
const SOON: Duration = Duration::from_mins(5);
const LOOPBACK: &str = "127.0.0.1";
const HARD: Hard<'_> = &[("cpu", "4"), ("memory", "4Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];

/// A cluster that cannot be dialled: Konnectivity's agent there dials the server beside the controller, and the
/// controller reaches the cluster through both, while the agent runs. The server's certificate and the agent's token are
/// rotated.
pub(super) fn tunnel(instance: &Instance) -> Result<()> {
    if ![SERVER, AGENT].iter().all(|program| layout::bin().join(program).exists()) {
        say::skipped("the tunnel's programs are not there");
        return Ok(());
    }
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let directory = Directory::of(instance)?;
    let before = in_use(instance, cluster)?;
    let parts = TunnelProcesses::of(instance)?;
    join(instance, cluster, &parts)?;
    let joined = token(instance, cluster)?;
    parts.start(instance)?;
    apply(&instance.kubectl, &project("tunnel", None, &[(cluster, HARD), (HOST_CLUSTER, HARD)]))?;
    until_active(&instance.kubectl, "tunnel")?;
    // The controller would use the direct connection until the tunnel works.
    directory.strike_out(cluster)?;
    let worked = until_unreachable(instance, cluster)
        .and_then(|()| directory.enter_through(&format!("tunnel://{cluster}"), &joined, cluster))
        .and_then(|()| works(instance, cluster))
        .and_then(|()| certificate_is_rotated(instance, cluster))
        .and_then(|()| token_is_rotated(instance, &directory, cluster));
    directory.put_back()?;
    worked?;
    wait::until("the first credentials are in use again", SOON, || {
        let used = in_use(instance, cluster)?;
        Ok(if used == before { Progress::Done(()) } else { Progress::Pending(format!("{used:?}")) })
    })?;
    for program in [AGENT, SERVER] {
        instance.supervisor.pause(program)?;
    }
    instance.kubectl.run(&["delete", "secret", &rotation::secret(cluster), "-n", MEMBERS_NAMESPACE])?;
    instance.member(cluster).run(&["delete", "deployment,secret", ACCOUNT, "-n", AGENT_NAMESPACE])?;
    instance.kubectl.run(&["delete", "project", "tunnel", "--wait=false"])?;
    until_gone(&instance.kubectl, &["project", "tunnel"])?;
    until_gone(&instance.member(cluster), &["namespace", "later"])
}

/// `join` creates the agents' Deployment, which no node runs, and their token, which the agent on this machine gets.
fn join(instance: &Instance, cluster: &str, parts: &TunnelProcesses) -> Result<()> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": MEMBERS_NAMESPACE},
    });
    instance.kubectl.apply(&account.to_string())?;
    let path = instance.member(cluster).kubeconfig().to_string_lossy().into_owned();
    let (address, image) = (format!("{LOOPBACK}:{}", parts.port), "mirror.example.org/agent:1");
    let authority = parts.authority.to_string_lossy();
    let operator = business(instance, &instance.kubectl)?;
    let at = ["--tunnel", &address, "--tunnel-ca", &authority, "--tunnel-image", image];
    operator
        .run(&[&["join", cluster, "--kubeconfig", &path, "--days", "2", "--no-wait"][..], &at].concat())?;
    let deployment = instance.member(cluster).json(&["get", "deployment", ACCOUNT, "-n", AGENT_NAMESPACE])?;
    let named = deployment.pointer("/spec/template/spec/containers/0/image");
    ensure!(named == Some(&json!(image)), "the agents' image: {deployment}");
    give_token(instance, cluster).map(drop)
}

/// Writes the agents' token for the agent, as a kubelet does. Returns whether it has changed.
fn give_token(instance: &Instance, cluster: &str) -> Result<bool> {
    let (kept, file) = (agents_token(instance, cluster)?, instance.layout.path(TOKEN_FILE));
    let is_new = std::fs::read_to_string(&file).ok().as_ref() != Some(&kept);
    secret(&file, &kept)?;
    Ok(is_new)
}

fn agents_token(instance: &Instance, cluster: &str) -> Result<String> {
    let kept = instance.member(cluster).json(&["get", "secret", ACCOUNT, "-n", AGENT_NAMESPACE])?;
    let encoded = kept.pointer("/data/token").and_then(Value::as_str).context("no token")?;
    Ok(String::from_utf8(BASE64_STANDARD.decode(encoded)?)?)
}

/// The server reads its certificate only at its start. Until it is restarted, the controllers report that the file has
/// another one.
fn certificate_is_rotated(instance: &Instance, cluster: &str) -> Result<()> {
    let told = |wanted: u16| {
        wait::until(&format!("/livez/tunnel answers {wanted}"), SOON, || {
            for (_, port) in &instance.controller_admin_ports {
                match programs::get(*port, "/livez/tunnel") {
                    Ok((code, _)) if code == wanted => {}
                    Ok((code, why)) => return Ok(Progress::Pending(format!("{code}: {why}"))),
                    Err(error) => return Ok(Progress::Pending(error.to_string())),
                }
            }
            Ok(Progress::Done(()))
        })
    };
    told(200)?;
    for (_, port) in &instance.controller_admin_ports {
        let (_, metrics) = programs::answer(*port, "/metrics")?;
        contains(&metrics, &["\nbusiness_controller_tunnel_certificate_expiration_timestamp_seconds{} "])?;
    }
    let pki = Pki::open(&instance.layout.path("pki"))?;
    pki.issue(AUTHORITY, TUNNEL, &CertificateSubject::server(&[LOOPBACK]))?;
    told(500)?;
    instance.supervisor.kill_and_pause(SERVER)?;
    instance.supervisor.resume(SERVER)?;
    told(200)?;
    is_reachable(instance, cluster, "True")
}

/// Runs `rotate` and reports the agents' new pods as Ready once the server has accepted the agent with the new token.
fn token_is_rotated(instance: &Instance, directory: &Directory, cluster: &str) -> Result<()> {
    let path = instance.member(cluster).kubeconfig().to_string_lossy().into_owned();
    let (old, mut listed) = (agents_token(instance, cluster)?, token(instance, cluster)?);
    let operator = business(instance, &instance.kubectl)?;
    let mut command =
        operator.command(&["rotate", cluster, "--kubeconfig", &path, "--days", "2", "--timeout", "4m"]);
    let mut running = Background::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let said = wait::until("credentials and the agents' token are rotated", SOON, || {
        let kept = token(instance, cluster)?;
        if kept != listed {
            directory.enter_through(&format!("tunnel://{cluster}"), &kept, cluster)?;
            listed = kept;
        }
        run_pods(instance, cluster)?;
        let Some(output) = running.ended()? else {
            return Ok(Progress::Pending("the command goes on".to_owned()));
        };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(output.status.success(), "{said}");
        Ok(Progress::Done(said))
    })?;
    contains(
        &said,
        &["the old ones are refused", "waiting until the tunnel's agents use theirs", "rollout restart"],
    )?;
    let kept =
        instance.kubectl.json(&["get", "secret", &rotation::secret(cluster), "-n", MEMBERS_NAMESPACE])?;
    ensure!(kept.pointer("/metadata/annotations/business.tkestack.io~1agents-end").is_some(), "no end");
    ensure!(is_accepted(instance, &agents_token(instance, cluster)?)?, "the new token");
    wait::until("the agents' old token is refused", SOON, || {
        Ok(if is_accepted(instance, &old)? {
            Progress::Pending("it is taken".to_owned())
        } else {
            Progress::Done(())
        })
    })?;
    is_reachable(instance, cluster, "True")
}

/// Does what kubelets do with the agents' pods.
fn run_pods(instance: &Instance, cluster: &str) -> Result<()> {
    let member = instance.member(cluster);
    let label = format!("app.kubernetes.io/name={ACCOUNT}");
    let pods = member.json(&["get", "pods", "-n", AGENT_NAMESPACE, "-l", &label])?;
    if give_token(instance, cluster)? {
        instance.supervisor.kill_and_pause(AGENT)?;
        instance.supervisor.resume(AGENT)?;
    }
    is_reachable(instance, cluster, "True")?;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for pod in pods.get("items").and_then(Value::as_array).into_iter().flatten() {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).context("no name")?;
        let patch = ["--type=merge", "-p", &ready.to_string()];
        // The pod may be deleted meanwhile.
        let at = ["patch", "pod", name, "-n", AGENT_NAMESPACE, "--subresource=status"];
        drop(member.output(&[&at[..], &patch].concat(), None)?);
    }
    Ok(())
}

/// Whether kube-apiserver accepts the token, as the tunnel's server asks it.
fn is_accepted(instance: &Instance, token: &str) -> Result<bool> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [ACCOUNT]},
    });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = instance.kubectl.feed(&["create", "--raw", path, "-f", "-"], &review.to_string())?;
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(answer.pointer("/status/authenticated") == Some(&json!(true)))
}

fn until_unreachable(instance: &Instance, cluster: &str) -> Result<()> {
    job::until(&instance.kubectl, &["membercluster", cluster], |object| {
        condition(object, "Reachable").is_some_and(|one| one.get("status") != Some(&json!("True")))
    })
    .map(drop)
}

fn is_reachable(instance: &Instance, cluster: &str, status: &str) -> Result<()> {
    let is_so = |object: &Value| {
        condition(object, "Reachable").is_some_and(|one| one.get("status") == Some(&json!(status)))
    };
    job::until(&instance.kubectl, &["membercluster", cluster], is_so).map(drop)
}

fn works(instance: &Instance, cluster: &str) -> Result<()> {
    let k = &instance.kubectl;
    let reachable = |status: &str| is_reachable(instance, cluster, status);
    reachable("True")?;
    apply(k, &namespace("tunnel", cluster, "first", SMALL))?;
    until_available(k, "tunnel", &format!("{cluster}-first"))?;
    instance.supervisor.kill_and_pause(AGENT)?;
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

/// The flags of a container in a manifest.
struct ContainerFlags(BTreeMap<String, String>);

impl ContainerFlags {
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

    /// The arguments, with other values for this machine. These must include each flag that a pod or `join` fills in.
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

/// Whether the value has a variable of the pod or a placeholder in capitals.
fn is_to_be_filled_in(value: &str) -> bool {
    value.contains('$') || value.as_bytes().windows(2).any(|pair| pair.iter().all(u8::is_ascii_uppercase))
}

/// Both ends of the tunnel as processes of this machine.
struct TunnelProcesses {
    /// The port of the server that the agent dials.
    port: u16,
    /// The CA of the server's certificate.
    authority: PathBuf,
    server: Spec,
    agent: Spec,
    server_health: u16,
    agent_health: u16,
}

impl TunnelProcesses {
    fn of(instance: &Instance) -> Result<Self> {
        let port = |name: &str| instance.supervisor.port(instance.layout.first_port, name, name);
        let (agent_port, admin, health) = (port(TUNNEL)?, port("tunnel-admin")?, port("tunnel-health")?);
        let (agent_admin, agent_health) = (port("tunnel-agent-admin")?, port("tunnel-agent-health")?);

        let pki = Pki::open(&instance.layout.path("pki"))?;
        pki.authority(AUTHORITY)?;
        pki.issue(AUTHORITY, TUNNEL, &CertificateSubject::server(&[LOOPBACK]))?;
        let server = ContainerFlags::of(&manifests::render(&instance.kubectl, SERVER_SIDE)?, "tunnel")?
            .with(&[
                ("uds-name", instance.layout.path(TUNNEL_SOCKET).display().to_string()),
                ("agent-bind-address", LOOPBACK.to_owned()),
                ("agent-port", agent_port.to_string()),
                ("admin-bind-address", LOOPBACK.to_owned()),
                ("admin-port", admin.to_string()),
                ("health-bind-address", LOOPBACK.to_owned()),
                ("health-port", health.to_string()),
                ("cluster-cert", pki.cert(TUNNEL).display().to_string()),
                ("cluster-key", pki.key(TUNNEL).display().to_string()),
                ("server-id", "one".to_owned()),
                ("server-count", "1".to_owned()),
                ("kubeconfig", instance.kubectl.kubeconfig().display().to_string()),
            ])?;
        let agent = ContainerFlags::of(&manifests::read(&layout::workspace().join(AGENT_SIDE))?, "agent")?
            .with(&[
                ("proxy-server-host", LOOPBACK.to_owned()),
                ("proxy-server-port", agent_port.to_string()),
                ("ca-cert", pki.cert(AUTHORITY).display().to_string()),
                ("service-account-token-path", instance.layout.path(TOKEN_FILE).display().to_string()),
                // The host of the server in the cluster's kubeconfig.
                ("agent-identifiers", format!("ipv4={LOOPBACK}")),
                ("admin-server-port", agent_admin.to_string()),
                ("health-server-host", LOOPBACK.to_owned()),
                ("health-server-port", agent_health.to_string()),
            ])?;
        let spec = |program: &str, args: &[String]| {
            Spec::new(program, &layout::bin().join(program)).args(args.iter().cloned())
        };
        Ok(Self {
            port: agent_port,
            authority: pki.cert(AUTHORITY),
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
        // The server is ready when an agent is connected, and the agent when a server has accepted it.
        programs::ready(supervisor, SERVER, self.server_health)?;
        programs::ready(supervisor, AGENT, self.agent_health)
    }
}
