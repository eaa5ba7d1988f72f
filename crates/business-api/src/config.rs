//! The command line.

use crate::certificates::ValidDays;
use crate::certificates::controller::ControllerIssuer;
use crate::console::settings::Origin;
use crate::role_bindings::RoleBindings;
use crate::roles::Roles;
use apiserver::request::query::go_duration;
use business_types::{PlatformSpec, names};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use meta::quantity::byte_count;
use runtime::telemetry::LogFormat;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// Keys of a user's extra information that name his tenant.
const TENANT_EXTRA_KEYS: &str = "tenantid,business.tkestack.io/tenantid";

/// The API server of business.tkestack.io: projects and namespaces of many clusters on one PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "business-api", version)]
pub struct Cli {
    /// Form of the log on standard error: json or text.
    #[arg(long, global = true, default_value = "json", value_parser = clap::value_parser!(LogFormat))]
    pub log_format: LogFormat,
    /// What is logged, as `tracing` directives, such as info,store=debug.
    #[arg(long, global = true, default_value = "info")]
    pub log_filter: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serves the API until it is told to end.
    Serve(Box<Serve>),
    /// Brings the schema of the database to this version and ends. Running replicas go on.
    Migrate(Database),
    /// Asks through kube-apiserver, as anybody does, whether the API is served and its database answers.
    CheckInstallation(CheckInstallation),
    /// Issues the serving certificate of the API into a Secret, by an authority that is kept in another one, and has the
    /// APIService trust that. Does nothing while the certificate is good for long. For clusters where nobody else issues any.
    IssueCertificate(IssueCertificate),
    /// Looks at a file of issuers as `serve` would, and says what is wrong with it.
    CheckAuthenticationConfig(CheckAuthenticationConfig),
    /// Tries a PostgreSQL, or a server that calls itself compatible, for everything that this program rests on, in a schema of
    /// its own that goes again. Exits with 2 if it will not do.
    CheckDatabase(CheckDatabase),
    /// Compares the quota ledger with the objects. Exits with 2 if they differ.
    Audit(Audit),
    /// Prints the public keys that tokens for the registry are signed with, as the registry wants them: a JSON web key set.
    RegistryKeys(RegistryKeys),
    /// Takes over the objects of a TKE installation: shows what would come, and with --apply writes it. Exits with 2 if
    /// something would come otherwise than it was, or not at all.
    Import(Box<Import>),
}

/// The database.
#[derive(Clone, Debug, Args)]
pub struct Database {
    /// Where PostgreSQL is: postgres://user:password@host:port/database.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: String,
}

/// Settings of `serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// Address of the API.
    #[arg(long, default_value = "127.0.0.1:6443")]
    pub bind: SocketAddr,
    /// Address of probes and metrics, over plain HTTP.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub admin_bind: SocketAddr,
    /// Where the objects are.
    #[command(flatten)]
    pub database: Database,
    /// A standby of the database, from which objects and events are read: postgres://user:password@host:port/database. A
    /// read that must be fresh waits until it has what the primary had.
    #[arg(long, env = "READ_FROM_URL", hide_env_values = true)]
    pub read_from: Option<String>,
    /// Brings the schema of the database to this version as soon as it is there.
    #[arg(long)]
    pub migrate: bool,
    /// Serving certificate and chain, PEM. Read again when it changes.
    #[arg(long)]
    pub tls_cert_file: PathBuf,
    /// Key of the serving certificate, PEM. Read again when it changes.
    #[arg(long)]
    pub tls_private_key_file: PathBuf,
    /// Kubernetes that this server is aggregated into. Without it: the cluster that the program runs in.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Runs without Kubernetes: no front proxy, no reviews, no check of cluster names; only direct callers with a
    /// configured token or certificate. Nobody collects garbage either: what is deleted with --cascade=foreground or orphan waits
    /// until somebody takes its finalizer off.
    #[arg(long, conflicts_with = "kubeconfig")]
    pub no_kubernetes: bool,
    /// Namespace of the platform's own programs, which none may claim in a member cluster.
    #[arg(long, default_value = "tke-business")]
    pub namespace: String,
    /// CA of client certificates beside the one that Kubernetes publishes, PEM.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// Tokens of direct callers.
    #[command(flatten)]
    pub jwt: Jwt,
    /// Group whose members rule their tenant.
    #[arg(long, default_value = "tenant-admins")]
    pub tenant_admin_group: String,
    /// Keys of a user's extra information that name his tenant.
    #[arg(long, value_delimiter = ',', default_value = TENANT_EXTRA_KEYS)]
    pub tenant_extra_keys: Vec<String>,
    /// Whether administrators of a tenant may make and raise root projects: budget that nothing limits.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub tenant_grant: bool,
    /// Tenant of the platform platform-default, which is made when it is not there.
    #[arg(long, requires = "initial_administrator_user", value_parser = NonEmptyStringValueParser::new())]
    pub initial_administrator_tenant: Option<String>,
    /// Administrator whom platform-default names when it is made.
    #[arg(long, requires = "initial_administrator_tenant", value_parser = NonEmptyStringValueParser::new())]
    pub initial_administrator_user: Option<String>,
    /// Tokens that callers with a tenant may put into spec.finalizers beside the platform's own.
    #[arg(long, value_delimiter = ',')]
    pub tenant_finalizers: Vec<String>,
    /// Objects of all kinds that callers who are confined to tenants may make a tenant have.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub tenant_objects_max: u64,
    /// Bytes that these may have together, such as 256Mi.
    #[arg(long, default_value = "256Mi", value_parser = byte_count)]
    pub tenant_bytes_max: u64,
    /// Namespaces of member clusters that none may claim; a trailing * stands for any ending. The value of --namespace
    /// is always among them, and so is tke-business, where the controller's account is.
    #[arg(long, value_delimiter = ',', default_values_t = names::FORBIDDEN_NAMESPACES.map(str::to_owned))]
    pub forbidden_namespaces: Vec<String>,
    /// Tokens for the registry.
    #[command(flatten)]
    pub registry: Registry,
    /// The web console.
    #[command(flatten)]
    pub console: ConsoleSettings,
    /// How long requests are still taken after /readyz has begun to fail, such as 5s: as long as others may not have
    /// heard of it.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub shutdown_delay: Duration,
    /// Certificates for member clusters.
    #[command(flatten)]
    pub certificates: CertificateSettings,
    /// Traces.
    #[command(flatten)]
    pub traces: Traces,
}

/// Certificates with which people enter member clusters.
#[derive(Clone, Debug, Args)]
pub struct CertificateSettings {
    /// Where business-controller issues certificates, such as `https://business-issuer.tke-business.svc`. Without it none
    /// are issued.
    #[arg(
        long,
        requires_all = ["issuer_ca_file", "issuer_tls_cert_file", "issuer_tls_private_key_file"]
    )]
    pub issuer_url: Option<String>,
    /// CA of its serving certificate, PEM.
    #[arg(long, requires = "issuer_url")]
    pub issuer_ca_file: Option<PathBuf>,
    /// Certificate that this program shows it, PEM.
    #[arg(long, requires = "issuer_url")]
    pub issuer_tls_cert_file: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, requires = "issuer_url")]
    pub issuer_tls_private_key_file: Option<PathBuf>,
    /// Days that a certificate is valid when the request does not say it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=365))]
    pub certificate_days: u16,
    /// Days that a certificate is valid at the most.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=365))]
    pub certificate_days_max: u16,
}

impl CertificateSettings {
    /// The connection to the controller; `None` if no certificates are issued.
    pub fn controller(&self) -> Option<ControllerIssuer> {
        Some(ControllerIssuer {
            url: self.issuer_url.clone()?,
            ca_file: self.issuer_ca_file.clone()?,
            certificate_file: self.issuer_tls_cert_file.clone()?,
            key_file: self.issuer_tls_private_key_file.clone()?,
        })
    }

    /// How long certificates are valid. The bound also limits the default.
    pub fn days(&self) -> ValidDays {
        let max = self.certificate_days_max;
        ValidDays { default: self.certificate_days.min(max), max }
    }
}

/// Tokens for an OCI registry, at `/registry/token`.
#[derive(Clone, Debug, Args)]
pub struct Registry {
    /// Private keys that tokens for the registry are signed with, PEM (PKCS #8, curve P-256): the first signs, all are
    /// published at /registry/jwks. Read again when it changes. Without it there are no tokens.
    #[arg(long)]
    pub registry_token_key_file: Option<PathBuf>,
    /// File with user:password of the controller's own account at the registry: it lists, pulls and deletes everything. Read
    /// again when it changes.
    #[arg(long, requires = "registry_token_key_file")]
    pub registry_controller_credentials: Option<PathBuf>,
    /// File with user:password by which the registry tells of changes at /registry/events. Read again when it changes.
    #[arg(long, requires = "registry_token_key_file")]
    pub registry_events_credentials: Option<PathBuf>,
    /// What the registry is called: auth.token.service of its configuration.
    #[arg(long, default_value = "registry")]
    pub registry_service: String,
    /// By which name the registry knows this server: auth.token.issuer of its configuration.
    #[arg(long, default_value = "business-api")]
    pub registry_issuer: String,
    /// How many days a password of a registry credential may be good for.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(i64).range(1..=3650))]
    pub registry_credential_days_max: i64,
}

/// The web console, at a socket of its own. It is served where --console-issuers says who logs people in.
#[derive(Clone, Debug, Args)]
pub struct ConsoleSettings {
    /// Whether the console is served at all.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub console: bool,
    /// Where people can log in: YAML with `issuers`, each with name, displayName, issuer, clientID, clientSecretFile and
    /// scopes.
    #[arg(long, requires_all = ["console_origin", "console_key_file"])]
    pub console_issuers: Option<PathBuf>,
    /// Address of the console.
    #[arg(long, default_value = "127.0.0.1:8443")]
    pub console_bind: SocketAddr,
    /// Where browsers find the console, such as `https://console.example.org`; several are names of the same one.
    #[arg(long, value_delimiter = ',', value_parser = Origin::parse)]
    pub console_origin: Vec<Origin>,
    /// Keys that sessions are sealed with, a line each: 32 random bytes in base64. The first seals, all open. The same for
    /// all replicas. Read again when it changes.
    #[arg(long)]
    pub console_key_file: Option<PathBuf>,
    /// Serving certificate and chain of the console, PEM. Without it: the API's. Read again when it changes.
    #[arg(long, requires = "console_tls_private_key_file")]
    pub console_tls_cert_file: Option<PathBuf>,
    /// Key of that certificate, PEM. Read again when it changes.
    #[arg(long, requires = "console_tls_cert_file")]
    pub console_tls_private_key_file: Option<PathBuf>,
    /// How long a session lasts at the most, however often it is refreshed.
    #[arg(long, default_value = "12h", value_parser = duration)]
    pub console_session_lifetime: Duration,
    /// Serves the page from a directory instead of from the program, for whoever is writing it.
    #[arg(long)]
    pub console_files: Option<PathBuf>,
}

/// The certificate that the console is served with.
#[derive(Clone, Debug)]
pub struct ConsoleCertificate {
    /// The certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

impl ConsoleSettings {
    /// Whether the console is served.
    pub fn is_served(&self) -> bool {
        self.console && self.console_issuers.is_some()
    }
}

/// Settings of `check-authentication-config`.
#[derive(Clone, Debug, Args)]
pub struct CheckAuthenticationConfig {
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Issuers whose tokens may name their user's tenant, as `serve` is told.
    #[arg(long, value_delimiter = ',')]
    pub tenant_issuers: Vec<String>,
    /// Issuers that kube-apiserver believes, too, as `serve` is told.
    #[arg(long, value_delimiter = ',')]
    pub cluster_issuers: Vec<String>,
    /// Keys of a user's extra information that name his tenant, as `serve` is told.
    #[arg(long, value_delimiter = ',', default_value = TENANT_EXTRA_KEYS)]
    pub tenant_extra_keys: Vec<String>,
}

/// Settings of `check-installation`.
#[derive(Clone, Debug, Args)]
pub struct CheckInstallation {
    /// The cluster with the APIService. Without it: the cluster that the program runs in.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// How long to wait for it.
    #[arg(long, default_value = "1m", value_parser = duration)]
    pub timeout: Duration,
}

/// Settings of `issue-certificate`.
#[derive(Clone, Debug, Args)]
pub struct IssueCertificate {
    /// The cluster with the APIService. Without it: the cluster that the program runs in.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Secrets.
    #[arg(long, default_value = "tke-business")]
    pub namespace: String,
    /// The Secret of the certificate.
    #[arg(long, default_value = "business-api-tls")]
    pub secret: String,
    /// The Secret of the authority that signs it. It is made where there is none, and replaced when a third of its ten years is left.
    #[arg(long, default_value = "business-api-ca")]
    pub authority_secret: String,
    /// DNS names in the certificate.
    #[arg(long = "name", value_name = "NAME", value_delimiter = ',', required = true, value_parser = NonEmptyStringValueParser::new())]
    pub names: Vec<String>,
    /// For how many days it is valid. It is replaced when a third of them is left.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u16).range(3..=825))]
    pub days: u16,
    /// How long to wait for the APIService, which may be made at the same time.
    #[arg(long, default_value = "2m", value_parser = duration)]
    pub timeout: Duration,
}

/// Settings of `registry-keys`.
#[derive(Clone, Debug, Args)]
pub struct RegistryKeys {
    /// The file of private keys.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Traces of requests.
#[derive(Clone, Debug, Args)]
pub struct Traces {
    /// Collector of traces, OTLP over HTTP, such as `http://collector:4318`. Without it nothing is traced.
    #[arg(long)]
    pub otlp_endpoint: Option<String>,
    /// Part of the requests that is traced, from 0 to 1. What kube-apiserver traces is traced here, too.
    #[arg(long, default_value_t = 0.01, value_parser = ratio, requires = "otlp_endpoint")]
    pub otlp_sampling_ratio: f64,
}

/// JSON web tokens of direct callers.
#[derive(Clone, Debug, Args)]
pub struct Jwt {
    /// Issuers of tokens as Kubernetes' `AuthenticationConfiguration`, the same file as kube-apiserver's. Read again when it
    /// changes.
    #[arg(long, conflicts_with = "jwt_issuer")]
    pub authentication_config: Option<PathBuf>,
    /// Issuers in that file whose tokens may name their user's tenant, by the extra keys of --tenant-extra-keys.
    #[arg(long, value_delimiter = ',', requires = "authentication_config")]
    pub tenant_issuers: Vec<String>,
    /// Issuers in that file that kube-apiserver believes by the same file: what RBAC lets their people do there, they may do
    /// directly and at the console, too. Without it operators come through kube-apiserver or with a certificate.
    #[arg(long, value_delimiter = ',', requires = "authentication_config")]
    pub cluster_issuers: Vec<String>,
    /// Issuer of the tokens, their claim `iss`: the short form for one issuer.
    #[arg(long, requires = "jwt_audience")]
    pub jwt_issuer: Option<String>,
    /// Audience that must be among the claim `aud`.
    #[arg(long, requires = "jwt_issuer")]
    pub jwt_audience: Option<String>,
    /// The issuer's keys as a file. Read again when it changes.
    #[arg(long, requires = "jwt_issuer", conflicts_with = "jwt_jwks_url")]
    pub jwt_jwks_file: Option<PathBuf>,
    /// The issuer's keys as an https URL. Fetched again when a key is unknown.
    #[arg(long, requires = "jwt_issuer")]
    pub jwt_jwks_url: Option<String>,
    /// CA of the issuer's servers, PEM. Without it: those of this machine.
    #[arg(long, requires = "jwt_issuer", conflicts_with = "jwt_jwks_file")]
    pub jwt_ca_file: Option<PathBuf>,
    /// Claim with the user's name.
    #[arg(long, default_value = "sub")]
    pub jwt_username_claim: String,
    /// Put before each user's name.
    #[arg(long, default_value = "")]
    pub jwt_username_prefix: String,
    /// Claim with the user's groups.
    #[arg(long, default_value = "groups")]
    pub jwt_groups_claim: String,
    /// Put before each group.
    #[arg(long, default_value = "")]
    pub jwt_groups_prefix: String,
    /// Claim with the user's tenant, or CEL such as claims.realm.tenant. A token without it is refused.
    #[arg(long, default_value = "tenantid")]
    pub jwt_tenant_claim: String,
}

/// Settings of `check-database`.
#[derive(Clone, Debug, Args)]
pub struct CheckDatabase {
    /// Where the server is: postgres://user:password@host:port/database. The user has to be allowed to make a schema there.
    #[arg(env = "DATABASE_URL", hide_env_values = true)]
    pub url: String,
    /// Form of the report.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Settings of `audit`.
#[derive(Clone, Debug, Args)]
pub struct Audit {
    /// Where the objects are.
    #[command(flatten)]
    pub database: Database,
    /// Sets the ledger to what the objects say, which may give budget back.
    #[arg(long)]
    pub repair: bool,
    /// Stops counting what was given up with this uid: its namespace in the cluster is gone.
    #[arg(long, value_name = "UID")]
    pub write_off: Option<Uuid>,
    /// Holds growth until somebody lets it go on with --go-on: whatever takes no more budget is served. Say why.
    #[arg(long, value_name = "REASON", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "go_on")]
    pub hold: Option<String>,
    /// Says that the database was put back from a copy of its files or a snapshot of its disk, which nothing in it tells: watches begin
    /// anew, and growth is held until the audit has compared every member cluster.
    #[arg(long, conflicts_with = "go_on")]
    pub restored: bool,
    /// Lets growth go on that is held after the database's history has diverged, or by --hold.
    #[arg(long)]
    pub go_on: bool,
    /// Form of the report.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Settings of `import`.
#[derive(Clone, Debug, Args)]
pub struct Import {
    /// Where the objects go.
    #[command(flatten)]
    pub database: Database,
    /// Where they come from.
    #[command(flatten)]
    pub source: ImportSource,
    /// Writes what the plan says. Growth is held from then on until the controller has compared every member cluster.
    #[arg(long)]
    pub apply: bool,
    /// Also into a database that holds other objects already, or that this was imported into before.
    #[arg(long)]
    pub into_existing: bool,
    /// Namespaces of member clusters that none may claim, as `serve` is told.
    #[arg(long, value_delimiter = ',', default_values_t = names::FORBIDDEN_NAMESPACES.map(str::to_owned))]
    pub forbidden_namespaces: Vec<String>,
    /// Namespace of the platform's own programs, as `serve` is told.
    #[arg(long, default_value = "tke-business")]
    pub namespace: String,
    /// Form of the report.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Where TKE's objects are.
#[derive(Clone, Debug, Args)]
pub struct ImportSource {
    /// A dump: lines of JSON, each with `key` and `value` as they are in etcd; - is standard input.
    #[arg(long, conflicts_with = "etcd_servers", required_unless_present = "etcd_servers")]
    pub dump: Option<PathBuf>,
    /// Endpoints of TKE's etcd, such as `https://10.0.0.1:2379`.
    #[arg(long, value_delimiter = ',')]
    pub etcd_servers: Vec<String>,
    /// CA of etcd's certificates, PEM.
    #[arg(long, conflicts_with = "dump")]
    pub etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd, PEM.
    #[arg(long, requires = "etcd_keyfile", conflicts_with = "dump")]
    pub etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate, PEM.
    #[arg(long, requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// What all keys of TKE's business module begin with.
    #[arg(long, default_value = "/tke/business")]
    pub prefix: String,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn duration(text: &str) -> Result<Duration, String> {
    go_duration(text).ok_or_else(|| format!("{text:?} is no duration such as 5s"))
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| format!("{text:?} is no number from 0 to 1"))
}

impl Serve {
    /// The roles of callers with a tenant, without any bindings yet.
    pub fn roles(&self) -> Roles {
        Roles {
            tenant_admin_group: self.tenant_admin_group.clone(),
            projects: RoleBindings::empty(),
            administrators: Vec::new(),
            tenant_grant: self.tenant_grant,
        }
    }

    /// The Platform to create at the start.
    pub fn initial_platform(&self) -> Option<PlatformSpec> {
        let (tenant, user) =
            (self.initial_administrator_tenant.clone()?, self.initial_administrator_user.clone()?);
        Some(PlatformSpec { tenant_id: tenant, administrators: vec![user] })
    }

    /// The certificate that the console is served with.
    pub fn console_certificate(&self) -> ConsoleCertificate {
        let ConsoleSettings { console_tls_cert_file: certificate, console_tls_private_key_file: key, .. } =
            self.console.clone();
        match (certificate, key) {
            (Some(certificate), Some(key)) => ConsoleCertificate { certificate, key },
            _ => ConsoleCertificate {
                certificate: self.tls_cert_file.clone(),
                key: self.tls_private_key_file.clone(),
            },
        }
    }

    /// Namespaces of member clusters that nobody may claim.
    pub fn forbidden(&self) -> Vec<String> {
        names::forbidden(&self.forbidden_namespaces, &[&self.namespace])
    }
}

impl Import {
    /// Namespaces of member clusters that nobody may claim.
    pub fn forbidden(&self) -> Vec<String> {
        names::forbidden(&self.forbidden_namespaces, &[&self.namespace])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_has_the_documented_defaults() {
        let line =
            "business-api serve --database-url postgres://x --tls-cert-file c --tls-private-key-file k";
        let Command::Serve(serve) = Cli::parse_from(line.split(' ')).command else { panic!("not serve") };
        assert_eq!(serve.bind.to_string(), "127.0.0.1:6443");
        assert_eq!(serve.admin_bind.to_string(), "127.0.0.1:8080");
        assert_eq!(serve.tenant_extra_keys, ["tenantid", "business.tkestack.io/tenantid"]);
        assert_eq!(serve.forbidden(), names::FORBIDDEN_NAMESPACES);
        let elsewhere = format!("{line} --namespace elsewhere --forbidden-namespaces x-*");
        let Command::Serve(elsewhere) = Cli::parse_from(elsewhere.split(' ')).command else {
            panic!("not serve")
        };
        assert_eq!(elsewhere.forbidden(), ["x-*", "elsewhere", "tke-business"]);
        assert!(!serve.tenant_grant && !serve.migrate && !serve.no_kubernetes);
        assert!(serve.tenant_finalizers.is_empty() && serve.initial_platform().is_none());
        assert_eq!(serve.certificates.days(), ValidDays { default: 1, max: 365 });
        assert!(serve.certificates.controller().is_none());
        assert!(serve.traces.otlp_endpoint.is_none() && serve.shutdown_delay.is_zero());
        let more = format!("{line} --tenant-grant --tenant-finalizers a,b.c/d --log-format text");
        let cli = Cli::parse_from(more.split(' '));
        assert_eq!(cli.log_format, LogFormat::Text);
        let Command::Serve(serve) = cli.command else { panic!("not serve") };
        assert!(serve.tenant_grant);
        assert_eq!(serve.tenant_finalizers, ["a", "b.c/d"]);
    }

    #[test]
    fn certificates_are_issued_with_all_files_or_not_at_all() {
        let parse = |more: &str| {
            let line = "business-api serve --database-url x --tls-cert-file c --tls-private-key-file k";
            let line = format!("{line} {more}");
            Cli::try_parse_from(line.split_whitespace()).map(|cli| match cli.command {
                Command::Serve(serve) => serve.certificates,
                _ => panic!("not serve"),
            })
        };
        let files = "--issuer-ca-file a --issuer-tls-cert-file b --issuer-tls-private-key-file c";
        let all = parse(&format!("--issuer-url https://x {files} --certificate-days-max 7")).unwrap();
        assert_eq!(all.controller().unwrap().url, "https://x");
        assert_eq!(all.days(), ValidDays { default: 1, max: 7 });
        assert!(parse("--issuer-url https://x").is_err());
        assert!(parse(files).is_err());
        for wrong in ["--certificate-days 0", "--certificate-days-max 366"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_import_has_one_source() {
        let parse = |more: &str| {
            Cli::try_parse_from(format!("business-api import --database-url x {more}").split_whitespace())
        };
        assert!(parse("--dump a.jsonl").is_ok());
        assert!(parse("--etcd-servers https://a:2379,https://b:2379 --etcd-cafile c --apply").is_ok());
        for bad in ["", "--dump a --etcd-servers https://a", "--dump a --etcd-cafile c", "--prefix /x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn traces_and_the_delay_are_what_they_say_or_refused() {
        let parse = |more: &str| {
            let line = format!(
                "business-api serve --database-url x --tls-cert-file c --tls-private-key-file k {more}"
            );
            Cli::try_parse_from(line.split(' ')).map(|cli| match cli.command {
                Command::Serve(serve) => serve,
                _ => panic!("not serve"),
            })
        };
        let traced =
            parse("--otlp-endpoint http://c:4318 --otlp-sampling-ratio 0.5 --shutdown-delay 1m30s").unwrap();
        assert_eq!(traced.traces.otlp_endpoint.as_deref(), Some("http://c:4318"));
        assert!((traced.traces.otlp_sampling_ratio - 0.5).abs() < f64::EPSILON);
        assert_eq!(traced.shutdown_delay, Duration::from_secs(90));
        for bad in [
            "--otlp-sampling-ratio 0.5",
            "--otlp-endpoint x --otlp-sampling-ratio 2",
            "--shutdown-delay 5",
            "--initial-administrator-user root",
            "--initial-administrator-tenant acme",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
