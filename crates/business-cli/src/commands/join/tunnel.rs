use super::credentials::{Ended, Reach, token};
use super::{manifests, text};
use crate::api::Api;
use crate::commands::member::CONTROLLER_NAMESPACE;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::str::FromStr;

const AGENT: &str = include_str!("../../../../../deploy/member-tunnel/agent.yaml");
/// Account, audience and Secret of the agents.
const NAME: &str = "business-tunnel";
/// Port of the tunnel's Service.
const PORT: u16 = 8091;
/// Where the Secret is mounted.
const MOUNTED_AUTHORITY: &str = "/tunnel/ca.crt";
/// The API server's port inside its own cluster.
const API_PORT: u16 = 443;
/// Every kube-apiserver's certificate has this name.
const API_NAME: &str = "kubernetes.default.svc";

/// Where agents dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entrance {
    host: String,
    port: u16,
}

impl FromStr for Entrance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority: http::uri::Authority =
            text.parse().map_err(|error| format!("{text:?} is no HOST or HOST:PORT: {error}"))?;
        if authority.as_str().contains('@') {
            return Err(format!("{text:?} is no HOST or HOST:PORT"));
        }
        Ok(Self { host: authority.host().to_owned(), port: authority.port_u16().unwrap_or(PORT) })
    }
}

/// What a member behind the tunnel gets beside the others, but for its Secret.
pub(super) async fn agent(
    member: &Api,
    cluster: &str,
    entrance: &Entrance,
    authority: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let service: Value = member.get("/api/v1/namespaces/default/services/kubernetes").await?;
    filled(cluster, entrance, authority, text(&service, "/spec/clusterIP"))
}

fn filled(
    cluster: &str,
    entrance: &Entrance,
    authority: Option<&str>,
    api_server: &str,
) -> Result<Vec<Value>, Failure> {
    let port = entrance.port.to_string();
    let words = [
        ("API_SERVER_IP", api_server),
        ("TUNNEL_HOST", &entrance.host),
        ("TUNNEL_PORT", &port),
        ("TUNNEL_CA", if authority.is_some() { MOUNTED_AUTHORITY } else { "" }),
        ("CLUSTER", cluster),
    ];
    let manifest = words.iter().fold(AGENT.to_owned(), |text, (word, value)| text.replace(word, value));
    manifests::parsed(&manifest)
}

/// The agents' Secret with a new token of the host cluster, and when that ends. The token is good for the tunnel alone.
pub(super) async fn secret(
    host: &Api,
    authority: Option<&str>,
    days: u32,
) -> Result<(Value, Ended), Failure> {
    let (token, ends) = token(host, NAME, days, None, &[NAME]).await?;
    let mut data = json!({ "token": token });
    if let (Some(authority), Some(data)) = (authority, data.as_object_mut()) {
        data.insert("ca.crt".to_owned(), json!(authority));
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": NAME, "namespace": CONTROLLER_NAMESPACE},
        "stringData": data,
    });
    Ok((secret, ends))
}

/// Where that Secret is.
pub(super) fn secret_path() -> String {
    format!("/api/v1/namespaces/{CONTROLLER_NAMESPACE}/secrets/{NAME}")
}

/// As its own pods reach it, through the tunnel.
pub(super) async fn inside(member: &Api, cluster: &str) -> Result<Reach, Failure> {
    let root: Value = member.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await?;
    let authority = text(&root, "/data/ca.crt").to_owned();
    if authority.is_empty() {
        let server = member.server();
        return Err(Failure::Stopped(format!("{server} has no ConfigMap kube-root-ca.crt in default")));
    }
    Ok(Reach {
        server: format!("https://{cluster}.tunnel:{API_PORT}"),
        tls_server_name: Some(API_NAME.to_owned()),
        authority,
        proxy_url: Some(format!("tunnel://{cluster}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entrance_is_a_host_and_perhaps_a_port() {
        let entrance = |text: &str| text.parse::<Entrance>().ok().map(|found| (found.host, found.port));
        assert_eq!(entrance("t.example.org"), Some(("t.example.org".to_owned(), 8091)));
        assert_eq!(entrance("t.example.org:443"), Some(("t.example.org".to_owned(), 443)));
        assert_eq!(entrance("https://t.example.org"), None);
        assert_eq!(entrance("me@t.example.org"), None);
    }

    #[test]
    fn every_word_of_the_manifest_is_filled_in() {
        let entrance = "t.example.org:443".parse().unwrap();
        for (authority, file) in [(None, ""), (Some("PEM"), "/tunnel/ca.crt")] {
            let objects = filled("east", &entrance, authority, "10.96.0.1").unwrap();
            let text = json!(objects).to_string();
            let pod = &objects[0]["spec"]["template"]["spec"];
            assert_eq!(pod["hostAliases"], json!([{"ip": "10.96.0.1", "hostnames": ["east.tunnel"]}]));
            for arg in ["host=t.example.org", "port=443", "host=east.tunnel", &format!("ca-cert={file}")] {
                assert!(text.contains(&format!("{arg}\"")), "{arg}: {text}");
            }
            for word in ["API_SERVER_IP", "TUNNEL_", "CLUSTER"] {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
    }
}
