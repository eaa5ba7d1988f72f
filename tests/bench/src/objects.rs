//! The objects that are written: about 1.5 kB each, the same for every server.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// API path of our group.
pub(crate) const OURS: &str = "/apis/business.tkestack.io/v1";
/// Tenant of the benchmark's caller.
pub(crate) const TENANT: &str = "default";
/// Namespaces that are made in one project; it may have 10,000.
pub(crate) const PER_PROJECT: usize = 8_000;

/// Text that fills an object up to about 1.5 kB.
fn filler() -> String {
    "0123456789abcdef".repeat(58)
}

/// A project with room for everything in `clusters`.
pub(crate) fn project(name: &str, clusters: &[String]) -> Value {
    let hard = json!({"hard": {"requests.cpu": "100000", "requests.memory": "100Ti"}});
    let clusters: Value =
        clusters.iter().map(|c| (c.clone(), hard.clone())).collect::<serde_json::Map<_, _>>().into();
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Project",
        "metadata": {"name": name},
        "spec": {"displayName": name, "tenantID": TENANT, "members": [], "clusters": clusters},
    })
}

/// A namespace of a project with two resources of quota and 1.5 kB in all.
pub(crate) fn namespace(api_version: &str, kind: &str, project: &str, cluster: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": format!("{cluster}-{name}"), "namespace": project,
            "labels": {"app": "bench", "object": name},
            "annotations": {"bench/filler": filler()},
        },
        "spec": {
            "tenantID": TENANT, "clusterName": cluster, "namespace": name,
            "hard": {"requests.cpu": "100m", "requests.memory": "64Mi"},
        },
    })
}

/// A project's collection of namespaces.
pub(crate) fn namespaces_path(project: &str) -> String {
    format!("{OURS}/namespaces/{project}/namespaces")
}

/// A name that no earlier run has used.
pub(crate) fn fresh(prefix: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{prefix}-{:x}", now.as_millis())
}

/// Generates the objects of a collection, numbered, for all clients.
#[derive(Clone)]
pub(crate) struct ObjectFactory {
    /// The collection and the object of a number.
    make: Arc<dyn Fn(usize) -> (String, Value) + Send + Sync>,
    made: Arc<AtomicUsize>,
}

impl ObjectFactory {
    pub(crate) fn new(make: impl Fn(usize) -> (String, Value) + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), made: Arc::default() }
    }

    /// The next object, its number, and the path of its collection.
    pub(crate) fn numbered(&self) -> (usize, String, Value) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let (path, object) = (self.make)(number);
        (number, path, object)
    }

    /// The next object and the path of its collection.
    pub(crate) fn next(&self) -> (String, Value) {
        let (_number, path, object) = self.numbered();
        (path, object)
    }

    /// The next object and its own path.
    pub(crate) fn next_named(&self) -> (String, Value) {
        let (path, object) = self.next();
        (format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default()), object)
    }
}
