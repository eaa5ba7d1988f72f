use super::outage::replicas;
use anyhow::{Context, Result, bail, ensure};
use instance::job::{Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::programs::{self, Api};
use instance::wait::{self, Look};
use instance::{HOST_CLUSTER, Instance, layout};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_mins(1);
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
const SMALL: Hard<'_> = &[("cpu", "1"), ("memory", "1Gi")];

/// The release after this one migrates and takes a replica's place, both write, and this one comes back to a schema
/// that is newer than itself; then a replica starts while its database is away.
pub(super) fn rollback(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let (newer, this) =
        (layout::workspace().join(".dev/newer/business-api"), layout::beside("business-api")?);
    let replaced = instance.apis.get(1).context("no second replica")?;
    let replicas = replicas(instance)?;
    let [first, second] = replicas.as_slice() else { bail!("two replicas are needed") };
    apply(k, &project("rollback", None, &[(HOST_CLUSTER, HARD)]))?;
    until_active(k, "rollback")?;
    migrate(instance, &newer)?;
    write(first, "before")?;
    instance.supervisor.replace(&replaced.name, &newer)?;
    replaced.wait(&instance.supervisor)?;
    write(first, "old")?;
    write(second, "new")?;
    let said = migrate(instance, &this)?;
    ensure!(said.contains("newer than this program"), "`migrate` of the old release says: {said}");
    instance.supervisor.replace(&replaced.name, &this)?;
    replaced.wait(&instance.supervisor)?;
    write(second, "back")?;
    early(instance, replaced, second).context("a replica that starts before its database")?;
    for name in ["before", "old", "new", "back", "early"] {
        until_available(k, "rollback", &format!("{HOST_CLUSTER}-{name}"))?;
    }
    k.run(&["delete", "project", "rollback", "--wait=false"])?;
    until_gone(k, &["project", "rollback"])
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
    apply(replica, &namespace("rollback", HOST_CLUSTER, name, SMALL)).map(drop)
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
            let (code, text) = programs::get(api.admin_port, probe)?;
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
