use anyhow::{Context, Result, ensure};
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};

const HARD: Hard<'_> = &[("cpu", "4")];

/// kube-controller-manager's garbage collector works on our kinds; its namespace controller leaves them alone.
pub(super) fn collector(instance: &Instance) -> Result<()> {
    for cascade in ["background", "foreground", "orphan"] {
        owner(instance, cascade).with_context(|| format!("with --cascade={cascade}"))?;
    }
    namesake(instance)
}

/// A Project that owns another one is deleted.
fn owner(instance: &Instance, cascade: &str) -> Result<()> {
    let k = &instance.kubectl;
    apply(k, &project("gc-owner", None, &[(HOST_CLUSTER, HARD)]))?;
    let uid = until_active(k, "gc-owner")?.pointer("/metadata/uid").cloned().context("no uid")?;
    let mut owned = project("gc-owned", None, &[(HOST_CLUSTER, HARD)]);
    let reference = json!([{
        "apiVersion": "business.tkestack.io/v1", "kind": "Project", "name": "gc-owner", "uid": uid,
        "blockOwnerDeletion": true,
    }]);
    if let Some(metadata) = owned.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("ownerReferences".to_owned(), reference);
    }
    apply(k, &owned)?;
    until_active(k, "gc-owned")?;
    k.run(&["delete", "project", "gc-owner", &format!("--cascade={cascade}"), "--wait=false"])?;
    until_gone(k, &["project", "gc-owner"])?;
    if cascade == "orphan" {
        job::until(k, &["project", "gc-owned"], |object| {
            let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            references.is_none_or(Vec::is_empty) && object.pointer("/metadata/deletionTimestamp").is_none()
        })?;
        k.run(&["delete", "project", "gc-owned", "--wait=false"])?;
    }
    until_gone(k, &["project", "gc-owned"])
}

/// A core namespace that happens to be called like a project goes away.
fn namesake(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let small: Hard<'_> = &[("cpu", "1")];
    apply(k, &project("namesake", None, &[(HOST_CLUSTER, HARD)]))?;
    apply(k, &namespace("namesake", HOST_CLUSTER, "kept", small))?;
    let name = format!("{HOST_CLUSTER}-kept");
    let uid = until_available(k, "namesake", &name)?.pointer("/metadata/uid").cloned();
    k.run(&["create", "namespace", "namesake"])?;
    k.run(&["delete", "namespace", "namesake", "--timeout=120s"])?;
    let after = k.json(&["get", "bns", &name, "-n", "namesake"])?;
    let unharmed = after.pointer("/metadata/uid").cloned() == uid
        && after.pointer("/metadata/deletionTimestamp").is_none();
    ensure!(unharmed, "the namespace controller touched our object: {after}");
    k.run(&["delete", "project", "namesake", "--wait=false"])?;
    until_gone(k, &["project", "namesake"])
}
