use super::{NO, business, contains, json_of};
use anyhow::{Context, Result, ensure};
use instance::job::{self, until_available, until_field, until_gone};
use instance::kubectl::Kubectl;
use instance::{Instance, demo};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Something went wrong.
const FAILED: i32 = 1;
const NAMESPACE: &str = "taking";

/// A namespace that nobody manages is found, is not taken while anything is wrong with it, and is taken as it stands.
pub(in crate::steps) fn takes(instance: &Instance) -> Result<()> {
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    demo::make(instance)?;
    let taking = AdoptTest {
        instance,
        cluster,
        operator: business(instance, &instance.kubectl)?,
        member: instance.member(cluster),
        file: instance.layout.path("taking.json"),
    };
    taking.unmanaged()?;
    let before = taking.uid("configmap", "content")?;
    let found = taking.found()?;
    taking.nothing_wrong_is_taken(&found)?;
    taking.is_taken(&found)?;
    ensure!(taking.uid("configmap", "content")? == before, "what was in it is not what it was");
    taking.is_released()?;
    std::fs::remove_file(&taking.file)?;
    demo::clear(instance)
}

struct AdoptTest<'a> {
    instance: &'a Instance,
    cluster: &'a str,
    operator: Kubectl,
    member: Kubectl,
    file: PathBuf,
}

impl AdoptTest<'_> {
    fn object(&self) -> String {
        format!("{}-{NAMESPACE}", self.cluster)
    }

    fn is_there(&self) -> Result<bool> {
        let get = ["get", "bns", &self.object(), "-n", demo::PROJECT, "--ignore-not-found"];
        Ok(self.instance.kubectl.json_or_nothing(&get)?.is_some())
    }

    fn uid(&self, resource: &str, name: &str) -> Result<Value> {
        let object = self.member.json(&["get", resource, name, "-n", NAMESPACE])?;
        object.pointer("/metadata/uid").cloned().context("no uid")
    }

    fn unmanaged(&self) -> Result<()> {
        let items = json!([
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "own", "namespace": NAMESPACE},
             "spec": {"hard": {"requests.cpu": "1", "requests.memory": "1Gi", "pods": "3"}}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "content", "namespace": NAMESPACE}},
        ]);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.member.feed(&["create", "-f", "-"], &list.to_string())?;
        until_field(
            &self.member,
            &["resourcequota", "own", "-n", NAMESPACE],
            "/status/hard/pods",
            &json!("3"),
        )
        .map(drop)
    }

    /// With what its quota says, for a person and for `adopt`.
    fn found(&self) -> Result<Value> {
        let path = self.member.kubeconfig().to_string_lossy();
        let discover = ["discover", self.cluster, "--kubeconfig", &path, "--project", demo::PROJECT];
        let shown = self.operator.run(&discover)?;
        let line = shown.lines().find(|line| line.starts_with(NAMESPACE)).context("it is not found")?;
        contains(line, &[demo::PROJECT, "pods=3, requests.cpu=1, requests.memory=1Gi"])?;
        ensure!(!shown.contains("kube-system"), "the cluster's own is nobody's to take: {shown}");
        let list = json_of(&self.operator, &[&discover[..], &["-o", "json"]].concat(), 0)?;
        let is_it = |item: &&Value| item.pointer("/spec/namespace") == Some(&json!(NAMESPACE));
        let items = list.get("items").and_then(Value::as_array);
        items.and_then(|items| items.iter().find(is_it)).cloned().context("a program does not find it")
    }

    /// `adopt` of one object, which ends with this code; what it tells.
    fn adopt(&self, object: &Value, more: &[&str], code: i32) -> Result<String> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [object]});
        std::fs::write(&self.file, list.to_string())?;
        let (file, path) = (self.file.to_string_lossy(), self.member.kubeconfig().to_string_lossy());
        let args = [&["adopt", "-f", &*file, "--kubeconfig", &*path], more].concat();
        let output = self.operator.output(&args, None)?;
        let told =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.code() == Some(code), "{more:?} ended with {}: {told}", output.status);
        Ok(told)
    }

    fn nothing_wrong_is_taken(&self, found: &Value) -> Result<()> {
        let with = |path: &str, value: &str| -> Result<Value> {
            let mut object = found.clone();
            *object.pointer_mut(path).context("no such field")? = json!(value);
            Ok(object)
        };
        let large = self.adopt(&with("/spec/hard/pods", "51")?, &[], NO)?;
        contains(&large, &["exceeded quota of project \"shop\"", "next: ask for pods="])?;
        contains(
            &self.adopt(&with("/spec/namespace", "absent")?, &[], FAILED)?,
            &["namespace absent is not there"],
        )?;
        contains(
            &self.adopt(&with("/metadata/namespace", "")?, &[], FAILED)?,
            &["say in metadata.namespace"],
        )?;
        contains(&self.adopt(found, &["--dry-run"], 0)?, &["1 namespace would be taken"])?;
        ensure!(!self.is_there()?, "something was taken");
        Ok(())
    }

    fn is_taken(&self, found: &Value) -> Result<()> {
        let k = &self.instance.kubectl;
        contains(&self.adopt(found, &[], 0)?, &["1 namespace is taken"])?;
        until_available(k, demo::PROJECT, &self.object())?;
        let get = ["bns", &self.object(), "-n", demo::PROJECT];
        until_field(k, &get, "/status/clusterNamespace/provenance", &json!("Adopted"))?;
        let described = self.operator.run(&["describe", "namespace", &self.object(), "-n", demo::PROJECT])?;
        contains(&described, &["Available", "Events\n  AGE"])?;
        contains(&self.adopt(found, &[], NO)?, &["next: "])?;
        let path = self.member.kubeconfig().to_string_lossy();
        let rest = self.operator.output(&["discover", self.cluster, "--kubeconfig", &path], None)?;
        let rest = String::from_utf8_lossy(&rest.stdout);
        ensure!(!rest.lines().any(|line| line.starts_with(NAMESPACE)), "it is managed and found: {rest}");
        Ok(())
    }

    /// Its object goes, and it stays what it was.
    fn is_released(&self) -> Result<()> {
        let k = &self.instance.kubectl;
        k.run(&["delete", "bns", &self.object(), "-n", demo::PROJECT, "--wait=false"])?;
        until_gone(k, &["bns", &self.object(), "-n", demo::PROJECT])?;
        job::until(&self.member, &["namespace", NAMESPACE], |namespace| {
            namespace.pointer("/metadata/labels/tkestack.io~1projectName").is_none()
        })?;
        until_gone(&self.member, &["resourcequota", NAMESPACE, "-n", NAMESPACE])?;
        self.uid("configmap", "content")?;
        self.member.run(&["delete", "namespace", NAMESPACE, "--wait=false"])?;
        until_gone(&self.member, &["namespace", NAMESPACE])
    }
}
