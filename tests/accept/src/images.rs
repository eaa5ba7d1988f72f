//! The images as they are shipped: started as deploy/ says, beside a real PostgreSQL and a real kube-apiserver.

/// A program in the root of its image.
mod container;
/// Names of a cluster.
mod dns;

use anyhow::{Context as _, Result, ensure};
use container::{Container, Pod};
use dns::Dns;
use instance::kubeconfig;
use instance::kubectl::Kubectl;
use instance::layout::{self, Layout};
use instance::manifests::{self, Address, NAMESPACE};
use instance::pki::{CertificateSubject, Pki};
use instance::platform;
use instance::wait::{self, Progress};
use instance::{Instance, Options, programs, up};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::say::{self, Count};

/// What the Deployments are rendered from.
const OVERLAY: &str = "deploy/overlays/prod";
const API: &str = "business-api";
const CONTROLLER: &str = "business-controller";
/// Where the database is in the Secret of docs/install.md; the name servers of the pods know it.
const DATABASE_HOST: &str = "postgres.databases.svc.cluster.local";
const HOST: &str = "127.0.0.1";
const READY: Duration = Duration::from_mins(3);

/// Starts both, and looks at them as a kubelet and kube-apiserver do.
pub(crate) fn check() -> Result<Count> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        say::skipped("only root may start an image: give it a root of its own and another user");
        return Ok(Count::default());
    }
    let layout = Layout::of_manifests();
    up::clear(&layout)?;
    let instance = Instance::start(&layout, &Options { bare: true, ..Options::default() })?;
    let outcome = Trial::new(&instance).and_then(|trial| trial.run());
    instance.stop()?;
    outcome?;
    up::clear(&layout)?;
    Ok(Count::ONE)
}

struct Trial<'a> {
    instance: &'a Instance,
    objects: Vec<Value>,
    pki: Pki,
    dns: Option<Dns>,
    /// What the programs listen on, by what deploy/ says.
    ports: BTreeMap<u16, u16>,
}

impl<'a> Trial<'a> {
    fn new(instance: &'a Instance) -> Result<Self> {
        let objects = manifests::render(&instance.kubectl, OVERLAY)?;
        let pki = Pki::open(&instance.layout.path("pki"))?;
        let dns = Dns::serve(HOST)?;
        if dns.is_none() {
            say::line("      port 53 is taken: the database's name is looked up in /etc/hosts");
        }
        let mut ports = BTreeMap::new();
        for port in [6443, 8080, 8081] {
            ports.insert(port, std::net::TcpListener::bind((HOST, 0))?.local_addr()?.port());
        }
        Ok(Self { instance, objects, pki, dns, ports })
    }

    fn run(&self) -> Result<()> {
        let kubectl = &self.instance.kubectl;
        let ca = self.certificate()?;
        let host = HOST.to_owned();
        manifests::apply_local(kubectl, &Address { host, port: self.port(6443), ca })?;
        let api = say::step("business-api starts from its image", || self.start(API))?;
        say::step("it is alive and ready as its probes ask", || self.probe(&api))?;
        say::step("kube-apiserver reaches it", || {
            platform::apiservice_available(kubectl)?;
            kubectl.run(&["get", "projects,tenants"]).map(drop)
        })?;
        let controller = say::step("business-controller starts from its image", || self.start(CONTROLLER))?;
        say::step("it is alive and ready as its probes ask", || self.probe(&controller))?;
        for container in [&api, &controller] {
            say::step(&format!("{} is nobody, and writes nowhere", container.name), || {
                self.is_confined(container)
            })?;
            say::step(&format!("{} says its version", container.name), || container.says_version())?;
        }
        Ok(())
    }

    /// Of the address at which the first replica answers; tells its authority.
    fn certificate(&self) -> Result<String> {
        self.pki.authority("serving-ca")?;
        let names = [&format!("{API}.{NAMESPACE}.svc"), "localhost", HOST];
        self.pki.issue("serving-ca", "serving", &CertificateSubject::server(&names))?;
        Ok(std::fs::read_to_string(self.pki.cert("serving-ca"))?)
    }

    fn port(&self, said: u16) -> u16 {
        self.ports.get(&said).copied().unwrap_or(said)
    }

    fn start(&self, name: &str) -> Result<Container> {
        let deployment = self.objects.iter().find(|object| {
            object.get("kind") == Some(&"Deployment".into())
                && object.pointer("/metadata/name") == Some(&name.into())
        });
        let deployment = deployment.with_context(|| format!("{OVERLAY} has no Deployment {name}"))?;
        let root = self.instance.layout.path("images").join(name);
        let config = container::unpack(&archive(name)?, &root)?;
        let pod = Pod::of(deployment, |port| self.port(port), &self.environment()?)?;
        self.mount(name, &root)?;
        let container = Container::of(name, &root, &config, pod)?;
        self.instance.supervisor.start(container.spec())?;
        Ok(container)
    }

    /// What Secrets and the kubelet put into the environment.
    fn environment(&self) -> Result<BTreeMap<String, String>> {
        let database = self.instance.database_url.replace(HOST, DATABASE_HOST);
        let config = self.instance.kubectl.json(&["config", "view", "--raw", "--flatten", "--minify"])?;
        let server = kubeconfig::server(&config).context("a kubeconfig without a server")?;
        let (host, port) =
            server.trim_start_matches("https://").rsplit_once(':').context("a server without a port")?;
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Ok(BTreeMap::from([
            variable("DATABASE_URL", &database),
            variable("POD_NAME", "business-0"),
            variable("KUBERNETES_SERVICE_HOST", host),
            variable("KUBERNETES_SERVICE_PORT", port),
        ]))
    }

    /// What a kubelet mounts: names, the `ServiceAccount`'s token, Secrets.
    fn mount(&self, name: &str, root: &Path) -> Result<()> {
        let kubectl = &self.instance.kubectl;
        let write = |path: &str, text: &str| container::mount(root, path, text.as_bytes());
        let hosts = if self.dns.is_some() { String::new() } else { format!("{HOST} {DATABASE_HOST}\n") };
        write("etc/hosts", &format!("127.0.0.1 localhost\n{hosts}"))?;
        let server = self.dns.as_ref().map_or(HOST, |dns| dns.address());
        write("etc/resolv.conf", &format!("nameserver {server}\noptions ndots:5\n"))?;
        let account = "var/run/secrets/kubernetes.io/serviceaccount";
        let token = kubectl.run(&["create", "token", name, "--namespace", NAMESPACE])?;
        write(&format!("{account}/token"), token.trim())?;
        write(&format!("{account}/namespace"), NAMESPACE)?;
        write(&format!("{account}/ca.crt"), &authority(kubectl)?)?;
        write("tls/tls.crt", &std::fs::read_to_string(self.pki.cert("serving"))?)?;
        write("tls/tls.key", &std::fs::read_to_string(self.pki.key("serving"))?)
    }

    fn probe(&self, container: &Container) -> Result<()> {
        for probe in &container.pod.probes {
            self.instance.supervisor.wait(&container.name, READY, || {
                Ok(match programs::get(probe.port, &probe.path) {
                    Ok((200, _)) => Progress::Done(()),
                    Ok((code, text)) => {
                        Progress::Pending(format!("{} answers {code}: {}", probe.path, text.trim()))
                    }
                    Err(error) => Progress::Pending(error.to_string()),
                })
            })?;
        }
        let readiness = container.pod.probes.last().context("no probe")?;
        // With the database, which probes leave out.
        programs::ready(&self.instance.supervisor, &container.name, readiness.port)
    }

    fn is_confined(&self, container: &Container) -> Result<()> {
        let supervisor = &self.instance.supervisor;
        let pid = wait::until(&container.name, READY, || {
            Ok(supervisor
                .pid(&container.name)
                .map_or_else(|| Progress::Pending("no process".to_owned()), Progress::Done))
        })?;
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let status = std::fs::read_to_string(proc.join("status"))?;
        let line = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        let nobody = container.user();
        ensure!(line("Uid:").split_whitespace().all(|id| id == nobody), "it runs as {}", line("Uid:"));
        ensure!(line("Gid:").split_whitespace().all(|id| id == nobody), "its group is {}", line("Gid:"));
        ensure!(
            line("CapEff:").bytes().all(|digit| digit == b'0'),
            "it has capabilities: {}",
            line("CapEff:")
        );
        ensure!(line("NoNewPrivs:") == "1", "it may get more rights");
        let mounts = std::fs::read_to_string(proc.join("mountinfo"))?;
        let mut places = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(4);
            Some((fields.next()?, fields.next()?))
        });
        let root = places.rfind(|(place, _)| *place == "/").context("no root")?;
        ensure!(root.1.split(',').any(|option| option == "ro"), "its root can be written: {}", root.1);
        Ok(())
    }
}

/// kube-controller-manager makes it a while after the namespace.
fn authority(kubectl: &Kubectl) -> Result<String> {
    let config = wait::until("kube-root-ca.crt", READY, || {
        Ok(match kubectl.json(&["get", "configmap", "kube-root-ca.crt", "--namespace", NAMESPACE]) {
            Ok(config) => Progress::Done(config),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })?;
    let text = config.pointer("/data/ca.crt").and_then(Value::as_str);
    text.map(str::to_owned).context("no authority in kube-root-ca.crt")
}

/// The archive of an image, where the command that builds everything has linked it.
fn archive(name: &str) -> Result<PathBuf> {
    let directory = layout::workspace().join(".dev/images");
    let entries = std::fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.retain(|file| {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_of = stem.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        is_of && file.extension().is_some_and(|extension| extension == "tar")
    });
    ensure!(found.len() == 1, "{} holds {} archives of {name}", directory.display(), found.len());
    found.pop().context("no archive")
}
