//! Our objects in the form that users apply.

use serde_json::{Value, json};
use std::collections::BTreeMap;

const GROUP: &str = "business.tkestack.io/v1";

/// Amounts by resource.
pub type Hard<'a> = &'a [(&'a str, &'a str)];

/// A Project of the tenant default as one applies it.
pub fn project(name: &str, parent: Option<&str>, clusters: &[(&str, Hard<'_>)]) -> Value {
    project_of("default", name, parent, clusters)
}

/// A Project as one applies it.
pub fn project_of(tenant: &str, name: &str, parent: Option<&str>, clusters: &[(&str, Hard<'_>)]) -> Value {
    let clusters: BTreeMap<_, _> =
        clusters.iter().map(|(name, hard)| (*name, json!({"hard": amounts(hard)}))).collect();
    let mut spec = json!({"displayName": name, "tenantID": tenant, "clusters": clusters});
    if let (Some(parent), Some(spec)) = (parent, spec.as_object_mut()) {
        spec.insert("parentProjectName".to_owned(), parent.into());
    }
    json!({"apiVersion": GROUP, "kind": "Project", "metadata": {"name": name}, "spec": spec})
}

/// A Namespace of the tenant default as one applies it; its object is called `<cluster>-<namespace>`.
pub fn namespace(project: &str, cluster: &str, name: &str, hard: Hard<'_>) -> Value {
    namespace_of("default", project, cluster, name, hard)
}

/// A Namespace as one applies it; its object is called `<cluster>-<namespace>`.
pub fn namespace_of(tenant: &str, project: &str, cluster: &str, name: &str, hard: Hard<'_>) -> Value {
    json!({
        "apiVersion": GROUP,
        "kind": "Namespace",
        "metadata": {"name": format!("{cluster}-{name}"), "namespace": project},
        "spec": {"clusterName": cluster, "namespace": name, "tenantID": tenant, "hard": amounts(hard)},
    })
}

fn amounts(hard: Hard<'_>) -> Value {
    hard.iter().map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect()
}
