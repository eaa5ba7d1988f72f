use super::tunnel::Inside;
use crate::api::Api;
use crate::commands::member::{CONTROLLER_NAMESPACE, text};
use crate::failure::Failure;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

pub(super) const DAY_SECONDS: i64 = 86_400;
/// Letters of a line of PEM.
const PEM_LINE: usize = 64;

/// An account in the member cluster, and the Secret that its tokens are bound to: they end with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    name: &'static str,
    bound_to: &'static str,
}

impl Account {
    pub(super) const CONTROLLER: Self = Self { name: "business-member", bound_to: "business-member-tokens" };
    pub(super) const SIGNER: Self = Self { name: "business-signer", bound_to: "business-signer-tokens" };
}

/// A token of an account.
pub(super) struct Credential {
    user: &'static str,
    token: String,
    pub(super) ends: Ended,
}

/// When a token ends.
pub(super) struct Ended {
    /// RFC 3339.
    pub(super) at: String,
    /// From now.
    pub(super) days: i64,
}

impl Ended {
    pub(super) fn of(at: &str) -> Self {
        let until: Result<jiff::Timestamp, _> = at.parse();
        let seconds = until.map_or(0, |until| until.as_second() - jiff::Timestamp::now().as_second());
        Self { at: at.to_owned(), days: seconds / DAY_SECONDS }
    }
}

/// Makes a token that ends with a Secret of the member cluster.
pub(super) async fn made(member: &Api, account: Account, days: u32) -> Result<Credential, Failure> {
    let root = format!("/api/v1/namespaces/{CONTROLLER_NAMESPACE}");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": account.bound_to, "namespace": CONTROLLER_NAMESPACE},
    });
    let secret = member.apply(&format!("{root}/secrets/{}", account.bound_to), &secret).await?;
    let bound = json!({
        "apiVersion": "v1", "kind": "Secret", "name": account.bound_to, "uid": text(&secret, "/metadata/uid"),
    });
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": i64::from(days) * DAY_SECONDS, "boundObjectRef": bound},
    });
    let path = format!("{root}/serviceaccounts/{}/token", account.name);
    let answer = member.post(&path, &request).await?;
    let ends = Ended::of(text(&answer, "/status/expirationTimestamp"));
    let token = text(&answer, "/status/token").to_owned();
    if token.is_empty() {
        return Err(Failure::Stopped(format!("{} gave no token for {}", member.server(), account.name)));
    }
    Ok(Credential { user: account.name, token, ends })
}

/// What the host cluster keeps of a member.
pub(super) struct Kept<'a> {
    /// As the controller reaches it.
    pub(super) server: Option<&'a str>,
    /// Where it only dials out.
    pub(super) inside: Option<Inside>,
    pub(super) member: &'a Api,
}

impl Kept<'_> {
    /// A kubeconfig that runs no program and reads no file.
    pub(super) fn kubeconfig(&self, cluster: &str, credential: &Credential) -> Result<String, Failure> {
        let mut entry = json!({ "server": self.server() });
        let (authority, name) = match &self.inside {
            Some(inside) => (inside.authority.clone(), Some(inside.tls_server_name)),
            None => (self.authority(), self.member.config.tls_server_name.as_deref()),
        };
        if let Some(entry) = entry.as_object_mut() {
            if !authority.is_empty() {
                entry.insert(
                    "certificate-authority-data".to_owned(),
                    json!(BASE64_STANDARD.encode(authority)),
                );
            }
            if let Some(name) = name {
                entry.insert("tls-server-name".to_owned(), json!(name));
            }
            if let Some(inside) = &self.inside {
                entry.insert("proxy-url".to_owned(), json!(inside.proxy_url));
            }
        }
        let Credential { user, token, .. } = credential;
        let config: Value = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": [{"name": cluster, "cluster": entry}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        });
        serde_yaml_ng::to_string(&config).map_err(|error| Failure::Stopped(error.to_string()))
    }

    fn server(&self) -> String {
        let inside = self.inside.as_ref().map(|inside| inside.server.as_str());
        inside.or(self.server).map_or_else(|| self.member.server(), str::to_owned)
    }

    /// The authorities of the cluster, PEM.
    pub(super) fn authority(&self) -> String {
        self.member.config.root_cert.iter().flatten().map(|der| pem(der)).collect()
    }
}

fn pem(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line).into_owned());
    let lines: Vec<String> = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
