//! Our kinds, and the trimmed view of an object.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;

/// One of our kinds: its types, and how its objects are looked up.
pub trait Kind: Clone + Debug + Default + PartialEq + Eq + Send + Sync + 'static {
    const KIND: &'static str;
    const PLURAL: &'static str;
    type Spec: ObjectPart;
    type Status: ObjectPart;
    type Key: ObjectKey;
    /// Secondary indices, kept with the cache.
    type Index: ViewIndex<Self>;
    /// What its controller keeps between passes. It is lost with the process.
    type Memory: Default + Debug + Send + Sync;
    /// Whether labels and annotations of others are kept, too: templates may take values from them.
    const KEEPS_METADATA: bool = false;

    fn resource() -> ApiResource {
        ApiResource {
            group: business_types::names::GROUP.to_owned(),
            version: business_types::names::VERSION.to_owned(),
            api_version: business_types::names::API_VERSION.to_owned(),
            kind: Self::KIND.to_owned(),
            plural: Self::PLURAL.to_owned(),
        }
    }
}

/// `spec` or `status`.
pub trait ObjectPart:
    Clone + Debug + Default + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<T> ObjectPart for T where
    T: Clone + Debug + Default + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// A secondary index, updated with each change of the cache.
pub trait ViewIndex<K: Kind>: Default + Debug + Send + Sync {
    fn follow(&mut self, change: &ViewChange<K>);
}

/// A kind without indices.
impl<K: Kind> ViewIndex<K> for () {
    fn follow(&mut self, _change: &ViewChange<K>) {}
}

/// kubectl's copy of the whole object, which would only take memory.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The key of an object: namespace, if the kind has one, and name.
pub trait ObjectKey: Clone + Debug + Default + Display + Ord + Hash + Send + Sync + 'static {
    fn new(namespace: Option<&str>, name: &str) -> Self;
    fn namespace(&self) -> Option<&str>;
    fn name(&self) -> &str;

    /// The API that serves the object.
    fn api(&self, client: Client, resource: &ApiResource) -> Api<DynamicObject> {
        match self.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        }
    }
}

/// The key of a cluster-scoped kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootKey {
    pub name: Arc<str>,
}

impl ObjectKey for RootKey {
    fn new(_namespace: Option<&str>, name: &str) -> Self {
        Self { name: Arc::from(name) }
    }

    fn namespace(&self) -> Option<&str> {
        None
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Display for RootKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The key of a namespaced kind. Its namespace is a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectKey {
    pub project: Arc<str>,
    pub name: Arc<str>,
}

impl ObjectKey for ProjectKey {
    fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { project: Arc::from(namespace.unwrap_or_default()), name: Arc::from(name) }
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.project)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl ProjectKey {
    /// The objects of a project, sorted by name.
    pub fn within<K: Kind<Key = Self>>(
        views: &BTreeMap<Self, Arc<View<K>>>,
        project: &str,
    ) -> Vec<Arc<View<K>>> {
        let range = views.range(Self::new(Some(project), "")..);
        range
            .take_while(|(key, _)| key.project.as_ref() == project)
            .map(|(_, view)| Arc::clone(view))
            .collect()
    }
}

impl Display for ProjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.project, self.name)
    }
}

/// One object, trimmed to the fields that the controller uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View<K: Kind> {
    pub key: K::Key,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    /// `metadata.creationTimestamp`, in seconds since 1970.
    pub created: i64,
    /// `metadata.deletionTimestamp`, in seconds since 1970.
    pub deleting_since: Option<i64>,
    /// Our annotations; all annotations if the kind keeps its metadata.
    pub annotations: BTreeMap<String, String>,
    /// Empty unless the kind keeps its metadata.
    pub labels: BTreeMap<String, String>,
    pub spec: K::Spec,
    pub status: K::Status,
}

/// A change of a cached object: `old` is `None` for an added object, `new` for a removed one.
#[derive(Clone, Debug)]
pub struct ViewChange<K: Kind> {
    pub old: Option<Arc<View<K>>>,
    pub new: Option<Arc<View<K>>>,
    pub source: ChangeSource,
}

/// Where the cache has a change from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeSource {
    /// An event of the watch: the change has just happened.
    WatchEvent,
    /// A list: the change may have happened at any time.
    List,
    /// The answer to our own write. It is ignored once the watch has caught up, so that a removed object does not come
    /// back.
    OwnWrite,
}

/// An object does not match its schema.
#[derive(Debug, thiserror::Error)]
#[error("decode {field}")]
pub struct DecodeError {
    field: &'static str,
    source: serde_json::Error,
}

impl<K: Kind> View<K> {
    pub fn decode(object: DynamicObject) -> Result<Self, DecodeError> {
        let DynamicObject { metadata, mut data, .. } = object;
        let annotations = metadata.annotations.unwrap_or_default();
        Ok(Self {
            key: K::Key::new(metadata.namespace.as_deref(), &metadata.name.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            deleting_since: metadata.deletion_timestamp.map(|time| time.0.as_second()),
            annotations: annotations
                .into_iter()
                .filter(|(key, _)| {
                    key.starts_with(business_types::names::GROUP)
                        || K::KEEPS_METADATA && key != LAST_APPLIED_ANNOTATION
                })
                .collect(),
            labels: metadata.labels.filter(|_| K::KEEPS_METADATA).unwrap_or_default(),
            spec: part(&mut data, "spec")?,
            status: part(&mut data, "status")?,
        })
    }

    pub fn is_deleting(&self) -> bool {
        self.deleting_since.is_some()
    }

    /// Whether its deletion began at least this many seconds ago.
    pub fn has_been_going(&self, patience: i64, now: i64) -> bool {
        self.deleting_since.is_some_and(|since| now.saturating_sub(since) >= patience)
    }
}

/// `spec.finalizers` without one token; `None` if they do not contain it.
pub fn without_finalizer(finalizers: &[String], token: &str) -> Option<Vec<String>> {
    let left: Vec<String> = finalizers.iter().filter(|held| *held != token).cloned().collect();
    (left.len() < finalizers.len()).then_some(left)
}

fn part<T: DeserializeOwned + Default>(
    data: &mut serde_json::Value,
    field: &'static str,
) -> Result<T, DecodeError> {
    match data.get_mut(field).map(serde_json::Value::take) {
        None | Some(serde_json::Value::Null) => Ok(T::default()),
        Some(value) => serde_json::from_value(value).map_err(|source| DecodeError { field, source }),
    }
}

/// A resourceVersion as a number. Compare only those of one resource of one server.
pub fn revision(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}
