//! The chart with many combinations of values: the rendered objects are consistent, kube-apiserver accepts them, and
//! kustomize renders the same ones.

use super::helm::{Helm, chart, values};
use crate::install::references;
use crate::json::text;
use anyhow::{Context as _, Result, bail, ensure};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::manifests::{self, NAMESPACE};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Values files, and the Secrets that people must create for each.
const MATRIX: [(&str, &[&str]); 8] = [
    ("prod", &[]),
    ("people", &[]),
    ("tunnel", &[]),
    ("console", &[]),
    ("assigned-ids", &[]),
    ("job", &["business-api-tls"]),
    ("everything", &["business-registry", "pg-ca"]),
    ("given", &["brought-tls", "business-issuer-tls", "business-issuer-client-tls"]),
];

/// Values files, and the directory from which kustomize renders the same objects.
const SAME: [(&str, &str); 5] = [
    ("prod", "deploy/overlays/prod"),
    ("people", "tests/accept/deploy/people"),
    ("tunnel", "tests/accept/deploy/tunnel"),
    ("console", "tests/accept/deploy/console"),
    ("assigned-ids", "tests/accept/deploy/assigned-ids"),
];

/// Invalid values, and what the refusal must contain.
const REFUSED: [(&str, &str); 23] = [
    ("api.replica=3", "replica"),
    ("api.terminationGracePeriodSeconds=30", "terminationGracePeriodSeconds"),
    ("api.digest=latest", "digest"),
    ("api.repository=business-api:latest", "repository"),
    ("api.disruptionBudget.maxUnavailable=0", "maxUnavailable"),
    ("controller.disruptionBudget.maxUnavailable=0%", "maxUnavailable"),
    ("controller.seenMax=half", "seenMax"),
    (
        "api.autoscaling.enabled=true,api.autoscaling.minReplicas=7",
        "minReplicas 7 is more than maxReplicas 6",
    ),
    ("api.extraEnv[0].value=x", "name"),
    ("api.extraVolumes[0].emptyDir.medium=Memory", "name"),
    ("authentication.tenantIssuers={https://login.example.org}", "authentication.configMapName"),
    (
        "authentication.configMapName=logins,api.extraArgs={--jwt-issuer=https://login.example.org}",
        "instead of authentication.configMapName",
    ),
    ("certificates.provider=nobody", "provider"),
    ("certificates.provider=job,certificates.secretName=business-api-ca", "certificates.secretName"),
    ("certificates.provider=secret", "caBundle"),
    ("console.enabled=true", "origins"),
    ("console.enabled=true,console.origins={https://console.example.org}", "authentication.configMapName"),
    ("console.ingress.enabled=true", "host"),
    ("direct.tlsRoute.enabled=true", "hostnames"),
    ("image.registry=https://registry.example.org", "registry"),
    ("members.namespace=Clusters", "namespace"),
    ("members.namespace=tke-business", "is the namespace of this release"),
    ("tunnel.service.type=ExternalName", "type"),
];

/// API groups of other projects: kube-apiserver accepts them only with their CRDs.
const FOREIGN: [&str; 3] = ["cert-manager.io/", "monitoring.coreos.com/", "gateway.networking.k8s.io/"];

/// Labels that the chart sets and kustomize does not.
const HELMS_LABELS: [&str; 5] = [
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];
const KEPT: &str = "helm.sh/resource-policy";

pub(super) fn check(kubectl: &Kubectl, helm: &Helm, foreign: bool) -> Result<()> {
    let mut namespaces = BTreeSet::new();
    for (name, brought) in MATRIX {
        helm.run(&["lint", "--strict", &chart(), "--values", &values(name)])?;
        let objects = helm.template(name)?;
        references::check(&objects, brought)
            .with_context(|| format!("what the chart renders to with {name}"))?;
        let made = accepted(kubectl, objects, foreign).with_context(|| format!("the chart with {name}"))?;
        namespaces.extend(made);
    }
    for name in namespaces {
        kubectl.run(&["delete", "namespace", &name, "--timeout=240s"])?;
    }
    for (value, told) in REFUSED {
        let refusal = helm.refused(&["template", "x", &chart(), "--set", value])?;
        ensure!(refusal.contains(told), "{value}: {refusal}");
    }
    Ok(())
}

/// kube-apiserver accepts all objects in a dry run that rejects unknown fields. Creates and returns their namespaces.
pub(super) fn accepted(
    kubectl: &Kubectl,
    mut objects: Vec<Value>,
    foreign: bool,
) -> Result<BTreeSet<String>> {
    objects.retain(|object| {
        let version = text(object, "/apiVersion");
        foreign || !FOREIGN.iter().any(|other| version.starts_with(other))
    });
    let namespaces =
        objects.iter().map(|object| text(object, "/metadata/namespace")).filter(|name| !name.is_empty());
    // kube-apiserver creates these itself.
    let namespaces: BTreeSet<String> =
        namespaces.filter(|name| !["kube-system", "default"].contains(name)).map(str::to_owned).collect();
    for name in &namespaces {
        kubectl.apply(&namespace(name).to_string())?;
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let dry =
        ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"];
    kubectl.feed(&dry, &list)?;
    Ok(namespaces)
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// An archive of the chart, packaged by us or by helm, renders to the same objects as the directory: it has files where
/// the directory has symbolic links. Returns our archive.
pub(super) fn packaged(helm: &Helm, dir: &Path) -> Result<String> {
    let (ours, helms) = (dir.join("released"), dir.join("helm"));
    let packed =
        Command::new(layout::program_path("dist")?).arg("chart").arg("--into").arg(&ours).status()?;
    ensure!(packed.success(), "dist chart failed");
    std::fs::create_dir_all(&helms)?;
    helm.run(&["package", &chart(), "--destination", &helms.to_string_lossy()])?;
    let here = helm.run(&["template", "x", &chart()])?;
    let (ours, helms) = (only_file(&ours)?, only_file(&helms)?);
    for archive in [&ours, &helms] {
        ensure!(helm.run(&["template", "x", archive])? == here, "{archive} renders to something else");
    }
    Ok(ours)
}

fn only_file(dir: &Path) -> Result<String> {
    let files: Vec<_> = std::fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    let [file] = files.as_slice() else { bail!("{} files in {}", files.len(), dir.display()) };
    Ok(file.path().to_string_lossy().into_owned())
}

/// The chart and kustomize render the same objects.
pub(super) fn same_as_kustomize(kubectl: &Kubectl, helm: &Helm) -> Result<()> {
    for (values, directory) in SAME {
        let from_chart = by_name(helm.template(values)?);
        let from_kustomize = by_name(manifests::render(kubectl, directory)?);
        let names = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<BTreeSet<_>>();
        let (chart, kustomize) = (names(&from_chart), names(&from_kustomize));
        ensure!(
            chart == kustomize,
            "{directory}: only in the chart: {:?}; only in kustomize: {:?}",
            chart.difference(&kustomize).collect::<Vec<_>>(),
            kustomize.difference(&chart).collect::<Vec<_>>()
        );
        for (name, object) in &from_chart {
            let other = from_kustomize.get(name).unwrap_or(&Value::Null);
            ensure!(object == other, "{directory}: {name} differs:\n{object:#}\nkustomize:\n{other:#}");
        }
    }
    Ok(())
}

/// Objects by kind and name, without helm's labels, annotations and hooks. The namespace of the release is left out, too:
/// only kustomize renders it.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut named = BTreeMap::new();
    for mut object in objects {
        let hook = object.pointer("/metadata/annotations/helm.sh~1hook").is_some();
        let name = format!(
            "{} {}/{}",
            text(&object, "/kind"),
            text(&object, "/metadata/namespace"),
            text(&object, "/metadata/name")
        );
        if hook || name == format!("Namespace /{NAMESPACE}") {
            continue;
        }
        without(&mut object, "labels", &HELMS_LABELS);
        without(&mut object, "annotations", &[KEPT]);
        for container in object
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                container.remove("imagePullPolicy");
            }
        }
        named.insert(name, object);
    }
    named
}

/// Removes keys from a map of the metadata, and the map if it is then empty.
fn without(object: &mut Value, map: &str, keys: &[&str]) {
    let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) else { return };
    if let Some(found) = metadata.get_mut(map).and_then(Value::as_object_mut) {
        for key in keys {
            found.remove(*key);
        }
        if found.is_empty() {
            metadata.remove(map);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instance::layout;

    fn read(name: &str) -> String {
        std::fs::read_to_string(layout::workspace().join("deploy/chart").join(name)).unwrap()
    }

    /// In the schema, each value has a description, and each object rejects unknown values.
    fn described(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        for (name, value) in schema["properties"].as_object().unwrap() {
            let path = format!("{path}/{name}");
            assert!(!text(value, "/description").is_empty(), "{path}");
            if value.get("properties").is_some() {
                assert_eq!(value["additionalProperties"], json!(false), "{path}");
                described(value, &path, found);
            } else {
                found.insert(path);
            }
        }
    }

    /// Collects the paths of all values; does not descend below a path that the schema describes.
    fn written(values: &Value, path: &str, known: &BTreeSet<String>, found: &mut BTreeSet<String>) {
        match values.as_object() {
            Some(map) if !known.contains(path) => {
                map.iter().for_each(|(name, value)| written(value, &format!("{path}/{name}"), known, found));
            }
            _ => drop(found.insert(path.to_owned())),
        }
    }

    #[test]
    fn every_value_is_described_and_has_a_default() {
        let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
        assert_eq!(schema["additionalProperties"], json!(false));
        let mut described_values = BTreeSet::new();
        described(&schema, "", &mut described_values);
        let values: Value = serde_yaml_ng::from_str(&read("values.yaml")).unwrap();
        let mut defaults = BTreeSet::new();
        written(&values, "", &described_values, &mut defaults);
        assert!(described_values.remove("/global"), "a chart above may set it");
        assert_eq!(described_values, defaults);
    }

    #[test]
    fn chart_and_programs_have_one_version() {
        let chart: Value = serde_yaml_ng::from_str(&read("Chart.yaml")).unwrap();
        assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    }
}
