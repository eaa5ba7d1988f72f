//! Our own objects as last seen: trimmed to what is decided from, with the look-ups that the controllers need.

use business_types::{NamespaceSpec, NamespaceStatus, ProjectSpec, ProjectStatus};
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One of our objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A project, by name.
    Project(Arc<str>),
    /// A namespace, by project and name.
    Namespace(Arc<str>, Arc<str>),
}

impl Key {
    /// The project of this name.
    pub fn project(name: &str) -> Self {
        Self::Project(Arc::from(name))
    }

    /// The namespace of this name in a project.
    pub fn namespace(project: &str, name: &str) -> Self {
        Self::Namespace(Arc::from(project), Arc::from(name))
    }

    /// Its kind, as metrics and logs say it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Project(_) => business_types::names::PROJECT_KIND,
            Self::Namespace(..) => business_types::names::NAMESPACE_KIND,
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Project(name) => f.write_str(name),
            Self::Namespace(project, name) => write!(f, "{project}/{name}"),
        }
    }
}

/// One object, with spec and status decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View<S, T> {
    /// `metadata.namespace`; empty for a project.
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// `metadata.generation`
    pub generation: i64,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.deletionTimestamp`, in seconds since 1970.
    pub deleting_since: Option<i64>,
    /// Annotations of ours.
    pub annotations: BTreeMap<String, String>,
    /// `spec`
    pub spec: S,
    /// `status`
    pub status: T,
}

/// A project.
pub type ProjectView = View<ProjectSpec, ProjectStatus>;
/// A namespace; its `namespace` is the project.
pub type NamespaceView = View<NamespaceSpec, NamespaceStatus>;

/// An object that is not what its schema says.
#[derive(Debug, thiserror::Error)]
#[error("decode {field}")]
pub struct Undecodable {
    field: &'static str,
    source: serde_json::Error,
}

impl<S: DeserializeOwned + Default, T: DeserializeOwned + Default> View<S, T> {
    /// From what the API sent.
    pub fn decode(object: DynamicObject) -> Result<Self, Undecodable> {
        let DynamicObject { metadata, mut data, .. } = object;
        let annotations = metadata.annotations.unwrap_or_default();
        Ok(Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            deleting_since: metadata.deletion_timestamp.map(|time| time.0.as_second()),
            annotations: annotations
                .into_iter()
                .filter(|(key, _)| key.starts_with(business_types::names::GROUP))
                .collect(),
            spec: part(&mut data, "spec")?,
            status: part(&mut data, "status")?,
        })
    }
}

fn part<T: DeserializeOwned + Default>(
    data: &mut serde_json::Value,
    field: &'static str,
) -> Result<T, Undecodable> {
    match data.get_mut(field).map(serde_json::Value::take) {
        None | Some(serde_json::Value::Null) => Ok(T::default()),
        Some(value) => serde_json::from_value(value).map_err(|source| Undecodable { field, source }),
    }
}

/// A resourceVersion as a number. They are compared only within one resource of one server.
pub fn revision(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}

/// Objects of one kind by key, newest version only.
#[derive(Debug)]
struct Cache<K, V> {
    objects: BTreeMap<K, Arc<V>>,
    /// Highest revision that the watch has delivered.
    delivered: u64,
    /// Seen since a list has begun.
    listed: Option<HashSet<K>>,
    synced: bool,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), delivered: 0, listed: None, synced: false }
    }
}

/// What a change of the cache was.
#[derive(Clone, Debug)]
pub struct Change<V> {
    /// Before.
    pub old: Option<Arc<V>>,
    /// After; `None` when the object is gone.
    pub new: Option<Arc<V>>,
}

/// All our objects as last seen.
#[derive(Debug, Default)]
pub struct Objects {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    projects: Cache<Arc<str>, ProjectView>,
    namespaces: Cache<(Arc<str>, Arc<str>), NamespaceView>,
    /// Names of child projects by parent.
    children: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// Which namespace a place in a member cluster belongs to.
    places: HashMap<(String, String), (Arc<str>, Arc<str>)>,
}

/// Access to the cache of one kind, for the code that feeds it.
pub trait Kind: Sized + Send + Sync + 'static {
    /// A list begins.
    fn list_begins(objects: &Objects);
    /// An object was listed or changed. `None` if nothing is new.
    fn seen(objects: &Objects, object: Self, by_watch: bool) -> Option<Change<Self>>;
    /// An object is gone.
    fn gone(objects: &Objects, object: &Self) -> Option<Change<Self>>;
    /// A list has ended: what was not in it is gone.
    fn list_ends(objects: &Objects) -> Vec<Change<Self>>;
}

impl Objects {
    /// Whether everything was listed at least once.
    pub fn is_synced(&self) -> bool {
        let inner = self.read();
        inner.projects.synced && inner.namespaces.synced
    }

    /// A project.
    pub fn project(&self, name: &str) -> Option<Arc<ProjectView>> {
        self.read().projects.objects.get(name).cloned()
    }

    /// A namespace.
    pub fn namespace(&self, project: &str, name: &str) -> Option<Arc<NamespaceView>> {
        let key = (Arc::from(project), Arc::from(name));
        self.read().namespaces.objects.get(&key).cloned()
    }

    /// The namespaces of a project, sorted by name.
    pub fn namespaces_of(&self, project: &str) -> Vec<Arc<NamespaceView>> {
        let inner = self.read();
        let start = (Arc::from(project), Arc::from(""));
        let range = inner.namespaces.objects.range(start..);
        range.take_while(|((p, _), _)| p.as_ref() == project).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The direct child projects of a project, sorted by name.
    pub fn children_of(&self, project: &str) -> Vec<Arc<ProjectView>> {
        let inner = self.read();
        let names = inner.children.get(project);
        names.into_iter().flatten().filter_map(|name| inner.projects.objects.get(name).cloned()).collect()
    }

    /// The namespace that a place in a member cluster belongs to.
    pub fn at_place(&self, cluster: &str, namespace: &str) -> Option<Arc<NamespaceView>> {
        let inner = self.read();
        let key = inner.places.get(&(cluster.to_owned(), namespace.to_owned()))?;
        inner.namespaces.objects.get(key).cloned()
    }

    /// All namespaces, or those of one cluster.
    pub fn namespaces_in(&self, cluster: Option<&str>) -> Vec<Arc<NamespaceView>> {
        let inner = self.read();
        let all = inner.namespaces.objects.values();
        all.filter(|object| cluster.is_none_or(|name| object.spec.cluster_name == name)).cloned().collect()
    }

    /// All projects.
    pub fn projects(&self) -> Vec<Arc<ProjectView>> {
        self.read().projects.objects.values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone + std::hash::Hash, S, T> Cache<K, View<S, T>> {
    /// An object as the watch or an answer to a write says it is. Answers are taken only while the watch has not
    /// caught up with them, so that nothing that is gone comes back.
    fn seen(&mut self, key: K, object: View<S, T>, by_watch: bool) -> Option<Change<View<S, T>>> {
        let incoming = revision(&object.resource_version);
        if let Some(listed) = self.listed.as_mut().filter(|_| by_watch) {
            listed.insert(key.clone());
        }
        if by_watch {
            self.delivered = self.delivered.max(incoming);
        } else if incoming <= self.delivered || !self.objects.contains_key(&key) {
            return None;
        }
        let old = self.objects.get(&key).cloned();
        if old
            .as_ref()
            .is_some_and(|old| old.uid == object.uid && revision(&old.resource_version) >= incoming)
        {
            return None;
        }
        let new = Arc::new(object);
        self.objects.insert(key, Arc::clone(&new));
        Some(Change { old, new: Some(new) })
    }

    fn gone(&mut self, key: &K, object: &View<S, T>) -> Option<Change<View<S, T>>> {
        self.delivered = self.delivered.max(revision(&object.resource_version));
        if self.objects.get(key).is_none_or(|held| held.uid != object.uid) {
            return None;
        }
        Some(Change { old: self.objects.remove(key), new: None })
    }

    fn list_ends(&mut self) -> Vec<Change<View<S, T>>> {
        self.synced = true;
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone: Vec<K> = self.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter().map(|key| Change { old: self.objects.remove(key), new: None }).collect()
    }
}

impl Kind for ProjectView {
    fn list_begins(objects: &Objects) {
        objects.write().projects.listed = Some(HashSet::new());
    }

    fn seen(objects: &Objects, object: Self, by_watch: bool) -> Option<Change<Self>> {
        let mut inner = objects.write();
        let change = inner.projects.seen(Arc::from(object.name.as_str()), object, by_watch)?;
        inner.index_project(&change);
        Some(change)
    }

    fn gone(objects: &Objects, object: &Self) -> Option<Change<Self>> {
        let mut inner = objects.write();
        let change = inner.projects.gone(&Arc::from(object.name.as_str()), object)?;
        inner.index_project(&change);
        Some(change)
    }

    fn list_ends(objects: &Objects) -> Vec<Change<Self>> {
        let mut inner = objects.write();
        let changes = inner.projects.list_ends();
        for change in &changes {
            inner.index_project(change);
        }
        changes
    }
}

impl Kind for NamespaceView {
    fn list_begins(objects: &Objects) {
        objects.write().namespaces.listed = Some(HashSet::new());
    }

    fn seen(objects: &Objects, object: Self, by_watch: bool) -> Option<Change<Self>> {
        let mut inner = objects.write();
        let key = (Arc::from(object.namespace.as_str()), Arc::from(object.name.as_str()));
        let change = inner.namespaces.seen(key, object, by_watch)?;
        inner.index_namespace(&change);
        Some(change)
    }

    fn gone(objects: &Objects, object: &Self) -> Option<Change<Self>> {
        let mut inner = objects.write();
        let key = (Arc::from(object.namespace.as_str()), Arc::from(object.name.as_str()));
        let change = inner.namespaces.gone(&key, object)?;
        inner.index_namespace(&change);
        Some(change)
    }

    fn list_ends(objects: &Objects) -> Vec<Change<Self>> {
        let mut inner = objects.write();
        let changes = inner.namespaces.list_ends();
        for change in &changes {
            inner.index_namespace(change);
        }
        changes
    }
}

impl Inner {
    fn index_project(&mut self, change: &Change<ProjectView>) {
        let parent = |view: &Arc<ProjectView>| view.spec.parent_project_name.clone();
        let (old, new) = (change.old.as_ref().map(parent), change.new.as_ref().map(parent));
        if old == new {
            return;
        }
        let Some(name) = change.new.as_ref().or(change.old.as_ref()).map(|view| view.name.as_str()) else {
            return;
        };
        if let Some(old) = old
            && let Some(names) = self.children.get_mut(&old)
        {
            names.remove(name);
            if names.is_empty() {
                self.children.remove(&old);
            }
        }
        if let Some(new) = new.filter(|parent| !parent.is_empty()) {
            self.children.entry(new).or_default().insert(Arc::from(name));
        }
    }

    fn index_namespace(&mut self, change: &Change<NamespaceView>) {
        let place = |view: &Arc<NamespaceView>| (view.spec.cluster_name.clone(), view.spec.namespace.clone());
        if let Some(old) = &change.old {
            self.places.remove(&place(old));
        }
        if let Some(new) = &change.new {
            let key = (Arc::from(new.namespace.as_str()), Arc::from(new.name.as_str()));
            self.places.insert(place(new), key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(project: &str, name: &str, revision: u64) -> NamespaceView {
        let spec =
            NamespaceSpec { cluster_name: "c1".into(), namespace: name.into(), ..NamespaceSpec::default() };
        NamespaceView {
            namespace: project.into(),
            name: name.into(),
            uid: format!("uid-{name}"),
            resource_version: revision.to_string(),
            spec,
            ..NamespaceView::default()
        }
    }

    #[test]
    fn an_answer_to_a_write_never_brings_back_what_is_gone() {
        let objects = Objects::default();
        NamespaceView::seen(&objects, namespace("p", "n", 5), true).unwrap();
        assert!(NamespaceView::seen(&objects, namespace("p", "n", 7), false).is_some());
        assert!(
            NamespaceView::seen(&objects, namespace("p", "n", 6), true).is_none(),
            "older than what is held"
        );
        NamespaceView::gone(&objects, &namespace("p", "n", 8)).unwrap();
        assert!(NamespaceView::seen(&objects, namespace("p", "n", 7), false).is_none());
        assert!(objects.namespace("p", "n").is_none() && objects.at_place("c1", "n").is_none());
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let objects = Objects::default();
        for name in ["a", "b"] {
            NamespaceView::seen(&objects, namespace("p", name, 1), true).unwrap();
        }
        NamespaceView::seen(&objects, namespace("p2", "c", 1), true).unwrap();
        NamespaceView::list_begins(&objects);
        assert!(NamespaceView::seen(&objects, namespace("p", "a", 1), true).is_none());
        assert_eq!(NamespaceView::list_ends(&objects).len(), 2);
        assert_eq!(objects.namespaces_of("p").len(), 1);
        assert!(objects.at_place("c1", "a").is_some() && objects.at_place("c1", "b").is_none());
    }

    #[test]
    fn children_follow_their_parent() {
        let objects = Objects::default();
        let project = |name: &str, parent: &str, revision: u64| ProjectView {
            name: name.into(),
            uid: name.into(),
            resource_version: revision.to_string(),
            spec: ProjectSpec { parent_project_name: parent.into(), ..ProjectSpec::default() },
            ..ProjectView::default()
        };
        ProjectView::seen(&objects, project("root", "", 1), true);
        ProjectView::seen(&objects, project("other", "", 2), true);
        ProjectView::seen(&objects, project("child", "root", 3), true);
        assert_eq!(objects.children_of("root").len(), 1);
        ProjectView::seen(&objects, project("child", "other", 4), true);
        assert!(objects.children_of("root").is_empty());
        assert_eq!(objects.children_of("other")[0].name, "child");
    }
}
