use anyhow::{Result, ensure};
use instance::job::{Hard, apply, namespace, project, until_available, until_field, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::time::Duration;

const TENANT: &str = "topdown";
const SOON: Duration = Duration::from_mins(2);

/// A member cluster has an amount, a tenant a ceiling of it, and the tenant's administrator divides that by himself.
pub(super) fn budgets(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let admin = instance.person("chief", Some(TENANT), &["tenant-admins"])?;
    apply(k, &member_cluster("6"))?;
    apply(k, &tenant("8"))
        .err()
        .filter(|error| format!("{error:#}").contains("exceeded quota of cluster"))
        .ok_or_else(|| anyhow::anyhow!("a ceiling above what the cluster has was taken"))?;
    apply(k, &tenant("4"))?;
    let hard: Hard<'_> = &[("requests.cpu", "3")];
    let (root, second) = (owned("top", hard), owned("top-2", &[("requests.cpu", "2")]));
    apply(&admin, &root)?;
    let refusal = admin.refused(&["create", "-f", "-"], Some(&second.to_string()))?;
    let explained = format!("exceeded quota of tenant \"{TENANT}\" on cluster \"{HOST_CLUSTER}\"");
    ensure!(refusal.contains(&explained) && refusal.contains("the largest that fits is 1"), "{refusal}");
    apply(&admin, &namespace("top", HOST_CLUSTER, "top", &[("requests.cpu", "1")]))?;
    until_available(&admin, "top", &format!("{HOST_CLUSTER}-top"))?;
    let granted = format!("/status/clusters/{HOST_CLUSTER}/used/requests.cpu");
    until_field(&admin, &["tenant", TENANT], &granted, &json!("3"))?;
    until_field(&admin, &["tenant", TENANT], "/status/namespaces", &json!(1))?;
    cordoned(k, &admin)?;
    let seen = admin.run(&["get", "tenants", "-o", "name"])?;
    ensure!(seen.trim() == format!("tenant.business.tkestack.io/{TENANT}"), "the tenant sees {seen}");
    wait::until("the cluster shows what is granted of it", SOON, || {
        let shown = k.run(&["get", "mc", HOST_CLUSTER])?;
        let is_right = shown.contains("requests.cpu: 4/6") && shown.contains("True");
        Ok(if is_right { Progress::Done(()) } else { Progress::Pending(shown) })
    })?;
    let refusal = k.refused(&["delete", "tenant", TENANT], None)?;
    ensure!(refusal.contains("still has 1 children"), "{refusal}");
    admin.run(&["delete", "project", "top", "--wait=false"])?;
    until_gone(&admin, &["project", "top"])?;
    k.run(&["delete", "tenant", TENANT])?;
    change(k, &json!({"hard": null}))
}

/// Nothing grows in a cordoned cluster, and everything else goes on.
fn cordoned(k: &Kubectl, admin: &Kubectl) -> Result<()> {
    let name = format!("{HOST_CLUSTER}-top");
    let resize = |cpu: &str| json!({"spec": {"hard": {"requests.cpu": cpu}}}).to_string();
    let patch =
        |change: &str| ["patch", "bns", &name, "-n", "top", "--type=merge", "-p", change].map(str::to_owned);
    change(k, &json!({"cordoned": true}))?;
    let raise = resize("2");
    let raise = patch(&raise);
    let raise = raise.each_ref().map(String::as_str);
    // A replica learns of the cordon a moment later. A dry run changes nothing before that.
    let dry_run = [&raise[..], &["--dry-run=server"]].concat();
    wait::until("a raise is refused", SOON, || {
        let output = admin.output(&dry_run, None)?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if complaint.contains("is cordoned") { Progress::Done(()) } else { Progress::Pending(complaint) })
    })?;
    let refusal = admin.refused(&raise, None)?;
    ensure!(refusal.contains("is cordoned"), "{refusal}");
    admin.run(&patch(&resize("500m")).each_ref().map(String::as_str))?;
    change(k, &json!({"cordoned": false}))
}

fn change(k: &Kubectl, spec: &Value) -> Result<()> {
    let change = json!({"spec": spec}).to_string();
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", &change]).map(drop)
}

fn member_cluster(cpu: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "MemberCluster",
        "metadata": {"name": HOST_CLUSTER}, "spec": {"hard": {"requests.cpu": cpu}},
    })
}

fn tenant(cpu: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
        // other tenants of this instance have no ceilings
        "metadata": {"name": TENANT, "annotations": {"business.tkestack.io/accept-unbounded": HOST_CLUSTER}},
        "spec": {
            "displayName": "From the top",
            "clusters": {HOST_CLUSTER: {"hard": {"requests.cpu": cpu}}},
        },
    })
}

fn owned(name: &str, hard: Hard<'_>) -> Value {
    let mut object = project(name, None, &[(HOST_CLUSTER, hard)]);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("tenantID".to_owned(), json!(TENANT));
    }
    object
}
