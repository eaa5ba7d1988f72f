//! Kubeconfigs in Secrets of a namespace of their own, with the name of the cluster in a label.

use super::description::ClusterDescription;
use super::kubeconfig::from_untrusted_kubeconfig;
use super::listing::{DirectorySource, ListedCluster, Listing};
use crate::dial::is_tunnelled;
use crate::error::{CallFailure, Error};
use business_types::ClusterCredentials;
use business_types::names::{
    CLUSTER_AGENTS_END_ANNOTATION, CLUSTER_DISPLAY_NAME_ANNOTATION, CLUSTER_KUBECONFIG_KEY, CLUSTER_LABEL,
    CLUSTER_TENANTS_ANNOTATION, CLUSTER_TYPE_ANNOTATION,
};
use futures_util::future::{BoxFuture, FutureExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the Secrets are listed.
const PERIOD: Duration = Duration::from_secs(5);
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
/// Clusters in Secrets.
#[derive(Clone, Debug)]
pub struct SecretSource {
    api: Api<Secret>,
}

impl SecretSource {
    /// Reads Secrets of this namespace.
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace) }
    }

    async fn read(&self) -> Result<Listing, Error> {
        let params = ListParams::default().labels(CLUSTER_LABEL);
        let secrets = match tokio::time::timeout(DEADLINE, self.api.list(&params)).await {
            Ok(result) => result.map_err(|error| Error::Api(error.into()))?,
            Err(_elapsed) => return Err(Error::Api(CallFailure::deadline(DEADLINE))),
        };
        let mut named: BTreeMap<String, Vec<Secret>> = BTreeMap::new();
        for secret in secrets.items {
            let labels = secret.metadata.labels.as_ref();
            let Some(name) = labels.and_then(|labels| labels.get(CLUSTER_LABEL)).cloned() else { continue };
            named.entry(name).or_default().push(secret);
        }
        let mut listing = Listing::default();
        for (name, mut secrets) in named {
            let listed = match (ambiguous(&name, &secrets), secrets.pop()) {
                (Some(why), _) => Err(Error::Config(why)),
                (None, Some(secret)) => one(&name, secret).await,
                (None, None) => continue,
            };
            listing.add(&name, listed);
        }
        Ok(listing)
    }
}

impl DirectorySource for SecretSource {
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>> {
        self.read().boxed()
    }

    fn period(&self) -> Duration {
        PERIOD
    }
}

/// An error if several Secrets name the same cluster: nobody knows which of them is meant.
pub fn ambiguous(cluster: &str, secrets: &[Secret]) -> Option<String> {
    let names: Vec<&str> = secrets.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
    let has_several = secrets.len() > 1 && !cluster.is_empty();
    has_several.then(|| format!("the Secrets {} say that they are cluster {cluster}'s", names.join(" and ")))
}

async fn one(name: &str, secret: Secret) -> Result<ListedCluster, Error> {
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let secret_name = secret.metadata.name.unwrap_or_default();
    if name.is_empty() {
        return Err(Error::Config(format!("label {CLUSTER_LABEL} is empty")));
    }
    let data = secret.data.unwrap_or_default();
    let missing = || Error::Config(format!("it has no key {CLUSTER_KUBECONFIG_KEY}"));
    let bytes = data.get(CLUSTER_KUBECONFIG_KEY).ok_or_else(missing)?;
    let text = std::str::from_utf8(&bytes.0).map_err(|error| Error::Config(error.to_string()))?;
    let credentials = Some(ClusterCredentials { secret_name });
    let mut entry = ClusterDescription { credentials, ..ClusterDescription::imported() };
    if let Some(display_name) = annotations.get(CLUSTER_DISPLAY_NAME_ANNOTATION) {
        display_name.clone_into(&mut entry.display_name);
    }
    if let Some(type_) = annotations.get(CLUSTER_TYPE_ANNOTATION) {
        type_.clone_into(&mut entry.type_);
    }
    if let Some(tenants) = annotations.get(CLUSTER_TENANTS_ANNOTATION) {
        let tenants = tenants.split(',').map(str::trim).filter(|tenant| !tenant.is_empty());
        entry.tenants = tenants.map(str::to_owned).collect();
    }
    let listed = from_untrusted_kubeconfig(name, Kubeconfig::from_yaml(text)?, entry).await?;
    let agents_end = annotations.get(CLUSTER_AGENTS_END_ANNOTATION).filter(|_| is_tunnelled(&listed.config));
    let agents_end = agents_end.and_then(|ends| meta::time::parse(ends).ok());
    Ok(ListedCluster { agents_end, ..listed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::server::Server;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde_json::{Value, json};

    const SECRETS: &str = "/api/v1/namespaces/members/secrets";

    fn secret(cluster: &str, annotations: &Value, proxy: &str) -> Value {
        let kubeconfig = json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://c:6443", "proxy-url": proxy}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        });
        json!({
            "metadata": {"labels": {CLUSTER_LABEL: cluster}, "annotations": annotations},
            "data": {CLUSTER_KUBECONFIG_KEY: BASE64_STANDARD.encode(kubeconfig.to_string())},
        })
    }

    async fn listed(secrets: &[(&str, Value)]) -> Listing {
        let server = Server::default();
        for (name, secret) in secrets {
            server.put(&format!("{SECRETS}/{name}"), secret);
        }
        SecretSource::new(server.client(), "members").load().await.unwrap()
    }

    #[tokio::test]
    async fn of_two_secrets_for_one_cluster_neither_is_taken() {
        let of = |cluster: &str| secret(cluster, &json!({}), "http://p:1");
        let listing = listed(&[("a", of("east")), ("b", of("west")), ("c", of("east"))]).await;
        let names: Vec<&str> = listing.clusters.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["west"]);
        let why = &listing.unusable["east"];
        assert!(why.contains("the Secrets a and c say that they are cluster east's"), "{why}");
    }

    #[tokio::test]
    async fn the_end_of_the_agents_counts_where_they_are_come_through() {
        let said = json!({CLUSTER_AGENTS_END_ANNOTATION: "1970-01-01T00:01:00Z"});
        let ends = async |annotations: &Value, proxy: &str| {
            listed(&[("a", secret("east", annotations, proxy))]).await.clusters[0].agents_end
        };
        assert_eq!(ends(&said, "tunnel://east").await, Some(60));
        assert_eq!(ends(&json!({}), "tunnel://east").await, None);
        assert_eq!(ends(&said, "http://p:1").await, None, "it is reached otherwise by now");
    }
}
