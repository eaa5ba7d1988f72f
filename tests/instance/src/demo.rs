//! The demo data of `up`: two tenants with ceilings, users with roles, operators, a project and a namespace.

use crate::identity::OPERATORS;
use crate::job::{apply, until_active, until_available, until_gone};
use crate::objects::{Hard, namespace_of, project_of};
use crate::platform::{HOST_CLUSTER, Instance};
use anyhow::Result;
use serde_json::{Value, json};

/// The tenant that alice administers.
pub const TENANT: &str = "acme";
const TENANTS: [&str; 2] = [TENANT, "globex"];
/// Its project: bob may edit it, dave may view it.
pub const PROJECT: &str = "shop";

const CEILING: Hard<'_> = &[("requests.cpu", "20"), ("requests.memory", "40Gi"), ("pods", "100")];
const BUDGET: Hard<'_> = &[("requests.cpu", "10"), ("requests.memory", "20Gi"), ("pods", "50")];
const FIRST: Hard<'_> = &[("requests.cpu", "2"), ("requests.memory", "4Gi"), ("pods", "10")];

/// Applies the data.
pub fn make(instance: &Instance) -> Result<()> {
    let kubectl = &instance.kubectl;
    apply(kubectl, &operators())?;
    let alice = json!({"kind": "User", "name": "alice"});
    let of_globex = json!({"kind": "Group", "name": "globex-administrators"});
    for (name, display_name, administrator) in [(TENANT, "Acme", alice), ("globex", "Globex", of_globex)] {
        apply(kubectl, &tenant(instance, name, display_name, &administrator))?;
    }
    let clusters: Vec<(&str, Hard<'_>)> =
        instance.clusters.iter().map(|name| (name.as_str(), BUDGET)).collect();
    let mut shop = project_of(TENANT, PROJECT, None, &clusters);
    if let Some(spec) = shop.get_mut("spec").and_then(Value::as_object_mut) {
        let access = json!([
            {"kind": "Group", "name": "shop-developers", "role": "edit"},
            {"kind": "User", "name": "dave", "role": "view"},
        ]);
        spec.insert("access".to_owned(), access);
    }
    apply(kubectl, &shop)?;
    until_active(kubectl, PROJECT)?;
    apply(kubectl, &namespace_of(TENANT, PROJECT, HOST_CLUSTER, "web", FIRST))?;
    until_available(kubectl, PROJECT, &format!("{HOST_CLUSTER}-web")).map(drop)
}

/// Grants operator rights to users who log in as operators.
fn operators() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": OPERATORS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "business-operator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": OPERATORS}],
    })
}

/// Deletes the data.
pub fn clear(instance: &Instance) -> Result<()> {
    let kubectl = &instance.kubectl;
    kubectl.run(&["delete", "clusterrolebinding", OPERATORS, "--ignore-not-found"])?;
    kubectl.run(&["delete", "project", PROJECT, "--ignore-not-found", "--wait=false"])?;
    until_gone(kubectl, &["project", PROJECT])?;
    for name in TENANTS {
        kubectl.run(&["delete", "tenant", name, "--ignore-not-found"])?;
    }
    Ok(())
}

fn tenant(instance: &Instance, name: &str, display_name: &str, administrator: &Value) -> Value {
    let hard: serde_json::Map<String, Value> =
        CEILING.iter().map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect();
    let clusters: serde_json::Map<String, Value> =
        instance.clusters.iter().map(|name| (name.clone(), json!({"hard": hard}))).collect();
    json!({
        "apiVersion": "business.tkestack.io/v1",
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"displayName": display_name, "administrators": [administrator], "clusters": clusters},
    })
}
