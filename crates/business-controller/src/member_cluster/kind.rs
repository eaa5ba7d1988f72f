//! What a member cluster is to the controller.

use crate::figures::Figures;
use crate::kinds::{Kind, RootKey, View};
use business_types::{ClusterComparison, MemberClusterSpec, MemberClusterStatus, names};
use meta::quantity::ResourceList;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusinessMemberCluster;

pub type MemberClusterView = View<BusinessMemberCluster>;

impl Kind for BusinessMemberCluster {
    const KIND: &'static str = names::MEMBER_CLUSTER_KIND;
    const PLURAL: &'static str = names::MEMBER_CLUSTERS;
    type Spec = MemberClusterSpec;
    type Status = MemberClusterStatus;
    type Key = RootKey;
    type Index = ();
    type Memory = ClusterMemory;
}

/// What directory and audit have found out, to be shown.
#[derive(Debug, Default)]
pub struct ClusterMemory {
    pub figures: Figures,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// `None` while the directory was not read.
    sights: Option<BTreeMap<String, DirectorySight>>,
    /// By cluster; none where it was looked for and is not to be compared.
    comparisons: BTreeMap<String, Option<ClusterComparison>>,
    nodes: BTreeMap<String, NodesSeen>,
}

/// What nodes have for pods, or why that cannot be said.
pub type NodesSeen = Result<ResourceList, String>;

/// What the directory knows of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectorySight {
    pub listed: Listedness,
    /// Its Kubernetes version, as far as it was asked.
    pub version: String,
    /// Which credential is used there, as far as that can be told.
    pub credential: Option<CredentialSight>,
    /// Why newer credentials are not used.
    pub refused: Option<String>,
}

/// A credential in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSight {
    /// Digest that tells it from others.
    pub fingerprint: String,
    /// RFC 3339.
    pub expires: Option<String>,
    pub age: CredentialAge,
}

/// How near a credential is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialAge {
    Valid,
    /// It has to be renewed.
    Expiring,
    Expired,
}

/// Whether a name is listed, and good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listedness {
    #[default]
    NotListed,
    Listed,
    /// Its kubeconfig cannot be used, and why.
    Unusable(String),
    /// It would be a second name for the cluster that this one stands for.
    SecondName(String),
}

impl ClusterMemory {
    /// What the directory says of a name.
    pub fn sight(&self, name: &str) -> Option<DirectorySight> {
        self.lock().sights.as_ref().map(|sights| sights.get(name).cloned().unwrap_or_default())
    }

    /// The directory was read: the names of which something else is said than before.
    pub fn set_sights(&self, sights: BTreeMap<String, DirectorySight>) -> Vec<String> {
        let mut found = self.lock();
        let before = found.sights.take().unwrap_or_default();
        let names = before.keys().chain(sights.keys());
        let changed = names.filter(|name| before.get(*name) != sights.get(*name)).cloned().collect();
        found.sights = Some(sights);
        changed
    }

    /// How far a cluster was compared; `None` while nothing was compared here.
    pub fn comparison(&self, name: &str) -> Option<Option<ClusterComparison>> {
        self.lock().comparisons.get(name).cloned()
    }

    pub fn set_comparisons(&self, comparisons: BTreeMap<String, Option<ClusterComparison>>) {
        self.lock().comparisons = comparisons;
    }

    /// Somebody else looks after a cluster from now on.
    pub fn forget(&self, name: &str) {
        let mut found = self.lock();
        found.comparisons.remove(name);
        found.nodes.remove(name);
    }

    /// What the nodes of a cluster were last seen to have; `None` where nobody has looked.
    pub fn nodes(&self, name: &str) -> Option<NodesSeen> {
        self.lock().nodes.get(name).cloned()
    }

    /// Whether that is another thing than before.
    pub fn set_nodes(&self, name: &str, seen: Option<&NodesSeen>) -> bool {
        let mut found = self.lock();
        let before = match seen {
            Some(seen) => found.nodes.insert(name.to_owned(), seen.clone()),
            None => found.nodes.remove(name),
        };
        before.as_ref() != seen
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
