//! Starts an instance: PostgreSQL, the control planes, business-api and business-controller, in this order.

use crate::controlplane::{self, ControlPlane};
use crate::fleet::{self, Fleet, FleetOptions};
use crate::identity::{self, LoginServer, Provider};
use crate::kubeconfig::{self, Kubeconfig};
use crate::kubectl::Kubectl;
use crate::layout::{self, Layout};
use crate::manifests::{self, APISERVICE, Address, NAMESPACE, SERVICE};
use crate::objects::{Hard, project};
use crate::patroni::{HaOptions, HaPorts, PatroniCluster};
use crate::pki::{CertificateSubject, Pki};
use crate::postgres::Postgres;
use crate::programs::{self, Api, ApiSettings, Certificates, Controller};
use crate::registry::{self, Registry, TokenServer};
use crate::supervisor::Supervisor;
use crate::token::TokenIssuer;
use crate::wait::{self, Progress};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::net::{ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::say;

/// The host cluster, which is a member cluster, too.
pub const HOST_CLUSTER: &str = "local";
/// Kubeconfigs with a context for each cluster: the controller's credentials, the credentials that sign certificates, and
/// the addresses for people.
const MEMBERS: &str = "programs/members.kubeconfig";
const SIGNERS: &str = "programs/signers.kubeconfig";
const ENDPOINTS: &str = "programs/endpoints.kubeconfig";
const MEMBERS_MAX: u8 = 20;
const REPLICAS_MAX: u8 = 8;
const AVAILABLE: Duration = Duration::from_mins(3);

/// The parts of an instance.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The kubeconfig of the user's own cluster, in place of a local control plane.
    pub kubeconfig: Option<PathBuf>,
    /// Member clusters besides the host cluster.
    pub members: u8,
    /// Address under which that cluster's kube-apiserver reaches this machine.
    pub advertise_address: Option<String>,
    /// Replicas of business-api; the aggregator asks the first.
    pub replicas: u8,
    /// Replicas of business-controller; the first issues certificates.
    pub controllers: u8,
    /// Simulated member clusters, with separate credentials and connections for each controller.
    pub fleet: Option<FleetOptions>,
    /// The user's own PostgreSQL, in place of a private one.
    pub database_url: Option<String>,
    /// Whether the private PostgreSQL uses TLS.
    pub database_tls: bool,
    /// Whether the private PostgreSQL archives its WAL, so that it can be backed up.
    pub archives: bool,
    /// PostgreSQL on several nodes.
    pub ha: Option<HaOptions>,
    /// Whether business-api and business-controller are left out.
    pub bare: bool,
    /// The interval of audits of the member clusters; without it the controller's default.
    pub audit_period: Option<String>,
    /// The time within which member clusters recount usage; without it the controller's default.
    pub quota_recount: Option<String>,
}

/// A started instance.
#[derive(Debug)]
pub struct Instance {
    pub layout: Layout,
    pub supervisor: Supervisor,
    /// The operator's kubectl, through kube-apiserver.
    pub kubectl: Kubectl,
    /// Names of the member clusters, the host cluster first.
    pub clusters: Vec<String>,
    pub apis: Vec<Api>,
    /// Name and port for probes and metrics of each controller.
    pub controller_admin_ports: Vec<(String, u16)>,
    /// The simulated clusters, if there are any.
    pub fleet: Option<Fleet>,
    pub database_url: String,
    /// The private PostgreSQL, if there is one.
    pub postgres: Option<Postgres>,
    /// The nodes of PostgreSQL, if it has several.
    pub patroni: Option<PatroniCluster>,
    /// Signs tokens of tenants.
    pub issuer: TokenIssuer,
    /// The identity provider, if its program could be built.
    pub provider: Option<Provider>,
    /// The registry, if its program could be built.
    pub registry: Option<Registry>,
}

impl Instance {
    /// Starts all parts. If one does not start, it stops those that have started.
    pub fn start(layout: &Layout, options: &Options) -> Result<Self> {
        ensure!(options.members <= MEMBERS_MAX, "at most {MEMBERS_MAX} members");
        let most = options.replicas.max(options.controllers);
        ensure!(most <= REPLICAS_MAX, "at most {REPLICAS_MAX} replicas");
        for dir in ["logs", "members", "programs", "home"] {
            std::fs::create_dir_all(layout.path(dir))?;
        }
        let supervisor = Supervisor::open(&layout.dir)?;
        let started = Starter::new(layout, &supervisor, options).and_then(Starter::run);
        if started.is_err() {
            supervisor.stop().context("stop after a failed start")?;
        }
        started
    }

    /// kubectl as the administrator of a member cluster.
    pub fn member(&self, cluster: &str) -> Kubectl {
        self.kubectl.with_kubeconfig(&self.layout.path("members").join(format!("{cluster}.kubeconfig")))
    }

    /// The kubeconfig in which the controller finds the member clusters.
    pub fn members_kubeconfig(&self) -> PathBuf {
        self.layout.path(MEMBERS)
    }

    /// kubectl as a member of the break-glass group: the cluster's policies allow it to write the platform's objects.
    pub fn break_glass(&self, cluster: &str) -> Kubectl {
        self.member(cluster).acting(&[
            "--as=operator",
            "--as-group=business:break-glass",
            "--as-group=system:masters",
        ])
    }

    /// kubectl as the tenant's administrator, directly at business-api.
    pub fn tenant(&self) -> Kubectl {
        self.kubectl.with_kubeconfig(&self.layout.path("tenant.kubeconfig"))
    }

    pub fn stop(self) -> Result<()> {
        self.supervisor.stop()
    }
}

/// The cluster with the platform's APIService.
enum Host {
    Local(ControlPlane),
    /// The kubeconfig of the user's own cluster.
    Given(PathBuf),
}

/// The URL of the user's own PostgreSQL, once it is checked.
fn checked_database(url: &str) -> Result<String> {
    say::step("the PostgreSQL that was named is fit", || {
        programs::check_database(url).map(|()| url.to_owned())
    })
}

struct Starter<'a> {
    layout: &'a Layout,
    supervisor: &'a Supervisor,
    options: &'a Options,
    pki: Pki,
}

impl<'a> Starter<'a> {
    fn new(layout: &'a Layout, supervisor: &'a Supervisor, options: &'a Options) -> Result<Self> {
        Ok(Self { layout, supervisor, options, pki: Pki::open(&layout.path("pki"))? })
    }

    /// The port with a name, on which the process `child` listens. It stays the same at the next start.
    fn port(&mut self, name: &str, child: &str) -> Result<u16> {
        self.supervisor.port(self.layout.first_port, name, child)
    }

    fn run(mut self) -> Result<Instance> {
        let patroni = self.options.ha.map(|ha| self.patroni(ha)).transpose()?;
        let (database_url, postgres) = match (&patroni, &self.options.database_url) {
            (Some(patroni), _) => (patroni.url(), None),
            (None, Some(url)) => (checked_database(url)?, None),
            (None, None) => self.postgres().map(|postgres| (postgres.url(), Some(postgres)))?,
        };
        let issuer = self.issuer()?;
        let provider = self.provider(&issuer)?;
        let (host, members) = self.control_planes(provider.as_ref())?;
        let kubeconfig = self.layout.path("kubeconfig");
        let kubectl = self.kubectl(&kubeconfig);
        let clusters =
            std::iter::once(HOST_CLUSTER.to_owned()).chain(members.iter().map(|m| m.name.clone())).collect();
        let mut instance = Instance {
            layout: self.layout.clone(),
            supervisor: self.supervisor.clone(),
            kubectl,
            clusters,
            apis: Vec::new(),
            controller_admin_ports: Vec::new(),
            fleet: None,
            database_url,
            postgres,
            patroni,
            issuer,
            provider,
            registry: None,
        };
        if !self.options.bare {
            self.business(&host, &members, &mut instance)?;
        }
        self.supervisor.stop_leftover_children()?;
        self.supervisor.state(|state| state.ready = true)?;
        Ok(instance)
    }

    fn kubectl(&self, kubeconfig: &Path) -> Kubectl {
        Kubectl::new(&layout::bin().join("kubectl"), kubeconfig, &self.layout.path("home"))
    }

    fn postgres(&mut self) -> Result<Postgres> {
        let port = self.port("postgres", "postgres")?;
        say::step("PostgreSQL ready", || {
            let mut postgres = Postgres::prepare(self.layout, self.supervisor, port, self.options.archives)?;
            if self.options.database_tls {
                postgres = postgres.with_tls(&self.pki)?;
            }
            self.supervisor.start(postgres.spec())?;
            postgres.wait(self.supervisor)?;
            Ok(postgres)
        })
    }

    fn patroni(&mut self, options: HaOptions) -> Result<PatroniCluster> {
        let ports = HaPorts::choose(options, |name, child| self.port(name, child))?;
        say::step("PostgreSQL ready on three nodes, one of them synchronous", || {
            let cluster = PatroniCluster::prepare(self.layout, self.supervisor, ports, options)?;
            cluster.specs()?.into_iter().try_for_each(|spec| self.supervisor.start(spec))?;
            cluster.wait(self.supervisor)?;
            Ok(cluster)
        })
    }

    fn replica_names(&self) -> Vec<String> {
        numbered("business-api", self.options.replicas)
    }

    /// Signs tokens, under the URL of the identity provider.
    fn issuer(&mut self) -> Result<TokenIssuer> {
        let port = self.port(identity::NAME, identity::NAME)?;
        TokenIssuer::open(&self.layout.path("pki"), format!("https://127.0.0.1:{port}"))
    }

    /// Starts the identity provider. It is first because servers get its keys when they start.
    fn provider(&mut self, issuer: &TokenIssuer) -> Result<Option<Provider>> {
        if self.options.bare {
            return Ok(None);
        }
        if !identity::is_there() {
            say::skipped("the identity provider's program is not there: nobody can log in");
            return Ok(None);
        }
        let port = self.port(identity::NAME, identity::NAME)?;
        let mut consoles = Vec::new();
        for name in self.replica_names() {
            let port = self.port(&format!("{name}-console"), &name)?;
            consoles.push(format!("https://localhost:{port}"));
        }
        say::step("identity provider ready", || {
            let provider = Provider::prepare(self.layout, port, issuer, consoles)?;
            self.supervisor.start(provider.spec())?;
            provider.wait(self.supervisor)?;
            Ok(Some(provider))
        })
    }

    fn control_planes(&mut self, provider: Option<&Provider>) -> Result<(Host, Vec<ControlPlane>)> {
        let mut names = Vec::new();
        if self.options.kubeconfig.is_none() {
            names.push(HOST_CLUSTER.to_owned());
        }
        names.extend((1..=self.options.members).map(|number| format!("member-{number}")));
        if !names.is_empty() {
            let (port, peer) = (self.port("etcd", "etcd")?, self.port("etcd-peer", "etcd")?);
            self.supervisor.start(controlplane::etcd(self.layout, port, peer)?)?;
        }
        // All start in parallel.
        let mut planes = Vec::new();
        for name in names {
            planes.push(self.start_cluster(&name, provider)?);
        }
        planes.iter().try_for_each(|plane| self.cluster_ready(plane))?;
        let host = match &self.options.kubeconfig {
            None => Host::Local(planes.remove(0)),
            Some(file) => Host::Given(self.import_kubeconfig(file)?),
        };
        Ok((host, planes))
    }

    fn start_cluster(&mut self, name: &str, provider: Option<&Provider>) -> Result<ControlPlane> {
        let apiserver = format!("kube-apiserver-{name}");
        let port = self.port(&apiserver, &apiserver)?;
        let authentication_config = provider.map(Provider::authentication_config);
        let mut plane = ControlPlane::prepare(self.layout, name, port, authentication_config)?;
        if self.options.fleet.is_some() {
            plane = plane.audited()?;
        }
        self.supervisor.start(plane.apiserver()?)?;
        Ok(plane)
    }

    fn cluster_ready(&self, plane: &ControlPlane) -> Result<()> {
        let name = &plane.name;
        say::step(&format!("cluster {name} ready"), || {
            plane.wait(self.supervisor, &self.kubectl(&plane.admin()))?;
            self.supervisor.start(plane.controllers())?;
            std::fs::copy(plane.operator(), self.layout.path("members").join(format!("{name}.kubeconfig")))?;
            if name == HOST_CLUSTER {
                std::fs::copy(plane.operator(), self.layout.path("kubeconfig"))?;
            }
            Ok(())
        })
    }

    /// Writes the current context of the user's kubeconfig, with the content of the files that it names.
    fn import_kubeconfig(&self, file: &Path) -> Result<PathBuf> {
        let text = self.kubectl(file).run(&["config", "view", "--raw", "--flatten", "--minify"])?;
        let own = self.layout.path("kubeconfig");
        crate::pki::secret(&own, &text)?;
        crate::pki::secret(&self.layout.path("members").join(format!("{HOST_CLUSTER}.kubeconfig")), &text)?;
        self.kubectl(&own)
            .run(&["get", "--raw", "/readyz", "--request-timeout=10s"])
            .with_context(|| format!("reach the cluster of {}", file.display()))?;
        Ok(own)
    }

    /// Applies the manifests and starts the registry, business-api and business-controller.
    fn business(&mut self, host: &Host, members: &[ControlPlane], instance: &mut Instance) -> Result<()> {
        let admin = self.kubectl(&match host {
            Host::Local(plane) => plane.admin(),
            Host::Given(file) => file.clone(),
        });
        let like = admin.json(&["config", "view", "--raw", "--flatten", "--minify"])?;
        let address = self.advertised(&like)?;
        instance.apis = self.replicas(&address)?;
        let first = instance.apis.first().context("no replica")?.clone();
        self.serving_certificate(&address)?;
        instance.fleet = self.options.fleet.map(|options| self.fleet(options)).transpose()?;
        let fleet = instance.fleet.as_ref();
        let issuer_port = self.port("business-controller-issuer", "business-controller")?;
        let certificates = Certificates::prepare(&self.pki, issuer_port)?;
        let ca = std::fs::read_to_string(self.pki.cert("serving-ca"))?;
        say::step("rights, Service and APIService applied", || {
            manifests::apply_local(&admin, &Address { host: address, port: first.port, ca })?;
            self.member_kubeconfigs(&admin, &like, members, fleet)
        })?;
        instance.registry = self.registry()?;
        self.start_apis(host, &admin, &like, instance, &certificates)?;
        tenant_kubeconfig(self.layout, &self.pki, &instance.issuer, &first)?;
        say::step("business-api ready", || {
            instance.apis.iter().try_for_each(|api| api.wait(self.supervisor))?;
            apiservice_available(&admin)
        })?;
        self.write_login_servers(host, instance, &first)?;
        self.start_registry(instance, &first)?;
        for name in numbered("business-controller", self.options.controllers) {
            let admin_port = self.port(&name, &name)?;
            instance.controller_admin_ports.push((name, admin_port));
        }
        say::step("business-controller ready", || {
            self.start_controllers(&admin, &like, instance, &certificates)
        })?;
        let simulated = instance.fleet.iter().flat_map(|fleet| &fleet.clusters);
        let clusters: Vec<String> = instance.clusters.iter().chain(simulated).cloned().collect();
        say::step("clusters known to business-api", || clusters_known(&admin, &clusters))
    }

    /// Starts the simulated clusters.
    fn fleet(&mut self, options: FleetOptions) -> Result<Fleet> {
        let fleet = Fleet::choose(self.layout, options, |name, child| self.port(name, child))?;
        say::step("simulated clusters ready", || {
            self.supervisor.start(fleet.simulated()?)?;
            fleet.wait(self.supervisor)
        })?;
        Ok(fleet)
    }

    fn start_controllers(
        &mut self,
        admin: &Kubectl,
        like: &Value,
        instance: &Instance,
        certificates: &Certificates,
    ) -> Result<()> {
        let kubeconfig = self.layout.path("programs/business-controller.kubeconfig");
        programs::kubeconfig(admin, like, "business-controller", &kubeconfig)?;
        let mut certificates = Some(certificates);
        for (name, admin_port) in &instance.controller_admin_ports {
            let (mut kubeconfig, mut members) = (kubeconfig.clone(), self.layout.path(MEMBERS));
            if let Some(fleet) = &instance.fleet {
                let port = self.port(&fleet::cable_of(name), &fleet::cable_of(name))?;
                let server = kubeconfig::server(like).context("the kubeconfig names no server")?;
                self.supervisor.start(fleet::cable(name, port, &server)?)?;
                kubeconfig = self.layout.path(&format!("programs/{name}.kubeconfig"));
                programs::kubeconfig(admin, &fleet::through(like, port), "business-controller", &kubeconfig)?;
                members = fleet.members(name);
            }
            let controller = Controller {
                name,
                kubeconfig: &kubeconfig,
                members: &members,
                signers: &self.layout.path(SIGNERS),
                endpoints: &self.layout.path(ENDPOINTS),
                certificates: certificates.take(),
                admin_port: *admin_port,
                tunnel_port: self.port(programs::TUNNEL, programs::TUNNEL)?,
                audit_period: self.options.audit_period.as_deref(),
                quota_recount: self.options.quota_recount.as_deref(),
                times: self.options.fleet.map(|options| options.times),
                registry: instance.registry.as_ref(),
                authority: &self.pki.cert("serving-ca"),
            };
            self.supervisor.start(controller.spec(self.layout)?)?;
        }
        let mut all = instance.controller_admin_ports.iter();
        all.try_for_each(|(name, admin_port)| programs::ready(self.supervisor, name, *admin_port))
    }

    fn start_apis(
        &self,
        host: &Host,
        admin: &Kubectl,
        like: &Value,
        instance: &Instance,
        certificates: &Certificates,
    ) -> Result<()> {
        let kubeconfig = self.layout.path("programs/business-api.kubeconfig");
        programs::kubeconfig(admin, like, "business-api", &kubeconfig)?;
        let client_ca = match host {
            Host::Local(plane) => Some(plane.client_ca()),
            Host::Given(_) => None,
        };
        let settings = ApiSettings {
            database_url: &instance.database_url,
            kubeconfig: &kubeconfig,
            certificate: &self.pki.cert("serving"),
            key: &self.pki.key("serving"),
            client_ca,
            issuer: &instance.issuer,
            provider: instance.provider.as_ref(),
            certificates,
            registry: instance.registry.as_ref(),
        };
        instance.apis.iter().try_for_each(|api| self.supervisor.start(api.spec(&settings)?))
    }

    /// Writes the servers that kubeconfigs of people have: kube-apiserver, if it is a local one, and business-api.
    fn write_login_servers(&self, host: &Host, instance: &Instance, api: &Api) -> Result<()> {
        let Some(provider) = &instance.provider else { return Ok(()) };
        let mut login_servers = Vec::new();
        if let Host::Local(plane) = host {
            let (server, authority) = (plane.server(), plane.client_ca());
            login_servers.push(LoginServer { context: "kubernetes".to_owned(), server, authority });
        }
        let server = format!("https://{}:{}", api.host, api.port);
        let authority = self.pki.cert(identity::AUTHORITY);
        login_servers.push(LoginServer { context: "direct".to_owned(), server, authority });
        provider.write_login_servers(&login_servers)
    }

    fn registry(&mut self) -> Result<Option<Registry>> {
        if !registry::is_there() {
            say::skipped("the registry's program is not there: `up` runs without one");
            return Ok(None);
        }
        let port = self.port(registry::NAME, registry::NAME)?;
        Registry::prepare(self.layout, port).map(Some)
    }

    fn start_registry(&self, instance: &Instance, api: &Api) -> Result<()> {
        let Some(registry) = &instance.registry else { return Ok(()) };
        // go-containerregistry refuses a token server at a private IP address.
        let host = if api.host == "127.0.0.1" { "localhost" } else { &api.host };
        let url = format!("https://{host}:{}", api.port);
        let authority = self.pki.cert("serving-ca");
        say::step("registry ready", || {
            let spec = registry.spec(TokenServer { url: &url, authority: &authority })?;
            if !self.supervisor.left_behind(registry::NAME) {
                registry.collect_garbage()?;
            }
            self.supervisor.start(spec)?;
            registry.wait(self.supervisor)
        })
    }

    fn replicas(&mut self, host: &str) -> Result<Vec<Api>> {
        let mut apis = Vec::new();
        for name in self.replica_names() {
            let port = self.port(&name, &name)?;
            let admin_port = self.port(&format!("{name}-admin"), &name)?;
            let console_port = self.port(&format!("{name}-console"), &name)?;
            apis.push(Api { name, host: host.to_owned(), port, admin_port, console_port });
        }
        Ok(apis)
    }

    /// The address at which the host cluster's kube-apiserver reaches business-api.
    fn advertised(&self, like: &Value) -> Result<String> {
        if let Some(address) = &self.options.advertise_address {
            return Ok(address.clone());
        }
        let server = kubeconfig::server(like).context("the kubeconfig names no server")?;
        let authority = server.split("://").nth(1).unwrap_or(&server).split('/').next().unwrap_or_default();
        let target = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:443") };
        let Some(remote) = target.to_socket_addrs().with_context(|| format!("resolve {target}"))?.next()
        else {
            bail!("{target} has no address");
        };
        let any = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(remote).with_context(|| format!("find the way to {remote}"))?;
        Ok(socket.local_addr()?.ip().to_string())
    }

    fn serving_certificate(&self, address: &str) -> Result<()> {
        self.pki.authority("serving-ca")?;
        let name = format!("{SERVICE}.{NAMESPACE}.svc");
        let names = [name.as_str(), "localhost", "127.0.0.1", address];
        self.pki.issue("serving-ca", "serving", &CertificateSubject::server(&names))
    }

    /// Gives the controller its rights in the clusters and writes [`MEMBERS`], [`SIGNERS`] and [`ENDPOINTS`].
    fn member_kubeconfigs(
        &self,
        admin: &Kubectl,
        like: &Value,
        members: &[ControlPlane],
        fleet: Option<&Fleet>,
    ) -> Result<()> {
        let mut clusters = vec![(HOST_CLUSTER.to_owned(), admin.clone(), like.clone())];
        for plane in members {
            let kubectl = self.kubectl(&plane.admin());
            let like = kubectl.json(&["config", "view", "--raw", "--flatten", "--minify"])?;
            clusters.push((plane.name.clone(), kubectl, like));
        }
        let [mut signers, mut endpoints] = [(); 2].map(|()| Kubeconfig::default());
        for (name, kubectl, like) in &clusters {
            manifests::apply_member(kubectl)?;
            let signer = programs::service_account(kubectl, "business-signer")?;
            signers = signers.context_like(name, like, &signer)?;
            endpoints = endpoints.context_like(name, like, &json!({}))?;
        }
        signers.write(&self.layout.path(SIGNERS))?;
        endpoints.write(&self.layout.path(ENDPOINTS))?;
        let workers = || {
            clusters.iter().try_fold(Kubeconfig::default(), |workers, (name, kubectl, like)| {
                workers.context_like(name, like, &programs::service_account(kubectl, "business-member")?)
            })
        };
        for controller in numbered("business-controller", self.options.controllers) {
            if let Some(fleet) = fleet {
                fleet.with_simulated(workers()?, &controller).write(&fleet.members(&controller))?;
            }
        }
        workers()?.write(&self.layout.path(MEMBERS))
    }
}

/// The names of a program's replicas. Zero replicas count as one.
fn numbered(program: &str, replicas: u8) -> Vec<String> {
    let others = (2..=replicas).map(|number| format!("{program}-{number}"));
    std::iter::once(program.to_owned()).chain(others).collect()
}

fn tenant_kubeconfig(layout: &Layout, pki: &Pki, issuer: &TokenIssuer, api: &Api) -> Result<()> {
    let token = issuer.token("tenant-admin", Some("default"), &["tenant-admins"])?;
    let server = format!("https://{}:{}", api.host, api.port);
    Kubeconfig::default()
        .context("tenant", &server, &pki.cert("serving-ca"), &kubeconfig::token(&token))?
        .write(&layout.path("tenant.kubeconfig"))
}

/// Waits until business-api knows every cluster. Other refusals do not matter: growth may be held.
fn clusters_known(kubectl: &Kubectl, clusters: &[String]) -> Result<()> {
    let clusters: Vec<(&str, Hard<'_>)> = clusters.iter().map(|name| (name.as_str(), &[][..])).collect();
    let project = project("clusters-known", None, &clusters).to_string();
    wait::until("a project with every cluster", AVAILABLE, || {
        let output = kubectl.output(&["create", "--dry-run=server", "-f", "-"], Some(&project))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let unknown =
            ["clusters have not been read yet", "Not found"].iter().any(|told| complaint.contains(told));
        Ok(if output.status.success() || !unknown {
            Progress::Done(())
        } else {
            Progress::Pending(complaint.trim().to_owned())
        })
    })
}

/// Waits until kube-apiserver forwards requests to business-api.
pub fn apiservice_available(kubectl: &Kubectl) -> Result<()> {
    wait::until("APIService available", AVAILABLE, || {
        let object = match kubectl.json(&["get", "apiservice", APISERVICE]) {
            Ok(object) => object,
            Err(error) => return Ok(Progress::Pending(error.to_string())),
        };
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let available = conditions.into_iter().flatten().find(|c| c.get("type") == Some(&"Available".into()));
        Ok(match available.and_then(|condition| condition.get("status")?.as_str()) {
            Some("True") => Progress::Done(()),
            _ => Progress::Pending(available.map(Value::to_string).unwrap_or_default()),
        })
    })
}
