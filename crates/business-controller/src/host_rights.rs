//! What the controller's `ServiceAccount` may do in the host cluster, as deploy/ says. docs/security.md promises it.

use serde::Deserialize as _;
use serde_json::{Value, json};

const RIGHTS: &str = include_str!("../../../deploy/base/rights/business-controller.yaml");
const GROUP: &str = "business.tkestack.io";
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// A rule of a role, which holds in one namespace or, without one, in all.
struct GrantedRule {
    namespace: Option<String>,
    rule: Value,
}

impl GrantedRule {
    fn has(&self, list: &str, word: &str) -> bool {
        self.rule[list].as_array().is_some_and(|words| words.iter().any(|one| one == word))
    }
}

fn objects() -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(RIGHTS).map(|object| Value::deserialize(object).unwrap()).collect()
}

fn rules() -> Vec<GrantedRule> {
    let mut rules = Vec::new();
    for role in objects().iter().filter(|object| object["rules"].is_array()) {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().unwrap() {
            rules.push(GrantedRule { namespace: namespace.clone(), rule: rule.clone() });
        }
    }
    assert!(rules.len() > 5, "{} rules", rules.len());
    rules
}

/// What all rules together let it write of a resource of ours.
fn writes_of(resource: &str) -> String {
    let mut verbs = Vec::new();
    for rule in rules().iter().filter(|rule| rule.has("apiGroups", GROUP) && rule.has("resources", resource))
    {
        verbs.extend(WRITES.into_iter().filter(|verb| rule.has("verbs", verb)));
    }
    verbs.sort_unstable();
    verbs.dedup();
    verbs.join(" ")
}

#[test]
fn the_controller_has_the_roles_of_this_file_alone() {
    let objects = objects();
    let roles: Vec<(&Value, &Value)> = objects
        .iter()
        .filter(|object| object["rules"].is_array())
        .map(|role| (&role["kind"], &role["metadata"]["name"]))
        .collect();
    let bindings: Vec<&Value> = objects.iter().filter(|object| object["roleRef"].is_object()).collect();
    assert_eq!(bindings.len(), roles.len());
    let account =
        json!([{"kind": "ServiceAccount", "name": "business-controller", "namespace": "tke-business"}]);
    for binding in bindings {
        let role = &binding["roleRef"];
        assert!(roles.contains(&(&role["kind"], &role["name"])), "{role}");
        assert_eq!(binding["subjects"], account, "{role}");
    }
}

#[test]
fn the_controller_makes_no_budget_and_changes_no_tenant() {
    for GrantedRule { rule, .. } in rules() {
        for list in ["apiGroups", "resources", "verbs"] {
            let words = rule[list].as_array().unwrap();
            let too_much = ["*", "grant", "bind", "escalate", "impersonate"];
            assert!(!words.iter().any(|word| too_much.iter().any(|one| word == one)), "{rule}");
        }
    }
    for (resource, writes) in [
        ("tenants", ""),
        ("namespacetemplates", ""),
        ("platforms", ""),
        ("projects", "delete patch update"),
        ("namespaces", "create delete patch update"),
        ("memberclusters", "create patch update"),
    ] {
        assert_eq!(writes_of(resource), writes, "{resource}");
    }
}

#[test]
fn the_controller_reads_the_secrets_of_seals_and_of_member_clusters_alone() {
    let of_secrets = rules().into_iter().filter(|rule| rule.has("resources", "secrets"));
    let reads: Vec<(Option<String>, Value)> = of_secrets
        .filter(|rule| ["get", "list", "watch"].iter().any(|verb| rule.has("verbs", verb)))
        .map(|rule| (rule.namespace, rule.rule["resourceNames"].clone()))
        .collect();
    let in_namespace = |name: &str, secrets: Value| (Some(name.to_owned()), secrets);
    let expected = [
        in_namespace("tke-business", json!(["business-controller-seal"])),
        in_namespace("tke-business-members", Value::Null),
    ];
    assert_eq!(reads, expected);
}
