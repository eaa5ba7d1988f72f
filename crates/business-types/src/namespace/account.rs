use super::NamespaceSpec;
use crate::account::{Charged, ChargedMeta, PROJECT, keys};
use meta::quantity::ResourceList;
use quota::{Account, Claim, Scope};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The part of a namespace from which its account is computed. Its project is charged the high-water mark of its hard
/// quota, until the controller has confirmed that the cluster enforces less.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedNamespace {
    metadata: ChargedMeta,
    spec: Option<NamespaceSpec>,
    status: Option<ChargedStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ChargedStatus {
    cached_spec_hard: Option<ResourceList>,
}

impl Charged for ChargedNamespace {
    fn account(self) -> Account {
        let deleting = self.metadata.is_deleting();
        let mark = self.status.and_then(|status| status.cached_spec_hard);
        let NamespaceSpec { tenant_id, cluster_name: cluster, namespace, hard, .. } =
            self.spec.unwrap_or_default();
        let carries = BTreeMap::from([(cluster.clone(), keys(&hard))]);
        Account {
            tenant: tenant_id,
            deleting,
            locked: false,
            pays: Some(Scope::new(PROJECT, self.metadata.namespace)),
            costs: BTreeMap::from([(cluster.clone(), mark.unwrap_or(hard))]),
            carries,
            grants: None,
            claims: vec![Claim { domain: cluster, place: namespace }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account;
    use meta::object::Object;
    use serde_json::json;

    #[test]
    fn a_namespace_costs_its_project_the_mark_and_carries_what_it_asks_for() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"tenantID": "t", "clusterName": "c", "namespace": "n", "hard": {"pods": "1"}},
            "status": {"phase": "Pending", "cachedSpecHard": {"pods": "3", "services": "1"}},
        });
        let account = account::of_stored::<ChargedNamespace>(object.to_string().as_bytes()).unwrap();
        assert_eq!(account::of::<ChargedNamespace>(&Object::new(object).unwrap()).unwrap(), account);
        assert_eq!(account.pays, Some(Scope::new(PROJECT, "p")));
        assert_eq!(account.costs["c"]["pods"], "3".parse().unwrap());
        assert_eq!(account.carries["c"], ["pods"]);
        assert_eq!(account.claims, [Claim { domain: "c".into(), place: "n".into() }]);
        assert!(account.deleting && !account.locked && account.grants.is_none() && account.tenant == "t");
    }
}
