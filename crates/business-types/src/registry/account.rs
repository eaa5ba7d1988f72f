use super::{REGISTRY_DOMAIN, RegistryKind, RegistrySpec, STORAGE};
use crate::account::{Charged, ChargedMeta, PROJECT};
use crate::names::{CHART_GROUPS, IMAGE_NAMESPACES};
use meta::quantity::{Quantity, ResourceList};
use quota::{Account, Claim, Scope};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The part of an image namespace or chart group from which its account is computed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "K: Default"))]
pub struct ChargedRegistryObject<K> {
    metadata: ChargedMeta,
    spec: Option<RegistrySpec>,
    #[serde(skip)]
    kind: PhantomData<K>,
}

/// What the project is charged for an object: one of its kind, and its limit of bytes.
pub fn costs<K: RegistryKind>(spec: &RegistrySpec) -> ResourceList {
    let mut costs: ResourceList =
        spec.storage().map(|bytes| (STORAGE.to_owned(), bytes)).into_iter().collect();
    costs.insert(K::PLURAL.to_owned(), Quantity::from_units(1));
    costs
}

/// The prefix of an object's repositories: `TENANT/NAME`.
pub fn prefix(tenant: &str, name: &str) -> String {
    format!("{tenant}/{name}")
}

impl<K: RegistryKind> Charged for ChargedRegistryObject<K> {
    fn account(self) -> Account {
        let deleting = self.metadata.is_deleting();
        let spec = self.spec.unwrap_or_default();
        let costs = costs::<K>(&spec);
        // Each object carries the keys for the number of both kinds, so that nobody has to set them.
        let mut carried = vec![CHART_GROUPS.to_owned(), IMAGE_NAMESPACES.to_owned()];
        carried.extend(spec.storage().map(|_| STORAGE.to_owned()));
        let tenant_id = spec.tenant_id;
        let place = prefix(&tenant_id, &self.metadata.name);
        Account {
            tenant: tenant_id,
            deleting,
            locked: false,
            pays: Some(Scope::new(PROJECT, self.metadata.namespace)),
            costs: BTreeMap::from([(REGISTRY_DOMAIN.to_owned(), costs)]),
            carries: BTreeMap::from([(REGISTRY_DOMAIN.to_owned(), carried)]),
            grants: None,
            claims: vec![Claim { domain: REGISTRY_DOMAIN.to_owned(), place }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account;
    use crate::{ChargedChartGroup, ChargedImageNamespace};
    use meta::object::Object;
    use serde_json::json;

    #[test]
    fn it_counts_one_of_its_kind_and_what_it_may_keep_and_claims_its_prefix() {
        let object = json!({
            "metadata": {"name": "web", "namespace": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"tenantID": "t", "name": "web", "hard": {"requests.storage": "5Gi"}},
            "status": {"phase": "Terminating"},
        });
        let account = account::of_stored::<ChargedImageNamespace>(object.to_string().as_bytes()).unwrap();
        assert_eq!(account.pays, Some(Scope::new(PROJECT, "p")));
        let costs = &account.costs["registry"];
        assert_eq!(costs["imagenamespaces"], "1".parse().unwrap());
        assert_eq!(costs["requests.storage"], "5Gi".parse().unwrap());
        assert_eq!(costs.len(), 2);
        assert_eq!(account.carries["registry"], ["chartgroups", "imagenamespaces", "requests.storage"]);
        assert_eq!(account.claims, [Claim { domain: "registry".into(), place: "t/web".into() }]);
        assert!(account.deleting && account.grants.is_none() && account.tenant == "t");
        let group = account::of::<ChargedChartGroup>(&Object::new(object).unwrap()).unwrap();
        assert!(group.costs["registry"].contains_key("chartgroups"));
        assert_eq!(group.claims, account.claims, "one prefix is one object's, of either kind");
    }

    #[test]
    fn without_a_limit_of_its_own_it_carries_no_storage() {
        let object = json!({"metadata": {"name": "g", "namespace": "p"}, "spec": {"tenantID": "t"}});
        let account = account::of_stored::<ChargedChartGroup>(object.to_string().as_bytes()).unwrap();
        assert_eq!(account.carries["registry"], ["chartgroups", "imagenamespaces"]);
        assert_eq!(account.costs["registry"].len(), 1);
    }
}
