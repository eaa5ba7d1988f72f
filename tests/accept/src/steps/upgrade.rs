use super::outage::replicas_as_operator;
use super::{contains, output};
/// Two replicas of the controller.
mod controllers;
/// Requests that go on meanwhile.
mod load;
/// Watches and lists that go on meanwhile.
mod readers;

use anyhow::{Context, Result, bail, ensure};
use controllers::{ControllerPair, FIRST, SECOND};
use instance::job::{Hard, apply, namespace, project, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::programs::{self, Api};
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance, layout};
use kit::Endpoint;
use load::{Acknowledged, Load, Plan, SMALL, WriteResults};
use readers::{Expected, Readers};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use terminal::say;

const SOON: Duration = Duration::from_mins(3);
/// Until the clusters are as they should be after a load.
const SETTLED: Duration = Duration::from_mins(6);
const HARD: Hard<'_> = &[("cpu", "100"), ("memory", "100Gi")];
/// How often releases change.
const ROUNDS: &str = "XTASK_UPGRADE_ROUNDS";
/// Every program of both releases writes at every level of the tree.
const STEPS: [&str; 3] = ["old", "new", "back"];
const TENANT: &str = "rollback";
const PROJECT: &str = "rollback";
/// Where the load is.
const LOADED: &str = "rollback-load";
const API: &str = "business-api";
const CONTROLLER: &str = "business-controller";

/// Releases side by side under load: the one after this one migrates and both write, whichever replica of whichever program is
/// replaced first, with kills; this one comes back to a schema that is newer than itself; where there is a release before this
/// one, the same with that. Then a replica starts while its database is away.
pub(super) fn upgrade(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let (rounds, replicas) = (rounds()?, replicas_as_operator(instance)?);
    let [_, second] = replicas.as_slice() else { bail!("two replicas are needed") };
    let steps = 1 + rounds * STEPS.len();
    let pods = json!({"spec": {"hard": {"pods": steps.to_string()}}}).to_string();
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", &pods])?;
    let clusters: Vec<(&str, Hard<'_>)> =
        instance.clusters.iter().map(|name| (name.as_str(), HARD)).collect();
    for name in [PROJECT, LOADED] {
        apply(k, &project(name, None, &clusters))?;
        until_active(k, name)?;
    }
    let controllers = ControllerPair::begin(instance)?;
    let changed = Trial { instance, replicas: &replicas, controllers: &controllers }.run(rounds);
    let (alone, apis) = (controllers.end(), all_of_this_build(instance));
    changed?;
    alone.context("the controller is alone again")?;
    apis.context("the replicas are of this build again")?;
    let replaced = instance.apis.get(1).context("no second replica")?;
    early(instance, replaced, second).context("a replica that starts before its database")?;
    let names: Vec<String> = (0..steps).map(name_of).collect();
    for name in names.iter().map(String::as_str).chain(["early"]) {
        until_available(k, PROJECT, &format!("{HOST_CLUSTER}-{name}"))?;
    }
    let roots: Vec<String> = names.iter().map(|step| format!("rollback-{step}")).collect();
    let gone: Vec<&str> = [PROJECT, LOADED].into_iter().chain(roots.iter().map(String::as_str)).collect();
    k.run(&[&["delete", "project", "--wait=false"][..], gone.as_slice()].concat())?;
    for name in gone {
        until_gone(k, &["project", name])?;
    }
    k.run(&["delete", "tenant", TENANT])?;
    k.run(&["delete", "nst", TENANT])?;
    k.run(&["patch", "mc", HOST_CLUSTER, "--type=merge", "-p", r#"{"spec":{"hard":null}}"#]).map(drop)
}

/// Steps behind this one have the programs of this build, however it ended.
fn all_of_this_build(instance: &Instance) -> Result<()> {
    let program = layout::program_path(API)?;
    for api in &instance.apis {
        if instance.supervisor.spec(&api.name)?.program != program {
            instance.supervisor.replace(&api.name, &program)?;
            api.wait(&instance.supervisor)?;
        }
    }
    Ok(())
}

fn rounds() -> Result<usize> {
    let set = std::env::var(ROUNDS).unwrap_or_default();
    let rounds = if set.is_empty() { Ok(1) } else { set.parse::<usize>() };
    let rounds = rounds.with_context(|| format!("{ROUNDS}={set}"))?;
    ensure!(rounds > 0, "{ROUNDS}={set}");
    Ok(rounds)
}

/// The first is written before anything changes, then as many in each round.
fn name_of(step: usize) -> String {
    let Some(later) = step.checked_sub(1) else { return "before".to_owned() };
    let name = STEPS.get(later % STEPS.len()).copied().unwrap_or_default();
    match later / STEPS.len() {
        0 => name.to_owned(),
        round => format!("{name}-{}", round + 1),
    }
}

/// Directories with the programs of two releases that serve one database.
struct Releases {
    old: PathBuf,
    new: PathBuf,
}

fn release(name: &str) -> PathBuf {
    layout::workspace().join(".dev").join(name)
}

/// What releases change in.
struct Trial<'a> {
    instance: &'a Instance,
    replicas: &'a [Kubectl],
    controllers: &'a ControllerPair<'a>,
}

impl Trial<'_> {
    fn run(&self, rounds: usize) -> Result<()> {
        let [_, second] = self.replicas else { bail!("two replicas are needed") };
        let (this, former, newer) = (this()?, release("former"), release("newer"));
        let before = Releases { old: former, new: this.clone() };
        let after = Releases { old: this.clone(), new: newer };
        let mut turn = 0;
        for round in 0..rounds {
            if before.old.join(API).is_file() {
                let told = self.side_by_side(&before, turn, |replica, step| {
                    write(replica, &format!("former-{round}-{step}"))
                })?;
                say::line(format_args!("      the release before this one: {told}"));
                turn += 1;
            }
            if round == 0 {
                let said = migrate(self.instance, &after.new.join(API))
                    .and_then(|_| migrate(self.instance, &this.join(API)))?;
                ensure!(
                    said.contains("newer than this program"),
                    "`migrate` of the old release says: {said}"
                );
                write_all(second, 0)?;
            }
            let told = self
                .side_by_side(&after, turn, |replica, step| write_all(replica, round * STEPS.len() + step))?;
            say::line(format_args!("      the release after this one: {told}"));
            turn += 1;
        }
        Ok(())
    }

    /// All begin and end with the programs of this build; in between each replica runs both releases, beside both, and one of each
    /// program is killed. Nobody who reads, writes or lists meanwhile notices more than an answer that he has to ask for again.
    fn side_by_side(
        &self,
        releases: &Releases,
        turn: usize,
        write: impl Fn(&Kubectl, usize) -> Result<()>,
    ) -> Result<String> {
        if turn > 0 {
            self.clear()?;
        }
        let (ways, acknowledged) = (self.ways()?, Acknowledged::default());
        let (_, from) = self.list()?;
        let readers = Readers::begin(&ways, &path(), from, acknowledged.clone());
        let plan = Plan { project: LOADED, clusters: self.instance.clusters.clone(), turn };
        let endpoints = ways.into_iter().map(|(_, way)| way).collect();
        let load = Load::begin(endpoints, plan.clone(), acknowledged.clone());
        let witness = self.controllers.watched()?;
        let changed = self.change_over(releases, turn, write);
        let written = load.end();
        changed.context("releases change")?;
        let written = written?;
        self.until_settled()?;
        self.controllers.until_all_is_shared_out()?;
        witness.end()?;
        let told = self.judge(readers, &plan, &written, &acknowledged)?;
        super::books(self.instance).context("the audit")?;
        Ok(told)
    }

    /// By kube-apiserver, and by each replica.
    fn ways(&self) -> Result<Vec<(String, Endpoint)>> {
        let layout = &self.instance.layout;
        let through = Endpoint::from_kubeconfig(&layout.path("kubeconfig"))?;
        let mut ways = vec![("kube-apiserver".to_owned(), through)];
        for api in &self.instance.apis {
            let file = layout.path(&format!("home/{}-operator.kubeconfig", api.name));
            ways.push((api.name.clone(), Endpoint::from_kubeconfig(&file)?));
        }
        Ok(ways)
    }

    /// To a replica itself: kube-apiserver takes its time to notice that there is one again.
    fn direct(&self) -> Result<&Kubectl> {
        self.replicas.last().context("no replica")
    }

    /// Namespaces of the load, and their list's revision.
    fn list(&self) -> Result<(Vec<Value>, u64)> {
        let mut list: Value = serde_json::from_str(&self.direct()?.run(&["get", "--raw", &path()])?)?;
        let revision = revision_of(&list)?;
        let items = list.pointer_mut("/items").and_then(Value::as_array_mut).context("no list")?;
        Ok((std::mem::take(items), revision))
    }

    /// What an earlier load has left goes.
    fn clear(&self) -> Result<()> {
        self.instance.kubectl.run(&["delete", "bns", "--all", "-n", LOADED, "--wait=false"])?;
        wait::until("the namespaces of an earlier load gone", SETTLED, || {
            let (left, _) = self.list()?;
            Ok(if left.is_empty() { Progress::Done(()) } else { Progress::Pending(left.len().to_string()) })
        })
    }

    fn judge(
        &self,
        readers: Readers,
        plan: &Plan,
        written: &WriteResults,
        acknowledged: &Acknowledged,
    ) -> Result<String> {
        let (items, at) = self.list()?;
        let answers = written.judge(acknowledged, &items)?;
        let mut there = BTreeMap::new();
        for item in &items {
            let name = item.pointer("/metadata/name").and_then(Value::as_str).context("no name")?;
            there.insert(name.to_owned(), revision_of(item)?);
        }
        let marker = namespace(LOADED, HOST_CLUSTER, &plan.name("end"), SMALL).to_string();
        let made = self.direct()?.feed(&["create", "-f", "-", "-o", "json"], &marker)?;
        let last = revision_of(&serde_json::from_str(&made)?)?;
        let expected = Expected { revisions: written.revisions().clone(), there, at, last };
        Ok(format!("{answers}; {}", readers.end(&expected)?))
    }

    /// Waits until all namespaces of the load are in their clusters as they should be, and no others.
    fn until_settled(&self) -> Result<()> {
        wait::until("all namespaces in their clusters as they should be", SETTLED, || {
            let (items, _) = self.list()?;
            let waiting = items.iter().filter(|item| {
                item.pointer("/status/phase") != Some(&json!("Available"))
                    || item.pointer("/metadata/deletionTimestamp").is_some()
            });
            let waiting = waiting.count();
            if waiting > 0 {
                return Ok(Progress::Pending(format!("{waiting} of {} are not Available", items.len())));
            }
            for cluster in &self.instance.clusters {
                let of_cluster = |item: &&Value| item.pointer("/spec/clusterName") == Some(&json!(cluster));
                let wanted: Vec<&Value> = items.iter().filter(of_cluster).collect();
                if let Some(other) = other_than(&self.instance.member(cluster), &wanted)? {
                    return Ok(Progress::Pending(format!("{cluster}: {other}")));
                }
            }
            Ok(Progress::Done(()))
        })
    }

    fn runs(&self, name: &str, program: &Path) -> Result<()> {
        let supervisor = &self.instance.supervisor;
        if supervisor.spec(name)?.program == program { Ok(()) } else { supervisor.replace(name, program) }
    }

    fn api_runs(&self, api: &Api, release: &Path) -> Result<()> {
        self.runs(&api.name, &release.join(API))?;
        api.wait(&self.instance.supervisor)
    }

    fn api_is_killed(&self, api: &Api) -> Result<()> {
        self.instance.supervisor.kill(&api.name)?;
        api.wait(&self.instance.supervisor)
    }

    fn controller_runs(&self, name: &str, release: &Path) -> Result<()> {
        self.runs(name, &release.join(CONTROLLER))?;
        self.controllers.ready(name)
    }

    /// What is made now becomes Available, in each cluster.
    fn works(&self, turn: usize, what: &str) -> Result<()> {
        let (k, name) = (&self.instance.kubectl, format!("turn-{turn}-{what}"));
        for cluster in &self.instance.clusters {
            apply(self.direct()?, &namespace(PROJECT, cluster, &name, SMALL))?;
        }
        for cluster in &self.instance.clusters {
            until_available(k, PROJECT, &format!("{cluster}-{name}"))?;
        }
        Ok(())
    }

    fn change_over(
        &self,
        Releases { old, new }: &Releases,
        turn: usize,
        write: impl Fn(&Kubectl, usize) -> Result<()>,
    ) -> Result<()> {
        let ([a, b], [first, second]) = (self.instance.apis.as_slice(), self.replicas) else {
            bail!("two replicas are needed")
        };
        for api in [a, b] {
            self.api_runs(api, old)?;
        }
        for controller in [FIRST, SECOND] {
            self.controller_runs(controller, old)?;
        }
        // Forwards, the API first.
        self.api_runs(b, new)?;
        write(first, 1)?;
        write(second, 2)?;
        self.api_is_killed(a)?;
        self.api_is_killed(b)?;
        self.controllers.until_both_work()?;
        self.api_runs(a, new)?;
        self.works(turn, "old-controllers")?;
        self.instance.supervisor.kill(SECOND)?;
        self.controllers.ready(SECOND)?;
        self.controller_runs(FIRST, new)?;
        self.controllers.until_both_work()?;
        self.works(turn, "one-new-controller")?;
        self.controller_runs(SECOND, new)?;
        // And back, with controllers that are newer than the API.
        self.api_runs(b, old)?;
        write(second, 3)?;
        self.api_is_killed(b)?;
        self.api_is_killed(a)?;
        self.api_runs(a, old)?;
        self.works(turn, "new-controllers")?;
        self.controller_runs(FIRST, old)?;
        self.controllers.until_both_work()?;
        self.works(turn, "one-old-controller")?;
        let this = this()?;
        for controller in [FIRST, SECOND] {
            self.controller_runs(controller, &this)?;
        }
        for api in [a, b] {
            self.api_runs(api, &this)?;
        }
        Ok(())
    }
}

/// Where the programs of this build are.
fn this() -> Result<PathBuf> {
    Ok(layout::program_path(API)?.parent().context("no directory")?.to_owned())
}

/// Of the load's namespaces.
fn path() -> String {
    format!("/apis/business.tkestack.io/v1/namespaces/{LOADED}/namespaces")
}

fn revision_of(object: &Value) -> Result<u64> {
    let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    revision.context("no revision")?.parse::<u64>().context("its revision")
}

/// What is another way in a cluster than these objects say: each has a namespace with a quota as large, and no other is there.
fn other_than(member: &Kubectl, objects: &[&Value]) -> Result<Option<String>> {
    let names = |list: &Value, pointer: &str| -> BTreeSet<String> {
        let items = list.pointer("/items").and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| item.pointer(pointer)?.as_str().map(str::to_owned)).collect()
    };
    let label = format!("tkestack.io/projectName={LOADED}");
    let there = names(&member.json(&["get", "namespaces", "-l", &label])?, "/metadata/name");
    let wanted = |object: &&Value| object.pointer("/spec/namespace")?.as_str().map(str::to_owned);
    let wanted: BTreeSet<String> = objects.iter().filter_map(wanted).collect();
    if let Some(name) = there.symmetric_difference(&wanted).next() {
        return Ok(Some(format!("{name} is missing, or is there")));
    }
    let quotas = member.json(&["get", "resourcequotas", "--all-namespaces"])?;
    let quotas = quotas.pointer("/items").and_then(Value::as_array).context("no list")?;
    let mut amounts = BTreeMap::new();
    for quota in quotas {
        let place = ["/metadata/namespace", "/metadata/name"].map(|pointer| quota.pointer(pointer));
        if let [Some(namespace), Some(name)] = place
            && namespace == name
        {
            amounts.insert(namespace.as_str().unwrap_or_default(), quota.pointer("/spec/hard"));
        }
    }
    let differs = objects.iter().find(|object| {
        let name = object.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
        let (charged, quota) = (object.pointer("/spec/hard"), amounts.get(name).copied().flatten());
        let mut charged = charged.and_then(Value::as_object).into_iter().flatten();
        charged.any(|(resource, amount)| quota.and_then(|quota| quota.get(resource)) != Some(amount))
    });
    Ok(differs.map(|object| format!("another quota than {object} says")))
}

/// A namespace; and below a cluster's amount a ceiling one higher, all of which a new root takes, so that the next is refused;
/// people and a template as well.
fn write_all(replica: &Kubectl, step: usize) -> Result<()> {
    let name = &name_of(step);
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
        if let Some(spec) = root.pointer_mut("/spec").and_then(Value::as_object_mut) {
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
    let ended =
        output(command.args(["migrate", "--log-format=text"]).env("DATABASE_URL", &instance.database_url))?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(ended.status.success(), "{} migrate ended with {}: {said}", program.display(), ended.status);
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
                (Some(process), Ok(_)) => Progress::Done(process),
                (_, answer) => Progress::Pending(format!("process {process:?}: {answer:?}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_every_round_has_a_name_of_its_own() {
        let names: Vec<String> = (0..6).map(name_of).collect();
        assert_eq!(names, ["before", "old", "new", "back", "old-2", "new-2"]);
    }
}
