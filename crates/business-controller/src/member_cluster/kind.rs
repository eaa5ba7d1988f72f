//! The kind of member clusters, and what is remembered of each.

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

/// What the directory, the audit and the reading of nodes have found, to be written to the status.
#[derive(Debug, Default)]
pub struct ClusterMemory {
    pub figures: StatusThrottle,
    findings: Mutex<ClusterFindings>,
}

#[derive(Debug, Default)]
struct ClusterFindings {
    /// `None` before the directory was read.
    entries: Option<BTreeMap<String, DirectoryEntry>>,
    audits: BTreeMap<String, AuditResult>,
    nodes: BTreeMap<String, AllocatableResult>,
}

/// What the last audit of a cluster by this replica has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// There was nothing to compare.
    NothingToCompare,
    Compared(ClusterComparison),
}

impl AuditResult {
    /// The comparison to show; `None` if there was nothing to compare.
    pub fn into_comparison(self) -> Option<ClusterComparison> {
        match self {
            Self::NothingToCompare => None,
            Self::Compared(comparison) => Some(comparison),
        }
    }
}

/// The allocatable resources of the nodes, or why they could not be read.
pub type AllocatableResult = Result<ResourceList, String>;

/// The directory's entry of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub listed: ListingState,
    /// Its Kubernetes version; empty if not known.
    pub version: String,
    /// The credential in use, if it can be recognized.
    pub credential: Option<CredentialInfo>,
    /// Why new credentials are not used.
    pub refused: Option<String>,
}

/// A credential in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialInfo {
    /// Its digest.
    pub fingerprint: String,
    /// RFC 3339.
    pub expires: Option<String>,
    pub validity: CredentialValidity,
}

/// How long a credential is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialValidity {
    Valid,
    /// It is to be renewed.
    Expiring,
    Expired,
}

/// Whether the source lists a name, and whether it can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListingState {
    #[default]
    NotListed,
    Listed,
    /// Its kubeconfig cannot be used: why.
    Unusable(String),
    /// It is a second name for the cluster that this name stands for.
    DuplicateName(String),
}

impl ClusterMemory {
    /// The directory's entry of a name; `None` before the directory was read.
    pub fn directory_entry(&self, name: &str) -> Option<DirectoryEntry> {
        self.lock().entries.as_ref().map(|entries| entries.get(name).cloned().unwrap_or_default())
    }

    /// Sets the directory's entries. Returns the names whose entry has changed.
    pub fn set_directory_entries(&self, entries: BTreeMap<String, DirectoryEntry>) -> Vec<String> {
        let mut findings = self.lock();
        let before = findings.entries.take().unwrap_or_default();
        let names = before.keys().chain(entries.keys());
        let changed = names.filter(|name| before.get(*name) != entries.get(*name)).cloned().collect();
        findings.entries = Some(entries);
        changed
    }

    /// The last audit of a cluster; `None` if this replica has not audited it.
    pub fn audit(&self, name: &str) -> Option<AuditResult> {
        self.lock().audits.get(name).cloned()
    }

    pub fn set_audits(&self, audits: BTreeMap<String, AuditResult>) {
        self.lock().audits = audits;
    }

    /// Forgets a cluster that another replica works on from now on.
    pub fn forget(&self, name: &str) {
        let mut findings = self.lock();
        findings.audits.remove(name);
        findings.nodes.remove(name);
    }

    /// The last reading of a cluster's nodes; `None` if there was none.
    pub fn nodes(&self, name: &str) -> Option<AllocatableResult> {
        self.lock().nodes.get(name).cloned()
    }

    /// Sets the last reading. Returns whether it has changed.
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
