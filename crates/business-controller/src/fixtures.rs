//! Objects for tests: a namespace `p/n` in the place `web` of cluster `c1`, and what a cluster shows of it.

/// An API server in memory.
pub(crate) mod server;
/// A controller whose API and only member cluster are that server.
pub(crate) mod world;
/// A registry of images.
pub(crate) mod registry;
/// An API server over HTTP that has nothing.
pub(crate) mod empty_server;
/// What a member cluster's policies say.
mod policies;
/// What a query leaves of a list.
mod lists;
/// What business-api keeps of a charge.
pub(crate) mod charges;
/// Namespaces for `discover` and `adopt`.
pub(crate) mod unmanaged;

use crate::kinds::{ObjectKey as _, ProjectKey};
use crate::member::marks::Marks;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::namespace::kind::NamespaceView;
use crate::namespace::target::ObservedState;
use crate::seal::{Keyring, Origin, Sealed, VerifiedSeal};
use business_types::{ClusterNamespaceRecord, NamespacePhase, NamespaceSpec, NamespaceStatus, Provenance};
use meta::quantity::ResourceList;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const CLUSTER_UID: &str = "cluster-1";
pub(crate) const PROJECT_UID: &str = "project-1";
/// Of the namespace `web` as we make it.
pub(crate) const NAMESPACE_UID: &str = "namespace-1";

/// Of an object that weighs half a MiB where it is read: a page has room for sixty such.
pub(crate) fn bulky() -> Value {
    json!({ "spec": { "bulk": vec![json!({}); 4_000] } })
}

/// Amounts from texts.
pub(crate) fn amounts(pairs: &[(&str, &str)]) -> ResourceList {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), text.parse().unwrap())).collect()
}

pub(crate) fn keyring() -> Keyring {
    Keyring::new(&BTreeMap::from([("k1".to_owned(), vec![1; 32])]), "k1").unwrap()
}

/// A namespace that is pending and charged what it asks for.
pub(crate) fn pending(hard: &[(&str, &str)]) -> NamespaceView {
    NamespaceView {
        key: ProjectKey::new(Some("p"), "n"),
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created: server::BEGINNING,
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
        self.deleting_since = Some(server::BEGINNING);
        self.generation += 1;
        self.status.phase = NamespacePhase::Terminating;
        self
    }

    /// This is on record of the namespace in the cluster.
    pub(crate) fn recorded(mut self, provenance: Provenance) -> Self {
        let uid = NAMESPACE_UID.to_owned();
        self.status.cluster_namespace = Some(ClusterNamespaceRecord { uid, provenance });
        self
    }

    pub(crate) fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn marks(&self) -> Marks {
        Marks {
            project: Some(self.key.project.to_string()),
            namespace: Some(self.key.name.to_string()),
            uid: Some(self.uid.clone()),
            ..Marks::default()
        }
    }

    /// What we seal for it.
    pub(crate) fn sealed(&self, origin: Origin) -> Sealed {
        Sealed {
            cluster: CLUSTER_UID.into(),
            namespace: self.spec.namespace.clone(),
            namespace_uid: Some(NAMESPACE_UID.into()),
            after: None,
            object: self.uid.clone(),
            tenant: self.spec.tenant_id.clone(),
            project: self.key.project.to_string(),
            project_uid: PROJECT_UID.into(),
            generation: self.generation,
            origin,
            hard: self.spec.hard.clone(),
        }
    }

    /// The cluster's namespace as we make it.
    pub(crate) fn in_cluster(&self) -> ClusterNamespace {
        ClusterNamespace {
            name: self.spec.namespace.clone(),
            uid: NAMESPACE_UID.into(),
            resource_version: "10".into(),
            created: server::BEGINNING,
            marks: self.marks(),
            ..ClusterNamespace::default()
        }
    }

    /// The cluster's quota as we write it; its admission does not count with it yet.
    pub(crate) fn quota(&self) -> ClusterQuota {
        ClusterQuota {
            uid: "quota-1".into(),
            resource_version: "11".into(),
            marks: self.marks(),
            spec_hard: self.spec.hard.clone(),
            ..ClusterQuota::default()
        }
    }

    /// Both as we make them, with their seals.
    pub(crate) fn found(&self) -> ObservedState {
        let opened = VerifiedSeal { sealed: self.sealed(Origin::Made), is_current: true };
        ObservedState {
            namespace: Some(Arc::new(self.in_cluster())),
            namespace_seal: Some(opened.clone()),
            quota: Some(Arc::new(self.quota())),
            quota_seal: Some(opened),
            ..ObservedState::default()
        }
    }
}

impl ObservedState {
    /// The namespace is another one than it was.
    pub(crate) fn with_namespace(mut self, change: impl FnOnce(&mut ClusterNamespace)) -> Self {
        change(Arc::make_mut(self.namespace.as_mut().unwrap()));
        self
    }

    /// The quota is another one than it was.
    pub(crate) fn with_quota(mut self, change: impl FnOnce(&mut ClusterQuota)) -> Self {
        change(Arc::make_mut(self.quota.as_mut().unwrap()));
        self
    }

    /// As somebody makes it who does not know of us.
    pub(crate) fn foreign(self) -> Self {
        let found = Self { namespace_seal: None, quota_seal: None, quota: None, ..self };
        found.with_namespace(|there| {
            there.uid = "theirs".into();
            there.marks = Marks::default();
        })
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
