//! Checks the manifests of a release before it is tagged.

use super::matrix;
use crate::install::references;
use crate::json::{found, text};
use anyhow::{Context as _, Result, ensure};
use instance::kubectl::Kubectl;
use instance::{layout, manifests};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const REGISTRY: &str = "registry.example.org/business";
/// The API group of objects that kube-apiserver does not accept before the platform runs.
const OURS: &str = "business.tkestack.io/";
/// Files that refer to objects of another file.
const BESIDE: [(&str, &str); 2] =
    [("monitoring.yaml", "install.yaml"), ("member-capacity.yaml", "member.yaml")];

/// kube-apiserver accepts each file unchanged, and each image is named by its digest.
pub(super) fn check(kubectl: &Kubectl, dir: &Path, foreign: bool) -> Result<()> {
    let made = Command::new(layout::program_path("dist")?)
        .args(["manifests", "--registry", REGISTRY, "--kubectl"])
        .arg(layout::bin().join("kubectl"))
        .arg("--into")
        .arg(dir)
        .status()?;
    ensure!(made.success(), "dist manifests failed");
    let (mut namespaces, mut images) = (BTreeSet::new(), 0);
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let mut objects = manifests::read(&path)?;
        let mut there = objects.clone();
        for (_, other) in BESIDE.iter().filter(|(beside, _)| *beside == name) {
            there.extend(manifests::read(&dir.join(other))?);
        }
        references::check(&there, &[]).with_context(|| name.clone())?;
        images += pinned(&objects).with_context(|| name.clone())?;
        objects.retain(|object| !text(object, "/apiVersion").starts_with(OURS));
        if objects.is_empty() {
            continue;
        }
        let wanted = matrix::accepted(kubectl, objects, foreign).with_context(|| name.clone())?;
        namespaces.extend(wanted);
    }
    for (file, _) in BESIDE {
        ensure!(dir.join(file).exists(), "a release has no {file}");
    }
    ensure!(images == 2, "{images} images of ours, not those of both programs");
    for name in namespaces {
        kubectl.run(&["delete", "namespace", &name])?;
    }
    Ok(())
}

/// Counts the images; each must be of the registry and named by its digest.
fn pinned(objects: &[Value]) -> Result<usize> {
    let deployments = objects.iter().filter(|object| text(object, "/kind") == "Deployment");
    let mut images = Vec::new();
    deployments.for_each(|object| found(object, "image", &mut images));
    for image in &images {
        let name = image.as_str().unwrap_or_default();
        ensure!(name.starts_with(REGISTRY) && name.contains("@sha256:"), "{name} is an image of no release");
    }
    Ok(images.len())
}
