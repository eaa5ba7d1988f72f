//! TKE's platform API: `clusters` and `clustercredentials` of `platform.tkestack.io/v1`.

use super::description::ClusterDescription;
use super::kubeconfig::from_untrusted_kubeconfig;
use super::listing::{DirectorySource, ListedCluster, Listing};
use crate::error::{CallFailure, Error};
use crate::reloading_client::ReloadingClient;
use futures_util::future::{BoxFuture, FutureExt as _};
use http::Request;
use kube::config::Kubeconfig;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

/// How often the clusters are listed.
const PERIOD: Duration = Duration::from_secs(15);
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
/// Addresses of a cluster, best first.
const ADDRESS_TYPES: [&str; 3] = ["Internal", "Advertise", "Real"];

/// Clusters of TKE's platform API.
#[derive(Debug)]
pub struct PlatformSource {
    client: ReloadingClient,
}

#[derive(Deserialize)]
#[serde(default)]
struct List<T> {
    items: Vec<T>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PlatformCluster {
    metadata: Name,
    spec: ClusterSpec,
    status: ClusterStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClusterSpec {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    display_name: String,
    #[serde(rename = "type")]
    type_: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClusterStatus {
    locked: Option<bool>,
    version: String,
    addresses: Vec<Address>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    type_: String,
    host: String,
    port: u16,
    path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PlatformCredential {
    cluster_name: String,
    #[serde(rename = "caCert")]
    ca_cert: Option<String>,
    client_cert: Option<String>,
    client_key: Option<String>,
    token: Option<String>,
}

impl PlatformSource {
    /// Reads as this kubeconfig says; an error if it cannot be used.
    pub async fn open(kubeconfig: PathBuf) -> Result<Self, Error> {
        Ok(Self { client: ReloadingClient::open(kubeconfig).await? })
    }

    async fn read(&self) -> Result<Listing, Error> {
        let client = self.client.get().await?;
        let clusters: List<PlatformCluster> = list(&client, "clusters").await?;
        let credentials: List<PlatformCredential> = list(&client, "clustercredentials").await?;
        let mut listing = Listing::default();
        for cluster in clusters.items {
            let name = &cluster.metadata.name;
            let credential = credentials.items.iter().find(|one| one.cluster_name == *name);
            let listed = match kubeconfig(&cluster, credential) {
                Ok(file) => {
                    let listed = from_untrusted_kubeconfig(name, file, entry(&cluster)).await;
                    listed.map(|listed| ListedCluster { version: cluster.status.version.clone(), ..listed })
                }
                Err(error) => Err(error),
            };
            listing.add(name, listed);
        }
        Ok(listing)
    }
}

async fn list<T: for<'a> Deserialize<'a>>(client: &kube::Client, plural: &str) -> Result<List<T>, Error> {
    let request = Request::get(format!("/apis/platform.tkestack.io/v1/{plural}"))
        .body(Vec::new())
        .map_err(|error| Error::Api(kube::Error::HttpError(error).into()))?;
    match tokio::time::timeout(DEADLINE, client.request(request)).await {
        Ok(result) => result.map_err(|error| Error::Api(error.into())),
        Err(_elapsed) => Err(Error::Api(CallFailure::deadline(DEADLINE))),
    }
}

impl DirectorySource for PlatformSource {
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>> {
        self.read().boxed()
    }

    fn period(&self) -> Duration {
        PERIOD
    }
}

/// A cluster without a tenant may be used only by callers that act across tenants.
fn entry(cluster: &PlatformCluster) -> ClusterDescription {
    let tenant = &cluster.spec.tenant_id;
    ClusterDescription {
        tenants: if tenant.is_empty() { Vec::new() } else { vec![tenant.clone()] },
        display_name: cluster.spec.display_name.clone(),
        type_: cluster.spec.type_.clone(),
        credentials: None,
    }
}

/// A kubeconfig for a cluster, unless it is locked or cannot be reached.
fn kubeconfig(
    cluster: &PlatformCluster,
    credential: Option<&PlatformCredential>,
) -> Result<Kubeconfig, Error> {
    let unusable = |why: &str| Error::Config(why.to_owned());
    if cluster.status.locked == Some(true) {
        return Err(unusable("the platform has locked it"));
    }
    let credential = credential.ok_or_else(|| unusable("the platform has no credential for it"))?;
    let address = ADDRESS_TYPES
        .iter()
        .find_map(|type_| cluster.status.addresses.iter().find(|one| one.type_ == *type_))
        .ok_or_else(|| unusable("the platform has no address of it"))?;
    let path = address.path.trim_end_matches('/');
    let host = match address.host.parse::<Ipv6Addr>() {
        Ok(host) => format!("[{host}]"),
        Err(_no_address) => address.host.clone(),
    };
    let mut endpoint = json!({ "server": format!("https://{host}:{}{path}", address.port) });
    let mut user = json!({});
    let set = |target: &mut Value, key: &str, value: &Option<String>| {
        if let (Value::Object(fields), Some(value)) =
            (target, value.as_ref().filter(|value| !value.is_empty()))
        {
            fields.insert(key.to_owned(), json!(value));
        }
    };
    set(&mut endpoint, "certificate-authority-data", &credential.ca_cert);
    set(&mut user, "client-certificate-data", &credential.client_cert);
    set(&mut user, "client-key-data", &credential.client_key);
    set(&mut user, "token", &credential.token);
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": endpoint }],
        "users": [{ "name": "u", "user": user }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    serde_json::from_value(file).map_err(|error| Error::Config(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::empty_server::EmptyServer;

    #[test]
    fn a_cluster_is_reached_by_its_best_address() {
        let cluster: PlatformCluster = serde_json::from_value(json!({
            "metadata": { "name": "cls-a" },
            "spec": { "tenantID": "t1", "displayName": "A", "type": "Baremetal" },
            "status": { "addresses": [
                { "type": "Real", "host": "10.0.0.1", "port": 6443 },
                { "type": "Advertise", "host": "a.example", "port": 443, "path": "/x/" },
            ] },
        }))
        .unwrap();
        let credential = PlatformCredential { token: Some("secret".into()), ..PlatformCredential::default() };
        let file = kubeconfig(&cluster, Some(&credential)).unwrap();
        let server = file.clusters[0].cluster.as_ref().unwrap().server.as_deref();
        assert_eq!(server, Some("https://a.example:443/x"));
        assert!(file.auth_infos[0].auth_info.as_ref().unwrap().token.is_some());
        assert_eq!(entry(&cluster).tenants, ["t1"]);
        let why = |cluster: &PlatformCluster, credential| kubeconfig(cluster, credential).unwrap_err().text();
        assert!(why(&cluster, None).contains("no credential"));
        let locked =
            PlatformCluster { status: ClusterStatus { locked: Some(true), ..cluster.status }, ..cluster };
        assert!(why(&locked, Some(&credential)).contains("locked"));
    }

    #[tokio::test]
    async fn an_address_of_ipv6_is_in_brackets() {
        let address = json!({ "type": "Real", "host": "fd00::1", "port": 6443 });
        let cluster = json!({ "metadata": { "name": "cls-a" }, "status": { "addresses": [address] } });
        let cluster: PlatformCluster = serde_json::from_value(cluster).unwrap();
        let file = kubeconfig(&cluster, Some(&PlatformCredential::default())).unwrap();
        let listed = from_untrusted_kubeconfig("cls-a", file, entry(&cluster)).await.unwrap();
        assert_eq!(listed.config.cluster_url.to_string(), "https://[fd00::1]:6443/");
    }

    #[tokio::test]
    async fn renewed_credentials_of_the_platform_itself_are_used_at_once() {
        let server = EmptyServer::start("platform-kubeconfig").await;
        server.write_kubeconfig("former");
        let source = PlatformSource::open(server.kubeconfig.clone()).await.unwrap();
        source.load().await.unwrap();
        server.write_kubeconfig("renewed");
        source.load().await.unwrap();
        assert_eq!(server.callers(), ["Bearer former", "Bearer renewed"]);
    }
}
