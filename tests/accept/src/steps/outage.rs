use super::proxy::Proxy;
use anyhow::{Context, Result, bail, ensure};
use instance::job::{
    self, Hard, apply, namespace, project, until_active, until_available, until_field, until_gone,
};
use instance::kubeconfig::{Kubeconfig, token};
use instance::kubectl::Kubectl;
use instance::pki::Pki;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_mins(3);
const DATABASE_DOWN: Duration = Duration::from_secs(20);
/// A namespace elsewhere may take this long during an outage, even if one took less before.
const FULL_SPEED: Duration = Duration::from_secs(5);
const WRITES: usize = 60;
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];

/// A member stops: its state is shown, others are not affected; after it returns, all converge.
pub(super) fn member(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let (plane, name) = (format!("kube-apiserver-{cluster}"), |n: &str| format!("{cluster}-{n}"));
    apply(k, &project("outage", None, &[(HOST_CLUSTER, HARD), (cluster, HARD)]))?;
    for n in ["stays", "leaves"] {
        apply(k, &namespace("outage", cluster, n, SMALL))?;
        until_available(k, "outage", &name(n))?;
    }
    let usual = take(k, "before")?;
    instance.supervisor.pause(&plane)?;
    let during = without(instance, cluster, &name, usual);
    instance.supervisor.resume(&plane)?;
    during?;
    until_available(k, "outage", &name("waits"))?;
    until_field(k, &["bns", &name("stays"), "-n", "outage"], "/status/phase", &json!("Available"))?;
    until_gone(k, &["bns", &name("leaves"), "-n", "outage"])?;
    until_gone(&instance.member(cluster), &["namespace", "leaves"])?;
    let used = format!("/status/clusters/{cluster}/used/cpu");
    until_field(k, &["project", "outage"], &used, &json!("2"))?;
    k.run(&["delete", "project", "outage", "--wait=false"])?;
    until_gone(k, &["project", "outage"])
}

/// How long a namespace in the host cluster takes.
fn take(k: &Kubectl, name: &str) -> Result<Duration> {
    let start = Instant::now();
    apply(k, &namespace("outage", HOST_CLUSTER, name, SMALL))?;
    until_available(k, "outage", &format!("{HOST_CLUSTER}-{name}"))?;
    Ok(start.elapsed())
}

/// While the cluster is gone.
fn without(instance: &Instance, cluster: &str, name: &dyn Fn(&str) -> String, usual: Duration) -> Result<()> {
    let k = &instance.kubectl;
    wait::until("the outage is shown", SOON, || {
        let object = k.json(&["get", "bns", &name("stays"), "-n", "outage"])?;
        let reachable = condition(&object, "ClusterReachable");
        let shown = reachable.as_ref().is_some_and(|c| c.get("status") != Some(&json!("True")));
        Ok(if shown { Progress::Done(()) } else { Progress::Pending(format!("{reachable:?}")) })
    })?;
    apply(k, &namespace("outage", cluster, "waits", SMALL))?;
    let took = take(k, "elsewhere")?;
    ensure!(took < FULL_SPEED.max(usual * 3), "elsewhere it took {took:?}, and {usual:?} before");
    k.run(&["delete", "bns", &name("leaves"), "-n", "outage", "--wait=false"])?;
    job::until(k, &["bns", &name("waits"), "-n", "outage"], |object| {
        object.pointer("/status/phase") == Some(&json!("Pending"))
            && condition(object, "ClusterReachable").is_some_and(|c| c.get("status") != Some(&json!("True")))
    })?;
    let leaving = k.json(&["get", "bns", &name("leaves"), "-n", "outage"])?;
    ensure!(leaving.pointer("/status/phase") == Some(&json!("Terminating")), "not Terminating: {leaving}");
    ensure!(
        leaving.pointer("/status/cachedSpecHard/cpu") == Some(&json!("1")),
        "the charge is gone: {leaving}"
    );
    Ok(())
}

pub(super) fn condition(object: &Value, kind: &str) -> Option<Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type") == Some(&json!(kind))).cloned()
}

/// One of two replicas is killed under load: no acknowledged write is lost, a watcher goes on through the other.
pub(super) fn replica(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    apply(k, &project("load", None, &[(HOST_CLUSTER, HARD)]))?;
    until_active(k, "load")?;
    let replicas = replicas(instance)?;
    let [first, second] = replicas.as_slice() else { bail!("two replicas are needed") };
    let victim = instance.apis.get(1).context("no second replica")?.name.clone();
    let list = k.run(&["get", "--raw", "/apis/business.tkestack.io/v1/namespaces/load/namespaces"])?;
    let list: Value = serde_json::from_str(&list)?;
    let from =
        list.pointer("/metadata/resourceVersion").and_then(Value::as_str).context("no version")?.to_owned();
    let done = AtomicBool::new(false);
    let (written, seen) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&[second, first], &from, &done));
        let written = write(&[second, first], |number| {
            if number == WRITES / 2 { instance.supervisor.kill(&victim) } else { Ok(()) }
        });
        let settled = written.as_ref().ok().map(|names| until_all(k, names));
        done.store(true, Ordering::Relaxed);
        let seen = watcher.join().unwrap_or_else(|_| bail!("the watcher died"));
        settled.transpose()?;
        anyhow::Ok((written?, seen?))
    })?;
    for name in &written {
        ensure!(seen.contains_key(name), "the watcher missed {name}; it saw {} objects", seen.len());
    }
    ensure!(seen.values().all(|added| *added == 1), "an object was added twice: {seen:?}");
    for api in &instance.apis {
        api.wait(&instance.supervisor)?;
    }
    k.run(&["delete", "project", "load", "--wait=false"])?;
    until_gone(k, &["project", "load"])
}

/// kubectl at each replica, as the tenant's administrator.
pub(super) fn replicas(instance: &Instance) -> Result<Vec<Kubectl>> {
    let admin = instance.issuer.token("tenant-admin", Some("default"), &["tenant-admins"])?;
    replicas_as(instance, &token(&admin), "tenant")
}

/// kubectl at each replica as an operator.
pub(super) fn replicas_as_operator(instance: &Instance) -> Result<Vec<Kubectl>> {
    let host = instance.kubectl.json(&["config", "view", "--raw", "--flatten", "--minify"])?;
    replicas_as(instance, host.pointer("/users/0/user").context("no user")?, "operator")
}

fn replicas_as(instance: &Instance, user: &Value, who: &str) -> Result<Vec<Kubectl>> {
    let pki = Pki::open(&instance.layout.path("pki"))?;
    let mut all = Vec::new();
    for api in &instance.apis {
        let file = instance.layout.path(&format!("home/{}-{who}.kubeconfig", api.name));
        let server = format!("https://{}:{}", api.host, api.port);
        Kubeconfig::default().context("replica", &server, &pki.cert("serving-ca"), user)?.write(&file)?;
        all.push(instance.kubectl.with_kubeconfig(&file));
    }
    Ok(all)
}

/// Creates namespaces through whichever replica answers; gives the names of those that were acknowledged.
fn write(replicas: &[&Kubectl], before: impl Fn(usize) -> Result<()>) -> Result<Vec<String>> {
    let path = "/apis/business.tkestack.io/v1/namespaces/load/namespaces";
    let mut acknowledged = Vec::new();
    for number in 0..WRITES {
        before(number)?;
        let object = namespace("load", HOST_CLUSTER, &format!("load-{number}"), SMALL).to_string();
        let args = ["create", "--raw", path, "-f", "-"];
        let stored = replicas.iter().any(|replica| {
            replica.output(&args, Some(&object)).is_ok_and(|output| {
                // The answer of the killed replica may be lost after its commit.
                output.status.success() || String::from_utf8_lossy(&output.stderr).contains("AlreadyExists")
            })
        });
        ensure!(stored, "write {number} found no replica");
        acknowledged.push(format!("{HOST_CLUSTER}-load-{number}"));
    }
    Ok(acknowledged)
}

fn until_all(k: &Kubectl, names: &[String]) -> Result<()> {
    wait::until("all acknowledged writes are there and Available", SOON, || {
        let list = k.json(&["get", "bns", "-n", "load"])?;
        let phases: BTreeMap<&str, &str> = list
            .get("items")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|item| {
                Some((item.pointer("/metadata/name")?.as_str()?, item.pointer("/status/phase")?.as_str()?))
            })
            .collect();
        if let Some(lost) = names.iter().find(|name| !phases.contains_key(name.as_str())) {
            bail!("{lost} was acknowledged and is lost");
        }
        let waiting = phases.values().filter(|phase| **phase != "Available").count();
        Ok(if waiting == 0 {
            Progress::Done(())
        } else {
            Progress::Pending(format!("{waiting} are not Available"))
        })
    })
}

/// Watches until `done`, by one replica after another, each from the last version; counts ADDED by name.
fn watch(replicas: &[&Kubectl], from: &str, done: &AtomicBool) -> Result<BTreeMap<String, usize>> {
    let mut version = from.to_owned();
    let mut added = BTreeMap::new();
    let mut is_over = false;
    while !is_over {
        // The watches that begin after `done` get every write before it.
        is_over = done.load(Ordering::Relaxed);
        for replica in replicas {
            watch_once(replica, &mut version, &mut added)?;
        }
    }
    Ok(added)
}

/// Watches for a few seconds from a version, which moves on.
fn watch_once(replica: &Kubectl, version: &mut String, added: &mut BTreeMap<String, usize>) -> Result<()> {
    let path = format!(
        "/apis/business.tkestack.io/v1/namespaces/load/namespaces?watch=1&timeoutSeconds=3&resourceVersion={version}"
    );
    let output = replica.output(&["get", "--raw", &path], None)?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { break };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        ensure!(kind != "ERROR", "the watch was refused: {line}");
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        if let Some(next) = text("/object/metadata/resourceVersion") {
            *version = next;
        }
        if let (Some(name), "ADDED") = (text("/object/metadata/name"), kind) {
            *added.entry(name).or_default() += 1;
        }
    }
    Ok(())
}

/// Writes get 503 with Retry-After, namespace deletion in the host cluster goes on, everything recovers alone.
pub(super) fn postgres(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    apply(k, &project("database", None, &[(HOST_CLUSTER, HARD)]))?;
    until_active(k, "database")?;
    k.run(&["create", "namespace", "bystander"])?;
    let proxy = Proxy::start(k)?;
    instance.supervisor.pause("postgres")?;
    let begun = Instant::now();
    let during = (|| {
        let write = || proxy.post("/apis/business.tkestack.io/v1/projects", &project("never", None, &[]));
        let mut answer = write()?;
        if answer.code == 504 {
            // The one write that was under way when the connection broke: nobody can know its outcome.
            answer = write()?;
        }
        ensure!(answer.code == 503, "a write is answered {}: {}", answer.code, answer.body);
        ensure!(answer.headers.contains("retry-after:"), "no Retry-After: {}", answer.headers);
        k.run(&["delete", "namespace", "bystander", "--timeout=120s"])?;
        let discovery = proxy.get("/apis/business.tkestack.io/v1")?;
        ensure!(discovery.code == 200, "discovery is answered {}", discovery.code);
        wait::until("the outage is long enough", DATABASE_DOWN * 2, || {
            let long = begun.elapsed() > DATABASE_DOWN;
            Ok(if long { Progress::Done(()) } else { Progress::Pending(String::new()) })
        })
    })();
    instance.supervisor.resume("postgres")?;
    during?;
    wait::until("writes work again", SOON, || {
        Ok(match apply(k, &namespace("database", HOST_CLUSTER, "after", SMALL)) {
            Ok(_) => Progress::Done(()),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })?;
    until_available(k, "database", &format!("{HOST_CLUSTER}-after"))?;
    k.run(&["delete", "project", "database", "--wait=false"])?;
    until_gone(k, &["project", "database"])
}
