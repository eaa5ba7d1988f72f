use crate::api::Api;
use crate::commands::member::text;
use crate::failure::Failure;
use crate::paths::escape_segment;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use business_types::names::{ACCOUNT_NAMESPACE, CLUSTER_KUBECONFIG_KEY, CLUSTER_SIGNER_KEY};
use meta::time::DAY_SECONDS;
use serde_json::{Map, Value, json};

/// Characters of a PEM line.
const PEM_LINE: usize = 64;

/// Label of a Secret that a token is bound to: the token's service account.
const TOKEN_LABEL: &str = "business.tkestack.io/token-of";

/// A service account in the member cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    name: &'static str,
    /// The key of its kubeconfig in the Secret of the host cluster.
    pub(crate) key: &'static str,
}

impl Account {
    pub(crate) const CONTROLLER: Self = Self { name: "business-member", key: CLUSTER_KUBECONFIG_KEY };
    pub(crate) const SIGNER: Self = Self { name: "business-signer", key: CLUSTER_SIGNER_KEY };

    /// Its tokens for the member cluster's API server.
    pub(crate) fn tokens(self, member: &Api) -> Tokens<'_> {
        Tokens {
            cluster: member,
            namespace: ACCOUNT_NAMESPACE,
            account: self.name,
            audience: None,
            label: (TOKEN_LABEL, self.name),
        }
    }
}

/// Creates and revokes tokens of a service account. Each token is bound to a Secret of its own, and is revoked with it.
pub(crate) struct Tokens<'a> {
    pub(super) cluster: &'a Api,
    pub(super) namespace: &'a str,
    pub(super) account: &'static str,
    /// The audience of the tokens; `None` for the cluster's API server.
    pub(super) audience: Option<&'static str>,
    /// Label of the Secrets that the tokens are bound to.
    pub(super) label: (&'static str, &'a str),
}

/// A token of a service account.
pub(crate) struct ServiceAccountToken {
    user: &'static str,
    pub(crate) token: String,
    pub(crate) expiry: Expiry,
    /// The Secret that it is bound to.
    pub(crate) bound_to: String,
}

/// When a token expires.
pub(crate) struct Expiry {
    /// RFC 3339; empty where the server has said no time.
    pub(crate) at: String,
    /// Days from now.
    pub(crate) days: i64,
}

impl Expiry {
    fn of(at: &str) -> Self {
        let Ok(until) = at.parse::<jiff::Timestamp>() else { return Self { at: String::new(), days: 0 } };
        let seconds = until.as_second() - jiff::Timestamp::now().as_second();
        Self { at: at.to_owned(), days: seconds / DAY_SECONDS }
    }
}

impl Tokens<'_> {
    /// Creates a token.
    pub(crate) async fn create(&self, days: u32) -> Result<ServiceAccountToken, Failure> {
        let Self { cluster, account, .. } = self;
        let (key, value) = self.label;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "generateName": format!("{account}-token-"), "namespace": self.namespace, "labels": {key: value},
            },
        });
        let secret = cluster.post(&self.secrets(), &secret).await?;
        let bound_to = text(&secret, "/metadata/name").to_owned();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": i64::from(days) * DAY_SECONDS,
                "audiences": self.audience.as_slice(),
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Secret", "name": bound_to, "uid": text(&secret, "/metadata/uid"),
                },
            },
        });
        let namespace = escape_segment(self.namespace);
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = cluster.post(&path, &request).await?;
        let token = text(&answer, "/status/token").to_owned();
        if token.is_empty() {
            return Err(Failure::Other(format!("{} gave no token for {account}", cluster.server())));
        }
        let expiry = Expiry::of(text(&answer, "/status/expirationTimestamp"));
        Ok(ServiceAccountToken { user: account, token, expiry, bound_to })
    }

    /// Revokes all tokens that are older than this one, also those of an interrupted call, but not one that is made at
    /// the same time. Returns the deleted Secrets.
    pub(crate) async fn revoke_before(&self, kept: &ServiceAccountToken) -> Result<Vec<String>, Failure> {
        let all = self.all().await?;
        let made =
            |secret: &Value| text(secret, "/metadata/creationTimestamp").parse::<jiff::Timestamp>().ok();
        let newest = all.iter().find(|secret| text(secret, "/metadata/name") == kept.bound_to).and_then(made);
        let is_older =
            |secret: &&Value| text(secret, "/metadata/name") != kept.bound_to && made(secret) <= newest;
        self.revoke(all.iter().filter(is_older)).await
    }

    /// Revokes all tokens of the account.
    pub(crate) async fn revoke_all(&self) -> Result<Vec<String>, Failure> {
        self.revoke(self.all().await?.iter()).await
    }

    async fn revoke(&self, bound: impl Iterator<Item = &Value>) -> Result<Vec<String>, Failure> {
        let mut deleted = Vec::new();
        for name in bound.map(|secret| text(secret, "/metadata/name").to_owned()) {
            match self.cluster.delete(&format!("{}/{}", self.secrets(), escape_segment(&name))).await {
                Ok(_) => deleted.push(name),
                Err(failure) if failure.is_not_found() => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(deleted)
    }

    /// The Secrets that they are bound to.
    async fn all(&self) -> Result<Vec<Value>, Failure> {
        let (key, value) = self.label;
        let selector = escape_segment(&format!("{key}={value}"));
        self.cluster.list(&format!("{}?labelSelector={selector}", self.secrets())).await
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", escape_segment(self.namespace))
    }
}

/// The Secret that a service account's token is bound to, by its claims.
pub(crate) fn bound_to(token: &str) -> Option<String> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(claims.get("kubernetes.io")?.pointer("/secret/name")?.as_str()?.to_owned())
}

/// How the controller connects to a member cluster.
pub(crate) struct ClusterConnection {
    pub(crate) server: String,
    /// The name in the server's certificate, if it is not the URL's host.
    pub(crate) tls_server_name: Option<String>,
    /// PEM.
    pub(crate) authority: String,
    pub(crate) proxy_url: Option<String>,
}

impl ClusterConnection {
    /// The connection that this program uses, or with this address instead.
    pub(crate) fn directly(member: &Api, server: Option<&str>) -> Self {
        Self {
            server: server.map_or_else(|| member.server(), str::to_owned),
            tls_server_name: member.config.tls_server_name.clone(),
            authority: authority_of(member),
            proxy_url: None,
        }
    }

    /// A kubeconfig that runs no program and reads no file.
    pub(crate) fn kubeconfig(
        &self,
        cluster: &str,
        credential: &ServiceAccountToken,
    ) -> Result<String, Failure> {
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
        let ServiceAccountToken { user, token, .. } = credential;
        let config: Value = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": [{"name": cluster, "cluster": entry}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        });
        meta::yaml::to_string(&config).map_err(|error| Failure::Other(error.to_string()))
    }
}

/// The certificate authorities in the caller's kubeconfig of the cluster, PEM.
pub(crate) fn authority_of(member: &Api) -> String {
    member.config.root_cert.iter().flatten().map(|der| pem(der)).collect()
}

fn pem(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(PEM_LINE).map(|line| String::from_utf8_lossy(line).into_owned());
    let lines: Vec<String> = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_not_told_as_one() {
        let at = "2999-01-01T00:00:00Z";
        assert_eq!(Expiry::of(at).at, at);
        assert!(Expiry::of(at).days > 0);
        for wrong in ["", "\x1b[2J", "2999-01-01T00:00:00Z\nroot"] {
            let ended = Expiry::of(wrong);
            assert_eq!((ended.at.as_str(), ended.days), ("", 0), "{wrong:?}");
        }
    }
}
