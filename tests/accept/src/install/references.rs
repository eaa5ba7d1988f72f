//! Checks references of rendered objects. kube-apiserver does not check them, and does not know cert-manager's kinds.

use crate::json::{list, text};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;

/// Secrets that docs/ has people make.
const BROUGHT: [&str; 1] = ["business-console"];

/// Each referenced object is rendered too, or is a Secret that the user creates.
pub(crate) fn check(objects: &[Value], brought: &[&str]) -> Result<()> {
    let rendered = Rendered { objects, brought };
    for object in objects {
        match text(object, "/kind") {
            "Deployment" | "StatefulSet" => rendered.workload(object)?,
            "Service" => rendered.service(object)?,
            "NetworkPolicy" => rendered.network_policy(object)?,
            "Certificate" => rendered.certificate(object)?,
            "Issuer" => rendered.issuer(object)?,
            "ValidatingAdmissionPolicyBinding" => {
                rendered.has("ValidatingAdmissionPolicy", text(object, "/spec/policyName"), object)?;
            }
            "RoleBinding" | "ClusterRoleBinding" => rendered.binding(object)?,
            _ => {}
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Rendered<'a> {
    objects: &'a [Value],
    brought: &'a [&'a str],
}

impl<'a> Rendered<'a> {
    fn of(self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| text(object, "/kind") == kind)
    }

    fn has(self, kind: &'a str, name: &str, by: &Value) -> Result<()> {
        let found = self.of(kind).any(|object| text(object, "/metadata/name") == name);
        ensure!(found, "{} names the {kind} {name:?}, which is not there", shown(by));
        Ok(())
    }

    /// Secrets that cert-manager makes or that people are told to; those that are mounted have to be among them.
    fn issued(self) -> BTreeSet<&'a str> {
        let issued = self.of("Certificate").map(|certificate| text(certificate, "/spec/secretName"));
        issued.chain(BROUGHT).chain(self.brought.iter().copied()).collect()
    }

    fn workload(self, object: &Value) -> Result<()> {
        let pod = "/spec/template/spec";
        for volume in list(object, &format!("{pod}/volumes")) {
            if let Some(secret) = volume.pointer("/secret/secretName").and_then(Value::as_str) {
                ensure!(self.issued().contains(secret), "{}: nobody makes {secret}", shown(object));
            }
        }
        let account = text(object, &format!("{pod}/serviceAccountName"));
        if !account.is_empty() {
            self.has("ServiceAccount", account, object)?;
        }
        for container in list(object, &format!("{pod}/containers")) {
            files(container, object)?;
            let ports = ports(container);
            for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                let port = text(container, &format!("/{probe}/httpGet/port"));
                ensure!(port.is_empty() || ports.contains(port), "{}: {probe} at {port}", shown(object));
            }
        }
        Ok(())
    }

    /// Without a selector it leads to nothing of ours.
    fn service(self, object: &Value) -> Result<()> {
        let Some(selector) = object.pointer("/spec/selector") else { return Ok(()) };
        for port in list(object, "/spec/ports") {
            self.is_open(selector, port.get("targetPort"), object)?;
        }
        Ok(())
    }

    fn network_policy(self, object: &Value) -> Result<()> {
        let Some(selector) = object.pointer("/spec/podSelector/matchLabels") else { return Ok(()) };
        for rule in list(object, "/spec/ingress") {
            for port in list(rule, "/ports") {
                self.is_open(selector, port.get("port"), object)?;
            }
        }
        Ok(())
    }

    /// Pods with these labels have a port of this name. The local overlay has no pods at all.
    fn is_open(self, selector: &Value, port: Option<&Value>, by: &Value) -> Result<()> {
        let Some(port) = port.and_then(Value::as_str) else { return Ok(()) };
        let workloads: Vec<&Value> = self.of("Deployment").chain(self.of("StatefulSet")).collect();
        let mut selected =
            workloads.iter().filter(|one| matches(selector, one.pointer("/spec/template/metadata/labels")));
        let found = selected.any(|one| {
            list(one, "/spec/template/spec/containers").any(|container| ports(container).contains(port))
        });
        ensure!(found || workloads.is_empty(), "{}: no pod has the port {port}", shown(by));
        Ok(())
    }

    fn certificate(self, object: &Value) -> Result<()> {
        if text(object, "/spec/issuerRef/kind") != "ClusterIssuer" {
            self.has("Issuer", text(object, "/spec/issuerRef/name"), object)?;
        }
        let names = list(object, "/spec/dnsNames").filter_map(Value::as_str);
        // The others are what people outside call it.
        for name in names.filter(|name| !name.contains('.') || name.split('.').nth(2) == Some("svc")) {
            let mut parts = name.split('.');
            self.has("Service", parts.next().unwrap_or_default(), object)?;
            let namespace = parts.next().unwrap_or_default();
            let own = text(object, "/metadata/namespace");
            ensure!(namespace == own, "{}: {name} is in another namespace", shown(object));
        }
        Ok(())
    }

    fn issuer(self, object: &Value) -> Result<()> {
        let secret = text(object, "/spec/ca/secretName");
        ensure!(
            secret.is_empty() || self.issued().contains(secret),
            "{}: nobody makes {secret}",
            shown(object)
        );
        Ok(())
    }

    fn binding(self, object: &Value) -> Result<()> {
        for subject in list(object, "/subjects").filter(|one| text(one, "/kind") == "ServiceAccount") {
            self.has("ServiceAccount", text(subject, "/name"), object)?;
        }
        Ok(())
    }
}

/// Files that a flag names lie in a volume.
fn files(container: &Value, by: &Value) -> Result<()> {
    for flag in list(container, "/args").filter_map(Value::as_str) {
        let Some((_, path)) = flag.split_once('=').filter(|(_, value)| value.starts_with('/')) else {
            continue;
        };
        let mounted = list(container, "/volumeMounts").any(|mount| {
            path.strip_prefix(text(mount, "/mountPath")).is_some_and(|rest| rest.starts_with('/'))
        });
        ensure!(mounted, "{}: {flag} is in no volume", shown(by));
    }
    Ok(())
}

fn ports(container: &Value) -> BTreeSet<&str> {
    list(container, "/ports").map(|port| text(port, "/name")).collect()
}

/// Whether the labels have all that is selected.
fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let (Some(selector), Some(labels)) = (selector.as_object(), labels) else { return false };
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn shown(object: &Value) -> String {
    format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A program with a certificate, reached through a service.
    fn sound() -> Vec<Value> {
        let labels = json!({"app": "one"});
        let container = json!({
            "args": ["run", "--bind=0.0.0.0:8443", "--key=/tls/tls.key"],
            "ports": [{"name": "https", "containerPort": 8443}],
            "readinessProbe": {"httpGet": {"port": "https"}},
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        });
        let pod = json!({
            "serviceAccountName": "one",
            "containers": [container],
            "volumes": [{"name": "tls", "secret": {"secretName": "one-tls"}}],
        });
        let named = json!({"name": "one", "namespace": "ours"});
        vec![
            json!({"kind": "ServiceAccount", "metadata": named}),
            json!({"kind": "Deployment", "metadata": named,
                "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}}}),
            json!({"kind": "Service", "metadata": named,
                "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": "https"}]}}),
            json!({"kind": "NetworkPolicy", "metadata": named,
                "spec": {"podSelector": {"matchLabels": labels}, "ingress": [{"ports": [{"port": "https"}]}]}}),
            json!({"kind": "Issuer", "metadata": named, "spec": {"ca": {"secretName": "one-tls"}}}),
            json!({"kind": "Certificate", "metadata": named,
                "spec": {"secretName": "one-tls", "dnsNames": ["one.ours.svc"], "issuerRef": {"name": "one"}}}),
            json!({"kind": "ValidatingAdmissionPolicy", "metadata": named}),
            json!({"kind": "ValidatingAdmissionPolicyBinding", "metadata": named, "spec": {"policyName": "one"}}),
            json!({"kind": "ClusterRoleBinding", "metadata": named,
                "subjects": [{"kind": "ServiceAccount", "name": "one"}]}),
        ]
    }

    #[test]
    fn what_names_only_what_is_there_is_sound() {
        check(&sound(), &[]).unwrap();
    }

    #[test]
    fn a_name_that_nothing_has_is_found_wherever_it_stands() {
        let container = "/spec/template/spec/containers/0";
        for (kind, place) in [
            ("Deployment", "/spec/template/spec/serviceAccountName"),
            ("Deployment", "/spec/template/spec/volumes/0/secret/secretName"),
            ("Deployment", &format!("{container}/readinessProbe/httpGet/port")),
            ("Deployment", &format!("{container}/ports/0/name")),
            ("Deployment", &format!("{container}/volumeMounts/0/mountPath")),
            ("Service", "/spec/ports/0/targetPort"),
            ("Service", "/spec/selector/app"),
            ("NetworkPolicy", "/spec/ingress/0/ports/0/port"),
            ("Issuer", "/spec/ca/secretName"),
            ("Certificate", "/spec/issuerRef/name"),
            ("Certificate", "/spec/dnsNames/0"),
            ("ValidatingAdmissionPolicyBinding", "/spec/policyName"),
            ("ClusterRoleBinding", "/subjects/0/name"),
        ] {
            let mut objects = sound();
            let object = objects.iter_mut().find(|object| text(object, "/kind") == kind).unwrap();
            *object.pointer_mut(place).unwrap() = json!("another");
            assert!(check(&objects, &[]).is_err(), "{kind} {place}");
        }
    }
}
