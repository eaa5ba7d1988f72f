use crate::namespace::NamespaceSpec;
use crate::project::ProjectSpec;
use meta::object::Object;
use meta::quantity::ResourceList;
use quota::{Account, Amounts, Claim, Grants, Limits, Scope, ScopeKind};
use serde_json::Value;
use std::collections::BTreeMap;

/// The one scope whose domains are the member clusters and what may be granted of each.
pub const FLEET: ScopeKind = ScopeKind(1);
/// Tenants, by tenant ID.
pub const TENANT: ScopeKind = ScopeKind(2);
/// Projects, by name.
pub const PROJECT: ScopeKind = ScopeKind(3);

/// What a kind of scope is called.
pub fn scope_word(kind: ScopeKind) -> &'static str {
    match kind {
        FLEET => "fleet",
        TENANT => "tenant",
        PROJECT => "project",
        _ => "scope",
    }
}

/// A project costs its parent what it may give away itself.
pub fn project(object: &Object) -> Result<Account, serde_json::Error> {
    let spec = ProjectSpec::of(object)?;
    let costs: Amounts = spec.clusters.into_iter().map(|(cluster, quota)| (cluster, quota.hard)).collect();
    let limits = |hard: &ResourceList| Limits { hard: hard.clone(), mandatory: true };
    let domains = costs.iter().map(|(cluster, hard)| (cluster.clone(), limits(hard))).collect();
    let parent = spec.parent_project_name;
    Ok(Account {
        tenant: spec.tenant_id,
        deleting: object.is_deleting(),
        locked: object.get(&["status", "locked"]).and_then(Value::as_bool).unwrap_or_default(),
        pays: (!parent.is_empty()).then(|| Scope::new(PROJECT, parent)),
        carries: costs.iter().map(|(cluster, hard)| (cluster.clone(), keys(hard))).collect(),
        costs,
        grants: Some(Grants { scope: Scope::new(PROJECT, object.name()), domains }),
        claims: Vec::new(),
    })
}

/// A namespace costs its project the high-water mark of what it was ever granted, until the cluster has confirmed less.
pub fn namespace(object: &Object) -> Result<Account, serde_json::Error> {
    let NamespaceSpec { tenant_id, cluster_name: cluster, namespace, hard, .. } = NamespaceSpec::of(object)?;
    let mark: Option<ResourceList> = object.decode(&["status", "cachedSpecHard"])?;
    let carries = BTreeMap::from([(cluster.clone(), keys(&hard))]);
    Ok(Account {
        tenant: tenant_id,
        deleting: object.is_deleting(),
        locked: false,
        pays: Some(Scope::new(PROJECT, object.namespace())),
        costs: BTreeMap::from([(cluster.clone(), mark.unwrap_or(hard))]),
        carries,
        grants: None,
        claims: vec![Claim { domain: cluster, place: namespace }],
    })
}

fn keys(list: &ResourceList) -> Vec<String> {
    list.keys().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_namespace_costs_its_project_the_mark_and_carries_what_it_asks_for() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"tenantID": "t", "clusterName": "c", "namespace": "n", "hard": {"pods": "1"}},
            "status": {"phase": "Pending", "cachedSpecHard": {"pods": "3", "services": "1"}},
        });
        let account = namespace(&Object::new(object).unwrap()).unwrap();
        assert_eq!(account.pays, Some(Scope::new(PROJECT, "p")));
        assert_eq!(account.costs["c"]["pods"], "3".parse().unwrap());
        assert_eq!(account.carries["c"], ["pods"]);
        assert_eq!(account.claims, [Claim { domain: "c".into(), place: "n".into() }]);
        assert!(account.deleting && !account.locked && account.grants.is_none() && account.tenant == "t");
    }

    #[test]
    fn a_project_costs_its_parent_what_it_grants() {
        let object = json!({
            "metadata": {"name": "p"},
            "spec": {"parentProjectName": "q", "clusters": {"c": {"hard": {"pods": "5"}}, "d": {}}},
            "status": {"locked": true},
        });
        let account = project(&Object::new(object).unwrap()).unwrap();
        assert_eq!(account.pays, Some(Scope::new(PROJECT, "q")));
        let grants = account.grants.unwrap();
        assert_eq!(grants.scope, Scope::new(PROJECT, "p"));
        assert!(account.locked && grants.domains["c"].mandatory && grants.domains["d"].hard.is_empty());
        assert_eq!(grants.domains["c"].hard, account.costs["c"]);
        let root = project(&Object::new(json!({"metadata": {"name": "p"}})).unwrap()).unwrap();
        assert!(root.pays.is_none() && root.grants.is_some());
    }
}
