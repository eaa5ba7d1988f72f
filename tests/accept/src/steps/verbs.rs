use super::background::Background;
use super::{contains, output};
use anyhow::{Context, Result, ensure};
use instance::job::{self, Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

const HARD: Hard<'_> = &[("cpu", "10"), ("memory", "10Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
const LINES_MAX: usize = 1000;

/// apply, get, label, annotate, patch, diff, wait, delete.
pub(super) fn verbs(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let object = project("verbs", None, &[(HOST_CLUSTER, HARD)]);
    contains(&apply(k, &object)?, &["verbs created"])?;
    contains(&apply(k, &object)?, &["verbs unchanged"])?;
    k.run(&["wait", "--for=condition=Ready", "project/verbs", "--timeout=120s"])?;
    apply(k, &namespace("verbs", HOST_CLUSTER, "verbs", SMALL))?;
    let name = format!("{HOST_CLUSTER}-verbs");
    let full = format!("namespaces.business.tkestack.io/{name}");
    k.run(&["wait", "--for=condition=Ready", &full, "-n", "verbs", "--timeout=120s"])?;
    contains(&k.run(&["get", "projects,bns", "-A"])?, &["verbs", &name])?;
    contains(
        &k.run(&["get", "projects,bns", "-A", "-o", "wide"])?,
        &["NAME", "verbs", "Active", "Available"],
    )?;
    contains(&k.run(&["get", "prj", "verbs", "-o", "yaml"])?, &["displayName: verbs", "phase: Active"])?;
    contains(&k.run(&["get", "bns", "-A", "--field-selector", "spec.namespace=verbs"])?, &[&name])?;
    contains(&k.run(&["label", "project", "verbs", "tier=gold"])?, &["labeled"])?;
    contains(&k.run(&["get", "projects", "-l", "tier=gold", "-o", "name"])?, &["/verbs"])?;
    contains(&k.run(&["annotate", "project", "verbs", "note=hello"])?, &["annotated"])?;
    k.run(&["patch", "project", "verbs", "--type=merge", "-p", r#"{"spec":{"displayName":"merged"}}"#])?;
    let patch = r#"[{"op":"replace","path":"/spec/displayName","value":"patched"}]"#;
    k.run(&["patch", "project", "verbs", "--type=json", "-p", patch])?;
    job::until_field(k, &["project", "verbs"], "/spec/displayName", &json!("patched"))?;
    diff(k, &object)?;
    k.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &object.to_string())?;
    k.run(&["delete", &full, "-n", "verbs", "--timeout=120s"])?;
    until_gone(&instance.member(HOST_CLUSTER), &["namespace", "verbs"])?;
    k.run(&["delete", "project", "verbs", "--timeout=120s"])?;
    until_gone(k, &["project", "verbs"])
}

fn diff(k: &Kubectl, object: &serde_json::Value) -> Result<()> {
    let output = k.output(&["diff", "-f", "-"], Some(&object.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(1), "diff: {text}{}", String::from_utf8_lossy(&output.stderr));
    contains(&text, &["-  displayName: patched", "+  displayName: verbs"])
}

/// explain, describe, edit, get -w, create --dry-run=server, deletecollection.
pub(super) fn conveniences(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    contains(&k.run(&["api-resources", "--api-group=business.tkestack.io"])?, &["projects", "prj", "bns"])?;
    contains(&k.run(&["explain", "project.spec.clusters"])?, &["clusters", "FIELD"])?;
    contains(&k.run(&["explain", "bns.status"])?, &["cachedSpecHard", "phase"])?;
    let (seen, watcher) = watch(k, &["get", "projects", "-w", "-o", "name"])?;
    apply(k, &project("handy", None, &[(HOST_CLUSTER, HARD)]))?;
    wait::until("get -w shows the project", Duration::from_mins(2), || {
        let lines: Vec<String> = seen.try_iter().collect();
        let found = lines.iter().any(|line| line.ends_with("/handy"));
        Ok(if found { Progress::Done(()) } else { Progress::Pending(lines.join(",")) })
    })?;
    drop(watcher);
    until_active(k, "handy")?;
    contains(&k.run(&["describe", "project", "handy"])?, &["Name:", "handy", "Spec:", "Status:"])?;
    let mut edit = k.command(&["edit", "project", "handy"]);
    let edited = output(edit.env("KUBE_EDITOR", "sed -i s/displayName:.handy/displayName:\\ edited/"))?;
    ensure!(edited.status.success(), "edit: {}", String::from_utf8_lossy(&edited.stderr));
    job::until_field(k, &["project", "handy"], "/spec/displayName", &json!("edited"))?;
    let ghost = project("ghost", None, &[]).to_string();
    k.feed(&["create", "--dry-run=server", "-f", "-"], &ghost)?;
    contains(&k.refused(&["get", "project", "ghost"], None)?, &["NotFound"])?;
    for number in 0..3 {
        apply(k, &namespace("handy", HOST_CLUSTER, &format!("handy-{number}"), SMALL))?;
    }
    until_available(k, "handy", &format!("{HOST_CLUSTER}-handy-2"))?;
    k.run(&["delete", "bns", "--all", "-n", "handy", "--timeout=120s"])?;
    k.run(&["delete", "project", "handy", "--timeout=120s"])?;
    until_gone(k, &["project", "handy"])
}

fn watch(k: &Kubectl, args: &[&str]) -> Result<(mpsc::Receiver<String>, Background)> {
    let mut watcher = Background::spawn(k.command(args).stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let out = watcher.child()?.stdout.take().context("no output")?;
    let (send, receive) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    Ok((receive, watcher))
}
