use super::contains;
use anyhow::{Context, Result, ensure};
use instance::Instance;
use instance::job::{self, Hard, apply, namespace, project, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::people::certificate;
use instance::wait::{self, Progress};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use terminal::say;

const HARD: Hard<'_> = &[("cpu", "4"), ("configmaps", "20")];
const ONE: Hard<'_> = &[("cpu", "1"), ("configmaps", "5")];
const SOON: Duration = Duration::from_mins(2);
/// The documentation promises that people who leave are locked out within seconds.
const OUT: Duration = Duration::from_secs(20);
/// The tenant of all people here.
const TENANT: &str = "default";

/// A member gets a kubeconfig for a member cluster, and may there what members may.
pub(super) fn access(instance: &Instance) -> Result<()> {
    for cluster in &instance.clusters {
        in_cluster(instance, cluster).with_context(|| format!("in cluster {cluster}"))?;
    }
    Ok(())
}

/// People and groups with roles, in the project or in the one above it, have them in its namespaces, until they are taken.
pub(super) fn roles(instance: &Instance) -> Result<()> {
    for cluster in &instance.clusters {
        let stage = AccessTest::new(instance, cluster)?;
        stage.play().with_context(|| format!("in cluster {cluster}"))?;
        let admin = instance.tenant();
        admin.run(&["delete", "project", "roles", "--wait=false"])?;
        until_gone(&admin, &["project", "roles"])?;
    }
    Ok(())
}

fn in_cluster(instance: &Instance, cluster: &str) -> Result<()> {
    let admin = instance.tenant();
    let mut owner = project("access", None, &[(cluster, HARD)]);
    if let Some(spec) = owner.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("members".to_owned(), json!(["alice"]));
    }
    apply(&admin, &owner)?;
    for name in ["access", "access-other"] {
        apply(&admin, &namespace("access", cluster, name, ONE))?;
        until_bound(&admin, "access", &format!("{cluster}-{name}"))?;
    }
    apply(&admin, &project("access-none", None, &[(cluster, HARD)]))?;
    apply(&admin, &namespace("access-none", cluster, "access-none", ONE))?;
    until_bound(&admin, "access-none", &format!("{cluster}-access-none"))?;

    let entered = format!("{cluster}-access");
    let path = |query: &str| certificate("access", &entered, query);
    let at_api = |name: &str, groups: &[&str]| instance.person(name, Some(TENANT), groups);
    let alice = enters(instance, &at_api("alice", &[])?, "access", &entered)?;
    may_what_members_may(&alice)?;
    let ruler = enters(instance, &at_api("ruler", &["tenant-admins"])?, "access", &entered)?;
    ruler.run(&["create", "role", "mine", "--verb=get", "--resource=pods"])?;
    ruler.run(&["get", "configmaps", "-n", "access-none"])?;
    let operator = instance.kubectl.run(&["get", "--raw", &path("")])?;
    contains(&operator, &["certPem", "keyPem", "caCertPem", "apiServer"])?;

    let refusal = at_api("alice", &[])?.refused(&["get", "--raw", &path("?validDays=366")], None)?;
    contains(&refusal, &["validDays"])?;
    at_api("bob", &[])?.refused(&["get", "--raw", &path("")], None)?;

    let nobody = r#"{"spec":{"members":[]}}"#;
    admin.run(&["patch", "project", "access", "--type=merge", "-p", nobody])?;
    is_out("alice, a member,", &alice)?;
    for name in ["access", "access-none"] {
        admin.run(&["delete", "project", name, "--wait=false"])?;
        until_gone(&admin, &["project", name])?;
    }
    Ok(())
}

/// Waits until a namespace is there and its bindings are right.
pub(super) fn until_bound(kubectl: &Kubectl, project: &str, name: &str) -> Result<()> {
    until_available(kubectl, project, name)?;
    let ready = "--for=condition=AccessReady";
    kubectl.run(&["wait", ready, "bns", name, "-n", project, "--timeout=120s"]).map(drop)
}

/// He is known as somebody with a role moments after he was made one.
fn enters(instance: &Instance, person: &Kubectl, project: &str, name: &str) -> Result<Kubectl> {
    job::until(person, &["bns", name, "-n", project], |_| true)?;
    instance.entered_by(person, project, name)
}

/// Waits until a cluster lets somebody in no more, and tells how long that took.
fn is_out(who: &str, in_cluster: &Kubectl) -> Result<()> {
    let begin = Instant::now();
    wait::until(&format!("{who} is let in no more"), SOON, || {
        let output = in_cluster.output(&["get", "configmaps"], None)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_out = !output.status.success() && said.contains("forbidden");
        Ok(if is_out { Progress::Done(()) } else { Progress::Pending(said) })
    })?;
    let took = begin.elapsed();
    say::line(format_args!("      {who} was out after {:.2} s", took.as_secs_f64()));
    ensure!(took < OUT, "that took too long");
    Ok(())
}

fn may_what_members_may(alice: &Kubectl) -> Result<()> {
    let said = alice.run(&["auth", "whoami"])?;
    contains(&said, &["business:default:alice"])?;
    ensure!(!said.contains("administrators"), "a member is in the administrators' group: {said}");
    alice.run(&["create", "configmap", "mine", "--from-literal=a=b"])?;
    alice.run(&["create", "configmap", "mine", "--from-literal=a=b", "-n", "access-other"])?;
    alice.run(&["get", "resourcequotas"])?;
    let more = r#"{"spec":{"hard":{"cpu":"50"}}}"#;
    let forbidden: [&[&str]; 7] = [
        &["create", "configmap", "mine", "--from-literal=a=b", "-n", "access-none"],
        &["get", "configmaps", "-n", "default"],
        &["get", "namespaces"],
        &["patch", "resourcequota", "access", "--type=merge", "-p", more],
        &["delete", "namespace", "access"],
        &["delete", "rolebinding", "business:edit"],
        &["create", "rolebinding", "more", "--clusterrole=admin", "--user=business:default:alice"],
    ];
    for args in forbidden {
        contains(&alice.refused(args, None)?, &["forbidden"])?;
    }
    Ok(())
}

/// Project `roles`, below it `roles-team`, in which the namespace `roles-team` lies.
struct AccessTest<'a> {
    instance: &'a Instance,
    admin: Kubectl,
    /// The namespace, as it is named at business-api.
    namespace: String,
    cluster: &'a str,
}

impl<'a> AccessTest<'a> {
    fn new(instance: &'a Instance, cluster: &'a str) -> Result<Self> {
        let admin = instance.tenant();
        apply(&admin, &project("roles", None, &[(cluster, HARD)]))?;
        apply(&admin, &project("roles-team", Some("roles"), &[(cluster, ONE)]))?;
        let stage = Self { instance, admin, namespace: format!("{cluster}-roles-team"), cluster };
        stage.gives("roles", &json!([{"kind": "User", "name": "olga", "role": "admin"}]))?;
        stage.gives("roles-team", &stage.team(&["carol"]))?;
        apply(&stage.admin, &namespace("roles-team", cluster, "roles-team", ONE))?;
        until_bound(&stage.admin, "roles-team", &stage.namespace)?;
        Ok(stage)
    }

    fn gives(&self, project: &str, access: &Value) -> Result<()> {
        let patch = json!({"spec": {"access": access}}).to_string();
        self.admin.run(&["patch", "project", project, "--type=merge", "-p", &patch]).map(drop)
    }

    /// The team's list with these editors.
    fn team(&self, editors: &[&str]) -> Value {
        let editors = editors.iter().map(|name| json!({"kind": "User", "name": name, "role": "edit"}));
        let others = [
            json!({"kind": "User", "name": "victor", "role": "view"}),
            json!({"kind": "Group", "name": "devs", "role": "edit"}),
            json!({"kind": "ServiceAccount", "name": "ci", "namespace": "roles-team", "cluster": self.cluster,
                "role": "edit"}),
            json!({"kind": "ServiceAccount", "name": "host", "namespace": "roles-team", "role": "edit"}),
        ];
        editors.chain(others).collect()
    }

    fn enters(&self, name: &str, groups: &[&str]) -> Result<Kubectl> {
        let person = self.instance.person(name, Some(TENANT), groups)?;
        enters(self.instance, &person, "roles-team", &self.namespace).with_context(|| name.to_owned())
    }

    fn play(&self) -> Result<()> {
        let carol = self.enters("carol", &[])?;
        carol.run(&["create", "deployment", "web", "--image=registry.example/web:1"])?;
        contains(
            &carol.refused(&["create", "role", "r", "--verb=get", "--resource=pods"], None)?,
            &["forbidden"],
        )?;
        let victor = self.enters("victor", &[])?;
        victor.run(&["get", "deployment", "web"])?;
        contains(&victor.refused(&["delete", "deployment", "web"], None)?, &["forbidden"])?;
        let dana = self.enters("dana", &["devs", "nothing"])?;
        let said = dana.run(&["auth", "whoami"])?;
        contains(&said, &["business:default:dana", "business:default:group:devs"])?;
        ensure!(!said.contains("nothing"), "a group without a role is in the certificate: {said}");
        dana.run(&["scale", "deployment", "web", "--replicas=2"])?;
        let olga = self.enters("olga", &[])?;
        olga.run(&[
            "create",
            "rolebinding",
            "left",
            "--clusterrole=edit",
            "--serviceaccount=roles-team:left",
        ])?;
        self.service_accounts()?;
        self.others_are_told()?;

        self.gives("roles-team", &self.team(&[]))?;
        is_out("carol, an editor,", &carol)?;
        self.gives("roles-team", &json!([]))?;
        is_out("dana, by her group,", &dana)?;
        is_out("victor, a viewer,", &victor)?;
        contains(&victor.refused(&["get", "deployments"], None)?, &["forbidden"])?;
        olga.run(&["get", "deployment", "web"])?;
        self.gives("roles", &json!([]))?;
        is_out("olga, an administrator of the project above,", &olga)?;
        let owner = self.instance.member(self.cluster);
        wait::until("the empty bindings are deleted", SOON, || {
            let bound = owner.run(&["get", "rolebinding", "-n", "roles-team", "-o", "name"])?;
            contains(&bound, &["business:admin", "left"])?;
            let is_empty = !bound.contains("business:edit") && !bound.contains("business:view");
            Ok(if is_empty { Progress::Done(()) } else { Progress::Pending(bound) })
        })
    }

    /// One of this cluster is bound; one of the host's is nobody in a member.
    fn service_accounts(&self) -> Result<()> {
        let owner = self.instance.member(self.cluster);
        let subjects = owner.json(&["get", "rolebinding", "business:edit", "-n", "roles-team"])?;
        let named: Vec<&Value> = subjects
            .pointer("/subjects")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|subject| subject.get("kind") == Some(&json!("ServiceAccount")))
            .filter_map(|subject| subject.get("name"))
            .collect();
        ensure!(named == ["ci"], "bound are {named:?}");
        let ci = "--as=system:serviceaccount:roles-team:ci";
        owner.run(&[ci, "get", "deployments", "-n", "roles-team"]).map(drop)
    }

    /// What somebody has made himself is told and left alone.
    fn others_are_told(&self) -> Result<()> {
        let told = |object: &Value| {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().any(|condition| {
                let message = condition.get("message").and_then(Value::as_str).unwrap_or_default();
                condition.get("type") == Some(&json!("OtherAccess"))
                    && message.contains("left (edit to ServiceAccount")
            })
        };
        job::until(&self.admin, &["bns", &self.namespace, "-n", "roles-team"], told)
    }
}
