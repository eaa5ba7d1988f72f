use super::{audit, audit_with, contains};
use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::job::{
    self, Hard, apply, namespace, project, until_active, until_available, until_field, until_gone,
};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use serde_json::{Value, json};
use std::time::Duration;

const PROJECT: &[&str] = &["project", "orphan"];
const LOST: &str = "orphan-lost";
const FORGED: &str = "orphan-forged";
const SOON: Duration = Duration::from_mins(2);

/// A namespace that was granted and whose object is lost, as an older database's restore leaves it: found by its seal, told,
/// charged, named in refusals and audits; nobody keeps a role in it; and its part of the budget is free again when it is gone. One that somebody has
/// only marked as ours is told, and charges nobody.
pub(super) fn orphan(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let member = instance.break_glass(cluster);
    let all: Hard<'_> = &[("cpu", "10"), ("memory", "16Gi")];
    let lost: Hard<'_> = &[("cpu", "8"), ("memory", "8Gi")];
    let rest: Hard<'_> = &[("cpu", "2"), ("memory", "8Gi")];
    let more: Hard<'_> = &[("cpu", "3"), ("memory", "8Gi")];
    apply(k, &project("orphan", None, &[(cluster, all)]))?;
    until_active(k, "orphan")?;
    forged(instance, cluster)?;
    apply(k, &namespace("orphan", cluster, LOST, lost))?;
    until_available(k, "orphan", &format!("{cluster}-{LOST}"))?;
    let binding = ["rolebinding", "business:admin", "-n", LOST];
    until_field(&member, &binding, "/roleRef/name", &json!("business:admin"))?;
    lose(instance, &format!("{cluster}-{LOST}"))?;

    until_field(k, PROJECT, "/status/orphans/0/namespace", &json!(LOST))?;
    until_field(k, PROJECT, "/status/ledger/held/0/hard", &json!({"cpu": "8", "memory": "8Gi"}))?;
    until_gone(&member, &binding)?;
    until_consistent(k, "False", "Orphaned")?;
    let wanted = namespace("orphan", cluster, "orphan-more", more);
    until_refused(k, &wanted, &["remaining 2", "8 is held", LOST, "the largest that fits is 2"])?;
    until_refused(k, &namespace("orphan", cluster, LOST, rest), &["is held", LOST])?;
    let told = audit(instance)?;
    contains(
        &String::from_utf8_lossy(&told.stdout),
        &["orphaned in project orphan", LOST, cluster, "cpu=8"],
    )?;
    apply(k, &project("orphan-rest", Some("orphan"), &[(cluster, rest)]))?;

    member.run(&["delete", "namespace", LOST, "--wait=false"])?;
    job::until(k, PROJECT, |project| {
        ["/status/orphans", "/status/ledger"].iter().all(|field| project.pointer(field).is_none())
    })?;
    until_consistent(k, "True", "Consistent")?;
    let freed: Hard<'_> = &[("cpu", "8"), ("memory", "8Gi")];
    let place = namespace("orphan", cluster, LOST, freed).to_string();
    k.feed(&["create", "--dry-run=server", "-f", "-"], &place)?;
    apply(k, &project("orphan-freed", Some("orphan"), &[(cluster, freed)]))?;
    super::books(instance)?;
    k.run(&["delete", "project", "orphan", "--wait=false"])?;
    until_gone(k, PROJECT)
}

/// Anybody can write our marks where no policy keeps him from it.
fn forged(instance: &Instance, cluster: &str) -> Result<()> {
    let marked = marked().to_string();
    let refusal = instance.member(cluster).refused(&["create", "-f", "-"], Some(&marked))?;
    contains(&refusal, &["kept by business.tkestack.io"])?;
    let member = instance.break_glass(cluster);
    member.feed(&["create", "-f", "-"], &marked)?;
    job::until(&instance.kubectl, &["membercluster", cluster], |object| {
        let strangers = object.pointer("/status/comparison/strangers");
        strangers.is_some_and(|strangers| strangers.to_string().contains(FORGED))
    })?;
    let project = instance.kubectl.json(&["get", "project", "orphan"])?;
    ensure!(project.pointer("/status/orphans").is_none(), "it is charged to the project: {project}");
    member.run(&["delete", "namespace", FORGED, "--wait=false"]).map(drop)
}

/// The object goes, and what was held for it; its namespace stays as it was.
fn lose(instance: &Instance, name: &str) -> Result<()> {
    let k = &instance.kubectl;
    instance.supervisor.pause("business-controller")?;
    let gone = || -> Result<()> {
        k.run(&["delete", "bns", name, "-n", "orphan", "--wait=false"])?;
        k.run(&["annotate", "bns", name, "-n", "orphan", "business.tkestack.io/abandon=lost"])?;
        let mut object = k.json(&["get", "bns", name, "-n", "orphan"])?;
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).context("no uid")?.to_owned();
        if let Some(tokens) = object.pointer_mut("/spec/finalizers") {
            *tokens = json!([]);
        }
        let path = format!("/apis/business.tkestack.io/v1/namespaces/orphan/namespaces/{name}/finalize");
        k.feed(&["replace", "--raw", &path, "-f", "-"], &object.to_string())?;
        let written_off = audit_with(instance, &["--write-off", &uid])?;
        ensure!(written_off.status.success(), "{}", String::from_utf8_lossy(&written_off.stderr));
        Ok(())
    };
    let outcome = gone();
    instance.supervisor.resume("business-controller")?;
    outcome
}

/// As the controller makes a namespace and its quota, without its seal.
fn marked() -> Value {
    let labels = json!({"tkestack.io/projectName": "orphan", "tkestack.io/namespaceName": "was-here"});
    let marks = json!({"business.tkestack.io/uid": "6f2f2d68-52f0-4a47-9a2e-0d3f8e0a4f11"});
    let metadata = json!({"name": FORGED, "labels": labels, "annotations": marks});
    let mut inside = metadata.clone();
    if let Some(inside) = inside.as_object_mut() {
        inside.insert("namespace".to_owned(), json!(FORGED));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": inside,
         "spec": {"hard": {"cpu": "8000", "memory": "8Ti"}}},
    ]})
}

fn until_consistent(k: &Kubectl, status: &str, reason: &str) -> Result<()> {
    job::until(k, PROJECT, |project| {
        let conditions = project.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| {
            let is = |field: &str, value: &str| condition.get(field) == Some(&json!(value));
            is("type", "QuotaConsistent") && is("status", status) && is("reason", reason)
        })
    })
}

/// What a replica says of holds is a moment behind what it decides by.
fn until_refused(k: &Kubectl, object: &Value, words: &[&str]) -> Result<()> {
    wait::until("the refusal explains the hold", SOON, || {
        let refusal = k.refused(&["create", "-f", "-"], Some(&object.to_string()))?;
        Ok(match contains(&refusal, words) {
            Ok(()) => Progress::Done(()),
            Err(missing) => Progress::Pending(missing.to_string()),
        })
    })
}
