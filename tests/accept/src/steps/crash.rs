use anyhow::{Context, Result};
use instance::job::{self, Hard, apply, namespace, project, until_active};
use instance::wait::{self, Progress};
use instance::{Instance, platform};
use serde_json::{Value, json};
use std::time::Duration;

const RECOVERED: Duration = Duration::from_mins(5);
const NAMESPACES: usize = 12;
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
const SMALL: Hard<'_> = &[("cpu", "2"), ("memory", "2Gi")];

/// Each process is killed in the middle of creations and again in the middle of the deletion; every time the
/// end state is the same: all Available and charged once, then all gone and nothing charged.
pub(super) fn crash(instance: &Instance) -> Result<()> {
    let member = instance.clusters.get(1).context("no second cluster")?.clone();
    let victims = ["business-controller", "business-api", "postgres", "kube-apiserver-local", "etcd"];
    for victim in victims {
        round(instance, &member, victim).with_context(|| format!("with {victim} killed"))?;
    }
    round(instance, &member, &format!("kube-apiserver-{member}")).context("with a member killed")
}

fn round(instance: &Instance, member: &str, victim: &str) -> Result<()> {
    let k = &instance.kubectl;
    again("the project is created", || apply(k, &project("crash", None, &[(member, HARD)])).map(drop))?;
    until_active(k, "crash")?;
    for number in 0..NAMESPACES {
        if number == NAMESPACES / 2 {
            again("the process is killed", || instance.supervisor.kill(victim))?;
        }
        let object = namespace("crash", member, &format!("crash-{number}"), SMALL);
        again("a namespace is created", || apply(k, &object).map(drop))?;
    }
    let used = format!("/status/clusters/{member}/used/cpu");
    until("all Available and charged once", || {
        let phases = k.json(&["get", "bns", "-n", "crash"])?;
        let items = phases.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let ready = items.iter().filter(|i| i.pointer("/status/phase") == Some(&json!("Available"))).count();
        let charged = k.json(&["get", "project", "crash"])?.pointer(&used).cloned().unwrap_or_default();
        let all = ready == NAMESPACES && charged == json!((2 * NAMESPACES).to_string());
        Ok((all, format!("{ready} Available, {charged} cpu charged")))
    })?;
    again("the project is deleted", || k.run(&["delete", "project", "crash", "--wait=false"]).map(drop))?;
    again("the process is killed", || instance.supervisor.kill(victim))?;
    until("all gone", || {
        let left = k.run(&["get", "project", "crash", "--ignore-not-found", "-o", "name"])?;
        let inside = instance.member(member).run(&["get", "namespaces", "-o", "name"])?;
        let inside = inside.lines().filter(|line| line.contains("/crash-")).count();
        Ok((left.trim().is_empty() && inside == 0, format!("{left}, {inside} cluster namespaces")))
    })?;
    platform::apiservice_available(k)?;
    super::books(instance).context("the audit")?;
    job::until_gone(k, &["project", "crash"])
}

/// Tries until it works: what a user does while something is starting again.
fn again(what: &str, mut run: impl FnMut() -> Result<()>) -> Result<()> {
    wait::until(what, RECOVERED, || {
        Ok(match run() {
            Ok(()) => Progress::Done(()),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}

fn until(what: &str, mut look: impl FnMut() -> Result<(bool, String)>) -> Result<()> {
    wait::until(what, RECOVERED, || {
        Ok(match look() {
            Ok((true, _)) => Progress::Done(()),
            Ok((false, last)) => Progress::Pending(last),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}
