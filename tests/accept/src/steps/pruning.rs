use super::contains;
use anyhow::{Context, Result, ensure};
use instance::job::{Hard, namespace, project, until_gone};
use instance::kubectl::Kubectl;
use instance::{HOST_CLUSTER, Instance, process};
use serde_json::{Value, json};
use std::time::Duration;

const HARD: Hard<'_> = &[("cpu", "4")];
const SMALL: Hard<'_> = &[("cpu", "1")];
const APPLIED: Duration = Duration::from_mins(2);
const OURS: [&str; 2] = [
    "--prune-allowlist=business.tkestack.io/v1/Project",
    "--prune-allowlist=business.tkestack.io/v1/Namespace",
];

/// `kubectl apply --prune` by selector, for all of a project, and by an `ApplySet`.
pub(super) fn pruning(instance: &Instance) -> Result<()> {
    for kubectl in [&instance.kubectl, &instance.tenant()] {
        by_selector(kubectl).context("by selector")?;
        all(kubectl).context("all of a project")?;
    }
    by_set(&instance.kubectl).context("by ApplySet")
}

fn labelled(objects: &[Value], label: &str) -> String {
    let mut items = objects.to_vec();
    for metadata in items.iter_mut().filter_map(|o| o.get_mut("metadata").and_then(Value::as_object_mut)) {
        metadata.insert("labels".to_owned(), json!({"pruned": label}));
    }
    documents(&items)
}

/// A file of several documents. `v1 List` is for kube-apiserver only: kubectl knows it by discovery of the core group.
fn documents(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    documents.join("\n---\n")
}

fn object(number: u8) -> Value {
    namespace("prune", HOST_CLUSTER, &format!("prune-{number}"), SMALL)
}

fn name(number: u8) -> String {
    format!("{HOST_CLUSTER}-prune-{number}")
}

/// Objects with the label that the files no longer have are deleted; those without it stay.
fn by_selector(k: &Kubectl) -> Result<()> {
    let owner = project("prune", None, &[(HOST_CLUSTER, HARD)]);
    let other = project("prune-other", None, &[(HOST_CLUSTER, HARD)]);
    k.feed(&["apply", "-f", "-"], &labelled(&[owner.clone(), other], "yes"))?;
    k.feed(&["apply", "-f", "-"], &labelled(&[object(1), object(2)], "yes"))?;
    k.feed(&["apply", "-f", "-"], &labelled(&[object(3)], "no"))?;
    let args: Vec<&str> =
        ["apply", "--prune", "-l", "pruned=yes", "-f", "-"].into_iter().chain(OURS).collect();
    let said = k.feed(&args, &labelled(&[owner, object(1)], "yes"))?;
    contains(
        &said,
        &[
            &format!("namespace.business.tkestack.io/{} pruned", name(2)),
            "project.business.tkestack.io/prune-other pruned",
            "project.business.tkestack.io/prune unchanged",
        ],
    )?;
    ensure!(!said.contains(&name(3)), "what the selector does not choose was touched: {said}");
    until_gone(k, &["bns", &name(2), "-n", "prune"])?;
    until_gone(k, &["project", "prune-other"])
}

/// Applied objects that the files no longer have are deleted.
fn all(k: &Kubectl) -> Result<()> {
    let args = ["apply", "--prune", "--all", OURS[1], "-n", "prune", "-f", "-"];
    let said = k.feed(&args, &labelled(&[object(1)], "yes"))?;
    contains(&said, &[&format!("namespace.business.tkestack.io/{} pruned", name(3))])?;
    until_gone(k, &["bns", &name(3), "-n", "prune"])?;
    k.run(&["get", "bns", &name(1), "-n", "prune"])?;
    k.run(&["delete", "project", "prune", "--timeout=120s"]).map(drop)
}

/// An `ApplySet` knows its members by a label and their kinds by an annotation of its parent, which lies in a core
/// namespace called like the project.
fn by_set(k: &Kubectl) -> Result<()> {
    k.run(&["create", "namespace", "prune"])?;
    let owner = project("prune", None, &[(HOST_CLUSTER, HARD)]);
    let said = apply_set(k, &[owner.clone(), object(1), object(2)])?;
    contains(&said, &["project.business.tkestack.io/prune serverside-applied"])?;
    let member = k.json(&["get", "bns", &name(1), "-n", "prune"])?;
    ensure!(
        member.pointer("/metadata/labels/applyset.kubernetes.io~1part-of").is_some(),
        "a member does not know its set: {member}"
    );
    let said = apply_set(k, &[owner, object(1)])?;
    contains(&said, &[&format!("namespace.business.tkestack.io/{} pruned", name(2))])?;
    until_gone(k, &["bns", &name(2), "-n", "prune"])?;
    let said = apply_set(k, &[project("prune-next", None, &[(HOST_CLUSTER, HARD)])])?;
    contains(&said, &["project.business.tkestack.io/prune pruned"])?;
    until_gone(k, &["project", "prune"])?;
    k.run(&["delete", "project", "prune-next", "--timeout=120s"])?;
    k.run(&["delete", "namespace", "prune", "--timeout=120s"]).map(drop)
}

fn apply_set(k: &Kubectl, objects: &[Value]) -> Result<String> {
    let set = "--applyset=configmaps/prune-set";
    let mut command = k.command(&["apply", "--server-side", "-n", "prune", "--prune", set, "-f", "-"]);
    command.env("KUBECTL_APPLYSET", "true");
    let output = process::output_within(&mut command, Some(&documents(objects)), APPLIED)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
