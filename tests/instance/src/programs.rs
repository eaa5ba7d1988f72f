//! How business-api and business-controller are started, with the rights that deploy/ gives them.

use crate::fleet::LeaseTimes;
use crate::identity::Provider;
use crate::kubeconfig::{Kubeconfig, token};
use crate::kubectl::Kubectl;
use crate::layout::{self, Layout};
use crate::manifests::NAMESPACE;
use crate::pki::{CertificateSubject, Pki};
use crate::process;
use crate::registry::Registry;
use crate::supervisor::{Spec, Supervisor};
use crate::token::{AUDIENCE, TokenIssuer};
use crate::wait::{self, Progress};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const READY: Duration = Duration::from_mins(3);
const PROBE: Duration = Duration::from_secs(2);
/// Short, because tests delete images and wait until they are gone.
const REGISTRY_GRACE: &str = "5s";
const TOKEN_DURATION: &str = "--duration=8760h";

/// The user of a kubeconfig: a token of a `ServiceAccount` that the cluster issues.
pub fn service_account(kubectl: &Kubectl, name: &str) -> Result<Value> {
    let printed = kubectl.run(&["create", "token", name, "--namespace", NAMESPACE, TOKEN_DURATION])?;
    Ok(token(printed.trim()))
}

/// Writes the kubeconfig of a program, with a token of its `ServiceAccount`, for the cluster of the kubeconfig `like`.
pub fn kubeconfig(kubectl: &Kubectl, like: &Value, account: &str, path: &Path) -> Result<()> {
    let user = service_account(kubectl, account)?;
    Kubeconfig::default().context_like("host", like, &user)?.write(path)
}

/// One replica of `business-api`.
#[derive(Clone, Debug)]
pub struct Api {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub admin_port: u16,
    /// The console's port on 127.0.0.1.
    pub console_port: u16,
}

/// The settings that all replicas share.
#[derive(Debug)]
pub struct ApiSettings<'a> {
    pub database_url: &'a str,
    pub kubeconfig: &'a Path,
    pub certificate: &'a Path,
    pub key: &'a Path,
    pub client_ca: Option<PathBuf>,
    /// Signs tokens of tenants.
    pub issuer: &'a TokenIssuer,
    /// The identity provider that serves the keys of `issuer`.
    pub provider: Option<&'a Provider>,
    pub certificates: &'a Certificates,
    pub registry: Option<&'a Registry>,
}

impl ApiSettings<'_> {
    /// The flags that configure whose tokens business-api accepts.
    fn issuer_flags(&self) -> Vec<(&'static str, String)> {
        let issuer = self.issuer.url().to_owned();
        match self.provider {
            Some(provider) => vec![
                ("authentication-config", text(&provider.authentication_config())),
                ("tenant-issuers", issuer.clone()),
                ("cluster-issuers", issuer),
            ],
            None => vec![
                ("jwt-issuer", issuer),
                ("jwt-audience", AUDIENCE.to_owned()),
                ("jwt-jwks-file", text(self.issuer.jwks())),
            ],
        }
    }
}

/// The connection by which business-api has the controller issue certificates, with mutual TLS.
#[derive(Debug)]
pub struct Certificates {
    /// The controller's port.
    pub port: u16,
    pub pki: Pki,
}

impl Certificates {
    const CA: &str = "issuer-ca";
    const SERVER: &str = "issuer";
    const CLIENT: &str = "business-api";

    /// Creates the CA and both certificates.
    pub fn prepare(pki: &Pki, port: u16) -> Result<Self> {
        pki.authority(Self::CA)?;
        pki.issue(Self::CA, Self::SERVER, &CertificateSubject::server(&["127.0.0.1"]))?;
        pki.issue(Self::CA, Self::CLIENT, &CertificateSubject::client(Self::CLIENT, &[]))?;
        Ok(Self { port, pki: pki.clone() })
    }

    fn api_flags(&self) -> Vec<(&'static str, String)> {
        vec![
            ("issuer-url", format!("https://127.0.0.1:{}", self.port)),
            ("issuer-ca-file", text(&self.pki.cert(Self::CA))),
            ("issuer-tls-cert-file", text(&self.pki.cert(Self::CLIENT))),
            ("issuer-tls-private-key-file", text(&self.pki.key(Self::CLIENT))),
        ]
    }

    fn controller_flags(&self) -> Vec<(&'static str, String)> {
        vec![
            ("issuer-bind", format!("127.0.0.1:{}", self.port)),
            ("issuer-client-ca-file", text(&self.pki.cert(Self::CA))),
            ("issuer-tls-cert-file", text(&self.pki.cert(Self::SERVER))),
            ("issuer-tls-private-key-file", text(&self.pki.key(Self::SERVER))),
        ]
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Api {
    pub fn spec(&self, settings: &ApiSettings<'_>) -> Result<Spec> {
        let mut args = vec![
            ("bind", format!("{}:{}", self.host, self.port)),
            ("admin-bind", format!("127.0.0.1:{}", self.admin_port)),
            ("tls-cert-file", text(settings.certificate)),
            ("tls-private-key-file", text(settings.key)),
            ("kubeconfig", text(settings.kubeconfig)),
            ("namespace", NAMESPACE.to_owned()),
            ("tenant-grant", "true".to_owned()),
            // Benchmarks create all their objects in one tenant.
            ("tenant-objects-max", "10000000".to_owned()),
            ("tenant-bytes-max", "64Gi".to_owned()),
            ("log-format", "text".to_owned()),
        ];
        args.extend(settings.issuer_flags());
        if let Some(provider) = settings.provider {
            args.push(("console-bind", format!("127.0.0.1:{}", self.console_port)));
            args.push(("console-origin", provider.consoles.join(",")));
            args.push(("console-issuers", text(&provider.console_issuers())));
            args.push(("console-key-file", text(&provider.console_keys())));
        }
        if let Some(ca) = &settings.client_ca {
            args.push(("client-ca-file", text(ca)));
        }
        args.extend(settings.certificates.api_flags());
        if let Some(registry) = settings.registry {
            args.push(("registry-token-key-file", text(&registry.key)));
            args.push(("registry-controller-credentials", text(&registry.controller)));
            args.push(("registry-events-credentials", text(&registry.events)));
        }
        let args = args.into_iter().map(|(key, value)| format!("--{key}={value}"));
        let mut spec = Spec::new(&self.name, &layout::program_path("business-api")?)
            .args(["serve", "--migrate"])
            .args(args);
        spec.env = vec![
            // Not a flag, because other users of the machine could read the password.
            ("DATABASE_URL".to_owned(), settings.database_url.to_owned()),
            // As in deploy/.
            ("MIMALLOC_PURGE_DELAY".to_owned(), "60000".to_owned()),
        ];
        Ok(spec)
    }

    pub fn wait(&self, supervisor: &Supervisor) -> Result<()> {
        ready(supervisor, &self.name, self.admin_port)
    }
}

/// The socket of the tunnel to member clusters, which the controller is configured with.
pub const TUNNEL_SOCKET: &str = "tunnel.sock";
/// The name of the port that the tunnel's agents dial, and of the server's certificate.
pub const TUNNEL: &str = "tunnel";

/// One replica of `business-controller`.
#[derive(Debug)]
pub struct Controller<'a> {
    /// `business-controller`, or that with a number.
    pub name: &'a str,
    pub kubeconfig: &'a Path,
    pub members: &'a Path,
    /// The kubeconfig of the identities that have certificates signed in the clusters.
    pub signers: &'a Path,
    /// The kubeconfig with the addresses at which people reach the clusters.
    pub endpoints: &'a Path,
    /// Set for the replica that issues certificates.
    pub certificates: Option<&'a Certificates>,
    pub admin_port: u16,
    /// The port that the tunnel's agents dial.
    pub tunnel_port: u16,
    pub audit_period: Option<&'a str>,
    pub quota_recount: Option<&'a str>,
    /// Durations of leases and writes; without them the controller's defaults.
    pub times: Option<LeaseTimes>,
    pub registry: Option<&'a Registry>,
    /// The CA of business-api's certificate.
    pub authority: &'a Path,
}

impl Controller<'_> {
    pub fn spec(&self, layout: &Layout) -> Result<Spec> {
        let mut args = vec![
            ("kubeconfig", text(self.kubeconfig)),
            ("namespace", NAMESPACE.to_owned()),
            ("members-kubeconfig", text(self.members)),
            ("tunnel-socket", text(&layout.path(TUNNEL_SOCKET))),
            ("tunnel-cert-file", text(&Pki::open(&layout.path("pki"))?.cert(TUNNEL))),
            ("tunnel-address", format!("127.0.0.1:{}", self.tunnel_port)),
            ("admin-bind", format!("127.0.0.1:{}", self.admin_port)),
            ("identity", format!("{}-{}", self.name, layout.short_hash())),
            ("log-format", "text".to_owned()),
        ];
        if let Some(certificates) = self.certificates {
            args.extend(certificates.controller_flags());
            args.push(("signers-kubeconfig", text(self.signers)));
            args.push(("endpoints-kubeconfig", text(self.endpoints)));
        }
        args.extend(self.audit_period.map(|period| ("audit-period", period.to_owned())));
        args.extend(self.quota_recount.map(|time| ("quota-recount", time.to_owned())));
        args.extend(self.times.iter().flat_map(LeaseTimes::args));
        if let Some(registry) = self.registry {
            args.push(("registry-url", registry.url()));
            args.push(("registry-ca", text(self.authority)));
            args.push(("registry-credentials", text(&registry.controller)));
            args.push(("registry-grace", REGISTRY_GRACE.to_owned()));
        }
        let args = args.into_iter().map(|(key, value)| format!("--{key}={value}"));
        let program = layout::program_path("business-controller")?;
        Ok(Spec::new(self.name, &program).args(["run"]).args(args))
    }
}

/// Runs `business-api check-database`; the error says what is wrong with the server.
pub fn check_database(url: &str) -> Result<()> {
    let mut command = Command::new(layout::program_path("business-api")?);
    command.args(["check-database", "--log-format=text"]).env("DATABASE_URL", url);
    let output = process::output_within(&mut command, None, READY)?;
    let (report, trouble) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let wrong = report.lines().filter(|line| !line.starts_with("holds")).collect::<Vec<_>>().join("\n");
    ensure!(output.status.success(), "{}", format!("{wrong}\n{}", trouble.trim()).trim());
    Ok(())
}

/// Waits for `/readyz` on a program's admin port.
pub fn ready(supervisor: &Supervisor, name: &str, admin_port: u16) -> Result<()> {
    supervisor.wait(name, READY, || {
        Ok(match get(admin_port, "/readyz?verbose") {
            Ok((200, _)) => Progress::Done(()),
            Ok((code, text)) => Progress::Pending(format!("/readyz answers {code}: {}", text.trim())),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}

/// Sends a GET over plain HTTP to 127.0.0.1; returns status and body.
pub fn get(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    exchange(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"), PROBE)
}

/// Sends a GET until it is answered, with whatever status.
pub fn answer(port: u16, path: &str) -> Result<(u16, String)> {
    wait::until(&format!("an answer to {path}"), READY, || {
        Ok(match get(port, path) {
            Ok(answer) => Progress::Done(answer),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}

/// Sends a complete HTTP/1.0 request to 127.0.0.1; returns status and body.
pub fn exchange(port: u16, request: &str, patience: Duration) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Ok((code, body))
}
