use crate::api::Api;
use crate::commands::member::{CONTROLLER_NAMESPACE, text};
use crate::failure::Failure;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

const DAY_SECONDS: i64 = 86_400;
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
    fn of(at: &str) -> Self {
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
    let (token, ends) = token(member, account.name, days, Some(bound), &[]).await?;
    Ok(Credential { user: account.name, token, ends })
}

/// A token of an account of that cluster, and when it ends: with what it is bound to, at the latest. Without an audience it is good
/// for the cluster itself.
pub(super) async fn token(
    cluster: &Api,
    account: &str,
    days: u32,
    bound: Option<Value>,
    audiences: &[&str],
) -> Result<(String, Ended), Failure> {
    let seconds = i64::from(days) * DAY_SECONDS;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds, "boundObjectRef": bound, "audiences": audiences},
    });
    let path = format!("/api/v1/namespaces/{CONTROLLER_NAMESPACE}/serviceaccounts/{account}/token");
    let answer = cluster.post(&path, &request).await?;
    let token = text(&answer, "/status/token").to_owned();
    if token.is_empty() {
        return Err(Failure::Stopped(format!("{} gave no token for {account}", cluster.server())));
    }
    Ok((token, Ended::of(text(&answer, "/status/expirationTimestamp"))))
}

/// How the controller reaches a member.
pub(super) struct Reach {
    pub(super) server: String,
    /// The name in the server's certificate, where it is not that of the URL.
    pub(super) tls_server_name: Option<String>,
    /// PEM.
    pub(super) authority: String,
    pub(super) proxy_url: Option<String>,
}

impl Reach {
    /// As it is reached from here, or at this address.
    pub(super) fn directly(member: &Api, server: Option<&str>) -> Self {
        Self {
            server: server.map_or_else(|| member.server(), str::to_owned),
            tls_server_name: member.config.tls_server_name.clone(),
            authority: authority_of(member),
            proxy_url: None,
        }
    }

    /// A kubeconfig that runs no program and reads no file.
    pub(super) fn kubeconfig(&self, cluster: &str, credential: &Credential) -> Result<String, Failure> {
        let authority = (!self.authority.is_empty()).then(|| BASE64_STANDARD.encode(&self.authority));
        let entry: Map<String, Value> = [
            ("server", Some(self.server.clone())),
            ("certificate-authority-data", authority),
            ("tls-server-name", self.tls_server_name.clone()),
            ("proxy-url", self.proxy_url.clone()),
        ]
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), json!(text?))))
        .collect();
        let Credential { user, token, .. } = credential;
        let config: Value = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": [{"name": cluster, "cluster": entry}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        });
        serde_yaml_ng::to_string(&config).map_err(|error| Failure::Stopped(error.to_string()))
    }
}

/// The authorities of a cluster as it is reached from here, PEM.
pub(super) fn authority_of(member: &Api) -> String {
    member.config.root_cert.iter().flatten().map(|der| pem(der)).collect()
}

fn pem(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line).into_owned());
    let lines: Vec<String> = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
