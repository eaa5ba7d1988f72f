use super::contains;
use anyhow::{Context, Result};
use instance::job::{Hard, apply, project, until_field};
use instance::kubectl::Kubectl;
use instance::{Instance, manifests};
use serde_json::{Value, json};

const TENANT: &str = "nodes";
const CPU: &str = "requests.cpu";

/// What may be granted of a cluster follows its nodes: up, and down without taking anything away.
pub(super) fn capacity(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?;
    let member = instance.member(cluster);
    let derived = json!({"resources": {CPU: {"resource": "cpu", "factor": "1.5", "max": "100"}}});
    change(k, cluster, &json!({ "derived": derived }))?;
    until_derived(k, cluster, "False").context("without a right to look")?;
    let rights = manifests::render(k, "deploy/member-capacity")?;
    manifests::apply(&member, &rights)?;
    for name in ["big", "small"] {
        node(&member, name, if name == "big" { "6" } else { "2" })?;
    }
    // It lies in nobody's namespace: what it takes cannot be granted.
    apply(&member, &pod("small", "1"))?;
    until_hard(k, cluster, "10500m")?;
    until_derived(k, cluster, "True")?;
    until_field(k, &["mc", cluster], "/status/allocatable/cpu", &json!("8"))?;

    let refusal = k.refused(&["create", "-f", "-"], Some(&tenant(cluster, "11").to_string()))?;
    contains(&refusal, &["exceeded quota of cluster", "the largest that fits is 10500m"])?;
    apply(k, &tenant(cluster, "10"))?;
    let hard: Hard<'_> = &[(CPU, "9")];
    let mut root = project("grounded", None, &[(cluster, hard)]);
    *root.pointer_mut("/spec/tenantID").context("no tenantID")? = json!(TENANT);
    apply(k, &root)?;

    // A node goes: nobody loses what he has, and nothing grows beyond what is left.
    member.run(&["delete", "node", "big"])?;
    until_hard(k, cluster, "1500m")?;
    until_field(k, &["tenant", TENANT], &format!("/spec/clusters/{cluster}/hard/{CPU}"), &json!("10"))?;
    until_field(k, &["project", "grounded"], &format!("/spec/clusters/{cluster}/hard/{CPU}"), &json!("9"))?;
    let more = json!({"spec": {"clusters": {cluster: {"hard": {CPU: "11"}}}}}).to_string();
    let refusal = k.refused(&["patch", "tenant", TENANT, "--type=merge", "-p", &more], None)?;
    contains(&refusal, &["exceeded quota of cluster"])?;
    let less = json!({"spec": {"clusters": {cluster: {"hard": {CPU: "9"}}}}}).to_string();
    k.run(&["patch", "tenant", TENANT, "--type=merge", "-p", &less])?;

    k.run(&["delete", "project", "grounded"])?;
    k.run(&["delete", "tenant", TENANT])?;
    change(k, cluster, &json!({ "derived": null }))?;
    member.run(&["delete", "pod", "loner", "-n", "default", "--force", "--grace-period=0"])?;
    member.run(&["delete", "node", "small"])?;
    let rights = json!({"apiVersion": "v1", "kind": "List", "items": rights}).to_string();
    member.feed(&["delete", "-f", "-"], &rights).map(drop)
}

fn change(k: &Kubectl, cluster: &str, spec: &Value) -> Result<()> {
    let change = json!({ "spec": spec }).to_string();
    k.run(&["patch", "mc", cluster, "--type=merge", "-p", &change]).map(drop)
}

fn until_hard(k: &Kubectl, cluster: &str, cpu: &str) -> Result<()> {
    until_field(k, &["mc", cluster], &format!("/status/capacity/{CPU}"), &json!(cpu)).map(drop)
}

fn until_derived(k: &Kubectl, cluster: &str, status: &str) -> Result<()> {
    let condition = format!("--for=condition=CapacityDerived={status}");
    k.run(&["wait", "mc", cluster, &condition, "--timeout=120s"]).map(drop)
}

/// A node that is ready, as kubelet would report it.
fn node(member: &Kubectl, name: &str, cpu: &str) -> Result<()> {
    apply(member, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))?;
    let has = json!({"cpu": cpu, "memory": "16Gi", "pods": "110"});
    let status = json!({"status": {
        "capacity": has, "allocatable": has, "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
    }});
    let patch = status.to_string();
    member.run(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &patch]).map(drop)
}

fn pod(node: &str, cpu: &str) -> Value {
    let container = json!({"name": "one", "image": "none", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loner", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container], "automountServiceAccountToken": false},
    })
}

fn tenant(cluster: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
        // other tenants of this instance have no ceilings
        "metadata": {"name": TENANT, "annotations": {"business.tkestack.io/accept-unbounded": cluster}},
        "spec": {"displayName": "On the ground", "clusters": {cluster: {"hard": {CPU: cpu}}}},
    })
}
