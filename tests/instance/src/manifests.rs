//! The files under deploy/, rendered by kubectl and adapted to this machine.

use crate::kubectl::Kubectl;
use crate::layout;
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::path::Path;

pub const NAMESPACE: &str = "tke-business";
/// Where the Secrets of member clusters are.
pub const MEMBERS_NAMESPACE: &str = "tke-business-members";
pub const SERVICE: &str = "business-api";
pub const APISERVICE: &str = "v1.business.tkestack.io";

/// Where kube-apiserver finds business-api on this machine.
#[derive(Clone, Debug)]
pub struct Address {
    pub host: String,
    pub port: u16,
    /// PEM of the authority of its certificate.
    pub ca: String,
}

/// `kubectl kustomize` of a directory of the workspace.
pub fn render(kubectl: &Kubectl, directory: &str) -> Result<Vec<Value>> {
    let path = layout::workspace().join(directory);
    parsed(&kubectl.run(&["kustomize", &path.to_string_lossy()])?)
        .with_context(|| format!("output of kustomize {directory}"))
}

/// The objects of a file.
pub fn read(file: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    parsed(&text).with_context(|| format!("read {}", file.display()))
}

fn parsed(text: &str) -> Result<Vec<Value>> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let objects = documents.collect::<Result<Vec<Value>, _>>()?;
    ensure!(!objects.is_empty(), "there is no object");
    Ok(objects)
}

/// Rights, Service and APIService of an instance outside the cluster.
pub fn apply_local(kubectl: &Kubectl, address: &Address) -> Result<()> {
    let mut objects = render(kubectl, "deploy/overlays/local")?;
    let mut fitted = 0;
    for object in &mut objects {
        fitted += usize::from(fit(object, address));
    }
    ensure!(fitted == 2, "deploy/overlays/local must hold one Service and one APIService of ours");
    apply(kubectl, &objects)
}

/// The role that the controller has in a member cluster.
pub fn apply_member(kubectl: &Kubectl) -> Result<()> {
    apply(kubectl, &render(kubectl, "deploy/member")?)
}

/// Inserts the address and the CA; returns whether the object has a place for them.
fn fit(object: &mut Value, address: &Address) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    match kind.as_str() {
        "Service" => {
            let port = json!([{"name": "https", "port": address.port, "protocol": "TCP"}]);
            spec.insert("type".to_owned(), json!("ExternalName"));
            spec.insert("externalName".to_owned(), json!(address.host));
            spec.insert("ports".to_owned(), port);
            spec.remove("selector");
        }
        "APIService" => {
            spec.insert("caBundle".to_owned(), json!(STANDARD.encode(&address.ca)));
            if let Some(service) = spec.get_mut("service").and_then(Value::as_object_mut) {
                service.insert("port".to_owned(), json!(address.port));
            }
        }
        _ => return false,
    }
    true
}

/// Applies namespaces first, because the other objects need them.
pub fn apply(kubectl: &Kubectl, objects: &[Value]) -> Result<()> {
    let list = |first: bool| -> Vec<&Value> {
        let namespace = |object: &&Value| (object.get("kind") == Some(&json!("Namespace"))) == first;
        objects.iter().filter(namespace).collect()
    };
    for items in [list(true), list(false)] {
        if !items.is_empty() {
            kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_authority_are_put_into_service_and_apiservice_only() {
        let address = Address { host: "10.1.2.3".to_owned(), port: 8443, ca: "PEM".to_owned() };
        let mut service = json!({"kind": "Service", "spec": {}});
        assert!(fit(&mut service, &address));
        assert_eq!(service["spec"]["externalName"], "10.1.2.3");
        let mut apiservice = json!({"kind": "APIService", "spec": {"service": {"name": "business-api"}}});
        assert!(fit(&mut apiservice, &address));
        assert_eq!(apiservice["spec"]["caBundle"], STANDARD.encode("PEM"));
        assert_eq!(apiservice["spec"]["service"]["port"], 8443);
        assert!(!fit(&mut json!({"kind": "Deployment", "spec": {}}), &address));
    }
}
