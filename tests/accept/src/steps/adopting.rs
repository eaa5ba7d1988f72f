use super::{contains, output};
use anyhow::{Context, Result, ensure};
use instance::job::{
    self, Hard, apply, pod, project, until_active, until_available, until_field, until_gone,
};
use instance::kubectl::Kubectl;
use instance::{Instance, layout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROJECT: &str = "adopting";
/// It has no quota.
const PLAIN: &str = "adopting-plain";
/// A pod uses its quota.
const USED: &str = "adopting-used";
/// It has several quotas.
const SEVERAL: &str = "adopting-several";
/// Its quota has the name that the controller uses, which is that of the namespace.
const SAME_NAME: &str = "adopting-alike";
const ALL: [&str; 4] = [SAME_NAME, PLAIN, SEVERAL, USED];
/// Kubernetes creates this ConfigMap in each namespace a moment later.
const ROOT_CA: &str = "kube-root-ca.crt";

/// `discover` writes unmanaged namespaces into a file, and `adopt` adopts all of them or none. Their content does not
/// change, and they stay in the cluster when their objects are deleted.
pub(super) fn adopting(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let cluster = instance.clusters.get(1).context("no second cluster")?.as_str();
    let member = instance.member(cluster);
    let hard: Hard<'_> = &[("cpu", "10"), ("memory", "10Gi")];
    apply(k, &project(PROJECT, None, &[(cluster, hard)]))?;
    until_active(k, PROJECT)?;
    create_unmanaged(&member)?;
    let commands = Commands { instance, file: instance.layout.path("adopting.yaml") };
    let before = contents(&member)?;

    let discovered = stdout(&commands.discover(cluster)?)?;
    check_proposal(&discovered)?;
    let edited = edit(&discovered);
    invalid_files_are_refused(&commands, cluster, &edited)?;
    ensure!(contents(&member)? == before, "a file that was refused has changed the cluster");

    std::fs::write(&commands.file, &edited)?;
    let rehearsed = stdout(&commands.adopt(&["--dry-run"])?)?;
    contains(&rehearsed, &["4 namespaces would be adopted"])?;
    let program: Value = serde_json::from_str(&stdout(&commands.adopt(&["--dry-run", "-o", "json"])?)?)?;
    let expected = json!({"accepted": true, "dryRun": true, "namespaces": 4, "wrong": []});
    ensure!(program == expected, "to a program: {program}");
    ensure!(objects(k)?.is_empty(), "a dry run has made objects");
    contains(&stdout(&commands.adopt(&[])?)?, &["4 namespaces are adopted"])?;
    check_adopted(instance, cluster, &before)?;

    let again = commands.adopt(&[])?;
    ensure!(!again.status.success(), "adopted twice");
    contains(&stderr(&again), &[&format!("{}:", commands.file.display()), "exists", "nothing is adopted"])?;
    let rest = stdout(&commands.discover(cluster)?)?;
    ensure!(ALL.iter().all(|name| !rest.contains(name)), "it is managed and discovered: {rest}");
    super::books(instance)?;
    release(instance, cluster, &before)
}

/// The commands of business-controller, as an operator runs them.
struct Commands<'a> {
    instance: &'a Instance,
    file: PathBuf,
}

impl Commands<'_> {
    fn discover(&self, cluster: &str) -> Result<Output> {
        self.run(&["discover", cluster, "--project-label", "team"])
    }

    fn adopt(&self, more: &[&str]) -> Result<Output> {
        let file = self.file.to_string_lossy();
        self.run(&[&["adopt", "-f", &file], more].concat())
    }

    fn run(&self, args: &[&str]) -> Result<Output> {
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let layout = &self.instance.layout;
        let mut command = Command::new(layout::program_path("business-controller")?);
        command.args(args);
        command.arg(flag("kubeconfig", &layout.path("kubeconfig")));
        command.arg(flag("members-kubeconfig", &layout.path("members")));
        output(&mut command)
    }
}

fn stdout(output: &Output) -> Result<String> {
    ensure!(output.status.success(), "{}", stderr(output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn create_unmanaged(member: &Kubectl) -> Result<()> {
    let namespace = |name: &str, team: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
    let quota = |namespace: &str, name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    let map = |namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "content", "namespace": namespace}});
    let mut items = vec![
        namespace(PLAIN, "nobody"),
        namespace(USED, PROJECT),
        namespace(SEVERAL, PROJECT),
        namespace(SAME_NAME, PROJECT),
        quota(USED, "own", json!({"hard": {"cpu": "1", "memory": "1Gi"}})),
        quota(SEVERAL, "cpu", json!({"hard": {"cpu": "2"}})),
        quota(SEVERAL, "memory", json!({"hard": {"memory": "2Gi", "cpu": "1500m"}})),
        quota(SEVERAL, "best-effort", json!({"hard": {"pods": "3"}, "scopes": ["BestEffort"]})),
        quota(SAME_NAME, SAME_NAME, json!({"hard": {"cpu": "1", "memory": "1Gi"}})),
    ];
    items.extend(ALL.map(map));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    member.feed(&["create", "-f", "-"], &list.to_string())?;
    until_field(member, &["resourcequota", "own", "-n", USED], "/status/hard/cpu", &json!("1"))?;
    member.feed(&["create", "-f", "-"], &pod(USED, "one", "500m").to_string())?;
    until_field(member, &["resourcequota", "own", "-n", USED], "/status/used/cpu", &json!("500m"))?;
    Ok(())
}

/// A line for each namespace with its uid, and for each object in it with uid and resource version. The quota that the
/// controller creates is left out. Of other quotas only the uid counts, because their status changes.
fn contents(member: &Kubectl) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in ALL {
        let field = |object: &Value, path: &str| object.pointer(path).cloned().unwrap_or_default();
        let namespace = member.json(&["get", "namespace", name])?;
        found.push(format!("{name} {}", field(&namespace, "/metadata/uid")));
        let inside = member.json(&["get", "pods,configmaps,resourcequotas", "-n", name])?;
        for object in inside.get("items").and_then(Value::as_array).into_iter().flatten() {
            if field(object, "/metadata/name") == json!(ROOT_CA) {
                continue;
            }
            let is_quota = field(object, "/kind") == json!("ResourceQuota");
            let version = if is_quota { Value::Null } else { field(object, "/metadata/resourceVersion") };
            if !is_quota || field(object, "/metadata/name") != json!(name) || name == SAME_NAME {
                let uid = field(object, "/metadata/uid");
                found.push(format!("{name} {} {uid} {version}", field(object, "/metadata/name")));
            }
        }
    }
    Ok(found)
}

/// The line of a namespace in the file.
fn line<'a>(file: &'a str, namespace: &str) -> Result<&'a str> {
    let wanted = format!("namespace: \"{namespace}\"");
    file.lines().find(|line| line.contains(&wanted)).with_context(|| format!("no {namespace} in:\n{file}"))
}

fn check_proposal(file: &str) -> Result<()> {
    ensure!(line(file, PLAIN)?.starts_with("# - "), "it belongs to nobody:\n{file}");
    contains(line(file, PLAIN)?, &["no quota", "labels team=nobody"])?;
    for name in [USED, SEVERAL, SAME_NAME] {
        ensure!(line(file, name)?.starts_with("- "), "it belongs to {PROJECT}:\n{file}");
    }
    contains(line(file, USED)?, &["\"cpu\": \"1\"", "\"memory\": \"1Gi\"", "uses cpu=500m"])?;
    contains(line(file, SEVERAL)?, &["\"cpu\": \"2\"", "\"memory\": \"2Gi\""])?;
    for name in ["kube-system", "default"] {
        ensure!(!file.contains(&format!("namespace: \"{name}\"")), "{name} is nobody's to take:\n{file}");
    }
    Ok(())
}

/// Edits the file as a person does: gives a project and a quota to the namespace that has none, and removes namespaces of
/// other tests.
fn edit(file: &str) -> String {
    let lines = file.lines().filter_map(|line| {
        if line.contains(&format!("namespace: \"{PLAIN}\"")) {
            let uncommented =
                line.trim_start_matches("# ").replace("project: \"\"", &format!("project: \"{PROJECT}\""));
            Some(uncommented.replace("hard: {}", "hard: {cpu: 1, memory: 1Gi}"))
        } else {
            let is_wanted = line.starts_with('#') || ALL.iter().any(|name| line.contains(name));
            is_wanted.then(|| line.to_owned())
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// A refusal names the file, the line and the field, and then no namespace is adopted.
fn invalid_files_are_refused(commands: &Commands<'_>, cluster: &str, good: &str) -> Result<()> {
    let number = good.lines().position(|line| line.contains(USED)).context("no line")? + 1;
    let place = format!("{}:{number}:", commands.file.display());
    let cases = [
        ("\"cpu\": \"1\"", "\"cpu\": \"11\"", "hard[cpu]: "),
        ("\"cpu\": \"1\"", "\"cpu\": \"many\"", "hard: cpu: "),
        (&format!("project: \"{PROJECT}\""), "project: \"nowhere\"", "project: "),
        (
            &format!("namespace: \"{USED}\""),
            "namespace: \"is-not-there\"",
            &format!("namespace: cluster {cluster}"),
        ),
    ];
    for (find, replace, why) in cases {
        let lines = good
            .lines()
            .map(|line| if line.contains(USED) { line.replace(find, replace) } else { line.to_owned() });
        std::fs::write(&commands.file, lines.collect::<Vec<_>>().join("\n"))?;
        let refused = commands.adopt(&[])?;
        ensure!(refused.status.code() == Some(2), "{replace} was taken: {}", stderr(&refused));
        contains(&stderr(&refused), &[&format!("{place} {why}"), "nothing is adopted"])?;
        ensure!(objects(&commands.instance.kubectl)?.is_empty(), "{replace}: some objects were made");
    }
    Ok(())
}

fn objects(k: &Kubectl) -> Result<Vec<Value>> {
    let list = k.json(&["get", "bns", "-n", PROJECT])?;
    Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
}

/// Each namespace is Available, recorded as adopted, and has the quota. Its content is unchanged.
fn check_adopted(instance: &Instance, cluster: &str, before: &[String]) -> Result<()> {
    let (k, member) = (&instance.kubectl, instance.member(cluster));
    for name in ALL {
        let object = format!("{cluster}-{name}");
        until_available(k, PROJECT, &object)?;
        let provenance = "/status/clusterNamespace/provenance";
        until_field(k, &["bns", &object, "-n", PROJECT], provenance, &json!("Adopted"))?;
        let label = "/metadata/labels/tkestack.io~1projectName";
        until_field(&member, &["namespace", name], label, &json!(PROJECT))?;
        let cpu = if name == SEVERAL { "2" } else { "1" };
        until_field(&member, &["resourcequota", name, "-n", name], "/status/hard/cpu", &json!(cpu))?;
    }
    let used = format!("/status/clusters/{cluster}/used/cpu");
    until_field(k, &["project", PROJECT], &used, &json!("5"))?;
    let now = contents(&member)?;
    ensure!(now == before, "something was touched:\n{before:#?}\n{now:#?}");
    Ok(())
}

/// Deletes the objects: the namespaces stay, and amounts in use are held until they are used no more.
fn release(instance: &Instance, cluster: &str, before: &[String]) -> Result<()> {
    let (k, member) = (&instance.kubectl, instance.member(cluster));
    for name in ALL {
        let object = format!("{cluster}-{name}");
        k.run(&["delete", "bns", &object, "-n", PROJECT, "--wait=false"])?;
        until_gone(k, &["bns", &object, "-n", PROJECT])?;
    }
    let namespaces = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .filter(|line| !line.contains("own") && !line.contains(&format!("{SAME_NAME} \"{SAME_NAME}")))
            .cloned()
            .collect()
    };
    let now = contents(&member)?;
    ensure!(namespaces(&now) == namespaces(before), "something was deleted:\n{before:#?}\n{now:#?}");
    until_field(k, &["project", PROJECT], "/status/ledger/held/0/namespace", &json!(USED))?;
    member.run(&["delete", "pod", "one", "-n", USED, "--grace-period=0", "--force"])?;
    until_field(&member, &["resourcequota", "own", "-n", USED], "/status/used/cpu", &json!("0"))?;
    job::until(k, &["project", PROJECT], |project| project.pointer("/status/ledger/held").is_none())?;
    for name in ALL {
        job::until(&member, &["namespace", name], |namespace| {
            namespace.pointer("/metadata/labels/tkestack.io~1projectName").is_none()
        })?;
        until_gone(&member, &["resourcequota", name, "-n", name])?;
    }
    super::books(instance)?;
    k.run(&["delete", "project", PROJECT, "--wait=false"])?;
    until_gone(k, &["project", PROJECT])?;
    for name in ALL {
        member.run(&["delete", "namespace", name, "--wait=false"])?;
    }
    Ok(())
}
