use super::contains;
use super::outage::replicas_as_operator;
use anyhow::{Context, Result, bail, ensure};
use instance::job::{Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::programs::{self, Api};
use instance::wait::{self, Look};
use instance::{HOST_CLUSTER, Instance, layout};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_mins(1);
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
/// Every program of both releases writes at every level of the tree.
const STEPS: [&str; 4] = ["before", "old", "new", "back"];
const TENANT: &str = "rollback";

/// The release after this one migrates and takes a replica's place, both write, and this one comes back to a schema
/// that is newer than itself; then a replica starts while its database is away.
pub(super) fn rollback(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let (newer, this) =
        (layout::workspace().join(".dev/newer/business-api"), layout::beside("business-api")?);
    let replaced = instance.apis.get(1).context("no second replica")?;
    let replicas = replicas_as_operator(instance)?;
    let [first, second] = replicas.as_slice() else { bail!("two replicas are needed") };
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", r#"{"spec":{"hard":{"pods":"4"}}}"#])?;
    apply(k, &project("rollback", None, &[(HOST_CLUSTER, HARD)]))?;
    until_active(k, "rollback")?;
    migrate(instance, &newer)?;
    write_all(first, 0)?;
    instance.supervisor.replace(&replaced.name, &newer)?;
    replaced.wait(&instance.supervisor)?;
    write_all(first, 1)?;
    write_all(second, 2)?;
    let said = migrate(instance, &this)?;
    ensure!(said.contains("newer than this program"), "`migrate` of the old release says: {said}");
    instance.supervisor.replace(&replaced.name, &this)?;
    replaced.wait(&instance.supervisor)?;
    write_all(second, 3)?;
    early(instance, replaced, second).context("a replica that starts before its database")?;
    for name in STEPS.iter().chain(&["early"]) {
        until_available(k, "rollback", &format!("{HOST_CLUSTER}-{name}"))?;
    }
    let (roots, mut gone) =
        (STEPS.map(|step| format!("rollback-{step}")), vec!["delete", "project", "rollback"]);
    gone.extend(roots.iter().map(String::as_str));
    k.run(&gone)?;
    k.run(&["delete", "tenant", TENANT])?;
    k.run(&["delete", "nst", TENANT])?;
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", r#"{"spec":{"hard":null}}"#])?;
    until_gone(k, &["project", "rollback"])
}

/// A namespace; and below a cluster's amount a ceiling one higher, all of which a new root takes, so that the next is refused;
/// people and a template as well.
fn write_all(replica: &Kubectl, step: usize) -> Result<()> {
    let name = STEPS.get(step).context("no such step")?;
    write(replica, name)?;
    let ceiling = (step + 1).to_string();
    apply(
        replica,
        &json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceTemplate", "metadata": {"name": TENANT},
            "spec": {"displayName": name, "labels": {"step": name}},
        }),
    )?;
    apply(
        replica,
        &json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
            // other tenants of this instance have no ceilings
            "metadata": {"name": TENANT, "annotations": {"business.tkestack.io/accept-unbounded": HOST_CLUSTER}},
            "spec": {
                "displayName": name, "template": TENANT, "clusters": {HOST_CLUSTER: {"hard": {"pods": ceiling}}},
                "administrators": [{"kind": "Group", "name": name}],
            },
        }),
    )?;
    let root = |suffix: &str| {
        let mut root =
            project(&format!("rollback-{name}{suffix}"), None, &[(HOST_CLUSTER, &[("pods", "1")])]);
        if let Some(spec) = root.pointer_mut("/spec").and_then(serde_json::Value::as_object_mut) {
            spec.insert("tenantID".to_owned(), json!(TENANT));
            spec.insert("access".to_owned(), json!([{"kind": "Group", "name": name, "role": "view"}]));
        }
        root
    };
    apply(replica, &root(""))?;
    let refusal = replica.refused(&["create", "-f", "-"], Some(&root("-more").to_string()))?;
    contains(
        &refusal,
        &["exceeded quota of tenant", &format!("hard {ceiling}, allocated {ceiling}, remaining 0")],
    )
}

/// Runs `migrate`, which must succeed, and gives what it says.
fn migrate(instance: &Instance, program: &Path) -> Result<String> {
    let mut command = Command::new(program);
    let output = command
        .args(["migrate", "--log-format=text"])
        .env("DATABASE_URL", &instance.database_url)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{} migrate ended with {}: {said}", program.display(), output.status);
    Ok(said)
}

fn write(replica: &Kubectl, name: &str) -> Result<()> {
    apply(replica, &namespace("rollback", HOST_CLUSTER, name, SMALL)).map(drop)
}

/// The replica answers at once, and is useful as soon as its database is there, without another start.
fn early(instance: &Instance, api: &Api, kubectl: &Kubectl) -> Result<()> {
    let supervisor = &instance.supervisor;
    let before = supervisor.pid(&api.name);
    supervisor.pause("postgres")?;
    let during = (|| {
        supervisor.kill(&api.name)?;
        let discovery = ["get", "--raw", "/apis/business.tkestack.io/v1"];
        let process = wait::until("discovery is served", SOON, || {
            let process = supervisor.pid(&api.name).filter(|now| Some(*now) != before);
            Ok(match (process, kubectl.run(&discovery)) {
                (Some(process), Ok(_)) => Look::Yes(process),
                (_, answer) => Look::NotYet(format!("process {process:?}: {answer:?}")),
            })
        })?;
        for (probe, wanted) in [("/livez", 200), ("/readyz", 500)] {
            let (code, text) = programs::get(api.admin_port, probe)?;
            ensure!(code == wanted, "{probe} answers {code}: {text}");
        }
        Ok(process)
    })();
    supervisor.resume("postgres")?;
    let process = during?;
    api.wait(supervisor)?;
    write(kubectl, "early")?;
    ensure!(supervisor.pid(&api.name) == Some(process), "the replica was started again");
    Ok(())
}
