use super::{contains, output};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use instance::job::{self, apply, project, until_available, until_field, until_gone};
use instance::kubeconfig::{self, Kubeconfig};
use instance::kubectl::Kubectl;
use instance::pki::Pki;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance, layout};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// A database of TKE's, as it stands in its etcd. TKE answers with what is stored.
const RECORDED: &str = include_str!("../../recorded/tke.jsonl");
const SOON: Duration = Duration::from_mins(3);
const CONTROLLER: &str = "business-controller";
/// What TKE has put into the clusters.
const NAMESPACES: [ExistingNamespace; 4] = [
    ExistingNamespace {
        project: "prj-coming-shop",
        cluster: "member-1",
        name: "coming-web",
        is_marked: true,
    },
    ExistingNamespace {
        project: "prj-coming-shop",
        cluster: "member-1",
        name: "coming-cart",
        is_marked: true,
    },
    ExistingNamespace { project: "prj-coming", cluster: HOST_CLUSTER, name: "coming-desk", is_marked: true },
    // A move that did not end has taken its labels off.
    ExistingNamespace { project: "prj-coming", cluster: "member-1", name: "coming-ledger", is_marked: false },
];
/// Objects that are not imported.
const LEFT_OUT: [&str; 2] =
    ["configmaps/tke-business-controller", "prj-gone/namespaces/member-1-coming-lost"];
/// Fields that TKE computes and that are computed anew, and fields that it does not know.
const OURS: [&str; 13] = [
    "/metadata/generation",
    "/metadata/resourceVersion",
    "/spec/clusterDisplayName",
    "/spec/clusterType",
    "/spec/clusterVersion",
    "/status/cachedParent",
    "/status/cachedSpecClusters",
    "/status/calculatedChildProjects",
    "/status/calculatedNamespaces",
    "/status/clusterNamespace",
    "/status/clusters",
    "/status/conditions",
    "/status/observedGeneration",
];

/// A namespace that exists in a member cluster before the import.
struct ExistingNamespace {
    project: &'static str,
    cluster: &'static str,
    name: &'static str,
    is_marked: bool,
}

/// A field that a rule of the import changes.
struct ExpectedChange {
    object: &'static str,
    field: &'static str,
    wanted: fn() -> Value,
}

const EXPECTED_CHANGES: [ExpectedChange; 6] = [
    // Lost by a PUT of the console.
    ExpectedChange {
        object: "projects/prj-coming-shop",
        field: "/spec/finalizers",
        wanted: || json!(["project"]),
    },
    // A move that did not end is undone, with consent to what stands there without labels.
    ExpectedChange {
        object: "prj-coming/namespaces/member-1-coming-ledger",
        field: "/status/phase",
        wanted: || json!("Pending"),
    },
    ExpectedChange {
        object: "prj-coming/namespaces/member-1-coming-ledger",
        field: "/metadata/annotations",
        wanted: || json!({"business.tkestack.io/adopt": "true"}),
    },
    ExpectedChange {
        object: "prj-coming/nsemigrations/member-1-coming-ledger",
        field: "/status/phase",
        wanted: || json!("Failed"),
    },
    ExpectedChange {
        object: "prj-coming/nsemigrations/member-1-coming-ledger",
        field: "/status/reason",
        wanted: || json!("Imported"),
    },
    ExpectedChange {
        object: "prj-coming/nsemigrations/member-1-coming-ledger",
        field: "/status/message",
        wanted: || {
            json!(
                "it had got to OldOneDetached and has failed: its namespace stays where it is. Make it again"
            )
        },
    },
];

/// Migrates from TKE's etcd into an empty database, with namespaces that exist in the clusters already.
pub(super) fn coming(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    NAMESPACES.iter().try_for_each(|standing| stand(instance, standing))?;
    let before = identities(instance)?;
    let etcd = Etcd::of(instance)?;
    recorded()?.iter().try_for_each(|record| etcd.put(record))?;

    instance.supervisor.pause(CONTROLLER)?;
    let imported = (|| {
        let plan = import(instance, &etcd, &[], 2)?;
        planned(&plan)?;
        import(instance, &etcd, &["--apply"], 0)?;
        compared(k)?;
        let stored = versions(k)?;
        let again = import(instance, &etcd, &["--apply"], 0)?;
        ensure!(
            again.pointer("/counts/namespaces/new") == Some(&json!(0)),
            "a second import writes: {again}"
        );
        ensure!(versions(k)? == stored, "a second import changes something");
        // kubectl waits and tries again.
        k.refused(&["create", "--request-timeout=3s", "-f", "-"], Some(&late().to_string()))?;
        let told = super::audit(instance)?;
        contains(&String::from_utf8_lossy(&told.stdout), &["growth is held: objects were imported"])
    })();
    instance.supervisor.resume(CONTROLLER)?;
    imported?;

    for standing in &NAMESPACES {
        let ExistingNamespace { project, cluster, name, .. } = standing;
        until_available(k, project, &format!("{cluster}-{name}"))?;
        until_sealed(instance, standing)?;
    }
    if instance.registry.is_some() {
        until_field(
            k,
            &["imn", "coming-img", "-n", "prj-coming"],
            "/status/registry/provenance",
            &json!("Made"),
        )?;
        until_field(k, &["rcg", "coming-charts", "-n", "prj-coming"], "/status/phase", &json!("Available"))?;
    }
    ensure!(identities(instance)? == before, "what stood in the clusters is not what it was");
    grows(k)?;
    super::books(instance)?;
    leave(instance)
}

fn late() -> Value {
    project("coming-late", None, &[(HOST_CLUSTER, &[("pods", "1")])])
}

/// Growth goes on when every cluster was compared, but not above a limit.
fn grows(k: &Kubectl) -> Result<()> {
    wait::until("growth goes on", SOON, || {
        Ok(match apply(k, &late()) {
            Ok(_) => Progress::Done(()),
            Err(error) => Progress::Pending(error.to_string()),
        })
    })?;
    let more = r#"{"spec":{"hard":{"pods":"7"}}}"#;
    let web = ["patch", "bns", "member-1-coming-web", "-n", "prj-coming-shop", "--type=merge", "-p", more];
    contains(&k.refused(&web, None)?, &["prj-coming-shop", "pods"])?;
    until_field(k, &["project", "prj-coming-shop"], "/status/clusters/member-1/used/pods", &json!("12"))
        .map(drop)
}

/// A namespace with its quota, which its cluster has seen, and something in it.
fn stand(instance: &Instance, standing: &ExistingNamespace) -> Result<()> {
    let ExistingNamespace { project, cluster, name, is_marked } = standing;
    let member = instance.break_glass(cluster);
    let labels = json!({
        "tkestack.io/projectName": project, "tkestack.io/namespaceName": format!("{cluster}-{name}"),
    });
    let labels = if *is_marked { labels } else { json!({}) };
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    member.feed(&["create", "-f", "-"], &namespace.to_string())?;
    let key = format!("/tke/business/namespaces/{project}/{cluster}-{name}");
    let records = recorded()?;
    let record = records.iter().find(|record| record.get("key") == Some(&json!(key))).context("no record")?;
    let hard = record.pointer("/value/spec/hard").context("no amounts")?;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": name},
        "spec": {"hard": hard},
    });
    member.feed(&["create", "-f", "-"], &quota.to_string())?;
    member.run(&["create", "configmap", "content", "-n", name, "--from-literal=a=b"])?;
    until_field(&member, &["resourcequota", name, "-n", name], "/status/hard", hard).map(drop)
}

/// What tells a namespace, its quota and its content from others in their place, and what is enforced.
fn identities(instance: &Instance) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for ExistingNamespace { cluster, name, .. } in &NAMESPACES {
        let member = instance.member(cluster);
        for [resource, object] in [["namespace", name], ["resourcequota", name], ["configmap", "content"]] {
            let object = member.json(&["get", resource, object, "-n", name])?;
            found.extend(
                ["/metadata/uid", "/spec"].map(|field| object.pointer(field).cloned().unwrap_or_default()),
            );
        }
    }
    Ok(found)
}

fn until_sealed(instance: &Instance, standing: &ExistingNamespace) -> Result<()> {
    let ExistingNamespace { cluster, name, .. } = standing;
    let member = instance.member(cluster);
    let is_sealed = |object: &Value| {
        object.pointer("/metadata/annotations/business.tkestack.io~1seal").is_some_and(Value::is_string)
    };
    job::until(&member, &["namespace", name], is_sealed)?;
    job::until(&member, &["resourcequota", name, "-n", name], is_sealed)
}

/// The etcd of the control planes, beside their prefixes. kubectl is a client of HTTPS like any other.
struct Etcd {
    kubectl: Kubectl,
    pki: Pki,
    url: String,
}

impl Etcd {
    fn of(instance: &Instance) -> Result<Self> {
        let pki = Pki::open(&instance.layout.path("pki"))?;
        let port = instance.supervisor.state(|state| state.ports.get("etcd").copied())?;
        let url = format!("https://127.0.0.1:{}", port.context("etcd has no port")?);
        let file = instance.layout.path("etcd.kubeconfig");
        let user = kubeconfig::certificate(&pki, "etcd-client")?;
        Kubeconfig::default().context("etcd", &url, &pki.cert("etcd-ca"), &user)?.write(&file)?;
        Ok(Self { kubectl: instance.kubectl.with_kubeconfig(&file), pki, url })
    }

    fn put(&self, record: &Value) -> Result<()> {
        let key = record.get("key").and_then(Value::as_str).context("no key")?;
        let value = record.get("value").context("no value")?.to_string();
        let pair = json!({"key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value)});
        self.kubectl.feed(&["create", "--raw", "/v3/kv/put", "-f", "-"], &pair.to_string()).map(drop)
    }

    fn arguments(&self) -> Vec<String> {
        let file = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        vec![
            format!("--etcd-servers={}", self.url),
            format!("--etcd-cafile={}", file(self.pki.cert("etcd-ca"))),
            format!("--etcd-certfile={}", file(self.pki.cert("etcd-client"))),
            format!("--etcd-keyfile={}", file(self.pki.key("etcd-client"))),
        ]
    }
}

/// `business-api import`, which ends with this code, and what it tells programs.
fn import(instance: &Instance, etcd: &Etcd, more: &[&str], code: i32) -> Result<Value> {
    let mut command = Command::new(layout::program_path("business-api")?);
    command.args(["import", "-o", "json"]).args(etcd.arguments()).args(more);
    let ended = output(command.env("DATABASE_URL", &instance.database_url))?;
    let said = String::from_utf8_lossy(&ended.stdout);
    ensure!(
        ended.status.code() == Some(code),
        "import {more:?} ended with {}: {said}{}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    serde_json::from_str(&said).with_context(|| format!("import says {said}"))
}

/// The plan lists the objects that are changed or skipped.
fn planned(plan: &Value) -> Result<()> {
    let findings = plan.get("findings").and_then(Value::as_array).context("no findings")?;
    for (rule, name) in [
        ("administrators", "platform-h4c8w2zn"),
        ("owner", "coming-notes"),
        ("ended", "tke-business-controller"),
        ("finalizer", "prj-coming-shop"),
        ("aboveLimit", "prj-coming-shop"),
        ("emigration", "member-1-coming-ledger"),
        ("retried", "coming-charts"),
        ("projectGone", "member-1-coming-lost"),
    ] {
        let is_it = |found: &&Value| {
            found.get("rule") == Some(&json!(rule)) && found.get("name") == Some(&json!(name))
        };
        ensure!(findings.iter().any(|found| is_it(&found)), "no {rule} of {name} in {plan}");
    }
    ensure!(plan.get("others") == Some(&json!(0)), "the database is not empty: {plan}");
    Ok(())
}

fn recorded() -> Result<Vec<Value>> {
    RECORDED.lines().map(|line| serde_json::from_str(line).context("a record")).collect()
}

/// Where an object is served: `plural/name` or `project/plural/name`.
fn place(record: &Value) -> Result<String> {
    let key = record.get("key").and_then(Value::as_str).unwrap_or_default();
    Ok(match key.trim_start_matches("/tke/business/").split('/').collect::<Vec<_>>().as_slice() {
        [plural, name] => format!("{plural}/{name}"),
        [plural, project, name] => format!("{project}/{plural}/{name}"),
        _ => bail!("{key} names no object"),
    })
}

fn path(place: &str) -> String {
    let group = "/apis/business.tkestack.io/v1";
    if place.matches('/').count() == 2 {
        format!("{group}/namespaces/{place}")
    } else {
        format!("{group}/{place}")
    }
}

/// The API serves the same fields as TKE did, except for those listed above.
fn compared(k: &Kubectl) -> Result<()> {
    for record in recorded()? {
        let place = place(&record)?;
        let get = ["get", "--raw", &path(&place)];
        if LEFT_OUT.contains(&place.as_str()) {
            contains(&k.refused(&get, None)?, &["NotFound"])?;
            continue;
        }
        let mut wanted = record.get("value").cloned().unwrap_or_default();
        let mut served: Value = serde_json::from_str(&k.run(&get)?)?;
        for ExpectedChange { field, wanted: other, .. } in
            EXPECTED_CHANGES.iter().filter(|other| other.object == place)
        {
            set(&mut wanted, field, other()).with_context(|| format!("{place} {field}"))?;
        }
        for value in [&mut wanted, &mut served] {
            for field in OURS {
                remove(value, field);
            }
            prune(value);
        }
        ensure!(served == wanted, "{place} is served as {served:#}, not as {wanted:#}");
    }
    Ok(())
}

fn set(object: &mut Value, field: &str, value: Value) -> Result<()> {
    let (parent, name) = field.rsplit_once('/').context("no path")?;
    let map = object.pointer_mut(parent).and_then(Value::as_object_mut).context("it has no such part")?;
    map.insert(name.to_owned(), value);
    Ok(())
}

fn remove(object: &mut Value, field: &str) {
    let Some((parent, name)) = field.rsplit_once('/') else { return };
    if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        map.remove(name);
    }
}

/// Empty values equal absent ones.
fn prune(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(prune);
        map.retain(|_, value| match value {
            Value::Null => false,
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
}

/// Uids and versions of everything that came.
fn versions(k: &Kubectl) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for record in recorded()? {
        let place = place(&record)?;
        if LEFT_OUT.contains(&place.as_str()) {
            continue;
        }
        let served: Value = serde_json::from_str(&k.run(&["get", "--raw", &path(&place)])?)?;
        found.extend(
            ["/metadata/uid", "/metadata/resourceVersion"]
                .map(|field| served.pointer(field).cloned().unwrap_or_default()),
        );
    }
    Ok(found)
}

/// Everything goes again. What was taken over without labels stays in its cluster.
fn leave(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    // Otherwise they wait until the last token for the registry has expired.
    for [kind, name] in [["imn", "coming-img"], ["rcg", "coming-charts"]] {
        k.run(&["annotate", kind, name, "-n", "prj-coming", "business.tkestack.io/abandon=acceptance"])?;
    }
    for name in ["prj-coming", "coming-late"] {
        k.run(&["delete", "project", name, "--wait=false"])?;
        until_gone(k, &["project", name])?;
    }
    k.run(&["delete", "platforms.business.tkestack.io", "platform-default", "platform-h4c8w2zn"])?;
    k.run(&["delete", "configmaps.business.tkestack.io", "coming-notes"])?;
    for ExistingNamespace { cluster, name, is_marked, .. } in &NAMESPACES {
        let member = instance.break_glass(cluster);
        if !is_marked {
            member.run(&["get", "configmap", "content", "-n", name])?;
            member.run(&["delete", "namespace", name, "--wait=false"])?;
        }
        until_gone(&member, &["namespace", name])?;
    }
    super::books(instance)
}
