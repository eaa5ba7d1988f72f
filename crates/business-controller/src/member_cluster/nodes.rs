//! What the nodes of a member cluster have, and what of it is taken by pods that are not in our namespaces.

use crate::error::CallFailure;
use crate::member::MemberApi;
use crate::member::pages::Pages;
use meta::quantity::{Quantity, ResourceList};
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

/// Objects of one page.
const PAGE: u32 = 500;
/// Objects of one answer: some servers give more than they were asked for.
const ANSWERED_MAX: usize = 20_000;
/// Objects of one list.
const OBJECTS_MAX: usize = 500_000;
/// What Kubernetes has at the most, in bytes: a node's name, and a resource's with its domain.
const NODE_NAME_MAX: usize = 253;
const RESOURCE_NAME_MAX: usize = 317;
/// Nodes and resources of one cluster. Whoever rules it could have any number of them told.
const NODES_MAX: usize = 20_000;
const RESOURCES_MAX: usize = 1_000;
/// Each pod takes one of what nodes have under this name.
const PODS: &str = "pods";

/// What the nodes of a cluster have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// What nodes that are ready and take pods have for them.
    pub allocatable: ResourceList,
    /// The same without what pods outside our namespaces request there.
    pub available: ResourceList,
}

/// A page of a list; what is not named is passed over unread. Pages of nodes and pods are bounded by their text alone
/// (`dial/answers.rs`), and an object of two bytes would become a hundred times as much: of lists within it only sums are kept.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: DeserializeOwned + Default"))]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    items: Summed<Answered<T>>,
}

/// What is made of a list while it is read.
trait Sum: Default {
    type Part: DeserializeOwned;

    fn take(&mut self, part: Self::Part);
}

/// A list of which only that is kept.
#[derive(Debug, Default)]
struct Summed<S>(S);

impl<'de, S: Sum> Deserialize<'de> for Summed<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(SumVisitor(PhantomData))
    }
}

struct SumVisitor<S>(PhantomData<S>);

impl<'de, S: Sum> Visitor<'de> for SumVisitor<S> {
    type Value = Summed<S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut sum = S::default();
        while let Some(part) = parts.next_element()? {
            sum.take(part);
        }
        Ok(Summed(sum))
    }
}

/// Objects of an answer, as many as may be.
#[derive(Debug, Default)]
struct Answered<T> {
    objects: Vec<T>,
    has_more: bool,
}

impl<T: DeserializeOwned + Default> Sum for Answered<T> {
    type Part = T;

    fn take(&mut self, object: T) {
        if self.objects.len() < ANSWERED_MAX {
            self.objects.push(object);
        } else {
            self.has_more = true;
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    r#continue: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    metadata: Meta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: ResourceList,
    conditions: Summed<Readiness>,
}

#[derive(Debug, Default)]
struct Readiness {
    is_ready: bool,
}

impl Sum for Readiness {
    type Part = NodeCondition;

    fn take(&mut self, told: NodeCondition) {
        self.is_ready |= told.type_ == "Ready" && told.status == "True";
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Meta,
    spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    containers: Summed<Running>,
    init_containers: Summed<Starting>,
    overhead: ResourceList,
    resources: Requests,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    resources: Requests,
    restart_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    requests: ResourceList,
}

/// What the containers of a pod request.
#[derive(Debug, Default)]
struct Running {
    requests: ResourceList,
}

impl Sum for Running {
    type Part = Container;

    fn take(&mut self, container: Container) {
        add(&mut self.requests, &container.resources.requests);
    }
}

/// What those that come before them request: each starts when the last has ended, or runs on beside it.
#[derive(Debug, Default)]
struct Starting {
    /// Of those that run on.
    beside: ResourceList,
    /// The most at any time.
    most: ResourceList,
}

impl Sum for Starting {
    type Part = Container;

    fn take(&mut self, container: Container) {
        let runs_on = container.restart_policy == "Always";
        for (key, amount) in container.resources.requests {
            let beside = self.beside.get(&key).copied().unwrap_or(Quantity::ZERO);
            let now = beside.checked_add(amount).unwrap_or(Quantity::MAX);
            let most = self.most.entry(key.clone()).or_insert(now);
            *most = (*most).max(now);
            if runs_on {
                self.beside.insert(key, now);
            }
        }
    }
}

/// Reads nodes and pods, page after page; only sums are kept. `ours` are the names of our namespaces in the cluster.
pub async fn read(api: &MemberApi, ours: &BTreeSet<String>) -> Result<NodeResources, CallFailure> {
    let mut sums = NodeSums::default();
    each(api, "/api/v1/nodes", "", |node: Node| sums.add_node(&node)).await?;
    let living = "&fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed";
    each(api, "/api/v1/pods", living, |pod: Pod| {
        if ours.contains(&pod.metadata.namespace) { Ok(()) } else { sums.add_pod(&pod) }
    })
    .await?;
    Ok(sums.resources())
}

async fn each<T: DeserializeOwned + Default>(
    api: &MemberApi,
    path: &str,
    select: &str,
    mut take: impl FnMut(T) -> Result<(), CallFailure>,
) -> Result<(), CallFailure> {
    let mut pages = Pages::of(PAGE);
    while pages.objects() < OBJECTS_MAX {
        let Some(page) = api.page::<Page<T>>(&mut pages, path, select).await? else { continue };
        let Summed(Answered { objects, has_more }) = page.items;
        if has_more {
            let why = format!("{path} has more than {ANSWERED_MAX} objects in one answer");
            return Err(CallFailure::Unavailable(why));
        }
        let read = objects.len();
        objects.into_iter().try_for_each(&mut take)?;
        if !pages.go_on(read, page.metadata.r#continue) {
            return Ok(());
        }
    }
    Err(CallFailure::Unavailable(format!("{path} has more than {OBJECTS_MAX} objects")))
}

#[derive(Debug, Default)]
struct NodeSums {
    nodes: BTreeSet<String>,
    allocatable: ResourceList,
    taken: ResourceList,
}

impl NodeSums {
    fn add_node(&mut self, node: &Node) -> Result<(), CallFailure> {
        if node.spec.unschedulable || !node.status.conditions.0.is_ready {
            return Ok(());
        }
        is_at_most("bytes of a node's name", node.metadata.name.len(), NODE_NAME_MAX)?;
        self.nodes.insert(node.metadata.name.clone());
        is_at_most("nodes", self.nodes.len(), NODES_MAX)?;
        add_bounded(&mut self.allocatable, &node.status.allocatable)
    }

    /// A pod takes something of the node it is on.
    fn add_pod(&mut self, pod: &Pod) -> Result<(), CallFailure> {
        if !self.nodes.contains(&pod.spec.node_name) {
            return Ok(());
        }
        add_bounded(&mut self.taken, &pod.spec.takes())?;
        add(&mut self.taken, &[(PODS.to_owned(), Quantity::from_units(1))].into());
        Ok(())
    }

    fn resources(self) -> NodeResources {
        let left = |(resource, amount): (&String, &Quantity)| {
            let taken = self.taken.get(resource).copied().unwrap_or(Quantity::ZERO);
            let left = amount.checked_sub(taken).filter(|left| !left.is_negative());
            (resource.clone(), left.unwrap_or(Quantity::ZERO))
        };
        let available = self.allocatable.iter().map(left).collect();
        NodeResources { allocatable: self.allocatable, available }
    }
}

impl PodSpec {
    /// What the scheduler counts for it: its containers and those that run beside them, or what its start needs if that
    /// is more; what is requested for the pod as a whole goes before; and what running it costs.
    fn takes(&self) -> ResourceList {
        let (running, starting) = (&self.containers.0, &self.init_containers.0);
        let mut takes = running.requests.clone();
        add(&mut takes, &starting.beside);
        most(&mut takes, &starting.most);
        takes.extend(self.resources.requests.clone());
        add(&mut takes, &self.overhead);
        takes
    }
}

/// The same of what a cluster says, of which no more is kept than any has.
fn add_bounded(sums: &mut ResourceList, amounts: &ResourceList) -> Result<(), CallFailure> {
    let longest = amounts.keys().map(String::len).max().unwrap_or_default();
    is_at_most("bytes of a resource's name", longest, RESOURCE_NAME_MAX)?;
    add(sums, amounts);
    is_at_most("resources", sums.len(), RESOURCES_MAX)
}

fn is_at_most(what: &str, count: usize, most: usize) -> Result<(), CallFailure> {
    if count <= most {
        return Ok(());
    }
    Err(CallFailure::Unavailable(format!("{count} {what}, which may be {most} at most")))
}

fn add(sums: &mut ResourceList, amounts: &BTreeMap<String, Quantity>) {
    for (key, amount) in amounts {
        let sum = sums.entry(key.clone()).or_insert(Quantity::ZERO);
        *sum = sum.checked_add(*amount).unwrap_or(Quantity::MAX);
    }
}

fn most(sums: &mut ResourceList, amounts: &ResourceList) {
    for (key, amount) in amounts {
        let sum = sums.entry(key.clone()).or_insert(*amount);
        *sum = (*sum).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cpu(spec: Value) -> String {
        serde_json::from_value::<PodSpec>(spec).unwrap().takes()["cpu"].to_string()
    }

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_takes_what_the_scheduler_counts() {
        let beside = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        assert_eq!(cpu(json!({"containers": [container("1"), container("500m")]})), "1500m");
        assert_eq!(cpu(json!({"containers": [container("1")], "initContainers": [container("3")]})), "3");
        let started = json!({"containers": [container("1")], "initContainers": [beside, container("3")]});
        assert_eq!(cpu(started), "4", "the second starts while the first runs");
        let whole = json!({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}},
            "overhead": {"cpu": "250m"}});
        assert_eq!(cpu(whole), "2250m");
    }

    #[test]
    fn of_an_answer_no_more_is_kept_than_sums() {
        let page = |count: usize| -> Answered<Pod> {
            let text = format!(r#"{{"items":[{}{{}}]}}"#, "{},".repeat(count - 1));
            serde_json::from_str::<Page<Pod>>(&text).unwrap().items.0
        };
        let all = page(ANSWERED_MAX);
        assert_eq!((all.objects.len(), all.has_more), (ANSWERED_MAX, false));
        let more = page(ANSWERED_MAX + 9);
        assert_eq!((more.objects.len(), more.has_more), (ANSWERED_MAX, true));
    }

    #[test]
    fn what_counts_is_on_ready_nodes_that_take_pods() {
        let mut sums = NodeSums::default();
        for (name, ready, unschedulable) in
            [("a", "True", false), ("b", "Unknown", false), ("c", "True", true)]
        {
            let node = json!({
                "metadata": {"name": name}, "spec": {"unschedulable": unschedulable},
                "status": {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": ready}]},
            });
            sums.add_node(&serde_json::from_value(node).unwrap()).unwrap();
        }
        for node in ["a", "b", ""] {
            let pod = json!({"spec": {"nodeName": node, "containers": [container("1")]}});
            sums.add_pod(&serde_json::from_value(pod).unwrap()).unwrap();
        }
        let NodeResources { allocatable, available } = sums.resources();
        assert_eq!((allocatable["cpu"].to_string(), available["cpu"].to_string()), ("4".into(), "3".into()));
        assert_eq!(available["pods"].to_string(), "9");
    }

    #[test]
    fn no_more_is_kept_than_any_cluster_has() {
        let node = |name: &str, resources: &[String]| -> Node {
            let amounts: BTreeMap<&String, &str> = resources.iter().map(|name| (name, "1")).collect();
            let status = json!({"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]});
            serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
        };
        let why = |added: Result<(), CallFailure>| added.unwrap_err().to_string();
        let mut sums = NodeSums::default();
        assert!(why(sums.add_node(&node(&"n".repeat(254), &[]))).contains("254 bytes of a node's name"));
        let long = ["r".repeat(318)];
        assert!(why(sums.add_node(&node("a", &long))).contains("318 bytes of a resource's name"));
        let many: Vec<String> = (0..1001).map(|number| format!("r{number}")).collect();
        assert!(sums.add_node(&node("b", &many[..1000])).is_ok());
        assert!(why(sums.add_node(&node("c", &many[1000..]))).contains("1001 resources"));
        let requests = BTreeMap::from([(&long[0], "1")]);
        let spec = json!({"nodeName": "b", "containers": [{"resources": {"requests": requests}}]});
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        assert!(why(sums.add_pod(&pod)).contains("318 bytes of a resource's name"));
        sums.nodes.extend((0..NODES_MAX).map(|number| format!("n{number}")));
        assert!(why(sums.add_node(&node("d", &[]))).contains("which may be 20000 at most"));
    }
}
