//! The kind of namespaces: its index and cache look-ups.

use super::memory::NamespaceMemory;
use crate::cache::Cache;
use crate::kinds::{Kind, ObjectKey as _, ProjectKey, View, ViewChange, ViewIndex};
use business_types::condition::{self, TRANSFERRED};
use business_types::{NamespaceSpec, NamespaceStatus, names};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusinessNamespace;

pub type NamespaceView = View<BusinessNamespace>;

impl Kind for BusinessNamespace {
    const KIND: &'static str = names::NAMESPACE_KIND;
    const PLURAL: &'static str = names::NAMESPACES;
    type Spec = NamespaceSpec;
    type Status = NamespaceStatus;
    type Key = ProjectKey;
    type Index = ClaimedPlaces;
    type Memory = NamespaceMemory;
}

impl NamespaceView {
    /// Whether it came from another project, and its cluster does not show that yet.
    pub fn is_being_transferred(&self) -> bool {
        condition::find(&self.status.conditions, TRANSFERRED).is_some_and(|told| !told.is_true())
    }

    /// Whether it was ever in another project.
    pub fn was_transferred(&self) -> bool {
        condition::find(&self.status.conditions, TRANSFERRED).is_some()
    }
}

/// Which object a namespace of a member cluster belongs to: by cluster, then by the name there.
#[derive(Debug, Default)]
pub struct ClaimedPlaces(HashMap<String, HashMap<String, ProjectKey>>);

impl ViewIndex<BusinessNamespace> for ClaimedPlaces {
    fn follow(&mut self, change: &ViewChange<BusinessNamespace>) {
        if let Some(old) = &change.old
            && let Some(cluster) = self.0.get_mut(&old.spec.cluster_name)
            // Another object, or the same one in another project, may have been seen at the place before the deletion
            // of the former one.
            && cluster.get(&old.spec.namespace) == Some(&old.key)
        {
            cluster.remove(&old.spec.namespace);
            if cluster.is_empty() {
                self.0.remove(&old.spec.cluster_name);
            }
        }
        if let Some(new) = &change.new {
            let cluster = self.0.entry(new.spec.cluster_name.clone()).or_default();
            cluster.insert(new.spec.namespace.clone(), new.key.clone());
        }
    }
}

impl Cache<BusinessNamespace> {
    /// The namespaces of a project, sorted by name.
    pub fn of_project(&self, project: &str) -> Vec<Arc<NamespaceView>> {
        self.with_index(|views, _| ProjectKey::within(views, project))
    }

    /// The number of namespaces of a project.
    pub fn count_in(&self, project: &str) -> usize {
        let first = ProjectKey::new(Some(project), "");
        self.with_index(|views, _| {
            views.range(first..).take_while(|(key, _)| key.project.as_ref() == project).count()
        })
    }

    /// The object that a namespace of a member cluster belongs to.
    pub fn at_place(&self, cluster: &str, namespace: &str) -> Option<Arc<NamespaceView>> {
        self.with_index(|views, places| views.get(places.0.get(cluster)?.get(namespace)?).cloned())
    }

    pub fn in_cluster(&self, cluster: &str) -> Vec<Arc<NamespaceView>> {
        self.with_index(|views, places| {
            let keys = places.0.get(cluster).into_iter().flatten().map(|(_, key)| key);
            keys.filter_map(|key| views.get(key).cloned()).collect()
        })
    }

    /// The member clusters that have namespaces of ours.
    pub fn clusters(&self) -> Vec<String> {
        self.with_index(|_, places| places.0.keys().cloned().collect())
    }
}
