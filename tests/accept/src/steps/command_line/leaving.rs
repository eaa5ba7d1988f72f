use super::{NO, business, contains, json_of};
use crate::steps::directory::Directory;
use anyhow::{Context, Result, ensure};
use instance::job::{self, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use instance::{Instance, demo};
use serde_json::{Value, json};
use std::time::Duration;

/// The command line is wrong.
const USAGE: i32 = 2;
const SOON: Duration = Duration::from_mins(4);
const NAMESPACE: &str = "leaving";

/// A cluster leaves: what ties it is told, each owner's part is drained, and it is forgotten when it is empty. Then it comes back
/// as one that nobody knew.
pub(in crate::steps) fn leaves(instance: &Instance) -> Result<()> {
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    demo::make(instance)?;
    let operator = business(instance, &instance.kubectl)?;
    stands(instance, cluster)?;
    is_planned(&operator, cluster)?;
    is_drained(instance, &operator, cluster)?;
    let directory = Directory::of(instance)?;
    directory.strike_out(cluster)?;
    let forgotten = is_forgotten(instance, &operator, cluster);
    directory.put_back()?;
    forgotten?;
    comes_back(instance, cluster)?;
    demo::clear(instance)
}

/// A namespace of the demo's project there, with something in it.
fn stands(instance: &Instance, cluster: &str) -> Result<()> {
    let alice = business(instance, &instance.person("ruler", Some(demo::TENANT), &["tenant-admins"])?)?;
    let hard = "requests.cpu=1,requests.memory=1Gi,pods=2";
    let create = [
        "create",
        "namespace",
        NAMESPACE,
        "-n",
        demo::PROJECT,
        "--cluster",
        cluster,
        "--hard",
        hard,
        "--wait",
    ];
    contains(&alice.run(&create)?, &["created, and can be used"])?;
    let member = instance.member(cluster);
    member.run(&["create", "configmap", "content", "-n", NAMESPACE, "--from-literal=a=b"]).map(drop)
}

/// Everything that ties it stands in the plan, and nothing is changed by looking.
fn is_planned(operator: &Kubectl, cluster: &str) -> Result<()> {
    let plan = json_of(operator, &["leave", cluster, "--plan", "-o", "json"], NO)?;
    ensure!(plan.get("cordoned") == Some(&json!(false)), "a plan has cordoned it: {plan}");
    let ties = plan.get("ties").and_then(Value::as_array).context("no ties")?;
    let owner = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    let (project, tenant) = (owner("Project", demo::PROJECT), owner("Tenant", demo::TENANT));
    for (what, owner) in [("Namespace", &project), ("Budget", &project), ("Ceiling", &tenant)] {
        let is_it = |tie: &&Value| tie.get("what") == Some(&json!(what)) && tie.get("owner") == Some(owner);
        ensure!(ties.iter().any(|tie| is_it(&tie)), "no {what} of {owner}: {plan}");
    }
    contains(&operator.run(&["describe", "cluster", cluster])?, &["open"])
}

/// Not without a yes, and not forgotten before: then what the project has there goes, in the cluster, too.
fn is_drained(instance: &Instance, operator: &Kubectl, cluster: &str) -> Result<()> {
    let drain = ["leave", cluster, "--drain", demo::PROJECT];
    ensure!(operator.output(&drain, None)?.status.code() == Some(USAGE), "drained without a yes");
    let early = operator.output(&["leave", cluster, "--forget"], None)?;
    ensure!(early.status.code() == Some(NO), "forgotten with what is there: {}", early.status);
    contains(&String::from_utf8_lossy(&early.stderr), &["is cordoned", "is not forgotten"])?;
    let drained = operator.output(&[&drain[..], &["--yes", "--timeout", "3m"]].concat(), None)?;
    let told = String::from_utf8_lossy(&drained.stderr);
    ensure!(drained.status.success(), "{}: {told}", drained.status);
    contains(&told, &["is being deleted", "is given back"])?;
    until_gone(&instance.member(cluster), &["namespace", NAMESPACE])?;
    let project = instance.kubectl.json(&["get", "project", demo::PROJECT])?;
    let left = project.pointer("/spec/clusters").and_then(Value::as_object).context("no clusters")?;
    ensure!(!left.contains_key(cluster) && !left.is_empty(), "{project}");
    Ok(())
}

/// Ceilings, credentials and record.
fn is_forgotten(instance: &Instance, operator: &Kubectl, cluster: &str) -> Result<()> {
    let k = &instance.kubectl;
    let path = instance.member(cluster).kubeconfig().to_string_lossy().into_owned();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("cluster-{cluster}"), "namespace": "tke-business-members"},
        "stringData": {"kubeconfig": std::fs::read_to_string(path)?},
    });
    k.feed(&["apply", "-f", "-"], &secret.to_string())?;
    contains(&operator.run(&["leave", cluster, "--forget", "--timeout", "3m"])?, &["has left"])?;
    ensure!(
        k.json_or_nothing(&["get", "membercluster", cluster, "--ignore-not-found"])?.is_none(),
        "it is there"
    );
    let secret = format!("cluster-{cluster}");
    let secret =
        k.json_or_nothing(&["get", "secret", &secret, "-n", "tke-business-members", "--ignore-not-found"])?;
    ensure!(secret.is_none(), "its credentials are there");
    let tenant = k.json(&["get", "tenant", demo::TENANT])?;
    let ceilings = tenant.pointer("/spec/clusters").and_then(Value::as_object).context("no ceilings")?;
    ensure!(!ceilings.contains_key(cluster), "{tenant}");
    super::super::books(instance)
}

/// Listed again, it is registered, and budgets are given there as before.
fn comes_back(instance: &Instance, cluster: &str) -> Result<()> {
    job::until(&instance.kubectl, &["membercluster", cluster], |cluster| {
        let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
        let is_ready = |one: &Value| {
            one.get("type") == Some(&json!("Ready")) && one.get("status") == Some(&json!("True"))
        };
        conditions.is_some_and(|conditions| conditions.iter().any(is_ready))
    })?;
    wait::until("budgets are given there", SOON, || {
        Ok(match demo::make(instance) {
            Ok(()) => Progress::Done(()),
            Err(error) => Progress::Pending(format!("{error:#}")),
        })
    })
}
