use super::TenantSpec;
use crate::account::{Charged, ChargedMeta, TENANT, fleet, keys};
use crate::registry::REGISTRY_DOMAIN;
use quota::{Account, Amounts, Grants, Limits, Scope, Undercut};
use serde::Deserialize;

/// The part of a tenant from which its account is computed. The fleet is charged the tenant's ceilings, which are
/// granted to its root projects. The registry is not part of the fleet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedTenant {
    metadata: ChargedMeta,
    spec: Option<TenantSpec>,
}

impl Charged for ChargedTenant {
    fn account(self) -> Account {
        let name = self.metadata.name.clone();
        let clusters = self.spec.unwrap_or_default().clusters;
        let ceilings: Amounts = clusters.into_iter().map(|(cluster, quota)| (cluster, quota.hard)).collect();
        // The root projects may have been granted more before there was a ceiling.
        let limits = |hard| Limits { undercut: Undercut::WhereUnlimited, ..Limits::new(hard, true) };
        let domains =
            ceilings.iter().map(|(cluster, hard)| (cluster.clone(), limits(hard.clone()))).collect();
        let costs: Amounts = ceilings.into_iter().filter(|(cluster, _)| cluster != REGISTRY_DOMAIN).collect();
        Account {
            tenant: name.clone(),
            deleting: self.metadata.is_deleting(),
            locked: false,
            pays: Some(fleet()),
            carries: costs.iter().map(|(cluster, hard)| (cluster.clone(), keys(hard))).collect(),
            costs,
            grants: Some(Grants { scope: Scope::new(TENANT, name), domains }),
            claims: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account;
    use serde_json::json;

    #[test]
    fn a_tenant_costs_the_fleet_its_ceilings() {
        let object = json!({
            "metadata": {"name": "acme"},
            "spec": {"clusters": {"c": {"hard": {"pods": "5"}}, "registry": {"hard": {"requests.storage": "1Gi"}}}},
        });
        let account = account::of_stored::<ChargedTenant>(object.to_string().as_bytes()).unwrap();
        assert_eq!((account.tenant.as_str(), account.pays), ("acme", Some(fleet())));
        assert_eq!(account.costs.keys().collect::<Vec<_>>(), ["c"], "the registry has no capacity");
        assert_eq!(account.carries["c"], ["pods"]);
        let grants = account.grants.unwrap();
        assert_eq!(grants.scope, Scope::new(TENANT, "acme"));
        assert_eq!(grants.domains.keys().collect::<Vec<_>>(), ["c", "registry"]);
        assert!(grants.domains["c"].mandatory);
    }
}
