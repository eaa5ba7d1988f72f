use crate::condition::{self, Condition, REACHABLE};
use crate::member_cluster::{MemberClusterSpec, MemberClusterStatus};

/// Stands for every tenant in [`ClusterSummary::tenants`].
pub const EVERY_TENANT: &str = "*";

/// The fields of a member cluster that matter to the objects that refer to it. They are read from a `MemberCluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSummary {
    /// Tenants that may use it; `*` is every one.
    pub tenants: Vec<String>,
    /// Its Kubernetes version.
    pub version: String,
    /// Its name for people.
    pub display_name: String,
    /// Its type, such as `Imported`.
    pub cluster_type: String,
    /// When it was registered, RFC 3339.
    pub created: String,
    /// Whether its API server is reachable.
    pub reachable: bool,
    /// Why it accepts nothing new; `None` if it does.
    pub closed: Option<ClosedCluster>,
    /// Its identity: the uid of its namespace `kube-system`. Empty until it is known.
    pub uid: String,
    /// Whether it is the host cluster itself, if an operator has said so.
    pub declared_host: Option<bool>,
}

/// Why a cluster accepts no new objects and no growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedCluster {
    /// An operator has cordoned it.
    Cordoned,
    /// It is being deleted.
    Deleting,
}

impl ClusterSummary {
    /// Reads a `MemberCluster`.
    pub fn of(spec: MemberClusterSpec, status: MemberClusterStatus, deleting: bool) -> Self {
        let closed = if deleting {
            Some(ClosedCluster::Deleting)
        } else {
            spec.cordoned.then_some(ClosedCluster::Cordoned)
        };
        let reachable = condition::find(&status.conditions, REACHABLE);
        Self {
            created: String::new(),
            uid: status.uid,
            declared_host: None,
            reachable: reachable.is_some_and(Condition::is_true),
            tenants: spec.tenants,
            version: status.version,
            display_name: spec.display_name,
            cluster_type: spec.cluster_type,
            closed,
        }
    }

    /// Whether a tenant may use it. An object of no tenant may be in any cluster.
    pub fn allows(&self, tenant: &str) -> bool {
        tenant.is_empty() || self.tenants.iter().any(|allowed| allowed == EVERY_TENANT || allowed == tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_for_the_tenants_it_names() {
        let cluster = ClusterSummary { tenants: vec!["a".to_owned()], ..ClusterSummary::default() };
        assert!(cluster.allows("a") && cluster.allows(""));
        assert!(!cluster.allows("b"));
        assert!(ClusterSummary { tenants: vec![EVERY_TENANT.to_owned()], ..cluster }.allows("b"));
        assert!(!ClusterSummary::default().allows("a"), "nobody is named");
    }

    #[test]
    fn what_is_cordoned_or_going_is_closed() {
        let cordoned = MemberClusterSpec { cordoned: true, ..MemberClusterSpec::default() };
        let closed = |spec: &MemberClusterSpec, deleting| {
            ClusterSummary::of(spec.clone(), MemberClusterStatus::default(), deleting).closed
        };
        assert_eq!(closed(&MemberClusterSpec::default(), false), None);
        assert_eq!(closed(&cordoned, false), Some(ClosedCluster::Cordoned));
        assert_eq!(closed(&cordoned, true), Some(ClosedCluster::Deleting));
    }
}
