//! Looks up where a cluster signs, and where people reach it. Nothing is cached, so changes of the operator take effect
//! at once.

use super::IssueRefusal;
use crate::business::Business;
use crate::dial::Dialer;
use crate::directory::description::ClusterDescription;
use crate::directory::kubeconfig::{from_kubeconfig, from_untrusted_kubeconfig};
use crate::directory::secrets::ambiguous;
use crate::error::chain;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::member_cluster::kind::{BusinessMemberCluster, MemberClusterView};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use business_types::names::{
    CLUSTER_ENDPOINT_ANNOTATION, CLUSTER_ENDPOINT_CA_KEY, CLUSTER_LABEL, CLUSTER_SIGNER_KEY,
};
use business_types::{ClusterEndpoint, MemberClusterStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::config::{Cluster, Kubeconfig};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The deadline of a call.
const DEADLINE: Duration = Duration::from_secs(5);

/// A cluster that can issue certificates.
#[derive(Clone, Debug)]
pub struct IssuingCluster {
    /// The configuration for the signer's calls.
    pub signer: kube::Config,
    /// Dials the cluster.
    pub dialer: Dialer,
    /// Where people reach the cluster.
    pub endpoint: ClusterEndpoint,
    /// The uid of the cluster's `kube-system`, which identifies the cluster.
    pub uid: String,
}

/// Where signers and endpoints come from. An endpoint in the `MemberCluster` has precedence.
#[derive(Clone, Debug)]
pub enum IssuerSource {
    /// Kubeconfigs with a context for each cluster.
    Files { signers: PathBuf, endpoints: PathBuf },
    /// The Secrets of the clusters.
    Secrets(Box<Api<Secret>>),
}

/// Looks up the clusters of requests.
#[derive(Clone, Debug)]
pub struct ClusterLookup {
    source: IssuerSource,
    business: Business,
    dialer: Dialer,
}

impl ClusterLookup {
    /// The client reads the `MemberClusters`.
    pub fn new(source: IssuerSource, client: kube::Client, dialer: Dialer) -> Self {
        Self { source, business: Business::new(client), dialer }
    }

    /// Looks up a cluster by its name.
    pub async fn find(&self, cluster: &str) -> Result<IssuingCluster, IssueRefusal> {
        let MemberClusterView { spec, status: MemberClusterStatus { uid, .. }, .. } =
            self.record(cluster).await?;
        let configured = spec.endpoint;
        let (signer, endpoint) = match &self.source {
            IssuerSource::Files { signers, endpoints } => {
                let endpoint = match configured {
                    Some(endpoint) => endpoint,
                    None => endpoint_in(&read(endpoints)?, cluster)?,
                };
                (signer_in(read(signers)?, cluster).await?, endpoint)
            }
            IssuerSource::Secrets(api) => from_secret(api, cluster, configured).await?,
        };
        Ok(IssuingCluster { signer, dialer: self.dialer.clone(), endpoint, uid })
    }

    /// The `MemberCluster`, which says which cluster the name stands for. Another cluster under this name signs nothing.
    async fn record(&self, cluster: &str) -> Result<MemberClusterView, IssueRefusal> {
        let key = RootKey::new(None, cluster);
        let found = tokio::time::timeout(DEADLINE, self.business.get::<BusinessMemberCluster>(&key)).await;
        let silent =
            |why: String| IssueRefusal::Unavailable(format!("what the cluster is cannot be read: {why}"));
        let found = found.map_err(|_elapsed| silent("no answer in time".to_owned()))?;
        let found = found.map_err(|failure| silent(failure.to_string()))?;
        let unknown = || IssueRefusal::CannotSign(format!("cluster {cluster} is not in the directory"));
        found.filter(|object| !object.status.uid.is_empty()).ok_or_else(unknown)
    }
}

fn read(path: &Path) -> Result<Kubeconfig, IssueRefusal> {
    Kubeconfig::read_from(path)
        .map_err(|error| IssueRefusal::Unavailable(format!("{}: {}", path.display(), chain(&error))))
}

fn cannot_sign(cluster: &str) -> IssueRefusal {
    IssueRefusal::CannotSign(format!(
        "cluster {cluster} issues no certificates: there is no kubeconfig of a signer for it"
    ))
}

fn no_endpoint(cluster: &str) -> IssueRefusal {
    IssueRefusal::CannotSign(format!("cluster {cluster} has no endpoint for people"))
}

async fn signer_in(file: Kubeconfig, cluster: &str) -> Result<kube::Config, IssueRefusal> {
    if !file.contexts.iter().any(|context| context.name == cluster) {
        return Err(cannot_sign(cluster));
    }
    let listed =
        from_kubeconfig(cluster, file, Some(cluster.to_owned()), ClusterDescription::imported()).await;
    listed.map(|listed| listed.config).map_err(|error| IssueRefusal::Unavailable(error.text()))
}

/// Only the cluster of a context counts in the kubeconfig for people.
fn endpoint_in(file: &Kubeconfig, cluster: &str) -> Result<ClusterEndpoint, IssueRefusal> {
    let context = file.contexts.iter().find(|context| context.name == cluster);
    let named = context.and_then(|context| context.context.as_ref()).map(|context| &context.cluster);
    let found = file.clusters.iter().find(|one| Some(&one.name) == named);
    let found = found.and_then(|one| one.cluster.as_ref()).ok_or_else(|| no_endpoint(cluster))?;
    let server =
        found.server.clone().filter(|server| !server.is_empty()).ok_or_else(|| no_endpoint(cluster))?;
    Ok(ClusterEndpoint { server, ca_bundle: bundle(found)? })
}

fn bundle(cluster: &Cluster) -> Result<String, IssueRefusal> {
    let unusable = |why: String| IssueRefusal::Unavailable(format!("the authorities of an endpoint: {why}"));
    if let Some(data) = &cluster.certificate_authority_data {
        let bytes = STANDARD.decode(data).map_err(|error| unusable(error.to_string()))?;
        return String::from_utf8(bytes).map_err(|error| unusable(error.to_string()));
    }
    match &cluster.certificate_authority {
        Some(path) => std::fs::read_to_string(path).map_err(|error| unusable(format!("{path}: {error}"))),
        None => Ok(String::new()),
    }
}

async fn from_secret(
    api: &Api<Secret>,
    cluster: &str,
    configured: Option<ClusterEndpoint>,
) -> Result<(kube::Config, ClusterEndpoint), IssueRefusal> {
    let params = ListParams::default().labels(&format!("{CLUSTER_LABEL}={cluster}")).limit(2);
    let mut found = bounded(api.list(&params)).await?.items;
    if let Some(why) = ambiguous(cluster, &found) {
        return Err(IssueRefusal::CannotSign(format!("cluster {cluster} issues no certificates: {why}")));
    }
    let secret = found.pop().ok_or_else(|| cannot_sign(cluster))?;
    let data = secret.data.unwrap_or_default();
    let text = |key: &str| {
        let bytes = data.get(key).map(|bytes| std::str::from_utf8(&bytes.0));
        bytes
            .transpose()
            .map_err(|error| IssueRefusal::Unavailable(format!("key {key} of its Secret: {error}")))
    };
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let endpoint = match configured {
        Some(endpoint) => endpoint,
        None => ClusterEndpoint {
            server: annotations
                .get(CLUSTER_ENDPOINT_ANNOTATION)
                .cloned()
                .ok_or_else(|| no_endpoint(cluster))?,
            ca_bundle: text(CLUSTER_ENDPOINT_CA_KEY)?.unwrap_or_default().to_owned(),
        },
    };
    let signer = text(CLUSTER_SIGNER_KEY)?.ok_or_else(|| cannot_sign(cluster))?;
    let file = Kubeconfig::from_yaml(signer).map_err(|error| IssueRefusal::Unavailable(chain(&error)))?;
    let listed = from_untrusted_kubeconfig(cluster, file, ClusterDescription::imported()).await;
    let config = listed.map_err(|error| IssueRefusal::Unavailable(error.text()))?.config;
    Ok((config, endpoint))
}

async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, IssueRefusal> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(answer) => answer.map_err(|error| IssueRefusal::Unavailable(chain(&error))),
        Err(_elapsed) => Err(IssueRefusal::Unavailable("kube-apiserver does not answer".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINTS: &str = r#"{
      "clusters": [
        {"name": "one", "cluster": {"server": "https://one.example", "certificate-authority-data": "Q0E="}},
        {"name": "public", "cluster": {"server": "https://two.example"}},
        {"name": "nowhere", "cluster": {}}
      ],
      "contexts": [
        {"name": "c1", "context": {"cluster": "one", "user": ""}},
        {"name": "c2", "context": {"cluster": "public", "user": ""}},
        {"name": "c3", "context": {"cluster": "nowhere", "user": ""}},
        {"name": "c4", "context": {"cluster": "missing", "user": ""}}
      ]
    }"#;

    #[test]
    fn an_endpoint_is_a_contexts_cluster() {
        let file = Kubeconfig::from_yaml(ENDPOINTS).unwrap();
        let found = |cluster| endpoint_in(&file, cluster).unwrap();
        assert_eq!(
            found("c1"),
            ClusterEndpoint { server: "https://one.example".into(), ca_bundle: "CA".into() }
        );
        assert_eq!(found("c2").ca_bundle, "", "the system's authorities vouch for it");
        for cluster in ["c3", "c4", "c5"] {
            assert_eq!(endpoint_in(&file, cluster), Err(no_endpoint(cluster)));
        }
    }
}
