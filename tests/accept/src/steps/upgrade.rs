use super::contains;
use super::outage::replicas_as_operator;
/// Requests that go on meanwhile.
mod load;

use anyhow::{Context, Result, bail, ensure};
use instance::job::{Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::programs::{self, Api};
use instance::wait::{self, Look};
use instance::{HOST_CLUSTER, Instance, layout};
use kit::Endpoint;
use load::Load;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use terminal::say;

const SOON: Duration = Duration::from_mins(1);
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];
/// Every program of both releases writes at every level of the tree.
const STEPS: [&str; 4] = ["before", "old", "new", "back"];
const TENANT: &str = "rollback";
const PROJECT: &str = "rollback";
/// Where the load is.
const LOADED: &str = "rollback-load";

/// Releases side by side under load: the one after this one migrates and both write, whichever replica is replaced first, with
/// kills; this one comes back to a schema that is newer than itself; where a release before this one has a tag, the same with
/// that. Then a replica starts while its database is away.
pub(super) fn upgrade(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let (this, replicas) = (layout::beside("business-api")?, replicas_as_operator(instance)?);
    let [_, second] = replicas.as_slice() else { bail!("two replicas are needed") };
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", r#"{"spec":{"hard":{"pods":"4"}}}"#])?;
    apply(k, &project(PROJECT, None, &[(HOST_CLUSTER, HARD)]))?;
    apply(k, &project(LOADED, None, &[(HOST_CLUSTER, HARD)]))?;
    until_active(k, PROJECT)?;
    until_active(k, LOADED)?;
    let former = program("former");
    if former.is_file() {
        let releases = Releases { old: former, new: this.clone() };
        let told = side_by_side(instance, &replicas, &releases, |replica, step| {
            write(replica, &format!("former-{step}"))
        })?;
        say::line(format_args!("      the release before this one: {told}"));
    }
    let newer = Releases { old: this.clone(), new: program("newer") };
    let said = migrate(instance, &newer.new).and_then(|_| migrate(instance, &this))?;
    ensure!(said.contains("newer than this program"), "`migrate` of the old release says: {said}");
    write_all(second, 0)?;
    let told = side_by_side(instance, &replicas, &newer, write_all)?;
    say::line(format_args!("      the release after this one: {told}"));
    let replaced = instance.apis.get(1).context("no second replica")?;
    early(instance, replaced, second).context("a replica that starts before its database")?;
    for name in STEPS.iter().chain(&["early"]) {
        until_available(k, PROJECT, &format!("{HOST_CLUSTER}-{name}"))?;
    }
    let (roots, mut gone) =
        (STEPS.map(|step| format!("rollback-{step}")), vec!["delete", "project", PROJECT, LOADED]);
    gone.extend(roots.iter().map(String::as_str));
    k.run(&gone)?;
    k.run(&["delete", "tenant", TENANT])?;
    k.run(&["delete", "nst", TENANT])?;
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", r#"{"spec":{"hard":null}}"#])?;
    until_gone(k, &["project", LOADED])?;
    until_gone(k, &["project", PROJECT])
}

/// Two programs that serve one database.
struct Releases {
    old: PathBuf,
    new: PathBuf,
}

fn program(release: &str) -> PathBuf {
    layout::workspace().join(".dev").join(release).join("business-api")
}

/// All begin and end with the program of this build; in between each replica runs both releases, beside both, and one is killed
/// in each state.
fn side_by_side(
    instance: &Instance,
    replicas: &[Kubectl],
    releases: &Releases,
    write: impl Fn(&Kubectl, usize) -> Result<()>,
) -> Result<String> {
    let mut ways = vec![Endpoint::from_kubeconfig(&instance.layout.path("kubeconfig"))?];
    for api in &instance.apis {
        let file = instance.layout.path(&format!("home/{}-operator.kubeconfig", api.name));
        ways.push(Endpoint::from_kubeconfig(&file)?);
    }
    let load = Load::begin(ways, LOADED);
    let changed = change_over(instance, replicas, releases, write);
    let path = format!("/apis/business.tkestack.io/v1/namespaces/{LOADED}/namespaces");
    let told = load.end(|| Ok(serde_json::from_str(&instance.kubectl.run(&["get", "--raw", &path])?)?));
    changed.context("releases change")?;
    super::books(instance).context("the audit")?;
    told
}

fn change_over(
    instance: &Instance,
    replicas: &[Kubectl],
    releases: &Releases,
    write: impl Fn(&Kubectl, usize) -> Result<()>,
) -> Result<()> {
    let ([a, b], [first, second]) = (instance.apis.as_slice(), replicas) else {
        bail!("two replicas are needed")
    };
    let runs = |api: &Api, program: &Path| {
        instance.supervisor.replace(&api.name, program)?;
        api.wait(&instance.supervisor)
    };
    let killed = |api: &Api| {
        instance.supervisor.kill(&api.name)?;
        api.wait(&instance.supervisor)
    };
    let Releases { old, new } = releases;
    runs(a, old)?;
    runs(b, old)?;
    runs(b, new)?;
    write(first, 1)?;
    write(second, 2)?;
    killed(a)?;
    killed(b)?;
    runs(a, new)?;
    runs(b, old)?;
    write(second, 3)?;
    killed(b)?;
    killed(a)?;
    let this = layout::beside("business-api")?;
    runs(a, &this)?;
    runs(b, &this)
}

/// A namespace; and below a cluster's amount a ceiling one higher, all of which a new root takes, so that the next is refused;
/// people and a template as well.
fn write_all(replica: &Kubectl, step: usize) -> Result<()> {
    let name = STEPS.get(step).context("no such step")?;
    write(replica, name)?;
    let ceiling = (step + 1).to_string();
    apply(
        replica,
        &json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceTemplate", "metadata": {"name": TENANT},
            "spec": {"displayName": name, "labels": {"step": name}},
        }),
    )?;
    apply(
        replica,
        &json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
            // other tenants of this instance have no ceilings
            "metadata": {"name": TENANT, "annotations": {"business.tkestack.io/accept-unbounded": HOST_CLUSTER}},
            "spec": {
                "displayName": name, "template": TENANT, "clusters": {HOST_CLUSTER: {"hard": {"pods": ceiling}}},
                "administrators": [{"kind": "Group", "name": name}],
            },
        }),
    )?;
    let root = |suffix: &str| {
        let mut root =
            project(&format!("rollback-{name}{suffix}"), None, &[(HOST_CLUSTER, &[("pods", "1")])]);
        if let Some(spec) = root.pointer_mut("/spec").and_then(serde_json::Value::as_object_mut) {
            spec.insert("tenantID".to_owned(), json!(TENANT));
            spec.insert("access".to_owned(), json!([{"kind": "Group", "name": name, "role": "view"}]));
        }
        root
    };
    apply(replica, &root(""))?;
    let refusal = replica.refused(&["create", "-f", "-"], Some(&root("-more").to_string()))?;
    contains(
        &refusal,
        &["exceeded quota of tenant", &format!("hard {ceiling}, allocated {ceiling}, remaining 0")],
    )
}

/// Runs `migrate`, which must succeed, and gives what it says.
fn migrate(instance: &Instance, program: &Path) -> Result<String> {
    let mut command = Command::new(program);
    let output = command
        .args(["migrate", "--log-format=text"])
        .env("DATABASE_URL", &instance.database_url)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{} migrate ended with {}: {said}", program.display(), output.status);
    Ok(said)
}

fn write(replica: &Kubectl, name: &str) -> Result<()> {
    apply(replica, &namespace(PROJECT, HOST_CLUSTER, name, SMALL)).map(drop)
}

/// The replica answers at once, and is useful as soon as its database is there, without another start.
fn early(instance: &Instance, api: &Api, kubectl: &Kubectl) -> Result<()> {
    let supervisor = &instance.supervisor;
    let before = supervisor.pid(&api.name);
    supervisor.pause("postgres")?;
    let during = (|| {
        supervisor.kill(&api.name)?;
        let discovery = ["get", "--raw", "/apis/business.tkestack.io/v1"];
        let process = wait::until("discovery is served", SOON, || {
            let process = supervisor.pid(&api.name).filter(|now| Some(*now) != before);
            Ok(match (process, kubectl.run(&discovery)) {
                (Some(process), Ok(_)) => Look::Yes(process),
                (_, answer) => Look::NotYet(format!("process {process:?}: {answer:?}")),
            })
        })?;
        for (probe, wanted) in [("/livez", 200), ("/readyz", 500)] {
            let (code, text) = programs::answer(api.admin_port, probe)?;
            ensure!(code == wanted, "{probe} answers {code}: {text}");
        }
        Ok(process)
    })();
    supervisor.resume("postgres")?;
    let process = during?;
    api.wait(supervisor)?;
    write(kubectl, "early")?;
    ensure!(supervisor.pid(&api.name) == Some(process), "the replica was started again");
    Ok(())
}
