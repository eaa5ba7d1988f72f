//! The identity provider of an instance: its users, how kube-apiserver and business-api map their tokens,
//! and the users' kubeconfigs.

use crate::kubeconfig::{Kubeconfig, credential_plugin};
use crate::layout::{self, Layout};
use crate::pki::{CertificateSubject, Pki, password, secret};
use crate::process;
use crate::supervisor::{Spec, Supervisor};
use crate::token::{AUDIENCE, TENANT_CLAIM, TokenIssuer};
use crate::wait::Progress;
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const NAME: &str = "oidc";
/// The console as the provider knows it.
const CONSOLE: &str = "console";
/// The authority of all that business-api and the provider serve.
pub const AUTHORITY: &str = "serving-ca";
const READY: Duration = Duration::from_mins(2);
const CLIENT: Duration = Duration::from_mins(1);
/// Short, so that whoever works for a while sees a token refreshed.
const LIFETIME_SECONDS: u64 = 300;
const TENANT_KEY: &str = "business.tkestack.io/tenantid";

/// The group of the provider that runs the platform: `ClusterRole` `business-operator` is bound to it.
pub const OPERATORS: &str = "platform-operators";

/// Somebody who can log in. Of which tenant he is, objects say that name him or his group.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    pub name: &'static str,
    pub groups: &'static [&'static str],
}

/// What `up` names them for, [`crate::demo`] says.
pub const PEOPLE: [Person; 5] = [
    Person { name: "alice", groups: &[] },
    Person { name: "bob", groups: &["shop-developers"] },
    Person { name: "carol", groups: &["globex-administrators"] },
    Person { name: "dave", groups: &[] },
    Person { name: "oscar", groups: &[OPERATORS] },
];

/// A server that people come to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoginServer {
    pub context: String,
    pub server: String,
    /// The authority of its certificate.
    pub authority: PathBuf,
}

/// The provider of an instance.
#[derive(Clone, Debug)]
pub struct Provider {
    layout: Layout,
    /// Where browsers find the console, one a replica.
    pub consoles: Vec<String>,
}

/// Its program, which is there where it could be built.
fn program() -> PathBuf {
    layout::bin().join(NAME)
}

pub fn is_there() -> bool {
    program().exists()
}

impl Provider {
    /// Makes its certificate and writes what it and its client are told, and what servers believe.
    pub fn prepare(layout: &Layout, port: u16, issuer: &TokenIssuer, consoles: Vec<String>) -> Result<Self> {
        let this = Self { layout: layout.clone(), consoles };
        let sessions = this.file("sessions");
        std::fs::create_dir_all(&sessions)?;
        let pki = Pki::open(&layout.path("pki"))?;
        pki.authority(AUTHORITY)?;
        pki.issue(AUTHORITY, NAME, &CertificateSubject::server(&["127.0.0.1"]))?;
        let password = password(&this.file("password"))?;
        let user = |person: &Person| {
            let Person { name, groups } = person;
            json!({"name": name, "password": password, "groups": groups})
        };
        let config = json!({
            "issuer": issuer.url(),
            "listen": format!("127.0.0.1:{port}"),
            "certificate": pki.cert(NAME),
            "key": pki.key(NAME),
            "authority": pki.cert(AUTHORITY),
            "signingKey": issuer.key(),
            "keyID": issuer.key_id(),
            "lifetimeSeconds": LIFETIME_SECONDS,
            "sessions": sessions,
            "users": PEOPLE.iter().map(user).collect::<Vec<_>>(),
            "console": {"callbacks": this.at_consoles("/console/callback"), "homes": this.at_consoles("/console/")},
        });
        secret(&this.file("config.json"), &serde_json::to_string_pretty(&config)?)?;
        let believed = authentication(issuer.url(), &std::fs::read_to_string(pki.cert(AUTHORITY))?);
        std::fs::write(this.authentication_config(), serde_yaml_ng::to_string(&believed)?)?;
        let issuers = json!({"issuers": [{
            "name": "local", "displayName": "People of this machine", "issuer": issuer.url(), "clientID": CONSOLE,
            "scopes": ["profile", "offline_access"],
        }]});
        std::fs::write(this.console_issuers(), serde_yaml_ng::to_string(&issuers)?)?;
        sealing_key(&this.console_keys())?;
        Ok(this)
    }

    /// Who logs people in at the console.
    pub fn console_issuers(&self) -> PathBuf {
        self.file("console-issuers.yaml")
    }

    /// What the console's sessions are sealed with.
    pub fn console_keys(&self) -> PathBuf {
        self.file("console-keys")
    }

    fn at_consoles(&self, path: &str) -> Vec<String> {
        self.consoles.iter().map(|origin| format!("{origin}{path}")).collect()
    }

    /// Kubernetes' `AuthenticationConfiguration`, the same for every server.
    pub fn authentication_config(&self) -> PathBuf {
        self.file("authentication.yaml")
    }

    pub fn spec(&self) -> Spec {
        let config = self.file("config.json");
        Spec::new(NAME, &program()).args(["serve".to_owned(), config.to_string_lossy().into_owned()])
    }

    /// Waits until somebody can log in.
    pub fn wait(&self, supervisor: &Supervisor) -> Result<()> {
        supervisor.wait(NAME, READY, || {
            Ok(match token(&self.layout, PEOPLE[0].name) {
                Ok(_) => Progress::Done(()),
                Err(error) => Progress::Pending(error.to_string()),
            })
        })
    }

    /// Remembers where people come to.
    pub fn write_login_servers(&self, login_servers: &[LoginServer]) -> Result<()> {
        std::fs::write(self.file("doors.json"), serde_json::to_vec_pretty(login_servers)?)?;
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.layout.path(NAME).join(name)
    }
}

/// Kept from one `up` to the next, so that browsers stay logged in.
fn sealing_key(file: &Path) -> Result<()> {
    if file.exists() {
        return Ok(());
    }
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    secret(file, &BASE64_STANDARD.encode(bytes))
}

/// Whom servers take the bearers of the provider's tokens for. One issuer alone needs no prefix; names of the cluster's own
/// parts are no person's.
fn authentication(issuer: &str, authority: &str) -> Value {
    let tenant = format!("has(claims.{TENANT_CLAIM}) ? claims.{TENANT_CLAIM} : ''");
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {
                "url": issuer, "audiences": [AUDIENCE, CONSOLE], "audienceMatchPolicy": "MatchAny",
                "certificateAuthority": authority,
            },
            "claimMappings": {
                "username": {"claim": "sub", "prefix": ""},
                "groups": {"claim": "groups", "prefix": ""},
                "extra": [{"key": TENANT_KEY, "valueExpression": tenant}],
            },
            "userValidationRules": [
                {"expression": "!user.username.startsWith('system:')", "message": "the name is reserved"},
                {"expression": "!user.groups.exists(g, g.startsWith('system:'))", "message": "a group is reserved"},
            ],
        }],
    })
}

/// A token of the provider, with a login where the last one has run out.
pub fn token(layout: &Layout, person: &str) -> Result<String> {
    let args = token_args(layout, person);
    let output = process::output_within(Command::new(program()).args(&args), None, CLIENT)
        .context("the provider's client")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", complaint.trim().trim_start_matches("oidc: "));
    let credential: Value = serde_json::from_slice(&output.stdout)?;
    let token = credential.pointer("/status/token").and_then(Value::as_str);
    token.map(str::to_owned).context("the provider's client printed no token")
}

fn token_args(layout: &Layout, person: &str) -> [String; 3] {
    let config = layout.path(NAME).join("config.json");
    ["token".to_owned(), config.to_string_lossy().into_owned(), person.to_owned()]
}

/// Where people come to.
pub fn login_servers(layout: &Layout) -> Result<Vec<LoginServer>> {
    let login_servers = std::fs::read(layout.path(NAME).join("doors.json"))
        .context("nobody can log in: `cargo xtask up` runs here first, with its provider")?;
    Ok(serde_json::from_slice(&login_servers)?)
}

/// Logs somebody in at an address that a program has printed, as he would in a browser, which then goes back to the program.
pub fn enter(layout: &Layout, person: &str, address: &str) -> Result<()> {
    let config = layout.path(NAME).join("config.json");
    let mut client = Command::new(program());
    let output =
        process::output_within(client.arg("enter").arg(config).args([person, address]), None, CLIENT)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", complaint.trim().trim_start_matches("oidc: "));
    Ok(())
}

/// Logs somebody in and writes a kubeconfig that does it again whenever a token has run out: a context for each door.
pub fn login(layout: &Layout, person: &str) -> Result<PathBuf> {
    let login_servers = login_servers(layout)?;
    if !PEOPLE.iter().any(|known| known.name == person) {
        bail!("nobody is called {person}; there are {}", PEOPLE.map(|known| known.name).join(", "));
    }
    token(layout, person)?;
    let user = credential_plugin(&program(), &token_args(layout, person));
    let file = layout.path(&format!("{person}.kubeconfig"));
    write(&login_servers, &user, &file)?;
    Ok(file)
}

fn write(login_servers: &[LoginServer], user: &Value, file: &Path) -> Result<()> {
    let with = |config: Kubeconfig, door: &LoginServer| {
        config.context(&door.context, &door.server, &door.authority, user)
    };
    login_servers.iter().try_fold(Kubeconfig::default(), with)?.write(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_has_a_context_a_door_and_logs_in_by_itself() {
        let dir = std::env::temp_dir().join(format!("instance-identity-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let authority = dir.join("ca.crt");
        std::fs::write(&authority, "PEM").unwrap();
        let door = |context: &str| LoginServer {
            context: context.to_owned(),
            server: format!("https://{context}"),
            authority: authority.clone(),
        };
        let user = credential_plugin(Path::new("/bin/oidc"), &["token".to_owned(), "alice".to_owned()]);
        write(&[door("kubernetes"), door("direct")], &user, &dir.join("kubeconfig")).unwrap();
        let text = std::fs::read_to_string(dir.join("kubeconfig")).unwrap();
        let config: Value = serde_yaml_ng::from_str(&text).unwrap();
        assert_eq!(config["current-context"], "kubernetes");
        assert_eq!(config["clusters"][1]["cluster"]["server"], "https://direct");
        assert_eq!(config["users"][0]["user"]["exec"]["args"], json!(["token", "alice"]));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
