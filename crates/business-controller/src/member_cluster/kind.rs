//! What a member cluster is to the controller.

use crate::kinds::{Kind, RootKey, View};
use crate::throttle::StatusThrottle;
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
    pub figures: StatusThrottle,
    findings: Mutex<ClusterFindings>,
}

#[derive(Debug, Default)]
struct ClusterFindings {
    /// `None` while the directory was not read.
    entries: Option<BTreeMap<String, DirectoryEntry>>,
    /// By cluster; none where it was looked for and is not to be compared.
    comparisons: BTreeMap<String, Option<ClusterComparison>>,
    nodes: BTreeMap<String, AllocatableResult>,
}

/// What nodes have for pods, or why that cannot be said.
pub type AllocatableResult = Result<ResourceList, String>;

/// What the directory knows of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub listed: ListingState,
    /// Its Kubernetes version, as far as it was asked.
    pub version: String,
    /// Which credential is used there, as far as that can be told.
    pub credential: Option<CredentialInfo>,
    /// Why newer credentials are not used.
    pub refused: Option<String>,
}

/// A credential in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialInfo {
    /// Digest that tells it from others.
    pub fingerprint: String,
    /// RFC 3339.
    pub expires: Option<String>,
    pub validity: CredentialValidity,
}

/// How near a credential is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialValidity {
    Valid,
    /// It has to be renewed.
    Expiring,
    Expired,
}

/// Whether a name is listed, and good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListingState {
    #[default]
    NotListed,
    Listed,
    /// Its kubeconfig cannot be used, and why.
    Unusable(String),
    /// It would be a second name for the cluster that this one stands for.
    DuplicateName(String),
}

impl ClusterMemory {
    /// What the directory says of a name.
    pub fn directory_entry(&self, name: &str) -> Option<DirectoryEntry> {
        self.lock().entries.as_ref().map(|entries| entries.get(name).cloned().unwrap_or_default())
    }

    /// The directory was read: the names of which something else is said than before.
    pub fn set_directory_entries(&self, entries: BTreeMap<String, DirectoryEntry>) -> Vec<String> {
        let mut findings = self.lock();
        let before = findings.entries.take().unwrap_or_default();
        let names = before.keys().chain(entries.keys());
        let changed = names.filter(|name| before.get(*name) != entries.get(*name)).cloned().collect();
        findings.entries = Some(entries);
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
        let mut findings = self.lock();
        findings.comparisons.remove(name);
        findings.nodes.remove(name);
    }

    /// What the nodes of a cluster were last seen to have; `None` where nobody has looked.
    pub fn nodes(&self, name: &str) -> Option<AllocatableResult> {
        self.lock().nodes.get(name).cloned()
    }

    /// Whether that is another thing than before.
    pub fn set_nodes(&self, name: &str, seen: Option<&AllocatableResult>) -> bool {
        let mut findings = self.lock();
        let before = match seen {
            Some(seen) => findings.nodes.insert(name.to_owned(), seen.clone()),
            None => findings.nodes.remove(name),
        };
        before.as_ref() != seen
    }

    fn lock(&self) -> MutexGuard<'_, ClusterFindings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
