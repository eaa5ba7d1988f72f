//! What our programs' accounts and people may do in the host cluster, as deploy/ says. docs/security.md promises it.

use serde::Deserialize as _;
use serde_json::{Value, json};

const CONTROLLER: &str = include_str!("../../../deploy/base/rights/business-controller.yaml");
const API: &str = include_str!("../../../deploy/base/rights/business-api.yaml");
const PEOPLE: &str = include_str!("../../../deploy/base/rights/tenants.yaml");
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

fn objects(manifest: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(manifest)
        .map(|object| Value::deserialize(object).unwrap())
        .collect()
}

fn rules(manifest: &str) -> Vec<GrantedRule> {
    let mut rules = Vec::new();
    for role in objects(manifest).iter().filter(|object| object["rules"].is_array()) {
        let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
        for rule in role["rules"].as_array().unwrap() {
            rules.push(GrantedRule { namespace: namespace.clone(), rule: rule.clone() });
        }
    }
    assert!(!rules.is_empty());
    rules
}

/// What all rules together let it write of a resource of ours.
fn writes_of(resource: &str) -> String {
    let mut verbs = Vec::new();
    for rule in rules(CONTROLLER)
        .iter()
        .filter(|rule| rule.has("apiGroups", GROUP) && rule.has("resources", resource))
    {
        verbs.extend(WRITES.into_iter().filter(|verb| rule.has("verbs", verb)));
    }
    verbs.sort_unstable();
    verbs.dedup();
    verbs.join(" ")
}

#[test]
fn the_controller_has_the_roles_of_this_file_alone() {
    let objects = objects(CONTROLLER);
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
    for GrantedRule { rule, .. } in rules(CONTROLLER) {
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
    let of_secrets = rules(CONTROLLER).into_iter().filter(|rule| rule.has("resources", "secrets"));
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

#[test]
fn nobody_else_writes_what_the_controller_says() {
    for GrantedRule { rule, .. } in rules(PEOPLE) {
        for resource in rule["resources"].as_array().unwrap() {
            let resource = resource.as_str().unwrap();
            let (_object, part) = resource.split_once('/').unwrap_or_default();
            assert!(!["*", "status", "finalize", "capacity", "pullcredential"].contains(&part), "{rule}");
            assert_ne!(resource, "*", "{rule}");
        }
    }
}

#[test]
fn the_api_server_asks_who_is_who_and_acts_as_nobody() {
    let bound: Vec<Value> = objects(API).iter().map(|object| object["roleRef"]["name"].clone()).collect();
    let bound: Vec<&str> = bound.iter().filter_map(Value::as_str).collect();
    let expected =
        ["system:auth-delegator", "extension-apiserver-authentication-reader", "business-api:identity"];
    assert_eq!(bound, expected);
    let own: Vec<Value> = rules(API).into_iter().map(|granted| granted.rule).collect();
    let kube_system = json!({
        "apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"],
    });
    assert_eq!(own, [kube_system]);
}
