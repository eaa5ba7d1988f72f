//! Does what cert-manager does with the objects of the chart.

use crate::json::text;
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use instance::kubectl::Kubectl;
use instance::manifests::{APISERVICE, NAMESPACE};
use instance::pki::{CertificateSubject, Pki, Use};
use serde_json::{Value, json};

/// Creates the Secret of each Certificate that has none, and sets caBundle of the APIService.
pub(super) fn issue(kubectl: &Kubectl, pki: &Pki) -> Result<()> {
    let certificates = kubectl.json(&["get", "certificates.cert-manager.io", "--namespace", NAMESPACE])?;
    for certificate in certificates.get("items").and_then(Value::as_array).into_iter().flatten() {
        if certificate.pointer("/spec/isCA") != Some(&json!(true)) {
            create_secret(kubectl, pki, certificate)?;
        }
    }
    set_ca_bundle(kubectl)
}

fn create_secret(kubectl: &Kubectl, pki: &Pki, certificate: &Value) -> Result<()> {
    let secret = text(certificate, "/spec/secretName");
    if kubectl.json_or_nothing(&["get", "secret", secret, "-n", NAMESPACE, "--ignore-not-found"])?.is_some() {
        return Ok(());
    }
    let authority = text(certificate, "/spec/issuerRef/name");
    pki.authority(authority)?;
    let names = certificate.pointer("/spec/dnsNames").and_then(Value::as_array);
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    let usages = certificate.pointer("/spec/usages").and_then(Value::as_array);
    let is_client = usages.is_some_and(|usages| usages == &[json!("client auth")]);
    let usage = if is_client { Use::Client } else { Use::Server };
    let user = text(certificate, "/spec/commonName");
    pki.issue(authority, secret, &CertificateSubject { user, groups: &[], names: &names, usage })?;
    let read = |path| std::fs::read_to_string(path);
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": secret, "namespace": NAMESPACE},
        "stringData": {
            "tls.crt": read(pki.cert(secret))?, "tls.key": read(pki.key(secret))?, "ca.crt": read(pki.cert(authority))?,
        },
    });
    kubectl.apply(&object.to_string()).map(drop)
}

fn set_ca_bundle(kubectl: &Kubectl) -> Result<()> {
    let registration = kubectl.json(&["get", "apiservice", APISERVICE])?;
    let from = text(&registration, "/metadata/annotations/cert-manager.io~1inject-ca-from");
    let Some((namespace, name)) = from.split_once('/') else { return Ok(()) };
    let certificate = kubectl.json(&["get", "certificates.cert-manager.io", name, "-n", namespace])?;
    let secret = kubectl.json(&["get", "secret", text(&certificate, "/spec/secretName"), "-n", namespace])?;
    let authority = STANDARD.decode(text(&secret, "/data/ca.crt")).context("ca.crt")?;
    let patch = json!({"spec": {"caBundle": STANDARD.encode(authority)}}).to_string();
    kubectl.run(&["patch", "apiservice", APISERVICE, "--type=merge", "--patch", &patch]).map(drop)
}
