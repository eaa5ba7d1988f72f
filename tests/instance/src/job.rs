//! The main use case, step by step, as a user would do it with kubectl.

use crate::kubectl::Kubectl;
pub use crate::objects::{Hard, namespace, namespace_of, project, project_of};
use crate::platform::{HOST_CLUSTER, Instance};
use crate::wait::{self, Progress};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use terminal::say;

const SOON: Duration = Duration::from_mins(2);

/// Applies one object the way a person does.
pub fn apply(kubectl: &Kubectl, object: &Value) -> Result<String> {
    kubectl.feed(&["apply", "-f", "-"], &object.to_string())
}

/// Waits until a field of an object has a value.
pub fn until_field(kubectl: &Kubectl, get: &[&str], pointer: &str, wanted: &Value) -> Result<Value> {
    wait::until(&format!("{} {pointer} = {wanted}", get.join(" ")), SOON, || {
        let args: Vec<&str> = ["get"].into_iter().chain(get.iter().copied()).collect();
        Ok(match kubectl.json(&args) {
            Ok(object) if object.pointer(pointer) == Some(wanted) => Progress::Done(object),
            Ok(object) => Progress::Pending(format!(
                "{} (status {})",
                object.pointer(pointer).unwrap_or(&Value::Null),
                object.get("status").unwrap_or(&Value::Null)
            )),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}

/// Waits until an object does not exist.
pub fn until_gone(kubectl: &Kubectl, get: &[&str]) -> Result<()> {
    wait::until(&format!("{} gone", get.join(" ")), SOON * 2, || {
        let args: Vec<&str> = ["get", "--ignore-not-found"].into_iter().chain(get.iter().copied()).collect();
        Ok(match kubectl.json_or_nothing(&args) {
            Ok(None) => Progress::Done(()),
            Ok(Some(object)) => Progress::Pending(object.get("status").unwrap_or(&Value::Null).to_string()),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}

pub fn until_active(kubectl: &Kubectl, project: &str) -> Result<Value> {
    until_field(kubectl, &["project", project], "/status/phase", &json!("Active"))
}

pub fn until_available(kubectl: &Kubectl, project: &str, name: &str) -> Result<Value> {
    until_field(kubectl, &["bns", name, "-n", project], "/status/phase", &json!("Available"))
}

/// Everything the platform is for, deletion included.
pub fn main_job(instance: &Instance) -> Result<()> {
    let kubectl = &instance.kubectl;
    let (local, other) = (HOST_CLUSTER, instance.clusters.get(1).context("no second cluster")?.as_str());
    let big: Hard<'_> = &[("cpu", "10"), ("memory", "20Gi"), ("pods", "5")];
    let half: Hard<'_> = &[("cpu", "4"), ("memory", "8Gi"), ("pods", "3")];
    let small: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi"), ("pods", "1")];
    say::step("project with quota for two clusters Active", || {
        apply(kubectl, &project("shop", None, &[(local, big), (other, big)]))?;
        until_active(kubectl, "shop")
    })?;
    say::step("child project takes its part", || {
        apply(kubectl, &project("web", Some("shop"), &[(local, half), (other, half)]))?;
        until_active(kubectl, "web")?;
        let used = format!("/status/clusters/{local}/used/cpu");
        until_field(kubectl, &["project", "shop"], &used, &json!("4"))
    })?;
    say::step("namespace in each cluster Available", || {
        for cluster in [local, other] {
            apply(kubectl, &namespace("web", cluster, "web", small))?;
        }
        [local, other].iter().try_for_each(|c| until_available(kubectl, "web", &format!("{c}-web")).map(drop))
    })?;
    say::step("clusters hold the namespaces and their quotas", || quotas(instance, &[local, other]))?;
    say::step("pod over the quota refused by the cluster", || pods(instance, other))?;
    say::step("namespace over the budget refused, with what would fit", || {
        let much: Hard<'_> = &[("cpu", "4"), ("memory", "1Gi"), ("pods", "1")];
        let refusal = kubectl
            .refused(&["create", "-f", "-"], Some(&namespace("web", local, "more", much).to_string()))?;
        ensure!(
            refusal.contains("Forbidden") || refusal.contains("forbidden"),
            "unexpected refusal: {refusal}"
        );
        ensure!(
            refusal.contains("web") && refusal.contains("cpu"),
            "the refusal explains nothing: {refusal}"
        );
        Ok(())
    })?;
    say::step("raised and lowered quota reaches the cluster", || change(instance, other))?;
    say::step("tenant administrator sees the tenant's projects only", || tenant(instance))?;
    say::step("namespace deleted and its amount given back", || {
        kubectl.run(&["delete", "bns", "-n", "web", &format!("{other}-web"), "--wait=false"])?;
        until_gone(kubectl, &["bns", "-n", "web", &format!("{other}-web")])?;
        until_gone(&instance.member(other), &["namespace", "web"])?;
        let zero = |object: &Value| {
            let used = object.pointer(&format!("/status/clusters/{other}/used/cpu")).and_then(Value::as_str);
            used.is_none_or(|cpu| cpu == "0")
        };
        until(kubectl, &["project", "web"], zero)
    })?;
    say::step("project deleted with everything below it", || {
        kubectl.run(&["delete", "project", "shop", "--wait=false"])?;
        until_gone(kubectl, &["project", "shop"])?;
        until_gone(kubectl, &["project", "web"])?;
        until_gone(&instance.member(local), &["namespace", "web"])
    })
}

/// Waits until an object is as it should be.
pub fn until(kubectl: &Kubectl, get: &[&str], holds: impl Fn(&Value) -> bool) -> Result<()> {
    wait::until(&get.join(" "), SOON, || {
        let args: Vec<&str> = ["get"].into_iter().chain(get.iter().copied()).collect();
        Ok(match kubectl.json(&args) {
            Ok(object) if holds(&object) => Progress::Done(()),
            Ok(object) => Progress::Pending(object.get("status").unwrap_or(&Value::Null).to_string()),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })
}

fn quotas(instance: &Instance, clusters: &[&str]) -> Result<()> {
    for cluster in clusters {
        let member = instance.member(cluster);
        let label = "/metadata/labels/tkestack.io~1projectName";
        until_field(&member, &["namespace", "web"], label, &json!("web"))?;
        until_field(&member, &["resourcequota", "web", "-n", "web"], "/status/hard/cpu", &json!("1"))?;
    }
    Ok(())
}

/// The namespace has room for one pod.
fn pods(instance: &Instance, cluster: &str) -> Result<()> {
    let member = instance.member(cluster);
    member.feed(&["create", "-f", "-"], &pod("web", "one", "500m").to_string())?;
    let refusal = member.refused(&["create", "-f", "-"], Some(&pod("web", "two", "500m").to_string()))?;
    ensure!(refusal.contains("exceeded quota"), "unexpected refusal: {refusal}");
    member.run(&["delete", "pod", "one", "-n", "web", "--grace-period=0", "--force"]).map(drop)
}

/// A pod that asks for some cpu and little memory.
pub fn pod(namespace: &str, name: &str, cpu: &str) -> Value {
    let resources =
        json!({"requests": {"cpu": cpu, "memory": "16Mi"}, "limits": {"cpu": cpu, "memory": "16Mi"}});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/main", "resources": resources}]},
    })
}

fn change(instance: &Instance, cluster: &str) -> Result<()> {
    let kubectl = &instance.kubectl;
    let member = instance.member(cluster);
    let name = format!("{cluster}-web");
    for cpu in ["3", "2"] {
        let patch = json!({"spec": {"hard": {"cpu": cpu}}}).to_string();
        kubectl.run(&["patch", "bns", &name, "-n", "web", "--type=merge", "-p", &patch])?;
        until_field(&member, &["resourcequota", "web", "-n", "web"], "/status/hard/cpu", &json!(cpu))?;
        let used = format!("/status/clusters/{cluster}/used/cpu");
        until_field(kubectl, &["project", "web"], &used, &json!(cpu))?;
    }
    Ok(())
}

fn tenant(instance: &Instance) -> Result<()> {
    let mut other = project("foreign", None, &[]);
    if let Some(spec) = other.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("tenantID".to_owned(), json!("another"));
    }
    apply(&instance.kubectl, &other)?;
    let seen = instance.tenant().run(&["get", "projects", "-o", "name"])?;
    ensure!(seen.contains("/shop") && !seen.contains("foreign"), "the tenant sees: {seen}");
    let refusal = instance.tenant().refused(&["get", "project", "foreign"], None)?;
    ensure!(refusal.contains("NotFound"), "unexpected refusal: {refusal}");
    instance.kubectl.run(&["delete", "project", "foreign", "--wait=false"])?;
    until_gone(&instance.kubectl, &["project", "foreign"])
}
