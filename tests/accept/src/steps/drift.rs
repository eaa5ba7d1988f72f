use super::contains;
use anyhow::Result;
use instance::job::{self, Hard, apply, namespace, project, until_available, until_field, until_gone};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};

/// Quota edited, quota deleted, label removed, namespace deleted: refused to the cluster's administrator, and repaired when
/// somebody does it in an emergency.
pub(super) fn drift(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let member = instance.break_glass(HOST_CLUSTER);
    let hard: Hard<'_> = &[("cpu", "4"), ("memory", "4Gi")];
    let two: Hard<'_> = &[("cpu", "2"), ("memory", "2Gi")];
    apply(k, &project("drift", None, &[(HOST_CLUSTER, hard)]))?;
    apply(k, &namespace("drift", HOST_CLUSTER, "drift", two))?;
    until_available(k, "drift", &format!("{HOST_CLUSTER}-drift"))?;
    let quota = ["resourcequota", "drift", "-n", "drift"];
    let more = r#"{"spec":{"hard":{"cpu":"50"}}}"#;
    let raise = ["patch", "resourcequota", "drift", "-n", "drift", "--type=merge", "-p", more];
    let remove = ["delete", "resourcequota", "drift", "-n", "drift"];
    let unlabel = ["label", "namespace", "drift", "tkestack.io/projectName-"];
    let delete = ["delete", "namespace", "drift", "--wait=false"];
    for attempt in [&raise[..], &remove, &unlabel, &delete] {
        let refusal = instance.member(HOST_CLUSTER).refused(attempt, None)?;
        contains(&refusal, &["kept by business.tkestack.io"])?;
    }
    member.run(&raise)?;
    until_field(&member, &quota, "/spec/hard/cpu", &json!("2"))?;
    member.run(&remove)?;
    until_field(&member, &quota, "/status/hard/cpu", &json!("2"))?;
    member.run(&unlabel)?;
    let label = "/metadata/labels/tkestack.io~1projectName";
    until_field(&member, &["namespace", "drift"], label, &json!("drift"))?;
    let uid = |object: &Value| object.pointer("/metadata/uid").cloned();
    let old = uid(&member.json(&["get", "namespace", "drift"])?);
    member.run(&delete)?;
    job::until(&member, &["namespace", "drift"], |object| {
        uid(object) != old && object.pointer("/status/phase") == Some(&json!("Active"))
    })?;
    until_field(&member, &quota, "/status/hard/cpu", &json!("2"))?;
    until_available(k, "drift", &format!("{HOST_CLUSTER}-drift"))?;
    k.run(&["delete", "project", "drift", "--wait=false"])?;
    until_gone(k, &["project", "drift"])
}
