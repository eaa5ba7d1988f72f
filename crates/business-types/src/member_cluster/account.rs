use super::MemberClusterSpec;
use crate::account::{Charged, ChargedMeta, fleet};
use meta::quantity::ResourceList;
use quota::{Account, Grants, Limits, Undercut};
use serde::Deserialize;

/// The part of a member cluster from which its account is computed. The cluster grants its capacity to the fleet, in
/// the domain with its name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedMemberCluster {
    metadata: ChargedMeta,
    spec: Option<MemberClusterSpec>,
    status: ChargedStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChargedStatus {
    capacity: ResourceList,
}

impl Charged for ChargedMemberCluster {
    fn account(self) -> Account {
        let spec = self.spec.unwrap_or_default();
        // Tenants may have been granted more before the limits were set. Derived limits follow the nodes, whatever is
        // granted.
        let undercut = if spec.derived.is_empty() { Undercut::WhereUnlimited } else { Undercut::Accepted };
        let limits = Limits { undercut, ..Limits::new(spec.grantable(&self.status.capacity), true) };
        let domains = [(self.metadata.name.clone(), limits)].into();
        Account {
            deleting: self.metadata.is_deleting(),
            grants: Some(Grants { scope: fleet(), domains }),
            ..Account::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account;
    use serde_json::json;

    #[test]
    fn a_cluster_gives_the_fleet_what_it_has() {
        let object = json!({"metadata": {"name": "c1"}, "spec": {"hard": {"pods": "5"}}});
        let account = account::of_stored::<ChargedMemberCluster>(object.to_string().as_bytes()).unwrap();
        assert!(account.pays.is_none() && account.tenant.is_empty());
        let grants = account.grants.unwrap();
        assert_eq!(grants.scope, fleet());
        assert_eq!(grants.domains["c1"].hard["pods"], "5".parse().unwrap());
        let bare = account::of_stored::<ChargedMemberCluster>(br#"{"metadata": {"name": "c1"}}"#).unwrap();
        assert!(bare.grants.unwrap().domains["c1"].hard.is_empty(), "unlimited, and there");
    }

    #[test]
    fn what_is_derived_counts_as_it_was_computed_and_may_fall_below_what_is_granted() {
        let of = |capacity: serde_json::Value| {
            let derived = json!({"resources": {"requests.cpu": {"resource": "cpu", "factor": "2"}}});
            let object = json!({
                "metadata": {"name": "c1"}, "spec": {"hard": {"pods": "5"}, "derived": derived},
                "status": {"capacity": capacity},
            });
            let account = account::of_stored::<ChargedMemberCluster>(object.to_string().as_bytes()).unwrap();
            account.grants.unwrap().domains["c1"].clone()
        };
        let limits = of(json!({"requests.cpu": "7", "requests.memory": "1"}));
        assert_eq!(limits.undercut, Undercut::Accepted);
        assert_eq!(
            limits.hard,
            [("pods", "5"), ("requests.cpu", "7")].map(|(k, v)| (k.to_owned(), v.parse().unwrap())).into()
        );
        assert!(of(json!({})).hard["requests.cpu"].is_zero());
    }
}
