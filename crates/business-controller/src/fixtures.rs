//! Objects for tests: a namespace `p/n` in the place `web` of cluster `c1`, and what a cluster shows of it.

/// An API server in memory.
pub(crate) mod server;
/// A controller whose API and only member cluster are that server.
pub(crate) mod world;
/// What business-api keeps of a charge.
pub(crate) mod charges;

use crate::kinds::{ObjectKey as _, ProjectKey};
use crate::member::observed::Marks;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::namespace::kind::NamespaceView;
use business_types::{NamespacePhase, NamespaceSpec, NamespaceStatus};
use meta::quantity::ResourceList;

/// Amounts from texts.
pub(crate) fn amounts(pairs: &[(&str, &str)]) -> ResourceList {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), text.parse().unwrap())).collect()
}

/// A namespace that is pending and charged what it asks for.
pub(crate) fn pending(hard: &[(&str, &str)]) -> NamespaceView {
    NamespaceView {
        key: ProjectKey::new(Some("p"), "n"),
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        spec: NamespaceSpec {
            finalizers: vec!["namespace".into()],
            cluster_name: "c1".into(),
            namespace: "web".into(),
            hard: amounts(hard),
            ..NamespaceSpec::default()
        },
        status: NamespaceStatus { cached_spec_hard: Some(amounts(hard)), ..NamespaceStatus::default() },
        ..NamespaceView::default()
    }
}

impl NamespaceView {
    /// The spec asks for this now; the charge is the high-water mark, as the server keeps it.
    pub(crate) fn asks(mut self, hard: &[(&str, &str)]) -> Self {
        let charge = self.status.cached_spec_hard.get_or_insert_default();
        for (key, amount) in amounts(hard) {
            let held = charge.entry(key).or_insert(amount);
            *held = (*held).max(amount);
        }
        self.spec.hard = amounts(hard);
        self.generation += 1;
        self
    }

    /// It is being deleted.
    pub(crate) fn ending(mut self) -> Self {
        self.deleting_since = Some(0);
        self.generation += 1;
        self.status.phase = NamespacePhase::Terminating;
        self
    }

    fn marks(&self) -> Marks {
        Marks {
            project: Some(self.key.project.to_string()),
            namespace: Some(self.key.name.to_string()),
            uid: Some(self.uid.clone()),
        }
    }

    /// The cluster's namespace as we make it.
    pub(crate) fn in_cluster(&self) -> ClusterNamespace {
        ClusterNamespace {
            name: self.spec.namespace.clone(),
            uid: "cluster-uid".into(),
            resource_version: "10".into(),
            marks: self.marks(),
            ..ClusterNamespace::default()
        }
    }

    /// The cluster's quota as we write it; its admission does not count with it yet.
    pub(crate) fn quota(&self) -> ClusterQuota {
        ClusterQuota {
            uid: "quota-uid".into(),
            resource_version: "11".into(),
            marks: self.marks(),
            generation: Some(self.generation),
            spec_hard: self.spec.hard.clone(),
            ..ClusterQuota::default()
        }
    }
}

impl ClusterQuota {
    /// The cluster's admission counts with it, and has seen this in use.
    pub(crate) fn enforced(mut self, used: &[(&str, &str)]) -> Self {
        self.status_hard = self.spec_hard.clone();
        self.status_used = amounts(used);
        self
    }
}
