use crate::api::{Api, segment};
use crate::commands::member::{CONTROLLER_NAMESPACE, text};
use crate::failure::Failure;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

const DAY_SECONDS: i64 = 86_400;
/// Letters of a line of PEM.
const PEM_LINE: usize = 64;

/// Label of a Secret that a token is bound to: the account that it is of.
const TOKEN_LABEL: &str = "business.tkestack.io/token-of";

/// An account in the member cluster. Each of its tokens is bound to a Secret of its own, and ends with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    name: &'static str,
    /// The key of its kubeconfig in the Secret of the host cluster.
    pub(crate) key: &'static str,
}

impl Account {
    pub(crate) const CONTROLLER: Self = Self { name: "business-member", key: "kubeconfig" };
    pub(crate) const SIGNER: Self = Self { name: "business-signer", key: "signer-kubeconfig" };

    /// The Secret that tokens were bound to before each had its own.
    fn former(self) -> String {
        format!("{}-tokens", self.name)
    }
}

/// A token of an account.
pub(crate) struct Credential {
    user: &'static str,
    pub(crate) token: String,
    pub(crate) ends: Ended,
    /// The Secret that it ends with.
    bound_to: String,
}

/// When a token ends.
pub(crate) struct Ended {
    /// RFC 3339.
    pub(crate) at: String,
    /// From now.
    pub(crate) days: i64,
}

impl Ended {
    fn of(at: &str) -> Self {
        let until: Result<jiff::Timestamp, _> = at.parse();
        let seconds = until.map_or(0, |until| until.as_second() - jiff::Timestamp::now().as_second());
        Self { at: at.to_owned(), days: seconds / DAY_SECONDS }
    }
}

/// Makes a token that ends with a Secret of its own in the member cluster.
pub(crate) async fn made(member: &Api, account: Account, days: u32) -> Result<Credential, Failure> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "generateName": format!("{}-token-", account.name), "namespace": CONTROLLER_NAMESPACE,
            "labels": {TOKEN_LABEL: account.name},
        },
    });
    let secret = member.post(&secrets(), &secret).await?;
    let bound_to = text(&secret, "/metadata/name").to_owned();
    let bound = json!({
        "apiVersion": "v1", "kind": "Secret", "name": bound_to, "uid": text(&secret, "/metadata/uid"),
    });
    let (token, ends) = token(member, account.name, days, Some(bound), &[]).await?;
    Ok(Credential { user: account.name, token, ends, bound_to })
}

/// Ends every token of the account that was made before this one. Those of a call that was interrupted are among them,
/// and one that somebody makes at the same time is not. The Secrets that were deleted.
pub(crate) async fn revoke_before(
    member: &Api,
    account: Account,
    kept: &Credential,
) -> Result<Vec<String>, Failure> {
    let of_account =
        format!("{}?labelSelector={}", secrets(), segment(&format!("{TOKEN_LABEL}={}", account.name)));
    let all: Vec<Value> = member.list(&of_account).await?;
    let made = |secret: &Value| text(secret, "/metadata/creationTimestamp").parse::<jiff::Timestamp>().ok();
    let newest = all.iter().find(|secret| text(secret, "/metadata/name") == kept.bound_to).and_then(made);
    let is_former =
        |secret: &&Value| text(secret, "/metadata/name") != kept.bound_to && made(secret) <= newest;
    let former = all.iter().filter(is_former).map(|secret| text(secret, "/metadata/name").to_owned());
    let mut deleted = Vec::new();
    for name in former.chain([account.former()]) {
        match member.delete(&format!("{}/{}", secrets(), segment(&name))).await {
            Ok(_) => deleted.push(name),
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(deleted)
}

/// The Secret that a token of a service account is bound to, as it says itself.
pub(crate) fn bound_to(token: &str) -> Option<String> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(claims.get("kubernetes.io")?.pointer("/secret/name")?.as_str()?.to_owned())
}

fn secrets() -> String {
    format!("/api/v1/namespaces/{CONTROLLER_NAMESPACE}/secrets")
}

/// A token of an account of that cluster, and when it ends: with what it is bound to, at the latest. Without an audience it is good
/// for the cluster itself.
pub(crate) async fn token(
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
pub(crate) struct Reach {
    pub(crate) server: String,
    /// The name in the server's certificate, where it is not that of the URL.
    pub(crate) tls_server_name: Option<String>,
    /// PEM.
    pub(crate) authority: String,
    pub(crate) proxy_url: Option<String>,
}

impl Reach {
    /// As it is reached from here, or at this address.
    pub(crate) fn directly(member: &Api, server: Option<&str>) -> Self {
        Self {
            server: server.map_or_else(|| member.server(), str::to_owned),
            tls_server_name: member.config.tls_server_name.clone(),
            authority: authority_of(member),
            proxy_url: None,
        }
    }

    /// A kubeconfig that runs no program and reads no file.
    pub(crate) fn kubeconfig(&self, cluster: &str, credential: &Credential) -> Result<String, Failure> {
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
pub(crate) fn authority_of(member: &Api) -> String {
    member.config.root_cert.iter().flatten().map(|der| pem(der)).collect()
}

fn pem(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line).into_owned());
    let lines: Vec<String> = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
