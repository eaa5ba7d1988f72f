use super::access::until_bound;
use super::contains;
use anyhow::{Context, Result, ensure};
use instance::job::until_gone;
use instance::kubectl::Kubectl;
use instance::layout;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance, demo};
use serde_json::{Value, json};
use std::time::Duration;

/// Somebody logs in at the provider.
mod entering;
/// A cluster leaves.
mod leaving;
/// Namespaces that are there already.
mod taking;

pub(super) use entering::enters;
pub(super) use leaving::leaves;
pub(super) use taking::takes;

const PROGRAM: &str = "kubectl-business";
const SOON: Duration = Duration::from_mins(2);
/// The answer is no.
const NO: i32 = 3;

/// Somebody looks, asks what would fit, makes a namespace, shares it, and enters it; an operator looks at the books and joins a
/// cluster once more.
pub(super) fn command_line(instance: &Instance) -> Result<()> {
    demo::make(instance)?;
    let alice = business(instance, &instance.person("ruler", Some(demo::TENANT), &["tenant-admins"])?)?;
    let operator = business(instance, &instance.kubectl)?;
    until_bound(&instance.kubectl, demo::PROJECT, "local-web")?;
    looks(&alice)?;
    explains(&alice)?;
    makes_and_enters(instance, &alice)?;
    // Statuses are written a moment after what they count.
    wait::until("the audit finds nothing", SOON, || {
        Ok(match json_of(&operator, &["audit", "-o", "json"], 0) {
            Ok(audit) if audit.get("consistent") == Some(&json!(true)) => Progress::Done(()),
            Ok(audit) => Progress::Pending(audit.to_string()),
            Err(error) => Progress::Pending(format!("{error:#}")),
        })
    })?;
    for cluster in &instance.clusters {
        joins(instance, &operator, cluster).with_context(|| format!("cluster {cluster}"))?;
    }
    demo::clear(instance)
}

/// The program, as whoever the kubeconfig is of.
pub(super) fn business(instance: &Instance, who: &Kubectl) -> Result<Kubectl> {
    Ok(Kubectl::new(&layout::program_path(PROGRAM)?, who.kubeconfig(), &instance.layout.path("home")))
}

fn json_of(business: &Kubectl, args: &[&str], code: i32) -> Result<Value> {
    let output = business.output(args, None)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.code() == Some(code), "{args:?} ended with {}: {complaint}{said}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{args:?}: {complaint}"))
}

fn looks(alice: &Kubectl) -> Result<()> {
    contains(
        &alice.run(&["tree", "--namespaces"])?,
        &["tenant acme", "shop", "local/web", "requests.memory", "20Gi"],
    )?;
    let tree = json_of(alice, &["tree", "shop", "-o", "json"], 0)?;
    let cpu = tree.pointer("/roots/0/clusters/local/requests.cpu").context("no amount")?;
    ensure!(cpu.get("hard") == Some(&json!("10")) && cpu.get("allocated") == Some(&json!("2")), "{cpu}");
    contains(&alice.run(&["top", "--resource", "pods"])?, &["shop/local-web"])?;
    contains(
        &alice.run(&["describe", "namespace", "local-web", "-n", "shop"])?,
        &["Available", "AccessReady"],
    )
}

fn explains(alice: &Kubectl) -> Result<()> {
    let asked = "requests.cpu=12,requests.memory=1Gi,pods=1";
    let args =
        ["explain", "ns", "big", "-n", "shop", "--cluster", HOST_CLUSTER, "--set", asked, "-o", "json"];
    let told = json_of(alice, &args, NO)?;
    let raise = told.pointer("/raises/0").context("no way to let it in")?;
    ensure!(raise.get("level") == Some(&json!({"kind": "Project", "name": "shop"})), "{raise}");
    ensure!(
        raise.pointer("/limits/0/to") == Some(&json!("14"))
            && raise.get("answer") == Some(&json!("Accepted")),
        "{raise}"
    );
    Ok(())
}

fn makes_and_enters(instance: &Instance, alice: &Kubectl) -> Result<()> {
    let hard = "requests.cpu=1,requests.memory=1Gi,pods=2,configmaps=5";
    let create =
        ["create", "namespace", "cli", "-n", "shop", "--cluster", HOST_CLUSTER, "--hard", hard, "--wait"];
    contains(&alice.run(&create)?, &["namespace/local-cli created, and can be used"])?;
    alice.run(&["access", "add", "shop", "--user", "erin", "--role", "edit"])?;
    contains(&alice.run(&["access", "list", "shop"])?, &["user erin", "edit"])?;
    alice.run(&["access", "remove", "shop", "--user", "erin"])?;
    until_bound(&instance.kubectl, demo::PROJECT, "local-cli")?;
    let file = alice.kubeconfig().with_extension("entered");
    let path = file.to_string_lossy();
    alice.run(&["kubeconfig", "local-cli", "-n", "shop", "--file", &path])?;
    let entered = instance.kubectl.with_kubeconfig(&file);
    contains(&entered.run(&["get", "resourcequotas", "-o", "name"])?, &["resourcequota/cli"])?;
    instance.kubectl.run(&["delete", "bns", "local-cli", "-n", "shop", "--wait=false"])?;
    until_gone(&instance.kubectl, &["bns", "local-cli", "-n", "shop"])
}

/// A cluster that is a member already: it is no other one's, its manifests are as they were, and its credentials are made anew.
fn joins(instance: &Instance, operator: &Kubectl, cluster: &str) -> Result<()> {
    let member = instance.member(cluster);
    let path = member.kubeconfig().to_string_lossy().into_owned();
    let join = |name: &str, more: &[&str]| {
        let args = [&["join", name, "--kubeconfig", &path][..], more].concat();
        operator.output(&args, None)
    };
    let other = join("another", &["--dry-run"])?;
    contains(&String::from_utf8_lossy(&other.stderr), &[&format!("registered already, as {cluster}")])?;
    let joined = join(cluster, &["--days", "1", "--display-name", "Joined"])?;
    let told = String::from_utf8_lossy(&joined.stderr);
    ensure!(joined.status.success(), "{told}");
    contains(&String::from_utf8_lossy(&joined.stdout), &["joined, and Ready"])?;
    let secret = format!("cluster-{cluster}");
    let kept = instance.kubectl.run(&[
        "get",
        "secret",
        &secret,
        "-n",
        "tke-business-members",
        "-o",
        "go-template={{.data.kubeconfig | base64decode}}",
    ])?;
    let again = join(cluster, &["--days", "1", "--no-wait"])?;
    let told = String::from_utf8_lossy(&again.stderr);
    contains(&told, &["as before, since this call does not say: --display-name 'Joined' --tenants '"])?;
    let file = member.kubeconfig().with_extension("joined");
    std::fs::write(&file, kept)?;
    let controller = instance.kubectl.with_kubeconfig(&file);
    contains(&controller.run(&["auth", "whoami"])?, &["system:serviceaccount:tke-business:business-member"])?;
    controller.run(&["get", "namespaces"])?;
    controller.refused(&["get", "secrets", "-A"], None)?;
    instance.kubectl.run(&["delete", "secret", &secret, "-n", "tke-business-members"])?;
    let plan = operator.output(&["leave", cluster, "--plan"], None)?;
    ensure!(plan.status.code() == Some(NO), "demo's projects tie {cluster}: {}", plan.status);
    let found = operator.run(&["discover", cluster, "--kubeconfig", &path]);
    found.map(drop)
}
