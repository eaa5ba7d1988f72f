use super::contains;
use anyhow::{Context, Result, ensure};
use instance::job::{self, Hard, apply, project, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::time::Duration;

const HARD: Hard<'_> = &[("cpu", "4")];
const SOON: Duration = Duration::from_mins(2);

/// Server-side apply as kubectl shows it, through kube-apiserver and directly.
pub(super) fn applying(instance: &Instance) -> Result<()> {
    for kubectl in [&instance.kubectl, &instance.tenant()] {
        conflicts(kubectl).context("conflicts")?;
        migration(kubectl).context("from client-side to server-side and back")?;
        last_applied(kubectl).context("last-applied")?;
    }
    Ok(())
}

/// A Project with a display name and labels.
fn labelled(name: &str, shown: &str, labels: &Value) -> Value {
    let mut object = project(name, None, &[(HOST_CLUSTER, HARD)]);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("displayName".to_owned(), json!(shown));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), labels.clone());
    }
    object
}

fn server_side(k: &Kubectl, object: &Value, more: &[&str]) -> Result<String> {
    k.feed(&server_side_args(more), &object.to_string())
}

fn server_side_args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["apply", "--server-side", "-f", "-"].into_iter().chain(more.iter().copied()).collect()
}

/// Who owns what, who is refused, and what he is told.
fn conflicts(k: &Kubectl) -> Result<()> {
    let object = labelled("ssa", "mine", &json!({"team": "a"}));
    contains(&server_side(k, &object, &[])?, &["project.business.tkestack.io/ssa serverside-applied"])?;
    let other = labelled("ssa", "theirs", &json!({"team": "b"}));
    let refusal = k.refused(&server_side_args(&["--field-manager=other"]), Some(&other.to_string()))?;
    contains(
        &refusal,
        &[
            "Apply failed with 2 conflicts: conflicts with \"kubectl\":\n- .metadata.labels.team\n- .spec.displayName",
            "Please review the fields above--they currently have other managers.",
            "--force-conflicts",
        ],
    )?;
    k.run(&["label", "project", "ssa", "team=c", "--overwrite", "--field-manager=labeller"])?;
    let refusal = k.refused(&server_side_args(&["--field-manager=other"]), Some(&other.to_string()))?;
    contains(
        &refusal,
        &[
            "Apply failed with 2 conflicts:",
            "conflicts with \"kubectl\":\n- .spec.displayName",
            "conflicts with \"labeller\" using business.tkestack.io/v1:\n- .metadata.labels.team",
        ],
    )?;
    differs(k, &other, &["--field-manager=other", "--force-conflicts"])?;
    server_side(k, &other, &["--field-manager=other", "--force-conflicts"])?;
    job::until_field(k, &["project", "ssa"], "/spec/displayName", &json!("theirs"))?;
    // The controller may write the status between the two reads of a diff.
    wait::until("a diff of what was just applied is empty", SOON, || {
        let (code, text) = diff(k, &other, &["--field-manager=other"])?;
        Ok(if code == 0 && text.is_empty() { Progress::Done(()) } else { Progress::Pending(text) })
    })?;
    let shown = k.run(&["get", "project", "ssa", "-o", "yaml", "--show-managed-fields"])?;
    contains(&shown, &["managedFields:", "manager: other", "operation: Apply", "f:displayName: {}"])?;
    ensure!(
        !k.run(&["get", "project", "ssa", "-o", "yaml"])?.contains("managedFields"),
        "managedFields are shown"
    );
    let unknown = json!({"apiVersion": "business.tkestack.io/v1", "kind": "Project",
        "metadata": {"name": "ssa"}, "spec": {"colour": "red"}});
    let refusal = k.refused(&server_side_args(&["--validate=false"]), Some(&unknown.to_string()))?;
    contains(&refusal, &["field not declared in schema"])?;
    k.run(&["delete", "project", "ssa", "--timeout=120s"]).map(drop)
}

/// Exit code and text of `kubectl diff --server-side`.
fn diff(k: &Kubectl, object: &Value, more: &[&str]) -> Result<(i32, String)> {
    let args: Vec<&str> =
        ["diff", "--server-side", "-f", "-"].into_iter().chain(more.iter().copied()).collect();
    let output = k.output(&args, Some(&object.to_string()))?;
    let code = output.status.code().context("diff was killed")?;
    ensure!(code < 2, "diff: {}", String::from_utf8_lossy(&output.stderr));
    Ok((code, String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn differs(k: &Kubectl, object: &Value, more: &[&str]) -> Result<()> {
    let (code, text) = diff(k, object, more)?;
    ensure!(code == 1, "diff found nothing");
    contains(&text, &["-  displayName: mine", "+  displayName: theirs"])?;
    let new = labelled("ssa-new", "new", &json!({}));
    contains(&diff(k, &new, &[])?.1, &["+  displayName: new"])?;
    contains(&k.refused(&["get", "project", "ssa-new"], None)?, &["NotFound"])
}

fn managers(k: &Kubectl, name: &str) -> Result<Vec<String>> {
    let object = k.json(&["get", "project", name, "--show-managed-fields"])?;
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned();
    let text = |entry: &Value, key| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(entries
        .unwrap_or_default()
        .iter()
        .filter(|entry| entry.get("subresource").is_none())
        .map(|entry| format!("{} {}", text(entry, "manager"), text(entry, "operation")))
        .collect())
}

/// kubectl's own hand-over: nothing that was applied is forgotten, in neither direction.
fn migration(k: &Kubectl) -> Result<()> {
    let labels = |object: &Value| object.pointer("/metadata/labels").cloned().unwrap_or(json!({}));
    apply(k, &labelled("moves", "one", &json!({"a": "1", "b": "1", "c": "1"})))?;
    let before = managers(k, "moves")?;
    ensure!(before.contains(&"kubectl-client-side-apply Update".to_owned()), "managers: {before:?}");
    // No conflict, although the value changes: what client-side apply owned is kubectl's own.
    server_side(k, &labelled("moves", "two", &json!({"b": "1", "c": "1"})), &[])?;
    let moved = k.json(&["get", "project", "moves"])?;
    ensure!(labels(&moved) == json!({"b": "1", "c": "1"}), "labels after the move: {}", labels(&moved));
    let after = managers(k, "moves")?;
    let old = after.contains(&"kubectl-client-side-apply Update".to_owned());
    ensure!(after.contains(&"kubectl Apply".to_owned()) && !old, "managers after the move: {after:?}");
    // Back: last-applied was kept up to date by the server, so `b` is known to be ours and goes.
    contains(&k.run(&["apply", "view-last-applied", "project/moves"])?, &["displayName: two", "b: \"1\""])?;
    apply(k, &labelled("moves", "three", &json!({"c": "1"})))?;
    let back = k.json(&["get", "project", "moves"])?;
    ensure!(labels(&back) == json!({"c": "1"}), "labels after the way back: {}", labels(&back));
    // And forward again: the fields that client-side apply has taken are taken over once more.
    server_side(k, &labelled("moves", "four", &json!({})), &[])?;
    let again = k.json(&["get", "project", "moves"])?;
    ensure!(labels(&again) == json!({}), "labels at the end: {}", labels(&again));
    k.run(&["delete", "project", "moves", "--timeout=120s"]).map(drop)
}

/// `apply view-last-applied`, `set-last-applied`, `edit-last-applied`.
fn last_applied(k: &Kubectl) -> Result<()> {
    let object = labelled("last", "one", &json!({"a": "1"}));
    k.feed(&["create", "-f", "-"], &object.to_string())?;
    let view = ["apply", "view-last-applied", "project/last", "-o", "json"];
    let nothing = k.run(&view)?;
    ensure!(nothing.trim().is_empty(), "nothing was applied, and this is shown: {nothing}");
    let set = ["apply", "set-last-applied", "--create-annotation", "-f", "-"];
    contains(&k.feed(&set, &object.to_string())?, &["configured"])?;
    contains(&k.run(&view)?, &["\"displayName\": \"one\""])?;
    apply(k, &object)?;
    contains(&apply(k, &object)?, &["unchanged"])?;
    k.run(&["delete", "project", "last", "--wait=false"])?;
    until_gone(k, &["project", "last"])
}
