use super::proxy::Proxy;
use anyhow::{Context, Result, ensure};
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

const CREATES: usize = 64;
const FITTING: usize = 10;
const CLIENTS: usize = 16;

/// A namespace, a child and a shrink that do not fit: refused, explained, nothing changed.
pub(super) fn over_asking(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let hard: Hard<'_> = &[("cpu", "4"), ("memory", "4Gi")];
    let half: Hard<'_> = &[("cpu", "2"), ("memory", "2Gi")];
    let three: Hard<'_> = &[("cpu", "3"), ("memory", "1Gi")];
    let one: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    apply(k, &project("ask", None, &[(HOST_CLUSTER, hard)]))?;
    apply(k, &namespace("ask", HOST_CLUSTER, "ask", half))?;
    until_available(k, "ask", &format!("{HOST_CLUSTER}-ask"))?;
    let used = format!("/status/clusters/{HOST_CLUSTER}/used/cpu");
    // The controller may still write conditions.
    let fixed = |project: &Value| {
        ["/metadata/generation", "/spec", "/status/clusters"].map(|field| project.pointer(field).cloned())
    };
    let before = fixed(&job::until_field(k, &["project", "ask"], &used, &json!("2"))?);
    let proxy = Proxy::start(k)?;
    let collection = "/apis/business.tkestack.io/v1/namespaces/ask/namespaces";
    explained(&proxy.post(collection, &namespace("ask", HOST_CLUSTER, "much", three))?.json(), "ask", "3")?;
    let child = project("ask-child", Some("ask"), &[(HOST_CLUSTER, three)]);
    explained(&proxy.post("/apis/business.tkestack.io/v1/projects", &child)?.json(), "ask", "3")?;
    let less = json!({"spec": {"clusters": {HOST_CLUSTER: {"hard": {"cpu": "1"}}}}}).to_string();
    let answer = proxy.send(
        "PATCH",
        "/apis/business.tkestack.io/v1/projects/ask",
        "application/merge-patch+json",
        less.as_bytes(),
    )?;
    explained(&answer.json(), "ask", "1")?;
    let after = fixed(&k.json(&["get", "project", "ask"])?);
    ensure!(before == after, "a refused write changed the project: {before:?} became {after:?}");
    apply(k, &namespace("ask", HOST_CLUSTER, "fits", one))?;
    k.run(&["delete", "project", "ask", "--wait=false"])?;
    until_gone(k, &["project", "ask"])
}

/// A refusal names the project, the cluster, the resource and the amounts, in words and for machines.
fn explained(status: &Value, project: &str, asked: &str) -> Result<()> {
    let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default();
    ensure!(
        status.get("code") == Some(&json!(403)) && text("reason") == "Forbidden",
        "not a refusal: {status}"
    );
    for word in [project, HOST_CLUSTER, "cpu", asked] {
        ensure!(text("message").contains(word), "the message does not say {word}: {status}");
    }
    let causes = status.pointer("/details/causes").and_then(Value::as_array).context("no causes")?;
    ensure!(!causes.is_empty(), "no causes: {status}");
    Ok(())
}

/// Exactly ten of sixty-four succeed; ledger, status and clusters agree.
pub(super) fn parallel_creates(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let hard: Hard<'_> = &[("cpu", "10"), ("memory", "64Gi")];
    let one: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
    apply(k, &project("race", None, &[(HOST_CLUSTER, hard)]))?;
    until_active(k, "race")?;
    let proxy = Proxy::start(k)?;
    let (next, created, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let client = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= CREATES {
                    return Ok(());
                }
                let object = namespace("race", HOST_CLUSTER, &format!("race-{number}"), one);
                let answer =
                    proxy.post("/apis/business.tkestack.io/v1/namespaces/race/namespaces", &object)?;
                match answer.code {
                    201 => created.fetch_add(1, Ordering::Relaxed),
                    403 => refused.fetch_add(1, Ordering::Relaxed),
                    _ => anyhow::bail!("a create is answered {}: {}", answer.code, answer.body),
                };
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| anyhow::bail!("a client died")))
    })?;
    let (created, refused) = (created.into_inner(), refused.into_inner());
    ensure!((created, refused) == (FITTING, CREATES - FITTING), "{created} created, {refused} refused");
    let used = format!("/status/clusters/{HOST_CLUSTER}/used/cpu");
    job::until_field(k, &["project", "race"], &used, &json!("10"))?;
    job::until(k, &["bns", "-n", "race"], |list| {
        let items = list.get("items").and_then(Value::as_array);
        items.is_some_and(|items| {
            items.len() == FITTING
                && items.iter().all(|item| item.pointer("/status/phase") == Some(&json!("Available")))
        })
    })?;
    let label = "tkestack.io/projectName=race";
    let listed = instance.member(HOST_CLUSTER).run(&["get", "namespaces", "-l", label, "-o", "name"])?;
    ensure!(listed.lines().count() == FITTING, "the cluster holds: {listed}");
    super::books(instance)?;
    k.run(&["delete", "project", "race", "--wait=false"])?;
    until_gone(k, &["project", "race"])
}

/// The cluster's quota is lowered first; only then is the refund visible.
pub(super) fn raise_and_lower(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?;
    let (member, name) = (instance.member(cluster), format!("{cluster}-follow"));
    let hard: Hard<'_> = &[("cpu", "8"), ("memory", "8Gi")];
    let two: Hard<'_> = &[("cpu", "2"), ("memory", "2Gi")];
    apply(k, &project("follow", None, &[(cluster.as_str(), hard)]))?;
    apply(k, &namespace("follow", cluster, "follow", two))?;
    until_available(k, "follow", &name)?;
    let set = |cpu: &str| {
        let patch = json!({"spec": {"hard": {"cpu": cpu}}}).to_string();
        k.run(&["patch", "bns", &name, "-n", "follow", "--type=merge", "-p", &patch])
    };
    let charge = |cpu: &str| {
        job::until_field(k, &["bns", &name, "-n", "follow"], "/status/cachedSpecHard/cpu", &json!(cpu))
    };
    set("6")?;
    job::until_field(&member, &["resourcequota", "follow", "-n", "follow"], "/status/hard/cpu", &json!("6"))?;
    // With the cluster out of reach the lower quota cannot be confirmed: the charge must stay.
    let plane = format!("kube-apiserver-{cluster}");
    instance.supervisor.pause(&plane)?;
    let lowered = set("3").and_then(|_| {
        let object = k.json(&["get", "bns", &name, "-n", "follow"])?;
        let now = object.pointer("/status/cachedSpecHard/cpu").and_then(Value::as_str);
        ensure!(now == Some("6"), "the charge fell to {now:?} before the cluster had the lower quota");
        Ok(())
    });
    instance.supervisor.resume(&plane)?;
    lowered?;
    charge("3")?;
    job::until_field(&member, &["resourcequota", "follow", "-n", "follow"], "/status/hard/cpu", &json!("3"))?;
    let used = format!("/status/clusters/{cluster}/used/cpu");
    job::until_field(k, &["project", "follow"], &used, &json!("3"))?;
    k.run(&["delete", "project", "follow", "--wait=false"])?;
    until_gone(k, &["project", "follow"])
}
