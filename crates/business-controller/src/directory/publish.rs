//! The `ConfigMap` by which the API server learns of the clusters: a key a cluster. It holds no secret. What each
//! name stands for is kept in an annotation of it.

use crate::error::{CallFailure, Error};
use business_types::names::CLUSTERS_CONFIG_MAP;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Annotation: which cluster each name stands for, by the uid of its `kube-system`.
pub const UIDS_ANNOTATION: &str = "business.tkestack.io/cluster-uids";
/// How often the `ConfigMap` is looked at although nothing is new.
const VERIFY_PERIOD: Duration = Duration::from_secs(10);
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);

/// What the API server is told of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishedCluster {
    /// Tenants that may use it; `*` is all of them.
    pub tenants: Vec<String>,
    /// Its Kubernetes version.
    pub version: String,
    /// Its name for people.
    pub display_name: String,
    /// Its type, such as `Imported`.
    #[serde(rename = "type")]
    pub type_: String,
}

impl Default for PublishedCluster {
    fn default() -> Self {
        Self {
            tenants: vec!["*".to_owned()],
            version: String::new(),
            display_name: String::new(),
            type_: "Imported".to_owned(),
        }
    }
}

impl PublishedCluster {
    /// Takes over what a source describes; the version is asked of the cluster.
    pub fn take_described(&mut self, new: &Self) {
        let version = std::mem::take(&mut self.version);
        *self = Self { version, ..new.clone() };
    }
}

/// Whether there was a record before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    ForTheFirstTime,
    Before,
}

/// Keeps the `ConfigMap`.
#[derive(Debug)]
pub struct Publisher {
    api: Api<ConfigMap>,
    /// By name of the cluster.
    uids: BTreeMap<String, String>,
    stored: Option<ConfigMap>,
    loaded: bool,
    verified: Option<Instant>,
}

impl Publisher {
    /// In this namespace.
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            uids: BTreeMap::new(),
            stored: None,
            loaded: false,
            verified: None,
        }
    }

    /// Reads what is recorded, once.
    pub async fn load(&mut self) -> Result<(), Error> {
        if self.loaded {
            return Ok(());
        }
        self.stored = self.get().await?;
        if let Some(text) = self.stored.as_ref().and_then(recorded) {
            self.uids = serde_json::from_str(text)
                .map_err(|error| Error::Config(format!("annotation {UIDS_ANNOTATION}: {error}")))?;
        }
        self.loaded = true;
        Ok(())
    }

    /// The cluster that a name stands for.
    pub fn uid(&self, name: &str) -> Option<&str> {
        self.uids.get(name).map(String::as_str)
    }

    /// All names that stand for a cluster.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.uids.keys().map(String::as_str)
    }

    /// The name that stands for a cluster.
    pub fn name_of(&self, uid: &str) -> Option<String> {
        self.uids.iter().find(|(_, held)| *held == uid).map(|(name, _)| name.clone())
    }

    /// From now on a name stands for a cluster.
    pub fn record(&mut self, name: String, uid: String) {
        self.uids.insert(name, uid);
    }

    /// Names that are not to be kept stand for nothing any more.
    pub fn forget_uids(&mut self, keep: impl Fn(&str) -> bool) {
        self.uids.retain(|name, _| keep(name));
    }

    /// Makes the `ConfigMap` say this.
    pub async fn publish(&mut self, entries: BTreeMap<String, PublishedCluster>) -> Result<Published, Error> {
        let data = texts(entries)?;
        let uids = text(&self.uids)?;
        let says_it = |map: &ConfigMap| {
            map.data.clone().unwrap_or_default() == data && recorded(map) == Some(uids.as_str())
        };
        let fresh = self.verified.is_some_and(|at| at.elapsed() < VERIFY_PERIOD);
        if fresh && self.stored.as_ref().is_some_and(says_it) {
            return Ok(Published::Before);
        }
        self.stored = self.get().await?;
        let published = if self.stored.is_none() { Published::ForTheFirstTime } else { Published::Before };
        let written = match &self.stored {
            Some(map) if says_it(map) => None,
            Some(map) => Some(self.change(map, &data, &uids).await?),
            None => Some(self.create(data, uids).await?),
        };
        if let Some(map) = written {
            tracing::info!(clusters = map.data.as_ref().map(BTreeMap::len), "member clusters published");
            self.stored = Some(map);
        }
        self.verified = Some(Instant::now());
        Ok(published)
    }

    async fn get(&self) -> Result<Option<ConfigMap>, Error> {
        bounded(self.api.get_opt(CLUSTERS_CONFIG_MAP)).await
    }

    async fn create(&self, data: BTreeMap<String, String>, uids: String) -> Result<ConfigMap, Error> {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(CLUSTERS_CONFIG_MAP.to_owned()),
                annotations: Some(BTreeMap::from([(UIDS_ANNOTATION.to_owned(), uids)])),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        bounded(self.api.create(&PostParams::default(), &map)).await
    }

    async fn change(
        &self,
        map: &ConfigMap,
        data: &BTreeMap<String, String>,
        uids: &str,
    ) -> Result<ConfigMap, Error> {
        let mut changes: BTreeMap<&String, Value> =
            map.data.iter().flatten().map(|(name, _)| (name, Value::Null)).collect();
        changes.extend(data.iter().map(|(name, text)| (name, json!(text))));
        let body = json!({
            "metadata": {
                "resourceVersion": map.metadata.resource_version,
                "annotations": { (UIDS_ANNOTATION): uids },
            },
            "data": changes,
        });
        let params = PatchParams::default();
        bounded(self.api.patch(CLUSTERS_CONFIG_MAP, &params, &Patch::Merge(body))).await
    }
}

fn recorded(map: &ConfigMap) -> Option<&str> {
    map.metadata.annotations.as_ref()?.get(UIDS_ANNOTATION).map(String::as_str)
}

fn texts(entries: BTreeMap<String, PublishedCluster>) -> Result<BTreeMap<String, String>, Error> {
    entries.into_iter().map(|(name, entry)| Ok((name, text(&entry)?))).collect()
}

fn text<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Config(error.to_string()))
}

async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(result) => result.map_err(|error| Error::Api(error.into())),
        Err(_elapsed) => Err(Error::Api(CallFailure::deadline(DEADLINE))),
    }
}
