use super::contains;
use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use serde_json::{Value, json};
use std::time::Duration;

const NAME: &str = "moving";
const EMIGRATIONS: &str = "nsemigrations.business.tkestack.io";
const LOOK: Duration = Duration::from_mins(3);

/// A namespace is transferred to another project by the subresource and back by an `NsEmigration`, while the garbage and
/// namespace controllers of the host cluster run. The cluster keeps the same namespace, quota and content.
pub(super) fn moving(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let member = instance.member(cluster);
    let hard: Hard<'_> = &[("cpu", "4"), ("memory", "4Gi")];
    let two: Hard<'_> = &[("cpu", "2"), ("memory", "2Gi")];
    let one: Hard<'_> = &[("cpu", "1"), ("memory", "4Gi")];
    let object = format!("{cluster}-{NAME}");
    for (name, hard) in [("moving-from", hard), ("moving-to", hard), ("moving-small", one)] {
        apply(k, &project(name, None, &[(cluster, hard)]))?;
        until_active(k, name)?;
    }
    // The namespace controller deletes what is in a core namespace with the name of the project.
    k.run(&["create", "namespace", "moving-from"])?;
    apply(k, &namespace("moving-from", cluster, NAME, two))?;
    until_available(k, "moving-from", &object)?;
    member.run(&["create", "configmap", "content", "-n", NAME, "--from-literal=a=b"])?;
    let before = uids(&member)?;
    let uid = uid_of(k, "moving-from", &object)?;

    let path = format!("/apis/business.tkestack.io/v1/namespaces/moving-from/namespaces/{object}/transfer");
    let full = k.refused(
        &["create", "--raw", &path, "-f", "-"],
        Some(&json!({"project": "moving-small"}).to_string()),
    )?;
    contains(&full, &["moving-small", "cpu"])?;
    let body = json!({"project": "moving-to", "reason": "acceptance"}).to_string();
    let moved: Value = serde_json::from_str(&k.feed(&["create", "--raw", &path, "-f", "-"], &body)?)?;
    ensure!(moved.pointer("/metadata/namespace") == Some(&json!("moving-to")), "not the moved one: {moved}");
    k.run(&["delete", "namespace", "moving-from", "--timeout=120s"])?;
    until_marked(instance, cluster, "moving-to", &object)?;
    ensure!(uid_of(k, "moving-to", &object)? == uid, "it is another object");
    ensure!(uids(&member)? == before, "the cluster's namespace is another one");
    contains(&k.refused(&["get", "bns", &object, "-n", "moving-from"], None)?, &["NotFound"])?;
    let used = format!("/status/clusters/{cluster}/used/cpu");
    job::until_field(k, &["project", "moving-to"], &used, &json!("2"))?;
    super::books(instance)?;

    emigrate_back(instance, &object)?;
    until_marked(instance, cluster, "moving-from", &object)?;
    ensure!(uid_of(k, "moving-from", &object)? == uid, "it is another object");
    ensure!(uids(&member)? == before, "the cluster's namespace is another one");
    super::books(instance)?;
    for name in ["moving-from", "moving-to", "moving-small"] {
        k.run(&["delete", "project", name, "--wait=false"])?;
        until_gone(k, &["project", name])?;
    }
    Ok(())
}

/// Moves the namespace back by an emigration, and follows its phases as the console does.
fn emigrate_back(instance: &Instance, object: &str) -> Result<()> {
    let k = &instance.kubectl;
    let emigration = |to: &str| {
        json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "NsEmigration", "metadata": {"namespace": "moving-to", "name": object},
            "spec": {"tenantID": "default", "namespace": object, "nsShowName": NAME, "destination": to},
        })
        .to_string()
    };
    let refused = k.refused(&["create", "-f", "-"], Some(&emigration("moving-small")))?;
    contains(&refused, &["should NOT be more than remaining quantity(1)"])?;
    k.feed(&["create", "-f", "-"], &emigration("moving-from"))?;
    // Either the first emigration still exists, or it has already moved the namespace.
    let again = k.refused(&["create", "-f", "-"], Some(&emigration("moving-from")))?;
    let expected =
        ["already exists", "failed to get this business namespace", "already has a namespace with the name"];
    ensure!(
        expected.iter().any(|why| again.contains(why)),
        "a second emigration is refused otherwise: {again}"
    );
    let mut phases: Vec<String> = Vec::new();
    wait::until("the emigration has come and gone", LOOK, || {
        let get = ["get", "--ignore-not-found", EMIGRATIONS, object, "-n", "moving-to"];
        let Some(now) = k.json_or_nothing(&get)? else { return Ok(Progress::Done(())) };
        let phase = now.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned();
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
        Ok(Progress::Pending(now.to_string()))
    })?;
    let all = ["Pending", "OldOneLocked", "OldOneDetached", "NewOneCreated", "OldOneTerminating", "Finished"];
    let mut rest = all.iter();
    ensure!(phases.iter().all(|phase| rest.any(|known| known == phase)), "phases out of order: {phases:?}");
    ensure!(phases.last().is_some_and(|last| last == "Finished"), "it did not finish: {phases:?}");
    Ok(())
}

/// Waits until the cluster's namespace and quota have the project's label, and the object has the condition Transferred.
fn until_marked(instance: &Instance, cluster: &str, project: &str, object: &str) -> Result<()> {
    let member = instance.member(cluster);
    let label = "/metadata/labels/tkestack.io~1projectName";
    job::until_field(&member, &["namespace", NAME], label, &json!(project))?;
    job::until_field(&member, &["resourcequota", NAME, "-n", NAME], label, &json!(project))?;
    job::until(&instance.kubectl, &["bns", object, "-n", project], |object| {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| {
            condition.get("type") == Some(&json!("Transferred"))
                && condition.get("status") == Some(&json!("True"))
        })
    })
}

fn uid_of(k: &Kubectl, project: &str, object: &str) -> Result<Value> {
    let object = k.json(&["get", "bns", object, "-n", project])?;
    object.pointer("/metadata/uid").cloned().context("no uid")
}

/// The uids of the cluster's namespace, its quota and the ConfigMap in it.
fn uids(member: &Kubectl) -> Result<Vec<Value>> {
    let of = |args: &[&str]| -> Result<Value> {
        let args: Vec<&str> = ["get"].into_iter().chain(args.iter().copied()).collect();
        member.json(&args)?.pointer("/metadata/uid").cloned().context("no uid")
    };
    [&["namespace", NAME][..], &["resourcequota", NAME, "-n", NAME], &["configmap", "content", "-n", NAME]]
        .into_iter()
        .map(of)
        .collect()
}
