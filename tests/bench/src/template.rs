//! Namespaces with everything that a template and an access list put into them, beside a plain loop that writes the same.

use crate::job::{delete, first_member, names, namespace, new_project, send_all, settle, wait_phase};
use crate::table::{Table, progress};
use crate::watch::Stream;
use crate::{Servers, objects};
use anyhow::{Context, Result};
use http::Method;
use kit::Endpoint;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const NAMESPACES: &str = "/api/v1/namespaces";
const NETWORK: &str = "/apis/networking.k8s.io/v1/namespaces";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces";
const PATIENCE: Duration = Duration::from_mins(10);
const ROLES: [&str; 3] = ["admin", "edit", "view"];
const CONDITIONS: [&str; 2] = ["TemplateApplied", "AccessReady"];
const GOAL: &str = "≥ 0.3 × at 1,000";

/// Measures and prints.
pub(crate) async fn run(target: &Servers, size: usize) -> Result<()> {
    let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
    let cluster = first_member(&target.members)?;
    let member = Endpoint::from_kubeconfig(&target.members.join(format!("{cluster}.kubeconfig")))?;
    let template = objects::fresh("full");
    let templates = format!("{}/namespacetemplates", objects::OURS);
    kube.connect().await?.json(Method::POST, &templates, &full(&template)).await?;
    let (project, _) = new_project(&kube, &cluster).await?;
    let access: Vec<Value> =
        ROLES.iter().map(|role| json!({"kind": "Group", "name": format!("{role}s"), "role": role})).collect();
    let asks = json!({"spec": {"template": template, "access": access}});
    let project_path = format!("{}/projects/{project}", objects::OURS);
    kube.connect().await?.json(Method::PATCH, &project_path, &asks).await?;

    progress(&format!("{size} namespaces with a full template and three bindings"));
    let path = objects::namespaces_path(&project);
    let made: Vec<Value> =
        (0..size).map(|number| namespace(&project, &cluster, &format!("{project}-{number}"))).collect();
    let (mut phases, mut conditions) = (
        Stream::open(&kube, &format!("{path}?watch=1")).await?,
        Stream::open(&kube, &format!("{path}?watch=1")).await?,
    );
    let begin = Instant::now();
    let timed = async |waited: Result<()>| waited.map(|()| begin.elapsed());
    let (sent, available, complete) = tokio::join!(
        send_all(&kube, made.iter().map(|object| (Method::POST, path.clone(), object.clone())).collect()),
        async { timed(wait_phase(&mut phases, "Available", &mut names(&made)).await).await },
        async { timed(wait_complete(&mut conditions, &made).await).await },
    );
    sent?;
    let (available, complete) = (available?, complete?);
    settle(&member).await?;

    progress(&format!("{size} namespaces with the same in a plain loop"));
    let plain: Vec<String> = (0..size).map(|number| format!("plain-{project}-{number}")).collect();
    let begin = Instant::now();
    for step in steps() {
        send_all(&member, plain.iter().map(|name| step(name)).collect()).await?;
    }
    let rival = begin.elapsed();

    let mut table = Table::default();
    for (what, ours) in [("to Available", available), ("until all of it is there", complete)] {
        let text = |took: Duration| format!("{:.2} s", took.as_secs_f64());
        let ratio = rival.as_secs_f64() / ours.as_secs_f64();
        let measure =
            format!("{size} namespaces with a full template and three bindings {what} / plain loop");
        table.row(&measure, text(ours), text(rival), Some(ratio), GOAL);
    }
    table.print();
    let one = |name: &String| (Method::DELETE, format!("{NAMESPACES}/{name}"), Value::Null);
    send_all(&member, plain.iter().map(one).collect()).await?;
    delete(&kube, &project_path).await
}

async fn wait_complete(stream: &mut Stream, objects: &[Value]) -> Result<()> {
    let mut waiting = names(objects);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !waiting.is_empty() {
        let next = tokio::time::timeout_at(deadline, stream.next()).await;
        let event = next.with_context(|| format!("{} namespaces are not complete", waiting.len()))??;
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_true =
            |kind: &&str| conditions.iter().any(|one| one["type"] == **kind && one["status"] == "True");
        if CONDITIONS.iter().all(is_true) {
            waiting.remove(event["object"]["metadata"]["name"].as_str().unwrap_or_default());
        }
    }
    Ok(())
}

/// Labels, limits, two policies and a binding.
fn full(name: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceTemplate", "metadata": {"name": name},
        "spec": {
            "displayName": name, "labels": labels(), "limitRange": limits(),
            "networkPolicies": [{"name": "deny", "spec": deny()}, {"name": "dns", "spec": dns()}],
        },
    })
}

fn labels() -> Value {
    json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"})
}

fn limits() -> Value {
    let (requests, limits) =
        (json!({"cpu": "100m", "memory": "128Mi"}), json!({"cpu": "1", "memory": "1Gi"}));
    json!({"limits": [{"type": "Container", "defaultRequest": requests, "default": limits}]})
}

fn deny() -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"]})
}

fn dns() -> Value {
    let ports = json!([{"protocol": "UDP", "port": 53}]);
    json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": ports}]})
}

type Step = Box<dyn Fn(&str) -> (Method, String, Value)>;

/// The same objects, one kind after the other.
fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = vec![Box::new(|name| {
        let metadata = json!({"name": name, "labels": labels()});
        (Method::POST, NAMESPACES.to_owned(), json!({"metadata": metadata}))
    })];
    let quota = json!({"hard": {"requests.cpu": "100m", "requests.memory": "64Mi"}});
    let mut parts = vec![
        (NAMESPACES, "resourcequotas", json!({"metadata": {"name": "quota"}, "spec": quota})),
        (NAMESPACES, "limitranges", json!({"metadata": {"name": "limits"}, "spec": limits()})),
        (NETWORK, "networkpolicies", json!({"metadata": {"name": "deny"}, "spec": deny()})),
        (NETWORK, "networkpolicies", json!({"metadata": {"name": "dns"}, "spec": dns()})),
    ];
    for role in ROLES {
        let group = "rbac.authorization.k8s.io";
        let role_ref = json!({"apiGroup": group, "kind": "ClusterRole", "name": format!("business:{role}")});
        let subjects = json!([{"apiGroup": group, "kind": "Group", "name": format!("{role}s")}]);
        let metadata = json!({"name": role});
        let binding = json!({"metadata": metadata, "roleRef": role_ref, "subjects": subjects});
        parts.push((BINDINGS, "rolebindings", binding));
    }
    steps.extend(parts.into_iter().map(|(folder, collection, body)| -> Step {
        Box::new(move |name| (Method::POST, format!("{folder}/{name}/{collection}"), body.clone()))
    }));
    steps
}
