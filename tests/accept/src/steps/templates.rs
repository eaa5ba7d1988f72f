use super::contains;
use anyhow::{Context as _, Result, ensure};
use instance::job::{self, Hard, apply, namespace, project, until_available, until_field, until_gone};
use instance::kubectl::Kubectl;
use instance::{HOST_CLUSTER, Instance, manifests};
use serde_json::{Value, json};

const NAMESPACES: [&str; 5] = ["plan-a", "plan-b", "plan-c", "plan-d", "plan-e"];
const LIMITS: &str = "limitrange/business-template";

/// The default template lets people begin, its changes go through in waves, and what it says cannot be taken away.
pub(super) fn templates(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    let objects = manifests::render(k, "deploy/templates")?;
    manifests::apply(k, &objects)?;
    let hard: Hard<'_> = &[("cpu", "5"), ("memory", "10Gi")];
    let one: Hard<'_> = &[("cpu", "1"), ("memory", "2Gi")];
    apply(k, &project("plan", None, &[(HOST_CLUSTER, hard)]))?;
    for name in NAMESPACES {
        apply(k, &namespace("plan", HOST_CLUSTER, name, one))?;
    }
    for name in NAMESPACES {
        until_available(k, "plan", &format!("{HOST_CLUSTER}-{name}"))?;
        applied(k, name)?;
    }
    let owner = instance.member(HOST_CLUSTER);
    what_says_nothing_is_admitted(&owner).context("a pod without requests")?;
    nobody_takes_it_away(instance, &owner).context("taken away")?;
    another(k, &objects).context("another one")?;
    in_waves(k, &owner).context("in waves")?;
    confined(&owner).context("confined")?;
    k.run(&["delete", "nst", "plan", "--wait=false"])?;
    let in_use = |object: &Value| object.pointer("/status/conditions").is_some_and(|all| told(all, "InUse"));
    job::until(k, &["nst", "plan"], in_use)?;
    k.run(&["delete", "project", "plan", "--wait=false"])?;
    until_gone(k, &["project", "plan"])?;
    until_gone(k, &["nst", "plan"])
}

fn told(conditions: &Value, reason: &str) -> bool {
    let mut all = conditions.as_array().into_iter().flatten();
    all.any(|one| one.get("reason") == Some(&json!(reason)))
}

/// The project names a template of its own, and its namespaces go over in waves.
fn another(k: &Kubectl, objects: &[Value]) -> Result<()> {
    let mut plan = objects.first().context("no template")?.clone();
    for (pointer, value) in [("/metadata/name", json!("plan")), ("/spec/default", json!(false))] {
        *plan.pointer_mut(pointer).with_context(|| format!("no {pointer}"))? = value;
    }
    apply(k, &plan)?;
    k.run(&["patch", "project", "plan", "--type=merge", "-p", r#"{"spec":{"template":"plan"}}"#])?;
    until_field(k, &["nst", "plan"], "/status/updated", &json!(5))?;
    let second =
        k.refused(&["patch", "nst", "plan", "--type=merge", "-p", r#"{"spec":{"default":true}}"#], None)?;
    contains(&second, &["spec.default", "standard is the default"])
}

fn applied(k: &Kubectl, name: &str) -> Result<()> {
    let name = format!("{HOST_CLUSTER}-{name}");
    k.run(&["wait", "--for=condition=TemplateApplied", "bns", &name, "-n", "plan", "--timeout=120s"])
        .map(drop)
}

fn what_says_nothing_is_admitted(owner: &Kubectl) -> Result<()> {
    // What a Deployment makes that says nothing of its requests.
    let image = "registry.invalid/nothing:1";
    owner.run(&["create", "deployment", "bare", "-n", "plan-a", "--replicas=2", "--image", image])?;
    let requests = "/items/1/spec/containers/0/resources/requests/cpu";
    until_field(owner, &["pods", "-l", "app=bare", "-n", "plan-a"], requests, &json!("100m"))?;
    until_field(owner, &["resourcequota", "plan-a", "-n", "plan-a"], "/status/used/memory", &json!("256Mi"))?;
    let bare = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "plan-a"},
        "spec": {"containers": [{"name": "main", "image": image}]},
    });
    let mut of_the_node = bare;
    if let Some(spec) = of_the_node.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("hostNetwork".to_owned(), json!(true));
    }
    let refusal = owner.refused(&["create", "-f", "-"], Some(&of_the_node.to_string()))?;
    contains(&refusal, &["PodSecurity"])
}

fn nobody_takes_it_away(instance: &Instance, owner: &Kubectl) -> Result<()> {
    let level = "pod-security.kubernetes.io/enforce=privileged";
    let mine = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "mine", "namespace": "plan-a"},
        "spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]},
    });
    owner.apply(&mine.to_string())?;
    let none = r#"{"spec":{"limits":[]}}"#;
    let attempts: [&[&str]; 4] = [
        &["delete", LIMITS, "-n", "plan-a"],
        &["patch", LIMITS, "-n", "plan-a", "--type=merge", "-p", none],
        &["label", "namespace", "plan-a", "--overwrite", level],
        &[
            "create",
            "rolebinding",
            "business:template:mine",
            "-n",
            "plan-a",
            "--clusterrole=view",
            "--user=eve",
        ],
    ];
    for attempt in attempts {
        contains(&owner.refused(attempt, None)?, &["kept by business.tkestack.io"])?;
    }
    let emergency = instance.break_glass(HOST_CLUSTER);
    let limits = ["limitrange", "business-template", "-n", "plan-a", "--ignore-not-found"];
    let default = |object: &Value| object.pointer("/spec/limits/0/default/cpu") == Some(&json!("1"));
    emergency.run(&["patch", LIMITS, "-n", "plan-a", "--type=merge", "-p", none])?;
    job::until(owner, &limits, default)?;
    emergency.run(&["delete", LIMITS, "-n", "plan-a"])?;
    job::until(owner, &limits, default)?;
    emergency.run(&["label", "namespace", "plan-a", "--overwrite", level])?;
    let pointer = "/metadata/labels/pod-security.kubernetes.io~1enforce";
    until_field(owner, &["namespace", "plan-a"], pointer, &json!("baseline")).map(drop)
}

fn in_waves(k: &Kubectl, owner: &Kubectl) -> Result<()> {
    let change = json!({"spec": {
        "labels": {"wave": "two"},
        "networkPolicies": [{"name": "same-namespace", "spec": {
            "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}],
        }}],
        "roleBindings": [{
            "name": "sre", "role": "business:offered:view", "subjects": [{"kind": "Group", "name": "sre"}],
        }],
        "rollout": {"batch": 2, "paused": true},
    }});
    let change = change.to_string();
    let patch = ["patch", "nst", "plan", "--type=merge", "-p", &change];
    let rehearsal = k.output(&[&patch[..], &["--dry-run=server"]].concat(), None)?;
    let said = String::from_utf8_lossy(&rehearsal.stderr).into_owned();
    contains(&said, &["changes 5 namespaces in 1 member clusters"])?;
    k.run(&patch)?;
    k.run(&["wait", "--for=condition=RolledOut=false", "nst", "plan", "--timeout=120s"])?;
    until_field(k, &["nst", "plan"], "/status/updated", &json!(0))?;
    let label = owner.run(&["get", "namespace", "plan-e", "-o", "jsonpath={.metadata.labels.wave}"])?;
    ensure!(label.is_empty(), "a paused rollout has changed a namespace");
    k.run(&["patch", "nst", "plan", "--type=merge", "-p", r#"{"spec":{"rollout":{"paused":false}}}"#])?;
    until_field(k, &["nst", "plan"], "/status/updated", &json!(5))?;
    k.run(&["wait", "--for=condition=Ready", "nst", "plan", "--timeout=120s"])?;
    for name in NAMESPACES {
        until_field(owner, &["namespace", name], "/metadata/labels/wave", &json!("two"))?;
        let policy = ["networkpolicy", "business-template-same-namespace", "-n", name];
        job::until(owner, &policy, |object| {
            object.pointer("/spec/policyTypes") == Some(&json!(["Ingress"]))
        })?;
        let binding = ["rolebinding", "business:template:sre", "-n", name];
        until_field(owner, &binding, "/roleRef/name", &json!("business:offered:view"))?;
    }
    owner.run(&["get", "limitrange", "mine", "-n", "plan-a"])?;
    let less = r#"{"spec":{"labels":{"wave":null},"networkPolicies":null,"roleBindings":null}}"#;
    k.run(&["patch", "nst", "plan", "--type=merge", "-p", less])?;
    for name in NAMESPACES {
        until_gone(owner, &["networkpolicy", "business-template-same-namespace", "-n", name])?;
        until_gone(owner, &["rolebinding", "business:template:sre", "-n", name])?;
        job::until(owner, &["namespace", name], |object| object.pointer("/metadata/labels/wave").is_none())?;
    }
    owner.run(&["get", "limitrange", "mine", "-n", "plan-a"]).map(drop)
}

/// Stolen credentials of ours put nothing anywhere else, and give no other role.
fn confined(owner: &Kubectl) -> Result<()> {
    let controller = "--as=system:serviceaccount:tke-business:business-member";
    let limits = |namespace: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": namespace},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]},
        })
    };
    for object in [limits("default", "business-template"), limits("plan-a", "other")] {
        let refusal = owner.refused(&[controller, "create", "-f", "-"], Some(&object.to_string()))?;
        contains(&refusal, &["business.tkestack.io"])?;
    }
    let binds = |role: &str, whom: &str| {
        let role = format!("--clusterrole={role}");
        let name = "business:template:stolen";
        owner.refused(&[controller, "create", "rolebinding", name, "-n", "plan-a", &role, whom], None)
    };
    contains(&binds("business:admin", "--user=eve")?, &["roles that are offered only"])?;
    for whom in [
        "--group=system:authenticated",
        "--user=business:eve",
        "--serviceaccount=kube-system:generic-garbage-collector",
        "--serviceaccount=tke-business:business-member",
    ] {
        contains(&binds("business:offered:view", whom)?, &["nothing to everybody"])?;
    }
    contains(&binds("cluster-admin", "--user=eve")?, &["forbidden"])
}
