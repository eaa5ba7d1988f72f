use super::credentials::{ClusterConnection, ServiceAccountToken, Tokens};
use super::kubeconfig::{TUNNEL_SCHEME, in_secret};
use super::{manifests, text};
use crate::api::Api;
use crate::failure::Failure;
use business_types::names::ACCOUNT_NAMESPACE;
use serde_json::{Map, Value, json};
use std::fmt;
use std::str::FromStr;

const AGENT: &str = include_str!("../../../../../deploy/member-tunnel/agent.yaml");
/// Name of the agents' service account, audience, Deployment and Secret.
pub(crate) const NAME: &str = "business-tunnel";
/// The note after revoking agents' tokens: a server checks a token only when a connection is opened.
pub(crate) const CONNECTIONS_LAST: &str = "connections that those tokens have let in last until the tunnel's servers begin anew: \
                                           where one may be a stranger's, kubectl -n tke-business rollout restart \
                                           deployment/business-controller";
/// Label of a Secret that an agents' token is bound to: the agents' cluster.
const CLUSTER_LABEL: &str = "business.tkestack.io/tunnel-of";
/// Port of the tunnel's Service.
const PORT: u16 = 8091;
/// JSON pointers into the agents' Deployment.
const AGENT_IMAGE: &str = "/spec/template/spec/containers/0/image";
const AGENT_ARGS: &str = "/spec/template/spec/containers/0/args";
/// Key of the certificate authorities in the agents' Secret.
const AUTHORITY_KEY: &str = "ca.crt";
/// Where the Secret is mounted.
const MOUNTED_AUTHORITY: &str = "/tunnel/ca.crt";
/// The API server's port inside its own cluster.
const API_PORT: u16 = 443;
/// Every kube-apiserver's certificate has this name.
const API_SERVER_NAME: &str = "kubernetes.default.svc";

/// The address of the tunnel that agents dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TunnelAddress {
    host: String,
    port: u16,
}

impl FromStr for TunnelAddress {
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

impl fmt::Display for TunnelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The configuration of a cluster's agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentConfig {
    pub(super) address: TunnelAddress,
    /// Trusted certificate authorities, PEM; `None` for those of the agent's system.
    pub(super) authority: Option<String>,
    /// The image, if it is not the manifest's.
    pub(super) image: Option<String>,
}

impl AgentConfig {
    /// Takes missing values from the previous configuration, and adds them to `kept` as flags.
    pub(super) fn or_previous(self, before: &Self, kept: &mut Vec<String>) -> Self {
        if self.authority.is_none() && before.authority.is_some() {
            kept.push("--tunnel-ca".to_owned());
        }
        if let (None, Some(image)) = (&self.image, &before.image) {
            kept.push(format!("--tunnel-image {image}"));
        }
        Self {
            authority: self.authority.or_else(|| before.authority.clone()),
            image: self.image.or_else(|| before.image.clone()),
            ..self
        }
    }

    /// The configuration of a Deployment that `join` has applied.
    fn of(deployment: &Value, secret: &Value) -> Result<Option<Self>, Failure> {
        let args = deployment.pointer(AGENT_ARGS).and_then(Value::as_array);
        let arg = |name: &str| {
            let mut args = args.into_iter().flatten().filter_map(Value::as_str);
            args.find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
        };
        let (Some(host), Some(port)) = (arg("--proxy-server-host"), arg("--proxy-server-port")) else {
            return Ok(None);
        };
        let Ok(address) = format!("{host}:{port}").parse() else { return Ok(None) };
        let has_authority = arg("--ca-cert").is_some_and(|file| !file.is_empty());
        let authority = if has_authority { in_secret(secret, AUTHORITY_KEY)? } else { None };
        let default_image = manifests::parse(AGENT)?;
        let default_image =
            default_image.first().map(|object| repository(text(object, AGENT_IMAGE))).unwrap_or_default();
        let image = text(deployment, AGENT_IMAGE);
        let image = (repository(image) != default_image).then(|| image.to_owned());
        Ok(Some(Self { address, authority, image }))
    }
}

/// An image without its tag and digest.
fn repository(image: &str) -> &str {
    let named = image.split_once('@').map_or(image, |(named, _)| named);
    named.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(named, |(repository, _)| repository)
}

/// The configuration of the agents in a cluster; `None` if `join` has made none.
pub(super) async fn find_agents(member: &Api) -> Result<Option<AgentConfig>, Failure> {
    let Some(deployment) = member.find::<Value>(&deployment_path()).await? else { return Ok(None) };
    let Some(secret) = member.find::<Value>(&secret_path()).await? else { return Ok(None) };
    AgentConfig::of(&deployment, &secret)
}

/// The additional objects of a member behind the tunnel, without the Secret.
pub(super) async fn agent_objects(
    member: &Api,
    cluster: &str,
    agents: &AgentConfig,
) -> Result<Vec<Value>, Failure> {
    let service: Value = member.get("/api/v1/namespaces/default/services/kubernetes").await?;
    let AgentConfig { address, authority, image } = agents;
    let mut objects =
        fill_manifest(cluster, address, authority.as_deref(), text(&service, "/spec/clusterIP"))?;
    set_image(&mut objects, image.as_deref());
    Ok(objects)
}

fn set_image(objects: &mut [Value], image: Option<&str>) {
    let images = objects.iter_mut().filter_map(|object| object.pointer_mut(AGENT_IMAGE));
    images.zip(image).for_each(|(found, image)| *found = json!(image));
}

fn fill_manifest(
    cluster: &str,
    address: &TunnelAddress,
    authority: Option<&str>,
    api_server: &str,
) -> Result<Vec<Value>, Failure> {
    let port = address.port.to_string();
    let words = [
        ("API_SERVER_IP", api_server),
        ("TUNNEL_HOST", &address.host),
        ("TUNNEL_PORT", &port),
        ("TUNNEL_CA", if authority.is_some() { MOUNTED_AUTHORITY } else { "" }),
        ("CLUSTER", cluster),
    ];
    let manifest = words.iter().fold(AGENT.to_owned(), |text, (word, value)| text.replace(word, value));
    manifests::parse(&manifest)
}

/// Tokens of the agents of a cluster: of the host cluster, beside the kubeconfigs of members, and good for the tunnel
/// alone.
pub(crate) fn tokens<'a>(host: &'a Api, members_namespace: &'a str, cluster: &'a str) -> Tokens<'a> {
    Tokens {
        cluster: host,
        namespace: members_namespace,
        account: NAME,
        audience: Some(NAME),
        label: (CLUSTER_LABEL, cluster),
    }
}

/// The agents' Secret.
pub(super) fn secret(token: &ServiceAccountToken, authority: Option<&str>) -> Value {
    let mut data = Map::from_iter([("token".to_owned(), json!(token.token))]);
    data.extend(authority.map(|authority| (AUTHORITY_KEY.to_owned(), json!(authority))));
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": NAME, "namespace": ACCOUNT_NAMESPACE},
        "stringData": data,
    })
}

/// The path of that Secret.
pub(crate) fn secret_path() -> String {
    format!("/api/v1/namespaces/{ACCOUNT_NAMESPACE}/secrets/{NAME}")
}

/// The path of the agents' Deployment.
pub(crate) fn deployment_path() -> String {
    format!("/apis/apps/v1/namespaces/{ACCOUNT_NAMESPACE}/deployments/{NAME}")
}

/// The connection through the tunnel, with the API server's address for pods of the cluster.
pub(super) async fn connection(member: &Api, cluster: &str) -> Result<ClusterConnection, Failure> {
    let root: Value = member.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await?;
    let authority = text(&root, "/data/ca.crt").to_owned();
    if authority.is_empty() {
        let server = member.server();
        return Err(Failure::Other(format!("{server} has no ConfigMap kube-root-ca.crt in default")));
    }
    Ok(ClusterConnection {
        server: format!("https://{cluster}.tunnel:{API_PORT}"),
        tls_server_name: Some(API_SERVER_NAME.to_owned()),
        authority,
        proxy_url: Some(format!("{TUNNEL_SCHEME}{cluster}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    #[test]
    fn an_entrance_is_a_host_and_perhaps_a_port() {
        let address = |text: &str| text.parse::<TunnelAddress>().ok().map(|found| (found.host, found.port));
        assert_eq!(address("t.example.org"), Some(("t.example.org".to_owned(), 8091)));
        assert_eq!(address("t.example.org:443"), Some(("t.example.org".to_owned(), 443)));
        assert_eq!(address("https://t.example.org"), None);
        assert_eq!(address("me@t.example.org"), None);
    }

    #[test]
    fn the_image_is_that_of_a_mirror_where_one_is_named() {
        let image = |named: Option<&str>| {
            let mut objects = fill_manifest("east", &"t".parse().unwrap(), None, "10.96.0.1").unwrap();
            set_image(&mut objects, named);
            text(&objects[0], AGENT_IMAGE).to_owned()
        };
        assert!(image(None).starts_with("registry.k8s.io/"), "{}", image(None));
        assert_eq!(image(Some("mirror.example.org/agent:1")), "mirror.example.org/agent:1");
    }

    #[test]
    fn how_agents_dial_is_read_from_what_was_applied() {
        for (address, authority, image) in [
            ("t.example.org:443", Some("PEM"), Some("mirror.example.org:5000/agent:1")),
            ("t.example.org", None, None),
        ] {
            let address: TunnelAddress = address.parse().unwrap();
            let mut objects = fill_manifest("east", &address, authority, "10.96.0.1").unwrap();
            set_image(&mut objects, image);
            let secret = json!({"data": {"ca.crt": BASE64_STANDARD.encode(authority.unwrap_or_default())}});
            let found = AgentConfig::of(&objects[0], &secret).unwrap();
            let (authority, image) = (authority.map(str::to_owned), image.map(str::to_owned));
            assert_eq!(found, Some(AgentConfig { address, authority, image }));
        }
        assert_eq!(AgentConfig::of(&json!({}), &json!({})).unwrap(), None);
        for image in
            ["r.io:5000/a/b", "r.io:5000/a/b:v1", "r.io:5000/a/b:v1@sha256:0", "r.io:5000/a/b@sha256:0"]
        {
            assert_eq!(repository(image), "r.io:5000/a/b");
        }
    }

    #[test]
    fn every_word_of_the_manifest_is_filled_in() {
        let address = "t.example.org:443".parse().unwrap();
        for (authority, file) in [(None, ""), (Some("PEM"), "/tunnel/ca.crt")] {
            let objects = fill_manifest("east", &address, authority, "10.96.0.1").unwrap();
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
