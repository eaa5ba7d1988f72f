//! The member clusters that the controller makes known: names and who may use them, no credentials.

use arc_swap::ArcSwapOption;
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{Cluster, Comparison, names};
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use meta::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

const RETRY_AFTER_SECONDS: u32 = 2;

/// A live directory of member clusters.
#[derive(Clone, Debug)]
pub struct Clusters {
    directory: Directory,
    compared: watch::Sender<Arc<Comparison>>,
}

#[derive(Clone, Debug)]
enum Directory {
    /// Without Kubernetes nobody tells: every name is good.
    Unknown,
    /// As last read; absent until it was read for the first time.
    Known(Arc<ArcSwapOption<Entries>>),
}

type Entries = BTreeMap<String, Arc<Cluster>>;

impl Clusters {
    /// A directory that accepts every name.
    pub fn unchecked() -> Self {
        Self::of(Directory::Unknown)
    }

    /// A directory that waits to be filled.
    pub fn awaited() -> Self {
        Self::of(Directory::Known(Arc::default()))
    }

    fn of(directory: Directory) -> Self {
        Self { directory, compared: watch::Sender::default() }
    }

    /// How far the controller has compared the member clusters with the objects.
    pub fn compared(&self) -> watch::Receiver<Arc<Comparison>> {
        self.compared.subscribe()
    }

    /// The controller has compared them anew.
    pub fn set_compared(&self, comparison: Comparison) {
        self.compared.send_if_modified(|held| {
            let new = **held != comparison;
            *held = Arc::new(comparison);
            new
        });
    }

    /// Puts these clusters in the place of all others.
    pub fn replace(&self, clusters: impl IntoIterator<Item = (String, Cluster)>) {
        if let Directory::Known(entries) = &self.directory {
            let new: Entries =
                clusters.into_iter().map(|(name, cluster)| (name, Arc::new(cluster))).collect();
            entries.store(Some(Arc::new(new)));
        }
    }

    /// 503 until the directory was read for the first time.
    pub fn check_loaded(&self) -> Result<(), Status> {
        if self.is_loaded() {
            return Ok(());
        }
        let why = "the member clusters are not known yet: the controller has not published them";
        Err(Status::unavailable(why, RETRY_AFTER_SECONDS))
    }

    /// Whether the directory was read.
    pub fn is_loaded(&self) -> bool {
        match &self.directory {
            Directory::Unknown => true,
            Directory::Known(entries) => entries.load().is_some(),
        }
    }

    /// Whether a tenant may use a cluster. One that is not there and another tenant's are told alike.
    pub fn allows(&self, name: &str, tenant: &str) -> bool {
        matches!(self.directory, Directory::Unknown)
            || self.get(name).is_some_and(|cluster| cluster.allows(tenant))
    }

    /// A cluster by name.
    pub fn get(&self, name: &str) -> Option<Arc<Cluster>> {
        match &self.directory {
            Directory::Unknown => None,
            Directory::Known(entries) => entries.load().as_ref()?.get(name).cloned(),
        }
    }

    /// Follows the `ConfigMap` for ever. When it goes away, what was known stays.
    pub async fn follow(self, client: Client, namespace: String) {
        let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", names::CLUSTERS_CONFIG_MAP));
        let changes = watcher(api, config).default_backoff().applied_objects();
        let followed = changes.inspect_err(|error| tracing::warn!(%error, "follow the member clusters"));
        let mut followed = std::pin::pin!(followed);
        loop {
            match followed.try_next().await {
                Ok(Some(map)) => {
                    let clusters = parse(&map);
                    if let Some(comparison) = comparison(&map) {
                        self.set_compared(comparison);
                    }
                    tracing::info!(clusters = clusters.len(), "member clusters are known");
                    self.replace(clusters);
                }
                Ok(None) => return,
                Err(_logged) => {}
            }
        }
    }
}

/// Entries that cannot be read are left out: one bad one does not take the others away. The registry's name is no
/// cluster's.
fn parse(map: &ConfigMap) -> Vec<(String, Cluster)> {
    let entries = map.data.iter().flatten().filter(|(name, _)| *name != REGISTRY_DOMAIN);
    entries
        .filter_map(|(name, text)| match serde_json::from_str(text) {
            Ok(cluster) => Some((name.clone(), cluster)),
            Err(error) => {
                tracing::error!(cluster = name, %error, "a member cluster's entry cannot be read");
                None
            }
        })
        .collect()
}

fn comparison(map: &ConfigMap) -> Option<Comparison> {
    let text = map.metadata.annotations.as_ref()?.get(names::COMPARED_ANNOTATION)?;
    serde_json::from_str(text)
        .inspect_err(|error| tracing::error!(%error, "the controller's comparison cannot be read"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unread_directory_asks_for_patience() {
        let clusters = Clusters::awaited();
        let refused = clusters.check_loaded().unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (503, 2));
        clusters.replace([]);
        assert_eq!(clusters.check_loaded(), Ok(()));
        assert!(!clusters.allows("c1", "t"));
        assert!(Clusters::unchecked().allows("c1", "t"));
    }

    #[test]
    fn what_was_compared_is_news_once() {
        let clusters = Clusters::awaited();
        let mut compared = clusters.compared();
        let text = r#"{"clusters":{"c1":7},"missing":{"c2":"no answer"}}"#;
        let annotations = [(names::COMPARED_ANNOTATION.to_owned(), text.to_owned())].into();
        let metadata = kube::api::ObjectMeta { annotations: Some(annotations), ..Default::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        for new in [true, false] {
            clusters.set_compared(comparison(&map).unwrap());
            assert_eq!(compared.has_changed().unwrap(), new);
            assert_eq!(compared.borrow_and_update().clusters["c1"], 7);
        }
        assert!(comparison(&ConfigMap::default()).is_none());
    }

    #[test]
    fn one_bad_entry_leaves_the_others() {
        let entry = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let good = r#"{"tenants":["*"]}"#;
        let data = [entry("good", good), entry("bad", "{"), entry("registry", good)].into();
        let parsed = parse(&ConfigMap { data: Some(data), ..ConfigMap::default() });
        assert_eq!(parsed.len(), 1);
        assert_eq!(parsed[0].0, "good");
    }
}
