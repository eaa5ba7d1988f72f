use super::background::Background;
use super::command_line::business;
use super::directory::Directory;
use super::outage::condition;
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::wait::{self, Progress};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terminal::say;

const PROJECT: &str = "rotation";
pub(super) const MEMBERS_NAMESPACE: &str = "tke-business-members";
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
const SMALL: Hard<'_> = &[("cpu", "100m"), ("memory", "64Mi")];
const SOON: Duration = Duration::from_mins(5);
/// A namespace may take this long during the rotation, even if namespaces took less before.
const FLOOR: Duration = Duration::from_secs(20);
/// Namespaces before anything is rotated.
const USUAL: usize = 10;

/// Namespaces are made all the time. The command makes a new token, the controller takes it, and the old one is revoked;
/// then credentials are listed that open nothing.
pub(super) fn rotation(instance: &Instance) -> Result<()> {
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let directory = Directory::of(instance)?;
    apply(&instance.kubectl, &project(PROJECT, None, &[(cluster, HARD)]))?;
    until_active(&instance.kubectl, PROJECT)?;
    let before = in_use(instance, cluster)?;
    let worked = rotates(instance, &directory, cluster, before.as_ref());
    directory.put_back()?;
    worked?;
    wait::until("the first credentials are in use again", SOON, || {
        let used = in_use(instance, cluster)?;
        Ok(if used == before { Progress::Done(()) } else { Progress::Pending(format!("{used:?}")) })
    })?;
    instance.kubectl.run(&["delete", "secret", &secret(cluster), "-n", MEMBERS_NAMESPACE])?;
    instance.kubectl.run(&["delete", "project", PROJECT, "--wait=false"])?;
    until_gone(&instance.kubectl, &["project", PROJECT])
}

fn rotates(instance: &Instance, directory: &Directory, cluster: &str, before: Option<&String>) -> Result<()> {
    let member = instance.member(cluster);
    let path = member.kubeconfig().to_string_lossy().into_owned();
    let operator = business(instance, &instance.kubectl)?;
    operator.run(&["join", cluster, "--kubeconfig", &path, "--days", "2"])?;
    let old = token(instance, cluster)?;
    directory.enter_by(&old, cluster)?;
    let joined = other_in_use(instance, cluster, before)?;
    valid(instance, cluster, "True")?;
    let reached = reachable_since(instance, cluster)?;

    let ended = AtomicBool::new(false);
    let (usual, under_way) = std::thread::scope(|scope| -> Result<_> {
        let load = scope.spawn(|| make_namespaces(instance, cluster, &ended));
        let done = rotate(instance, directory, cluster, &path);
        ended.store(true, Ordering::SeqCst);
        let took = load.join().map_err(|_panic| anyhow::anyhow!("the load has ended"))??;
        done?;
        let (usual, rest) = took.split_at(USUAL.min(took.len()));
        Ok((usual.to_vec(), rest.to_vec()))
    })?;
    let longest = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    say::line(format_args!(
        "      {} namespaces before: {:.1?} at most; {} meanwhile: {:.1?} at most",
        usual.len(),
        longest(&usual),
        under_way.len(),
        longest(&under_way)
    ));
    ensure!(!under_way.is_empty(), "nothing was made meanwhile");
    ensure!(longest(&under_way) <= FLOOR.max(longest(&usual) * 3), "a namespace has waited");

    ensure!(in_use(instance, cluster)?.is_some_and(|used| used != joined), "it uses the old credentials");
    let file = member.kubeconfig().with_extension("old");
    std::fs::write(&file, kubeconfig_with(&kept(instance, cluster)?, &old)?)?;
    let refused = instance.kubectl.with_kubeconfig(&file).refused(&["get", "namespaces"], None)?;
    ensure!(refused.contains("Unauthorized") || refused.contains("logged in"), "the old token: {refused}");

    directory.enter_by("nonsense", cluster)?;
    let told = valid(instance, cluster, "False")?;
    ensure!(told.contains("401"), "{told}");
    apply(&instance.kubectl, &namespace(PROJECT, cluster, "meanwhile", SMALL))?;
    until_available(&instance.kubectl, PROJECT, &format!("{cluster}-meanwhile"))?;
    directory.enter_by(&token(instance, cluster)?, cluster)?;
    valid(instance, cluster, "True")?;
    ensure!(reachable_since(instance, cluster)? == reached, "the cluster was unreachable in between");
    Ok(())
}

/// The command, and who brings what it keeps to where the controller of this instance looks.
fn rotate(instance: &Instance, directory: &Directory, cluster: &str, path: &str) -> Result<()> {
    wait::until("namespaces are made", SOON, || {
        let made = instance.kubectl.json(&["get", "bns", "-n", PROJECT])?;
        let made = made.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len);
        Ok(if made > USUAL { Progress::Done(()) } else { Progress::Pending(format!("{made}")) })
    })?;
    // Before the command begins: it may have written the new one by the time the Secret is read.
    let mut listed = token(instance, cluster)?;
    let operator = business(instance, &instance.kubectl)?;
    let mut command =
        operator.command(&["rotate", cluster, "--kubeconfig", path, "--days", "2", "--timeout", "4m"]);
    let mut running = Background::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    wait::until("the credentials are rotated", SOON, || {
        let kept = token(instance, cluster)?;
        if kept != listed {
            directory.enter_by(&kept, cluster)?;
            listed = kept;
        }
        let Some(output) = running.ended()? else {
            return Ok(Progress::Pending("the command goes on".to_owned()));
        };
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success() && out.contains("the old ones are refused"), "{out}{err}");
        Ok(Progress::Done(()))
    })
}

/// One after another, until it is over. How long each took to be Available.
fn make_namespaces(instance: &Instance, cluster: &str, ended: &AtomicBool) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    while !ended.load(Ordering::SeqCst) && !wait::interrupted() {
        let (name, begun) = (format!("load-{}", took.len()), Instant::now());
        apply(&instance.kubectl, &namespace(PROJECT, cluster, &name, SMALL))?;
        until_available(&instance.kubectl, PROJECT, &format!("{cluster}-{name}"))?;
        took.push(begun.elapsed());
    }
    Ok(took)
}

pub(super) fn secret(cluster: &str) -> String {
    format!("cluster-{cluster}")
}

/// The kubeconfig in the Secret.
fn kept(instance: &Instance, cluster: &str) -> Result<Value> {
    let secret = instance.kubectl.json(&["get", "secret", &secret(cluster), "-n", MEMBERS_NAMESPACE])?;
    let encoded = secret.pointer("/data/kubeconfig").and_then(Value::as_str).context("no kubeconfig")?;
    Ok(serde_yaml_ng::from_slice(&BASE64_STANDARD.decode(encoded)?)?)
}

pub(super) fn token(instance: &Instance, cluster: &str) -> Result<String> {
    let kept = kept(instance, cluster)?;
    let token = kept.pointer("/users/0/user/token").and_then(Value::as_str).context("no token")?;
    Ok(token.to_owned())
}

fn kubeconfig_with(kept: &Value, token: &str) -> Result<String> {
    let mut kubeconfig = kept.clone();
    *kubeconfig.pointer_mut("/users/0/user/token").context("no token")? = json!(token);
    Ok(serde_yaml_ng::to_string(&kubeconfig)?)
}

/// Which credential the controller says that it uses.
pub(super) fn in_use(instance: &Instance, cluster: &str) -> Result<Option<String>> {
    let object = instance.kubectl.json(&["get", "membercluster", cluster])?;
    let found = object.pointer("/status/credential/fingerprint").and_then(Value::as_str);
    Ok(found.map(str::to_owned))
}

/// The same, once it is another one.
fn other_in_use(instance: &Instance, cluster: &str, before: Option<&String>) -> Result<String> {
    wait::until("other credentials are in use", SOON, || {
        Ok(match in_use(instance, cluster)? {
            Some(found) if Some(&found) != before => Progress::Done(found),
            _ => Progress::Pending(format!("still {before:?}")),
        })
    })
}

/// What is said of the newest credentials, once they are in use or not.
fn valid(instance: &Instance, cluster: &str, status: &str) -> Result<String> {
    let is_so = |object: &Value| {
        condition(object, "CredentialsValid").is_some_and(|one| one.get("status") == Some(&json!(status)))
    };
    job::until(&instance.kubectl, &["membercluster", cluster], is_so)?;
    let object = instance.kubectl.json(&["get", "membercluster", cluster])?;
    let message = condition(&object, "CredentialsValid").and_then(|one| one.get("message").cloned());
    Ok(message.unwrap_or_default().to_string())
}

fn reachable_since(instance: &Instance, cluster: &str) -> Result<Value> {
    let object = instance.kubectl.json(&["get", "membercluster", cluster])?;
    let found = condition(&object, "Reachable").context("not looked at")?;
    ensure!(found.get("status") == Some(&json!("True")), "{found}");
    found.get("lastTransitionTime").cloned().context("no time")
}
