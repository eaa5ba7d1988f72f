use super::ProjectSpec;
use crate::account::{Charged, ChargedMeta, PROJECT, TENANT, keys};
use crate::registry::REGISTRY_DOMAIN;
use meta::quantity::ResourceList;
use quota::{Account, Amounts, Grants, Limits, Scope};
use serde::Deserialize;

/// The part of a project from which its account is computed. Its parent, or its tenant, is charged the project's own
/// hard quota.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChargedProject {
    metadata: ChargedMeta,
    spec: Option<ProjectSpec>,
    status: Option<ChargedStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChargedStatus {
    locked: Option<bool>,
}

impl Charged for ChargedProject {
    fn account(self) -> Account {
        let spec = self.spec.unwrap_or_default();
        let mut costs: Amounts =
            spec.clusters.into_iter().map(|(cluster, quota)| (cluster, quota.hard)).collect();
        // A project that does not list the registry is not limited there, but it must carry the keys that its parent
        // limits there.
        costs.entry(REGISTRY_DOMAIN.to_owned()).or_default();
        let limits = |hard: &ResourceList| Limits::new(hard.clone(), true);
        let domains = costs.iter().map(|(cluster, hard)| (cluster.clone(), limits(hard))).collect();
        let (parent, tenant) = (spec.parent_project_name, spec.tenant_id);
        let pays = match (parent.is_empty(), tenant.is_empty()) {
            (false, _) => Some(Scope::new(PROJECT, parent)),
            (true, false) => Some(Scope::new(TENANT, tenant.clone())),
            // A project without a tenant belongs to the operators.
            (true, true) => None,
        };
        Account {
            tenant,
            deleting: self.metadata.is_deleting(),
            locked: self.status.and_then(|status| status.locked).unwrap_or_default(),
            pays,
            carries: costs.iter().map(|(cluster, hard)| (cluster.clone(), keys(hard))).collect(),
            costs,
            grants: Some(Grants { scope: Scope::new(PROJECT, self.metadata.name), domains }),
            claims: Vec::new(),
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
    fn a_project_costs_its_parent_what_it_grants() {
        let object = json!({
            "metadata": {"name": "p"},
            "spec": {"parentProjectName": "q", "clusters": {"c": {"hard": {"pods": "5"}}, "d": {}}},
            "status": {"locked": true},
        });
        let account = account::of_stored::<ChargedProject>(object.to_string().as_bytes()).unwrap();
        assert_eq!(account::of::<ChargedProject>(&Object::new(object).unwrap()).unwrap(), account);
        assert_eq!(account.pays, Some(Scope::new(PROJECT, "q")));
        let grants = account.grants.unwrap();
        assert_eq!(grants.scope, Scope::new(PROJECT, "p"));
        assert!(account.locked && grants.domains["c"].mandatory && grants.domains["d"].hard.is_empty());
        assert_eq!(grants.domains["c"].hard, account.costs["c"]);
        let bare = Object::new(json!({"metadata": {"name": "p"}, "spec": null})).unwrap();
        assert!(grants.domains["registry"].hard.is_empty() && account.carries["registry"].is_empty());
        let root = account::of::<ChargedProject>(&bare).unwrap();
        assert!(root.pays.is_none() && root.grants.is_some());
        let owned = Object::new(json!({"metadata": {"name": "p"}, "spec": {"tenantID": "t"}})).unwrap();
        assert_eq!(account::of::<ChargedProject>(&owned).unwrap().pays, Some(Scope::new(TENANT, "t")));
    }
}
