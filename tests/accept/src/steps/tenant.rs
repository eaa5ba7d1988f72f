use anyhow::{Result, ensure};
use instance::job::{Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};

/// Two tenants: each administers its own objects and cannot see the other's.
pub(super) fn tenant(instance: &Instance) -> Result<()> {
    let (k, mine) = (&instance.kubectl, instance.tenant());
    let user = |name: &str, tenant: Option<&str>, groups: &[&str]| instance.person(name, tenant, groups);
    let other = user("other-admin", Some("other"), &["tenant-admins"])?;
    let hard: Hard<'_> = &[("cpu", "4"), ("memory", "4Gi")];
    let one: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    apply(&mine, &project("mine", None, &[(HOST_CLUSTER, hard)]))?;
    apply(&other, &untenanted(project("theirs", None, &[(HOST_CLUSTER, hard)])))?;
    until_active(&mine, "mine")?;
    until_active(&other, "theirs")?;
    apply(&mine, &namespace("mine", HOST_CLUSTER, "mine", one))?;
    until_available(&mine, "mine", &format!("{HOST_CLUSTER}-mine"))?;
    let tenant_of = k.json(&["get", "project", "theirs"])?.pointer("/spec/tenantID").cloned();
    ensure!(tenant_of == Some(json!("other")), "the tenant of a tenant's project is {tenant_of:?}");
    let seen = mine.run(&["get", "projects,bns", "-A", "-o", "name"])?;
    ensure!(seen.contains("/mine") && !seen.contains("theirs"), "the tenant sees {seen}");
    let foreign: [&[&str]; 5] = [
        &["get", "project", "theirs"],
        &["delete", "project", "theirs"],
        &["label", "project", "theirs", "a=b"],
        &["patch", "project", "theirs", "--type=merge", "-p", "{}"],
        &["patch", "project", "theirs", "--subresource=status", "--type=merge", "-p", "{}"],
    ];
    for args in foreign {
        let refusal = mine.refused(args, None)?;
        let refused = refusal.contains("NotFound") || refusal.contains("Forbidden");
        ensure!(refused, "{}: {refusal}", args.join(" "));
        ensure!(!refusal.contains("\"other\""), "the refusal names the other tenant: {refusal}");
    }
    let status: &[&str] = &["patch", "project", "mine", "--subresource=status", "--type=merge", "-p", "{}"];
    ensure!(mine.refused(status, None)?.contains("Forbidden"), "a tenant wrote a status");
    let refusal = mine.refused(
        &["create", "-f", "-"],
        Some(&project("child", Some("theirs"), &[(HOST_CLUSTER, one)]).to_string()),
    )?;
    ensure!(refusal.contains("NotFound") || refusal.contains("not found"), "unexpected refusal: {refusal}");
    stranger(&user("stranger", None, &["tenant-admins"])?)?;
    member(&user("member", Some("default"), &[])?)?;
    for (kubectl, name) in [(&mine, "mine"), (&other, "theirs")] {
        kubectl.run(&["delete", "project", name, "--wait=false"])?;
        until_gone(kubectl, &["project", name])?;
    }
    Ok(())
}

/// Somebody of no tenant finds what he would find through kube-apiserver, whose door lets everybody look: nothing.
fn stranger(kubectl: &instance::kubectl::Kubectl) -> Result<()> {
    let seen = kubectl.run(&["get", "projects,bns,tenants", "-A", "-o", "name"])?;
    ensure!(seen.trim().is_empty(), "somebody of no tenant sees {seen}");
    let refusal = kubectl.refused(&["get", "project", "mine"], None)?;
    ensure!(refusal.contains("NotFound"), "unexpected: {refusal}");
    let refusal = kubectl.refused(&["create", "-f", "-"], Some(&project("nope", None, &[]).to_string()))?;
    ensure!(refusal.contains("Forbidden"), "unexpected refusal: {refusal}");
    Ok(())
}

/// Somebody of the tenant who belongs to no project sees none and may create none.
fn member(kubectl: &instance::kubectl::Kubectl) -> Result<()> {
    let output = kubectl.output(&["get", "projects", "-o", "name"], None)?;
    ensure!(
        !String::from_utf8_lossy(&output.stdout).contains("/mine"),
        "a stranger of the tenant sees a project"
    );
    let refusal = kubectl.refused(&["create", "-f", "-"], Some(&project("nope", None, &[]).to_string()))?;
    ensure!(refusal.contains("Forbidden"), "unexpected refusal: {refusal}");
    Ok(())
}

/// Leaves the tenant to the server.
fn untenanted(mut object: Value) -> Value {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("tenantID");
    }
    object
}
