//! What the program is told on its command line. Nothing else reads arguments or the environment.

use crate::dial::{Dialer, limit_silence};
use crate::error::Error;
use crate::fence::LeaseTimes;
use crate::issuer::serve::IssuerIdentity;
use crate::shares::SHARDS_MAX;
use crate::tunnel::TunnelServer;
use business_types::names::{self, MEMBERS_NAMESPACE};
use clap::{Args, Parser, Subcommand, ValueEnum};
use meta::quantity::byte_count;
use meta::validation::NameRule;
use runtime::telemetry::LogFormat;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A member cluster is not listed more often than this.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// The controller of business.tkestack.io/v1.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reconcile projects and namespaces.
    Run(Box<Config>),
    /// List the namespaces of a member cluster that nobody manages, as a file for `adopt`.
    Discover(Box<Discover>),
    /// Take the namespaces of a file, all or none. What runs in them goes on.
    Adopt(Box<Adopt>),
}

/// Where our API and the member clusters are, for a command of an operator.
#[derive(Clone, Debug, Args)]
pub struct MembersConfig {
    /// Kubeconfig of the cluster whose kube-apiserver serves our kinds. Without it: the cluster that the program
    /// runs in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Secrets of member clusters.
    #[arg(long, default_value = MEMBERS_NAMESPACE)]
    pub members_namespace: String,
    /// Member clusters, as `run` takes them.
    #[arg(long, value_name = "PATH", conflicts_with = "platform_kubeconfig")]
    pub members_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of TKE's platform API, to take the member clusters from there.
    #[arg(long, value_name = "FILE")]
    pub platform_kubeconfig: Option<PathBuf>,
    /// Namespaces of member clusters that are never ours; a trailing * stands for any ending. tke-business, where the
    /// controller's account is, is always among them.
    #[arg(long, value_delimiter = ',', default_values_t = names::FORBIDDEN_NAMESPACES.map(str::to_owned))]
    pub forbidden_namespaces: Vec<String>,
}

/// Options of `discover`.
#[derive(Clone, Debug, Args)]
pub struct Discover {
    /// The member cluster.
    pub cluster: String,
    /// Where to look.
    #[command(flatten)]
    pub members: MembersConfig,
    /// Label of a namespace whose value is the project that it is proposed to.
    #[arg(long, default_value = names::PROJECT_LABEL)]
    pub project_label: String,
    /// Form of the list: text is the file for `adopt`.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Options of `adopt`.
#[derive(Clone, Debug, Args)]
pub struct Adopt {
    /// The file, as `discover` writes it.
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
    /// Has everything decided, and takes nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Where to look.
    #[command(flatten)]
    pub members: MembersConfig,
    /// Form of what is said.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Form of what a command says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Options of `run`.
#[derive(Clone, Debug, Args)]
pub struct Config {
    /// Kubeconfig of the cluster whose kube-apiserver serves our kinds. Without it: the cluster that the program
    /// runs in.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Leases and of the Secret of seals.
    #[arg(long, default_value = "tke-business")]
    pub namespace: String,
    /// Namespace of the Secrets of member clusters: one of their own, so that the right to list them opens nothing else.
    #[arg(long, default_value = MEMBERS_NAMESPACE)]
    pub members_namespace: String,
    /// Member clusters: a kubeconfig whose contexts are the clusters, or a directory of NAME.kubeconfig files.
    /// Without it: Secrets with the label business.tkestack.io/cluster=NAME.
    #[arg(long, value_name = "PATH", conflicts_with = "platform_kubeconfig")]
    pub members_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of TKE's platform API, to take the member clusters from there.
    #[arg(long, value_name = "FILE")]
    pub platform_kubeconfig: Option<PathBuf>,
    /// Socket of Konnectivity's proxy-server, for member clusters whose kubeconfig says `proxy-url: tunnel://AGENT`.
    #[arg(long, value_name = "PATH")]
    pub tunnel_socket: Option<PathBuf>,
    /// Certificate of the proxy-server, which reads it once: /livez/tunnel says whether it shows this one. Its container is to be
    /// started anew when it does not.
    #[arg(long, value_name = "FILE", requires = "tunnel_socket")]
    pub tunnel_cert_file: Option<PathBuf>,
    /// Where agents dial the proxy-server, as it is reached from here.
    #[arg(long, default_value = "127.0.0.1:8091", value_name = "ADDRESS")]
    pub tunnel_address: SocketAddr,
    /// Where /livez, /readyz and /metrics are served, over plain HTTP.
    #[arg(long, default_value = "127.0.0.1:8081")]
    pub admin_bind: SocketAddr,
    /// Name in the Leases; no other process may have it. Without it: a name of its own.
    #[arg(long, value_parser = identity)]
    pub identity: Option<String>,
    /// How long a lease that is not renewed is respected.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub lease_duration: Duration,
    /// How long a replica tries to renew a lease before it gives up.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub renew_deadline: Duration,
    /// How often a lease is renewed.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub retry_period: Duration,
    /// Shares that the member clusters are divided into among the replicas. The same for all of them, and for good.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=i64::from(SHARDS_MAX)))]
    pub shards: u8,
    /// Deadline of every write to a member cluster, 2s at least.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub write_deadline: Duration,
    /// Time between two audits of the member clusters: every namespace of each is listed.
    #[arg(long, default_value = "5m", value_parser = period)]
    pub audit_period: Duration,
    /// Time within which member clusters count again what their quotas limit: the --resource-quota-sync-period of their
    /// kube-controller-managers, and a minute. What was in use when a limit was lowered stays charged for so long.
    #[arg(long, default_value = "6m", value_parser = period)]
    pub quota_recount: Duration,
    /// Memory that what is seen of all member clusters may take, such as 256Mi: about half of the container's limit.
    /// Beyond it the cluster of which most is seen is let go of, and is unreachable.
    #[arg(long, default_value = "256Mi", value_parser = byte_count)]
    pub seen_max: u64,
    /// Namespaces of member clusters that are never ours; a trailing * stands for any ending. tke-business, where the
    /// controller's account is, is always among them.
    #[arg(long, value_delimiter = ',', default_values_t = names::FORBIDDEN_NAMESPACES.map(str::to_owned))]
    pub forbidden_namespaces: Vec<String>,
    /// Certificates of people.
    #[command(flatten)]
    pub issuer: IssuerSettings,
    /// The registry of image namespaces and chart groups, if there is one.
    #[command(flatten)]
    pub registry: RegistryConfig,
    /// json or text.
    #[arg(long, default_value = "json")]
    pub log_format: LogFormat,
    /// Directives of tracing.
    #[arg(long, default_value = "info,kube_client=off")]
    pub log_filter: String,
}

/// Where certificates are issued to people, for business-api alone.
#[derive(Clone, Debug, Args)]
pub struct IssuerSettings {
    /// Where requests for certificates are taken, over TLS. Without it none are issued.
    #[arg(
        long,
        requires_all = ["issuer_tls_cert_file", "issuer_tls_private_key_file", "issuer_client_ca_file"]
    )]
    pub issuer_bind: Option<SocketAddr>,
    /// Serving certificate and chain, PEM. Read for each connection.
    #[arg(long, value_name = "FILE", requires = "issuer_bind")]
    pub issuer_tls_cert_file: Option<PathBuf>,
    /// Its key, PEM. Read for each connection.
    #[arg(long, value_name = "FILE", requires = "issuer_bind")]
    pub issuer_tls_private_key_file: Option<PathBuf>,
    /// CA of the client's certificate, PEM. Read for each connection.
    #[arg(long, value_name = "FILE", requires = "issuer_bind")]
    pub issuer_client_ca_file: Option<PathBuf>,
    /// Common name of the client's certificate.
    #[arg(long, default_value = "business-api")]
    pub issuer_client_name: String,
    /// Who has certificates signed in the member clusters: a kubeconfig whose contexts are the clusters. Without it: the
    /// key signer-kubeconfig of their Secrets.
    #[arg(long, value_name = "FILE", requires_all = ["issuer_bind", "endpoints_kubeconfig"])]
    pub signers_kubeconfig: Option<PathBuf>,
    /// Where people reach the member clusters: server and CA of the contexts of a kubeconfig; its users are not looked
    /// at. Without it: the annotation business.tkestack.io/endpoint of their Secrets.
    #[arg(long, value_name = "FILE", requires = "signers_kubeconfig")]
    pub endpoints_kubeconfig: Option<PathBuf>,
}

impl IssuerSettings {
    /// Where to listen, and as whom; `None` where no certificates are issued.
    pub fn identity(&self) -> Option<(SocketAddr, IssuerIdentity)> {
        let identity = IssuerIdentity {
            certificate_file: self.issuer_tls_cert_file.clone()?,
            key_file: self.issuer_tls_private_key_file.clone()?,
            client_ca_file: self.issuer_client_ca_file.clone()?,
            client_name: self.issuer_client_name.clone(),
        };
        Some((self.issuer_bind?, identity))
    }
}

/// Options of the registry. Without one, image namespaces and chart groups stay Pending.
#[derive(Clone, Debug, Args)]
pub struct RegistryConfig {
    /// URL of a registry of the OCI distribution specification, with its scheme and port.
    #[arg(long, value_name = "URL", conflicts_with = "registry_kubeconfig")]
    pub registry_url: Option<String>,
    /// What the nodes of member clusters call the registry, and images begin with: HOST or HOST:PORT. Without it that of
    /// the URL.
    #[arg(long, value_name = "HOST[:PORT]", requires = "registry_url", value_parser = authority)]
    pub registry_host: Option<String>,
    /// Authorities of the registry's certificate, and of its token server's, as PEM. Without it those of the system.
    #[arg(long, value_name = "FILE", requires = "registry_url")]
    pub registry_ca: Option<PathBuf>,
    /// A file with user:password of the controller's own account at the registry: it lists, pulls and deletes everything.
    #[arg(long, value_name = "FILE", requires = "registry_url")]
    pub registry_credentials: Option<PathBuf>,
    /// Kubeconfig of TKE's registry API, to keep image namespaces and chart groups there.
    #[arg(long, value_name = "FILE")]
    pub registry_kubeconfig: Option<PathBuf>,
    /// How long content stays in the registry after its image namespace or chart group was deleted.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub registry_grace: Duration,
    /// Time between two measurements of what an image namespace or chart group keeps, when nothing is heard of it.
    #[arg(long, default_value = "10m", value_parser = period)]
    pub registry_scan_period: Duration,
}

impl RegistryConfig {
    /// What images of the registry begin with; `None` where there is none, or another program says who may pull.
    pub fn pull_host(&self) -> Result<Option<String>, Error> {
        let Some(url) = &self.registry_url else { return Ok(None) };
        let of_url = || {
            let uri: http::Uri = url.parse().ok()?;
            Some(uri.authority()?.as_str().to_owned())
        };
        let host = self.registry_host.clone().or_else(of_url);
        host.map(Some).ok_or_else(|| Error::Config(format!("{url:?} is no URL of a registry")))
    }
}

fn authority(text: &str) -> Result<String, String> {
    let is_plain = |authority: &http::uri::Authority| !authority.as_str().contains('@');
    let authority = text.parse().ok().filter(is_plain);
    authority
        .map(|found| found.as_str().to_owned())
        .ok_or_else(|| format!("{text:?} is no HOST or HOST:PORT"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let whole = |digits: &str, unit: fn(u64) -> Duration| {
        digits.parse().map(unit).map_err(|error| format!("{text:?} is no duration: {error}"))
    };
    if let Some(digits) = text.strip_suffix("ms") {
        whole(digits, Duration::from_millis)
    } else if let Some(digits) = text.strip_suffix('s') {
        whole(digits, Duration::from_secs)
    } else if let Some(digits) = text.strip_suffix('m') {
        whole(digits, Duration::from_mins)
    } else {
        Err(format!("{text:?} is no duration such as 500ms, 15s or 2m"))
    }
}

/// A replica's identity is part of the name of its Lease.
fn identity(text: &str) -> Result<String, String> {
    let wrong = NameRule::Subdomain.check(text);
    wrong.into_iter().next().map_or_else(|| Ok(text.to_owned()), |why| Err(format!("{text:?}: {why}")))
}

fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if period < PERIOD_MIN { Err(format!("{text} is less than {PERIOD_MIN:?}")) } else { Ok(period) }
}

impl MembersConfig {
    /// Namespaces of member clusters that are never ours.
    pub fn forbidden(&self) -> Vec<String> {
        names::forbidden(&self.forbidden_namespaces, &[])
    }
}

impl Config {
    /// Namespaces of member clusters that are never ours.
    pub fn forbidden(&self) -> Vec<String> {
        names::forbidden(&self.forbidden_namespaces, &[])
    }

    /// The times of the election, checked.
    pub fn times(&self) -> Result<LeaseTimes, Error> {
        let times = LeaseTimes {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
            write_deadline: self.write_deadline,
        };
        times.check()?;
        Ok(times)
    }

    /// How member clusters are dialled.
    pub fn dialer(&self) -> Dialer {
        Dialer::new(self.tunnel_socket.clone())
    }

    /// The tunnel's server, where it is looked after.
    pub fn tunnel_server(&self) -> Option<TunnelServer> {
        let certificate_file = self.tunnel_cert_file.clone()?;
        Some(TunnelServer { address: self.tunnel_address, certificate_file })
    }

    /// The name in the Leases.
    pub fn identity(&self) -> String {
        let own = || format!("business-controller-{}", uuid::Uuid::new_v4().simple());
        self.identity.clone().filter(|identity| !identity.is_empty()).unwrap_or_else(own)
    }
}

/// A client from a kubeconfig, or from what the cluster gives its pods.
pub async fn client(kubeconfig: Option<&Path>) -> Result<kube::Client, Error> {
    let mut config = match kubeconfig {
        Some(path) => kubeconfig::config(&kube::config::Kubeconfig::read_from(path)?, None).await?,
        None => kube::Config::incluster().map_err(|error| Error::Config(error.to_string()))?,
    };
    // Every call is tried again by whoever made it, with what is known by then.
    config.default_retry = false;
    limit_silence(&mut config);
    Ok(kube::Client::try_from(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::recount::RECOUNT;

    #[test]
    fn the_command_line_has_sound_defaults() {
        let run = |line: &[&str]| match Cli::try_parse_from(line).unwrap().command {
            Command::Run(config) => config,
            other => panic!("{other:?}"),
        };
        let config = run(&["business-controller", "run"]);
        assert!(config.times().is_ok());
        assert_eq!((config.audit_period, config.shards), (Duration::from_mins(5), 16));
        assert_eq!(config.seen_max, 256 << 20);
        assert_eq!(config.quota_recount, RECOUNT);
        assert!(Cli::try_parse_from(["x", "run", "--seen-max", "0"]).is_err());
        assert!(Cli::try_parse_from(["x", "run", "--shards", "0"]).is_err());
        assert!(Cli::try_parse_from(["x", "run", "--identity", "Pod_1"]).is_err());
        assert!(Cli::try_parse_from(["x", "run", "--audit-period", "0s"]).is_err());
        assert_eq!(config.forbidden(), names::FORBIDDEN_NAMESPACES);
        let config = run(&["x", "run", "--forbidden-namespaces", "a,b*", "--retry-period", "500ms"]);
        assert_eq!(config.forbidden(), ["a", "b*", "tke-business"]);
        assert!(config.issuer.identity().is_none());
        assert_eq!(config.retry_period, Duration::from_millis(500));
    }

    #[test]
    fn images_begin_with_the_host_of_the_registry() {
        let host = |more: &str| {
            let line = format!("x run {more}");
            match Cli::try_parse_from(line.split_whitespace()).ok()?.command {
                Command::Run(config) => Some(config.registry.pull_host().unwrap()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(host(""), Some(None));
        assert_eq!(host("--registry-kubeconfig k"), Some(None), "TKE's registry has passwords of its own");
        assert_eq!(host("--registry-url http://r.svc:5000/"), Some(Some("r.svc:5000".to_owned())));
        let named = "--registry-url http://r.svc:5000 --registry-host images.example";
        assert_eq!(host(named), Some(Some("images.example".to_owned())));
        assert_eq!(host("--registry-host images.example"), None);
        assert_eq!(host("--registry-url http://r --registry-host https://images.example"), None);
    }

    #[test]
    fn certificates_are_issued_with_all_files_or_not_at_all() {
        let parse = |more: &str| {
            let line = format!("x run {more}");
            Cli::try_parse_from(line.split_whitespace())
        };
        let files = "--issuer-tls-cert-file c --issuer-tls-private-key-file k --issuer-client-ca-file a";
        let all = parse(&format!("--issuer-bind 0.0.0.0:8443 {files}")).unwrap().command;
        let Command::Run(config) = all else { panic!("{all:?}") };
        let (address, identity) = config.issuer.identity().unwrap();
        assert_eq!((address.port(), identity.client_name.as_str()), (8443, "business-api"));
        assert!(parse("--issuer-bind 0.0.0.0:8443").is_err());
        assert!(parse(files).is_err());
        assert!(parse(&format!("--issuer-bind 0.0.0.0:8443 {files} --signers-kubeconfig s")).is_err());
    }
}
