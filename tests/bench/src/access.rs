//! A role that is given or taken in a project of many namespaces: from the PATCH to the last binding in the member cluster,
//! beside a plain loop that writes as many bindings.

use crate::job::{names, namespace, new_project, send_all, settle, wait_phase};
use crate::table::{Table, progress};
use crate::watch::Stream;
use crate::{Servers, job, objects};
use anyhow::{Context, Result};
use http::Method;
use kit::Endpoint;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1";
const PATIENCE: Duration = Duration::from_mins(2);
const GOAL: &str = "≤ 10 s at 1,000";

/// A project below another, and its namespaces.
struct Tree {
    kube: Endpoint,
    member: Endpoint,
    cluster: String,
    root: String,
    child: String,
    /// As the cluster names them.
    namespaces: BTreeSet<String>,
}

/// Measures and prints.
pub(crate) async fn run(target: &Servers, size: usize) -> Result<()> {
    let tree = Tree::new(target, size).await?;
    let mut table = Table::default();
    let group = json!([{"kind": "Group", "name": "devs", "role": "view"}]);
    let named = |binding: &Value| binding["subjects"][0]["name"] == "business:default:group:devs";
    let access = |project: &str, what: Value| (project.to_owned(), json!({"spec": {"access": what}}));

    let rows: [(&str, (String, Value), &str, bool); 3] = [
        (
            "a group gets a role in the project above",
            access(&tree.root, group.clone()),
            "business:view",
            true,
        ),
        ("it loses it", access(&tree.root, json!([])), "business:view", false),
        (
            "a member is one no more",
            (tree.child.clone(), json!({"spec": {"members": []}})),
            "business:edit",
            false,
        ),
    ];
    let mut times = Vec::new();
    for (what, (project, patch), binding, given) in rows {
        let took = tree.changes(&project, &patch, binding, |event| {
            event["type"] == if given { "ADDED" } else { "DELETED" } && (!given || named(&event["object"]))
        });
        times.push((what, took.await?));
    }
    let among_others = tree.loses_it_among_others(size).await?;
    times.push(("a member is one no more, while as many namespaces are made", among_others));
    // Last: the controller tells of bindings that are not its own.
    let plain = tree.plain_loop().await?;
    for (what, took) in times {
        tree.row(&mut table, what, took, plain);
    }
    table.print();
    job::delete(&tree.kube, &format!("{}/projects/{}", objects::OURS, tree.root)).await
}

impl Tree {
    async fn new(target: &Servers, size: usize) -> Result<Self> {
        let kube = Endpoint::from_kubeconfig(&target.kubeconfig)?;
        let cluster = job::first_member(&target.members)?;
        let member = Endpoint::from_kubeconfig(&target.members.join(format!("{cluster}.kubeconfig")))?;
        progress(&format!("{size} namespaces of a project below another"));
        let (root, _) = new_project(&kube, &cluster).await?;
        let child = format!("{root}-child");
        let mut body = objects::project(&child, std::slice::from_ref(&cluster));
        body["spec"]["parentProjectName"] = json!(root);
        body["spec"]["members"] = json!(["alice"]);
        let collection = format!("{}/projects", objects::OURS);
        kube.connect().await?.json(Method::POST, &collection, &body).await?;
        let mut tree = Self { kube, member, cluster, root, child, namespaces: BTreeSet::new() };
        tree.namespaces = tree.fill("n", size).await?;
        settle(&tree.member).await?;
        Ok(tree)
    }

    /// Makes namespaces, and waits until they are there.
    async fn fill(&self, prefix: &str, size: usize) -> Result<BTreeSet<String>> {
        let path = objects::namespaces_path(&self.child);
        let made: Vec<String> = (0..size).map(|number| format!("{}-{prefix}{number}", self.child)).collect();
        let objects: Vec<Value> =
            made.iter().map(|name| namespace(&self.child, &self.cluster, name)).collect();
        let mut stream = Stream::open(&self.kube, &format!("{path}?watch=1")).await?;
        let requests = objects.iter().map(|object| (Method::POST, path.clone(), object.clone()));
        send_all(&self.kube, requests.collect()).await?;
        wait_phase(&mut stream, "Available", &mut names(&objects)).await?;
        Ok(made.into_iter().collect())
    }

    /// From the PATCH of a project until this was seen of a binding in each namespace.
    async fn changes(
        &self,
        project: &str,
        patch: &Value,
        binding: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Duration> {
        progress(&format!("{binding} changes everywhere"));
        let query = format!("fieldSelector=metadata.name%3D{}", binding.replace(':', "%3A"));
        let list = format!("{BINDINGS}/rolebindings?{query}");
        let listed = self.member.connect().await?.json(Method::GET, &list, &Value::Null).await?;
        let revision = listed["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let watch = format!("{list}&watch=1&resourceVersion={revision}");
        let mut stream = Stream::open(&self.member, &watch).await?;
        let mut waiting = self.namespaces.clone();
        let begin = Instant::now();
        let path = format!("{}/projects/{project}", objects::OURS);
        self.kube.connect().await?.json(Method::PATCH, &path, patch).await?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !waiting.is_empty() {
            let next = tokio::time::timeout_at(deadline, stream.next()).await;
            let event = next.with_context(|| format!("{} namespaces are left", waiting.len()))??;
            if is_it(&event) {
                waiting.remove(event["object"]["metadata"]["namespace"].as_str().unwrap_or_default());
            }
        }
        Ok(begin.elapsed())
    }

    /// Somebody loses his role while the controller has as many namespaces to make.
    async fn loses_it_among_others(&self, size: usize) -> Result<Duration> {
        let members = |names: Value| json!({"spec": {"members": names}});
        let edit = "business:edit";
        self.changes(&self.child, &members(json!(["alice"])), edit, |event| event["type"] == "ADDED").await?;
        let nobody = members(json!([]));
        let (took, made) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.changes(&self.child, &nobody, edit, |event| event["type"] == "DELETED").await
            },
            self.fill("o", size),
        );
        made?;
        took
    }

    /// As many bindings changed by hand, by as many clients as the controller has passes.
    async fn plain_loop(&self) -> Result<Duration> {
        progress("as many bindings in a plain loop");
        let path = |name: &String| format!("{BINDINGS}/namespaces/{name}/rolebindings");
        let subject =
            |name: &str| json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]);
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "business:view"});
        let all = |method: Method, tail: &'static str, body: Value| -> Vec<(Method, String, Value)> {
            self.namespaces
                .iter()
                .map(|name| (method.clone(), format!("{}{tail}", path(name)), body.clone()))
                .collect()
        };
        let create = json!({"metadata": {"name": "plain"}, "roleRef": role, "subjects": subject("a")});
        send_all(&self.member, all(Method::POST, "", create)).await?;
        let begin = Instant::now();
        let change = json!({"subjects": subject("b")});
        send_all(&self.member, all(Method::PATCH, "/plain", change)).await?;
        let took = begin.elapsed();
        send_all(&self.member, all(Method::DELETE, "/plain", Value::Null)).await?;
        Ok(took)
    }

    fn row(&self, table: &mut Table, what: &str, took: Duration, plain: Duration) {
        let text = |took: Duration| format!("{:.2} s", took.as_secs_f64());
        let ratio = took.as_secs_f64() / plain.as_secs_f64();
        let measure = format!("{what}: {} namespaces", self.namespaces.len());
        table.row(&measure, text(took), text(plain), Some(ratio), GOAL);
    }
}
