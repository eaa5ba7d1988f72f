//! The upgrade of docs/install.md, from a chart that had fewer values.

use super::helm::{Helm, RELEASE, chart};
use super::matrix::namespace;
use anyhow::{Context as _, Result, ensure};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::manifests::NAMESPACE;
use serde_json::Value;
use std::path::Path;

/// The value that the older chart lacks.
const NEWER: &str = "tunnel";
const CHOSEN: &str = "image.registry=registry.example.org,certificates.provider=job";

pub(super) fn check(kubectl: &Kubectl, helm: &Helm, dir: &Path) -> Result<()> {
    write_older_chart(dir)?;
    kubectl.apply(&namespace(NAMESPACE).to_string())?;
    helm.run(&["install", RELEASE, &dir.to_string_lossy(), "--set", CHOSEN])?;
    let chart = chart();
    let upgrade = |values: &'static str| ["upgrade", RELEASE, &chart, "--dry-run=server", values];
    // The reason why the documentation does not recommend --reuse-values.
    let refusal = helm.refused(&upgrade("--reuse-values"))?;
    ensure!(refusal.contains(NEWER), "{refusal}");
    let rendered = helm.run(&upgrade("--reset-then-reuse-values"))?;
    ensure!(
        rendered.contains("image: registry.example.org/business-api:"),
        "what was chosen is lost: {rendered}"
    );
    // Each upgrade has its own Job, because a recreated APIService has no caBundle.
    let job = rendered
        .lines()
        .filter_map(|line| line.trim().strip_prefix("name: "))
        .any(|name| name.starts_with("business-certificate-") && name.ends_with("-2"));
    ensure!(job, "the certificate's job has not the revision's name: {rendered}");
    helm.run(&["uninstall", RELEASE])?;
    kubectl.run(&["delete", "namespace", NAMESPACE, "--timeout=240s"]).map(drop)
}

/// Writes a chart that has no templates and all values of this one but [`NEWER`].
fn write_older_chart(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let here = layout::workspace().join("deploy/chart");
    std::fs::copy(here.join("Chart.yaml"), dir.join("Chart.yaml"))?;
    let values = std::fs::read_to_string(here.join("values.yaml"))?;
    let mut values: Value = serde_yaml_ng::from_str(&values)?;
    values.as_object_mut().and_then(|all| all.remove(NEWER)).with_context(|| format!("no {NEWER}"))?;
    std::fs::write(dir.join("values.yaml"), serde_yaml_ng::to_string(&values)?).map_err(Into::into)
}
