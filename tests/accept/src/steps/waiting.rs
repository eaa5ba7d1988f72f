use super::background::Background;
use super::contains;
use anyhow::{Result, ensure};
use instance::job::{Hard, apply, namespace, project};
use instance::kubectl::Kubectl;
use instance::{HOST_CLUSTER, Instance};
use std::process::Stdio;

const HARD: Hard<'_> = &[("cpu", "4")];
const SMALL: Hard<'_> = &[("cpu", "1")];
const KIND: &str = "namespaces.business.tkestack.io";

/// `kubectl wait` for everything it can wait for, through kube-apiserver and directly.
pub(super) fn waiting(instance: &Instance) -> Result<()> {
    [&instance.kubectl, &instance.tenant()].into_iter().try_for_each(waits)
}

fn waits(k: &Kubectl) -> Result<()> {
    let created = begin(k, &["wait", "--for=create", "project/waited", "--timeout=120s"])?;
    apply(k, &project("waited", None, &[(HOST_CLUSTER, HARD)]))?;
    end(created, &["waited condition met"])?;
    let active = "--for=jsonpath={.status.phase}=Active";
    contains(&k.run(&["wait", active, "project/waited", "--timeout=120s"])?, &["condition met"])?;
    for name in ["waited-1", "waited-2"] {
        apply(k, &namespace("waited", HOST_CLUSTER, name, SMALL))?;
    }
    let all = ["wait", "--for=condition=Ready=True", KIND, "--all", "-n", "waited", "--timeout=120s"];
    contains(&k.run(&all)?, &["waited-1 condition met", "waited-2 condition met"])?;
    k.run(&["label", KIND, &format!("{HOST_CLUSTER}-waited-1"), "-n", "waited", "mark=yes"])?;
    let marked = [
        "wait",
        "--for=jsonpath={.status.conditions}",
        KIND,
        "-l",
        "mark=yes",
        "-n",
        "waited",
        "--timeout=120s",
    ];
    contains(&k.run(&marked)?, &["waited-1 condition met"])?;
    let never = ["wait", "--for=condition=Nosuch", "project/waited", "--timeout=1s"];
    contains(&k.refused(&never, None)?, &["timed out waiting for the condition"])?;
    let missing = ["wait", "--for=condition=Ready", "project/waited-not", "--timeout=1s"];
    contains(&k.refused(&missing, None)?, &["NotFound"])?;
    let deleted = begin(k, &["wait", "--for=delete", "project/waited", "--timeout=120s"])?;
    k.run(&["delete", "project", "waited", "--wait=false"])?;
    // It prints nothing if the project was gone before it looked.
    end(deleted, &[])?;
    contains(&k.refused(&["get", "project", "waited"], None)?, &["NotFound"])
}

fn begin(k: &Kubectl, args: &[&str]) -> Result<Background> {
    Background::spawn(k.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn end(mut waiting: Background, wanted: &[&str]) -> Result<()> {
    let output = waiting.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    contains(&String::from_utf8_lossy(&output.stdout), wanted)
}
