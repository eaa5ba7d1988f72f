use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_active};
use instance::wait::{self, Progress};
use serde_json::{Value, json};
use std::time::Duration;

const NAMESPACES: usize = 50;
const DELETED: Duration = Duration::from_mins(6);

/// Three levels, fifty namespaces in two clusters: all gone, the parent's budget whole again, nothing stuck.
pub(super) fn tree(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let [one, two] = instance.clusters.get(..2).context("no second cluster")? else { return Ok(()) };
    let all: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
    let part: Hard<'_> = &[("cpu", "60"), ("memory", "60Gi")];
    let small: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    let clusters = |hard| [(one.as_str(), hard), (two.as_str(), hard)];
    apply(k, &project("forest", None, &clusters(all)))?;
    apply(k, &project("tree", Some("forest"), &clusters(part)))?;
    apply(k, &project("branch", Some("tree"), &clusters(&[("cpu", "30"), ("memory", "30Gi")])))?;
    until_active(k, "branch")?;
    let namespaces: Vec<Value> = (0..NAMESPACES)
        .map(|number| {
            let cluster = if number % 2 == 0 { one } else { two };
            let owner = if number % 4 < 2 { "tree" } else { "branch" };
            namespace(owner, cluster, &format!("leaf-{number}"), small)
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": namespaces}).to_string();
    k.feed(&["create", "-f", "-"], &list)?;
    for owner in ["tree", "branch"] {
        job::until(k, &["bns", "-n", owner], |list| {
            let items = list.get("items").and_then(Value::as_array);
            items.is_some_and(|items| {
                items.iter().all(|item| item.pointer("/status/phase") == Some(&json!("Available")))
            })
        })?;
    }
    let used = format!("/status/clusters/{one}/used/cpu");
    job::until_field(k, &["project", "forest"], &used, &json!("60"))?;
    k.run(&["delete", "project", "tree", "--wait=false"])?;
    wait::until("the tree is gone", DELETED, || {
        let left = k.run(&["get", "projects,bns", "-A", "-o", "name"])?;
        let ours: Vec<&str> = left
            .lines()
            .filter(|line| ["/tree", "/branch"].iter().any(|n| line.ends_with(n)) || line.contains("leaf-"))
            .collect();
        Ok(if ours.is_empty() {
            Progress::Done(())
        } else {
            Progress::Pending(format!("{} objects are left", ours.len()))
        })
    })?;
    for cluster in [one, two] {
        let left = instance.member(cluster).run(&["get", "namespaces", "-o", "name"])?;
        ensure!(!left.contains("leaf-"), "cluster {cluster} still holds: {left}");
    }
    whole(instance, one)?;
    k.run(&["delete", "project", "forest", "--wait=false"])?;
    job::until_gone(k, &["project", "forest"])
}

/// All of the budget can be given out again.
fn whole(instance: &Instance, cluster: &str) -> Result<()> {
    job::until(&instance.kubectl, &["project", "forest"], |object| {
        let used = object.pointer(&format!("/status/clusters/{cluster}/used/cpu")).and_then(Value::as_str);
        used.is_none_or(|cpu| cpu == "0")
    })?;
    let all: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
    let again = project("again", Some("forest"), &[(cluster, all)]);
    apply(&instance.kubectl, &again)?;
    instance.kubectl.run(&["delete", "project", "again", "--wait=false"])?;
    job::until_gone(&instance.kubectl, &["project", "again"])
}
