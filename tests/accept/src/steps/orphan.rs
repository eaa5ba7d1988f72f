use super::{audit, contains};
use anyhow::{Context, Result};
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_active, until_field, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Seen};
use serde_json::{Value, json};
use std::time::Duration;

const PROJECT: &[&str] = &["project", "orphan"];
const LOST: &str = "orphan-lost";
const SOON: Duration = Duration::from_secs(30);

/// A namespace with our marks whose object does not exist, as an older database's restore leaves it: found, told,
/// charged, named in refusals and audits; and its part of the budget is free again when it is gone.
pub(super) fn orphan(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let member = instance.member(cluster);
    let all: Hard<'_> = &[("cpu", "10"), ("memory", "16Gi")];
    let rest: Hard<'_> = &[("cpu", "2"), ("memory", "8Gi")];
    let more: Hard<'_> = &[("cpu", "3"), ("memory", "8Gi")];
    apply(k, &project("orphan", None, &[(cluster, all)]))?;
    until_active(k, "orphan")?;
    member.feed(&["create", "-f", "-"], &marked().to_string())?;

    until_field(k, PROJECT, "/status/orphans/0/namespace", &json!(LOST))?;
    until_field(k, PROJECT, "/status/ledger/held/0/hard", &json!({"cpu": "8", "memory": "8Gi"}))?;
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

/// As the controller makes a namespace and its quota, for an object that does not exist.
fn marked() -> Value {
    let labels = json!({"tkestack.io/projectName": "orphan", "tkestack.io/namespaceName": "was-here"});
    let marks = json!({"business.tkestack.io/uid": "6f2f2d68-52f0-4a47-9a2e-0d3f8e0a4f11"});
    let metadata = json!({"name": LOST, "labels": labels, "annotations": marks});
    let mut inside = metadata.clone();
    if let Some(inside) = inside.as_object_mut() {
        inside.insert("namespace".to_owned(), json!(LOST));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": inside,
         "spec": {"hard": {"cpu": "8", "memory": "8Gi"}}},
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
            Ok(()) => Seen::Yes(()),
            Err(missing) => Seen::NotYet(missing.to_string()),
        })
    })
}
