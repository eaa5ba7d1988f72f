//! Sums the allocatable resources of a member cluster's nodes, and the requests of pods that are not in our namespaces.

use crate::error::CallFailure;
use crate::member::MemberApi;
use crate::member::pages::PagedList;
use meta::quantity::{Quantity, ResourceList};
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

/// Objects in one page of a list.
const PAGE: u32 = 500;
/// Most objects in one answer: some servers send more than they were asked for.
const ANSWERED_MAX: usize = 20_000;
/// Most amounts in these objects.
const AMOUNTS_MAX: usize = 200_000;
/// Most objects in one list.
const OBJECTS_MAX: usize = 500_000;
/// The longest names in Kubernetes, in bytes: of a node, and of a resource with its domain.
const NODE_NAME_MAX: usize = 253;
const RESOURCE_NAME_MAX: usize = 317;
/// Most nodes and resources of one cluster. Whoever controls it could report any number of them.
const NODES_MAX: usize = 20_000;
const RESOURCES_MAX: usize = 1_000;
/// The resource of which each pod takes one.
const PODS: &str = "pods";

/// The resources of a cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// The allocatable resources of nodes that are ready and schedulable.
    pub allocatable: ResourceList,
    /// The same without the requests of pods outside our namespaces.
    pub available: ResourceList,
}

/// A page of a list; other fields are skipped. Pages of nodes and pods are limited by their text only
/// (`dial/response_limits.rs`), and an object of two bytes would take a hundred times as much in memory. So only sums
/// are kept of the lists in an object, and no more amounts than a cluster can have.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: ListItem"))]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    items: Summed<PageItems<T>>,
}

/// Something that is summed up while a list is read.
trait Sum: Default {
    type Part: DeserializeOwned;

    fn take(&mut self, part: Self::Part);
}

/// A list of which only the sum is kept.
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

/// Amounts by resource.
#[derive(Clone, Debug, Default)]
struct Amounts {
    all: ResourceList,
    /// There are more amounts than any cluster has, or longer names; these are left out. That is no error by itself: a
    /// tenant may have such a pod, which no node accepts.
    has_more: bool,
}

impl Amounts {
    /// The amount of a resource, at first zero; `None` if there is no room for it.
    fn at(&mut self, name: &str) -> Option<&mut Quantity> {
        let has_room = self.all.len() < RESOURCES_MAX || self.all.contains_key(name);
        if name.len() > RESOURCE_NAME_MAX || !has_room {
            self.has_more = true;
            return None;
        }
        Some(self.all.entry(name.to_owned()).or_insert(Quantity::ZERO))
    }

    /// Combines each of the other amounts with the one of the same resource.
    fn join(&mut self, others: &Self, join: impl Fn(Quantity, Quantity) -> Quantity) {
        for (name, amount) in &others.all {
            if let Some(held) = self.at(name) {
                *held = join(*held, *amount);
            }
        }
        self.has_more |= others.has_more;
    }

    fn check_complete(&self) -> Result<(), CallFailure> {
        if !self.has_more {
            return Ok(());
        }
        let why = format!(
            "there are more than {RESOURCES_MAX} resources, or names of more than {RESOURCE_NAME_MAX} bytes"
        );
        Err(CallFailure::Unavailable(why))
    }
}

fn sum(one: Quantity, other: Quantity) -> Quantity {
    one.checked_add(other).unwrap_or(Quantity::MAX)
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AmountsVisitor)
    }
}

struct AmountsVisitor;

impl<'de> Visitor<'de> for AmountsVisitor {
    type Value = Amounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by resource")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut told: A) -> Result<Amounts, A::Error> {
        let mut amounts = Amounts::default();
        while let Some((name, amount)) = told.next_entry::<String, Quantity>()? {
            if let Some(held) = amounts.at(&name) {
                *held = amount;
            }
        }
        Ok(amounts)
    }
}

/// An item of a list.
trait ListItem: DeserializeOwned + Default {
    /// Drops what does not count. Returns how many amounts are left.
    fn trim(&mut self) -> usize;
}

/// The items of one answer, up to the limits.
#[derive(Debug, Default)]
struct PageItems<T> {
    objects: Vec<T>,
    amounts: usize,
    has_more: bool,
}

impl<T: ListItem> Sum for PageItems<T> {
    type Part = T;

    fn take(&mut self, mut object: T) {
        self.amounts = self.amounts.saturating_add(object.trim());
        if self.objects.len() < ANSWERED_MAX && self.amounts <= AMOUNTS_MAX {
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
    allocatable: Amounts,
    conditions: Summed<Readiness>,
}

impl ListItem for Node {
    fn trim(&mut self) -> usize {
        self.status.allocatable.all.len()
    }
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

impl ListItem for Pod {
    /// A pod without a node takes nothing, whatever it requests.
    fn trim(&mut self) -> usize {
        if self.spec.node_name.is_empty() {
            self.spec = PodSpec::default();
        }
        let PodSpec { containers, init_containers, overhead, resources, node_name: _ } = &self.spec;
        let (containers_sum, init_sum) = (&containers.0, &init_containers.0);
        [&containers_sum.requests, &init_sum.beside, &init_sum.most, overhead, &resources.requests]
            .into_iter()
            .map(|amounts| amounts.all.len())
            .sum()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    containers: Summed<ContainerRequests>,
    init_containers: Summed<InitContainerRequests>,
    overhead: Amounts,
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
    requests: Amounts,
}

/// The sum of the requests of a pod's containers.
#[derive(Debug, Default)]
struct ContainerRequests {
    requests: Amounts,
}

impl Sum for ContainerRequests {
    type Part = Container;

    fn take(&mut self, container: Container) {
        self.requests.join(&container.resources.requests, sum);
    }
}

/// The requests of a pod's init containers: each starts when the last one has ended, or keeps running beside it (a
/// sidecar).
#[derive(Debug, Default)]
struct InitContainerRequests {
    /// The sum of the sidecars.
    beside: Amounts,
    /// The highest sum at any time of the start.
    most: Amounts,
}

impl Sum for InitContainerRequests {
    type Part = Container;

    fn take(&mut self, container: Container) {
        let runs_on = container.restart_policy == "Always";
        let mut now = container.resources.requests;
        for (name, amount) in &mut now.all {
            *amount = sum(self.beside.all.get(name).copied().unwrap_or(Quantity::ZERO), *amount);
        }
        self.most.join(&now, Ord::max);
        if runs_on {
            self.beside.join(&now, |_before, now| now);
        }
    }
}

/// Reads nodes and pods, page by page; only sums are kept. `ours` are our namespaces in the cluster.
pub async fn read(api: &MemberApi, ours: &BTreeSet<String>) -> Result<NodeResources, CallFailure> {
    let mut sums = NodeSums::default();
    for_each(api, "/api/v1/nodes", "", |node: Node| sums.add_node(&node)).await?;
    let living = "&fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed";
    for_each(api, "/api/v1/pods", living, |pod: Pod| {
        if ours.contains(&pod.metadata.namespace) { Ok(()) } else { sums.add_pod(&pod) }
    })
    .await?;
    Ok(sums.resources())
}

async fn for_each<T: ListItem>(
    api: &MemberApi,
    path: &str,
    select: &str,
    mut take: impl FnMut(T) -> Result<(), CallFailure>,
) -> Result<(), CallFailure> {
    let mut pages = PagedList::of(PAGE);
    while pages.objects() < OBJECTS_MAX {
        let Some(page) = api.page::<Page<T>>(&mut pages, path, select).await? else { continue };
        let Summed(PageItems { objects, has_more, amounts: _ }) = page.items;
        if has_more {
            let why = format!(
                "{path} has more than {ANSWERED_MAX} objects, or {AMOUNTS_MAX} amounts, in one answer"
            );
            return Err(CallFailure::Unavailable(why));
        }
        let read = objects.len();
        objects.into_iter().try_for_each(&mut take)?;
        if !pages.advance(read, page.metadata.r#continue) {
            return Ok(());
        }
    }
    Err(CallFailure::Unavailable(format!("{path} has more than {OBJECTS_MAX} objects")))
}

#[derive(Debug, Default)]
struct NodeSums {
    nodes: BTreeSet<String>,
    allocatable: Amounts,
    taken: Amounts,
}

impl NodeSums {
    fn add_node(&mut self, node: &Node) -> Result<(), CallFailure> {
        if node.spec.unschedulable || !node.status.conditions.0.is_ready {
            return Ok(());
        }
        check_at_most("bytes of a node's name", node.metadata.name.len(), NODE_NAME_MAX)?;
        self.nodes.insert(node.metadata.name.clone());
        check_at_most("nodes", self.nodes.len(), NODES_MAX)?;
        self.allocatable.join(&node.status.allocatable, sum);
        self.allocatable.check_complete()
    }

    /// Adds a pod, if its node counts.
    fn add_pod(&mut self, pod: &Pod) -> Result<(), CallFailure> {
        if !self.nodes.contains(&pod.spec.node_name) {
            return Ok(());
        }
        self.taken.join(&pod.spec.effective_requests(), sum);
        if let Some(pods) = self.taken.at(PODS) {
            *pods = sum(*pods, Quantity::from_units(1));
        }
        self.taken.check_complete()
    }

    fn resources(self) -> NodeResources {
        let left = |(resource, amount): (&String, &Quantity)| {
            let taken = self.taken.all.get(resource).copied().unwrap_or(Quantity::ZERO);
            let left = amount.checked_sub(taken).filter(|left| !left.is_negative());
            (resource.clone(), left.unwrap_or(Quantity::ZERO))
        };
        let available = self.allocatable.all.iter().map(left).collect();
        NodeResources { allocatable: self.allocatable.all, available }
    }
}

impl PodSpec {
    /// What the scheduler counts for the pod: the containers and sidecars, or the highest sum of its start if that is
    /// more; requests of the pod as a whole take precedence; and the overhead is added.
    fn effective_requests(&self) -> Amounts {
        let (containers_sum, init_sum) = (&self.containers.0, &self.init_containers.0);
        let mut effective_requests = containers_sum.requests.clone();
        effective_requests.join(&init_sum.beside, sum);
        effective_requests.join(&init_sum.most, Ord::max);
        effective_requests.join(&self.resources.requests, |_parts, whole| whole);
        effective_requests.join(&self.overhead, sum);
        effective_requests
    }
}

fn check_at_most(what: &str, count: usize, most: usize) -> Result<(), CallFailure> {
    if count <= most {
        return Ok(());
    }
    Err(CallFailure::Unavailable(format!("{count} {what}, which may be {most} at most")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn cpu(spec: Value) -> String {
        serde_json::from_value::<PodSpec>(spec).unwrap().effective_requests().all["cpu"].to_string()
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
        let page = |count: usize| -> PageItems<Pod> {
            let text = format!(r#"{{"items":[{}{{}}]}}"#, "{},".repeat(count - 1));
            serde_json::from_str::<Page<Pod>>(&text).unwrap().items.0
        };
        let all = page(ANSWERED_MAX);
        assert_eq!((all.objects.len(), all.has_more), (ANSWERED_MAX, false));
        let more = page(ANSWERED_MAX + 9);
        assert_eq!((more.objects.len(), more.has_more), (ANSWERED_MAX, true));
    }

    #[test]
    fn of_an_object_no_more_amounts_are_kept_than_a_cluster_has() {
        let amounts = |from: usize| -> BTreeMap<String, u32> {
            (from..from + 3_000).map(|number| (format!("r{number}"), 1)).collect()
        };
        let containers = [0, 3_000]
            .map(|from| json!({"restartPolicy": "Always", "resources": {"requests": amounts(from)}}));
        let mut pod: Pod = serde_json::from_value(json!({"spec": {
            "nodeName": "a", "containers": containers, "initContainers": containers,
            "overhead": amounts(0), "resources": {"requests": amounts(0)},
        }}))
        .unwrap();
        assert_eq!(pod.trim(), 5 * RESOURCES_MAX);
        let effective_requests = pod.spec.effective_requests();
        assert_eq!((effective_requests.all.len(), effective_requests.has_more), (RESOURCES_MAX, true));
        pod.spec.node_name.clear();
        assert_eq!(pod.trim(), 0, "it is on no node");
        assert!(NodeSums::default().add_pod(&pod).is_ok());
    }

    #[test]
    fn of_an_answer_no_more_amounts_are_kept_than_its_objects_have() {
        let requests: BTreeMap<String, u32> = (0..1_000).map(|number| (format!("r{number}"), 1)).collect();
        let page = |node: &str, count: usize| -> PageItems<Pod> {
            let spec = json!({"nodeName": node, "resources": {"requests": requests}});
            let page = json!({"items": vec![json!({"spec": spec}); count]});
            serde_json::from_str::<Page<Pod>>(&page.to_string()).unwrap().items.0
        };
        let most = AMOUNTS_MAX / requests.len();
        let all = page("a", most);
        assert_eq!((all.objects.len(), all.has_more), (most, false));
        let more = page("a", most + 9);
        assert_eq!((more.objects.len(), more.has_more), (most, true));
        let waiting = page("", most + 9);
        assert_eq!((waiting.objects.len(), waiting.has_more), (most + 9, false));
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
        let (long, beyond) = (["r".repeat(318)], "more than 1000 resources, or names of more than 317 bytes");
        let many: Vec<String> = (0..1001).map(|number| format!("r{number}")).collect();
        let pod = |name: &str| -> Pod {
            let requests = BTreeMap::from([(name, "1")]);
            let spec = json!({"nodeName": "b", "containers": [{"resources": {"requests": requests}}]});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        assert!(sums.add_node(&node("b", &many[..1000])).is_ok());
        assert!(sums.add_pod(&pod("r0")).is_ok());
        assert!(why(sums.add_pod(&pod(&long[0]))).contains(beyond));
        assert!(why(sums.add_node(&node("c", &many[1000..]))).contains(beyond));
        for resources in [&long[..], &many[..]] {
            assert!(why(NodeSums::default().add_node(&node("a", resources))).contains(beyond));
        }
        let mut sums = NodeSums::default();
        sums.nodes.extend((0..NODES_MAX).map(|number| format!("n{number}")));
        assert!(why(sums.add_node(&node("d", &[]))).contains("which may be 20000 at most"));
    }
}
