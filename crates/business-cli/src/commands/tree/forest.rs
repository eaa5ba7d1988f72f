use crate::amount;
use crate::objects::{self, Namespace, Project, Tenant};
use business_types::{HardQuantity, UsedQuantity};
use meta::quantity::{Quantity, ResourceList};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Limit and usage of one resource on one cluster.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct QuotaUsage {
    /// `None` if it is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hard: Option<Quantity>,
    /// Granted to children; for a namespace, its charge.
    pub(crate) allocated: ZeroDefault,
    /// What counts beside `allocated` without an object.
    #[serde(skip_serializing_if = "ZeroDefault::is_zero")]
    pub(crate) held: ZeroDefault,
    /// Consumed by the namespaces below.
    pub(crate) used: ZeroDefault,
}

/// A quantity with the default 0.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ZeroDefault(pub(crate) Quantity);

/// By cluster and resource.
pub(crate) type UsageByCluster = BTreeMap<String, BTreeMap<String, QuotaUsage>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum NodeKind {
    Tenant,
    Project,
    Namespace,
}

/// A tenant, a project or a namespace.
#[derive(Clone, Debug)]
pub(crate) struct TreeNode {
    pub(crate) kind: NodeKind,
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) phase: String,
    pub(crate) usage: UsageByCluster,
    pub(crate) children: Vec<usize>,
    parent: Option<usize>,
}

/// Everything that the caller sees, as trees. Parents come before their children in `nodes`.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    pub(crate) nodes: Vec<TreeNode>,
    pub(crate) roots: Vec<usize>,
    projects: HashMap<String, usize>,
    tenants: HashMap<String, usize>,
}

/// The filters of the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    /// All if it is empty.
    pub(crate) clusters: &'a [String],
    /// All if it is empty.
    pub(crate) resources: &'a [String],
    pub(crate) namespaces: bool,
    pub(crate) depth: usize,
    /// Only limits of which at least this percentage is taken.
    pub(crate) percent: Option<i128>,
}

/// A node in `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeOutput<'a> {
    kind: NodeKind,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    display_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    phase: &'a str,
    clusters: BTreeMap<&'a str, BTreeMap<&'a str, &'a QuotaUsage>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Self>,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct ForestOutput<'a> {
    roots: Vec<NodeOutput<'a>>,
}

/// Which nodes of a forest are shown, by index.
#[derive(Clone, Debug)]
pub(crate) struct VisibleNodes(Vec<bool>);

/// A visited node of a depth-first traversal.
struct Visit {
    at: usize,
    above: Option<usize>,
    level: usize,
}

/// The usage of one resource on one cluster, of a node.
pub(crate) struct Entry<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) quota: &'a QuotaUsage,
}

impl Default for ZeroDefault {
    fn default() -> Self {
        Self(Quantity::ZERO)
    }
}

impl ZeroDefault {
    fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl QuotaUsage {
    /// The taken part of the limit: allocated and held; for a namespace, used.
    pub(crate) fn taken(&self, kind: NodeKind) -> Quantity {
        if kind == NodeKind::Namespace {
            self.used.0
        } else {
            amount::saturating_add(self.allocated.0, self.held.0)
        }
    }

    /// Percent of the limit that is taken.
    pub(crate) fn percent(&self, kind: NodeKind) -> Option<i128> {
        amount::percent(self.taken(kind), self.hard?)
    }
}

impl VisibleNodes {
    pub(crate) fn contains(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn insert(&mut self, at: usize) {
        if let Some(is_shown) = self.0.get_mut(at) {
            *is_shown = true;
        }
    }
}

impl Selection<'_> {
    /// Whether only some amounts are shown.
    pub(crate) fn has_filter(&self) -> bool {
        !self.clusters.is_empty() || !self.resources.is_empty() || self.percent.is_some()
    }

    fn matches_kind(&self, kind: NodeKind) -> bool {
        self.namespaces || kind != NodeKind::Namespace
    }

    fn matches(&self, kind: NodeKind, cluster: &str, resource: &str, quota: &QuotaUsage) -> bool {
        let listed = |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
        listed(self.clusters, cluster)
            && listed(self.resources, resource)
            && self.percent.is_none_or(|least| quota.percent(kind).is_some_and(|percent| percent >= least))
    }

    /// The matching entries of a node.
    pub(crate) fn entries_of<'n>(&'n self, node: &'n TreeNode) -> impl Iterator<Item = Entry<'n>> {
        node.usage.iter().flat_map(move |(cluster, usage)| {
            let taken =
                usage.iter().filter(|(resource, quota)| self.matches(node.kind, cluster, resource, quota));
            taken.map(move |(resource, quota)| Entry { cluster, resource, quota })
        })
    }
}

impl Forest {
    /// Builds the trees. A project whose parent the caller does not see is a root, or a child of its tenant.
    pub(crate) fn build(tenants: Vec<Tenant>, projects: Vec<Project>, namespaces: Vec<Namespace>) -> Self {
        let mut forest = Self::default();
        for tenant in tenants {
            let name = tenant.metadata.name;
            let usage = quota_usage(tenant.spec.clusters, tenant.status.clusters);
            let node = TreeNode::new(NodeKind::Tenant, name.clone(), usage);
            let at = forest.push(TreeNode { display_name: tenant.spec.display_name, ..node }, None);
            forest.tenants.insert(name, at);
        }
        forest.push_projects(projects);
        for namespace in namespaces {
            let Some(&project) = forest.projects.get(&namespace.metadata.namespace) else { continue };
            forest.push(namespace_node(namespace), Some(project));
        }
        forest.add_up_used();
        forest.sort();
        forest
    }

    /// Adds projects, parents before their children.
    fn push_projects(&mut self, projects: Vec<Project>) {
        let there: HashMap<String, usize> =
            projects.iter().enumerate().map(|(at, project)| (project.name().to_owned(), at)).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); projects.len()];
        let mut waiting = Vec::new();
        for (at, project) in projects.iter().enumerate() {
            match there.get(&project.spec.parent_project_name).and_then(|parent| below.get_mut(*parent)) {
                Some(children) => children.push(at),
                None => waiting.push(at),
            }
        }
        let mut remaining: Vec<Option<Project>> = projects.into_iter().map(Some).collect();
        while let Some(at) = waiting.pop() {
            let Some(project) = remaining.get_mut(at).and_then(Option::take) else { continue };
            let above = self.projects.get(&project.spec.parent_project_name);
            let above = above.or_else(|| self.tenants.get(&project.spec.tenant_id)).copied();
            let name = project.metadata.name.clone();
            let at_node = self.push(project_node(project), above);
            self.projects.insert(name, at_node);
            waiting.extend(below.get(at).into_iter().flatten());
        }
    }

    fn push(&mut self, mut node: TreeNode, parent: Option<usize>) -> usize {
        let at = self.nodes.len();
        node.parent = parent;
        self.nodes.push(node);
        match parent.and_then(|parent| self.nodes.get_mut(parent)) {
            Some(parent) => parent.children.push(at),
            None => self.roots.push(at),
        }
        at
    }

    /// Adds the used amounts of each node to its ancestors.
    fn add_up_used(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let Some((before, rest)) = self.nodes.split_at_mut_checked(at) else { continue };
            let Some(node) = rest.first() else { continue };
            let Some(parent) = node.parent.and_then(|parent| before.get_mut(parent)) else { continue };
            for (cluster, usage) in &node.usage {
                let of_parent = match parent.usage.get_mut(cluster) {
                    Some(of_parent) => of_parent,
                    None => parent.usage.entry(cluster.clone()).or_default(),
                };
                for (resource, quota) in usage.iter().filter(|(_, quota)| !quota.used.0.is_zero()) {
                    let sum = match of_parent.get_mut(resource) {
                        Some(sum) => sum,
                        None => of_parent.entry(resource.clone()).or_default(),
                    };
                    sum.used.0 = amount::saturating_add(sum.used.0, quota.used.0);
                }
            }
        }
    }

    fn sort(&mut self) {
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let name = |at: &usize| names.get(*at).map(String::as_str).unwrap_or_default();
        let compare = |a: &usize, b: &usize| name(a).cmp(name(b));
        self.roots.sort_by(compare);
        self.nodes.iter_mut().for_each(|node| node.children.sort_by(compare));
    }

    pub(crate) fn project(&self, name: &str) -> Option<usize> {
        self.projects.get(name).copied()
    }

    pub(crate) fn tenant(&self, name: &str) -> Option<usize> {
        self.tenants.get(name).copied()
    }

    /// The nodes that are shown. If amounts are filtered, these are the nodes with a matching amount, and their
    /// ancestors.
    pub(crate) fn visible(&self, roots: &[usize], selection: &Selection<'_>) -> VisibleNodes {
        let mut order = Vec::new();
        let mut waiting: Vec<Visit> =
            roots.iter().map(|at| Visit { at: *at, above: None, level: 1 }).collect();
        while let Some(visit) = waiting.pop() {
            let below = self.nodes.get(visit.at).filter(|_| visit.level < selection.depth);
            for child in below.into_iter().flat_map(|node| &node.children) {
                if self.nodes.get(*child).is_some_and(|node| selection.matches_kind(node.kind)) {
                    waiting.push(Visit { at: *child, above: Some(visit.at), level: visit.level + 1 });
                }
            }
            order.push(visit);
        }
        let mut visible = VisibleNodes(vec![false; self.nodes.len()]);
        for Visit { at, above, level: _ } in order.into_iter().rev() {
            let Some(node) = self.nodes.get(at) else { continue };
            if visible.contains(at) || !selection.has_filter() || selection.entries_of(node).next().is_some()
            {
                visible.insert(at);
                if let Some(above) = above {
                    visible.insert(above);
                }
            }
        }
        visible
    }

    /// The output for `-o json`.
    pub(crate) fn to_output(
        &self,
        roots: &[usize],
        selection: &Selection<'_>,
        visible: &VisibleNodes,
    ) -> ForestOutput<'_> {
        let roots = roots.iter().filter_map(|at| self.node_to_output(*at, selection, visible));
        ForestOutput { roots: roots.collect() }
    }

    fn node_to_output(
        &self,
        at: usize,
        selection: &Selection<'_>,
        visible: &VisibleNodes,
    ) -> Option<NodeOutput<'_>> {
        let node = self.nodes.get(at).filter(|_| visible.contains(at))?;
        let mut clusters: BTreeMap<&str, BTreeMap<&str, &QuotaUsage>> = BTreeMap::new();
        for (cluster, usage) in &node.usage {
            for (resource, quota) in usage
                .iter()
                .filter(|(resource, quota)| selection.matches(node.kind, cluster, resource, quota))
            {
                clusters.entry(cluster).or_default().insert(resource, quota);
            }
        }
        Some(NodeOutput {
            kind: node.kind,
            name: &node.name,
            display_name: &node.display_name,
            phase: &node.phase,
            clusters,
            children: node
                .children
                .iter()
                .filter_map(|child| self.node_to_output(*child, selection, visible))
                .collect(),
        })
    }
}

impl TreeNode {
    fn new(kind: NodeKind, name: String, usage: UsageByCluster) -> Self {
        Self {
            kind,
            name,
            display_name: String::new(),
            phase: String::new(),
            usage,
            children: Vec::new(),
            parent: None,
        }
    }
}

fn project_node(project: Project) -> TreeNode {
    let (locked, deleting) = (project.status.locked == Some(true), project.is_deleting());
    let phase = match (deleting, locked) {
        (true, _) => "Terminating",
        (false, true) => "Locked",
        (false, false) => project.status.phase.as_str(),
    };
    let mut usage = quota_usage(project.spec.clusters, project.status.clusters);
    for (cluster, held) in objects::held_by_cluster(&project.status.ledger.held) {
        let of_cluster = usage.entry(cluster).or_default();
        for (resource, amount) in held {
            of_cluster.entry(resource).or_default().held = ZeroDefault(amount);
        }
    }
    let node = TreeNode::new(NodeKind::Project, project.metadata.name, usage);
    TreeNode { display_name: project.spec.display_name, phase: phase.to_owned(), ..node }
}

fn namespace_node(namespace: Namespace) -> TreeNode {
    let phase = if namespace.is_deleting() { "Terminating" } else { namespace.status.phase.as_str() };
    let charged = namespace.status.charged(&namespace.spec);
    let mut usage: BTreeMap<String, QuotaUsage> = BTreeMap::new();
    for (resource, hard) in &namespace.spec.hard {
        usage.entry(resource.clone()).or_default().hard = Some(*hard);
    }
    for (resource, amount) in charged {
        usage.entry(resource.clone()).or_default().allocated = ZeroDefault(*amount);
    }
    for (resource, amount) in &namespace.status.used {
        usage.entry(resource.clone()).or_default().used = ZeroDefault(*amount);
    }
    let name = format!("{}/{}", namespace.spec.cluster_name, namespace.spec.namespace);
    let node = TreeNode::new(NodeKind::Namespace, name, [(namespace.spec.cluster_name, usage)].into());
    TreeNode { phase: phase.to_owned(), ..node }
}

/// Limits and allocated amounts, by cluster.
fn quota_usage(
    hard: BTreeMap<String, HardQuantity>,
    allocated: BTreeMap<String, UsedQuantity>,
) -> UsageByCluster {
    let mut usage = UsageByCluster::new();
    for (cluster, HardQuantity { hard }) in hard {
        let of_cluster: BTreeMap<String, QuotaUsage> = hard
            .into_iter()
            .map(|(resource, hard)| (resource, QuotaUsage { hard: Some(hard), ..QuotaUsage::default() }))
            .collect();
        usage.insert(cluster, of_cluster);
    }
    for (cluster, UsedQuantity { used }) in allocated {
        set_allocated(usage.entry(cluster).or_default(), used);
    }
    usage
}

fn set_allocated(usage: &mut BTreeMap<String, QuotaUsage>, allocated: ResourceList) {
    for (resource, amount) in allocated {
        usage.entry(resource).or_default().allocated = ZeroDefault(amount);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn project(name: &str, parent: &str, cpu: &str, allocated: &str) -> Project {
        read(json!({
            "metadata": {"name": name},
            "spec": {"tenantID": "acme", "parentProjectName": parent,
                     "clusters": {"east": {"hard": {"requests.cpu": cpu, "pods": "100"}}}},
            "status": {"phase": "Active", "clusters": {"east": {"used": {"requests.cpu": allocated, "pods": "20"}}}},
        }))
    }

    fn namespace(project: &str, name: &str, used: &str) -> Namespace {
        read(json!({
            "metadata": {"name": format!("east-{name}"), "namespace": project},
            "spec": {"clusterName": "east", "namespace": name, "hard": {"requests.cpu": "2"}},
            "status": {"phase": "Available", "used": {"requests.cpu": used}, "cachedSpecHard": {"requests.cpu": "3"}},
        }))
    }

    /// A tenant, two projects of it one below the other, one whose parent nobody sees, and two namespaces.
    pub(crate) fn forest() -> Forest {
        let tenant = read(json!({
            "metadata": {"name": "acme"},
            "spec": {"displayName": "Acme", "clusters": {"east": {"hard": {"requests.cpu": "20"}}}},
            "status": {"clusters": {"east": {"used": {"requests.cpu": "10"}}}},
        }));
        let mut foreign = project("lone", "unseen", "1", "1");
        foreign.spec.tenant_id = "globex".to_owned();
        Forest::build(
            vec![tenant],
            vec![project("web", "shop", "8", "6500m"), foreign, project("shop", "", "10", "8")],
            vec![
                namespace("web", "front", "1500m"),
                namespace("web", "back", "500m"),
                namespace("gone", "x", "9"),
            ],
        )
    }

    pub(crate) const ALL: Selection<'static> =
        Selection { clusters: &[], resources: &[], namespaces: true, depth: usize::MAX, percent: None };

    #[test]
    fn everything_lies_below_what_it_is_carved_out_of_and_use_goes_up() {
        let forest = forest();
        let names =
            |list: &[usize]| -> Vec<&str> { list.iter().map(|at| forest.nodes[*at].name.as_str()).collect() };
        assert_eq!(names(&forest.roots), ["acme", "lone"]);
        let web = forest.project("web").unwrap();
        assert_eq!(names(&forest.nodes[web].children), ["east/back", "east/front"]);
        for (kind, at) in [("tenant", forest.tenant("acme")), ("project", forest.project("shop"))] {
            let quota = forest.nodes[at.unwrap()].usage["east"]["requests.cpu"];
            assert_eq!(quota.used.0.to_string(), "2", "{kind}");
        }
        let quota = forest.nodes[web].usage["east"]["requests.cpu"];
        assert_eq!(
            (quota.hard.unwrap().to_string().as_str(), quota.percent(NodeKind::Project)),
            ("8", Some(81))
        );
    }

    #[test]
    fn what_is_held_is_taken() {
        let mut shop = project("shop", "", "10", "5");
        let held = json!({"uid": "u", "clusterName": "east", "hard": {"requests.cpu": "4"}});
        shop.status.ledger.held.push(read(held));
        let forest = Forest::build(Vec::new(), vec![shop], Vec::new());
        let quota = forest.nodes[0].usage["east"]["requests.cpu"];
        assert_eq!(quota.percent(NodeKind::Project), Some(90));
        let told = serde_json::to_value(quota).unwrap();
        assert_eq!(told, json!({"hard": "10", "allocated": "5", "held": "4", "used": "0"}));
    }

    #[test]
    fn a_limit_of_nothing_with_something_in_it_is_full() {
        let forest = Forest::build(
            Vec::new(),
            vec![project("frozen", "", "0", "5"), project("empty", "", "0", "0")],
            Vec::new(),
        );
        let full = to_json(&forest, &Selection { percent: Some(95), ..ALL });
        let names: Vec<&Value> = full["roots"].as_array().unwrap().iter().map(|root| &root["name"]).collect();
        assert_eq!(names, ["frozen"]);
    }

    #[test]
    fn what_is_not_asked_for_is_left_out() {
        let forest = forest();
        let clusters = ["west".to_owned()];
        let nothing = Selection { clusters: &clusters, ..ALL };
        assert!(nothing.entries_of(&forest.nodes[0]).next().is_none());
        let full = Selection { percent: Some(81), ..ALL };
        let web = forest.project("web").unwrap();
        let entries: Vec<&str> = full.entries_of(&forest.nodes[web]).map(|entry| entry.resource).collect();
        assert_eq!(entries, ["requests.cpu"]);
        let shallow = to_json(&forest, &Selection { depth: 2, ..ALL });
        assert_eq!(shallow["roots"][0]["children"][0]["name"], "shop");
        assert!(shallow["roots"][0]["children"][0].get("children").is_none());
        assert_eq!(
            shallow["roots"][0]["clusters"]["east"]["requests.cpu"],
            json!({
                "hard": "20", "allocated": "10", "used": "2"
            })
        );
    }

    fn to_json(forest: &Forest, selection: &Selection<'_>) -> Value {
        let visible = forest.visible(&forest.roots, selection);
        serde_json::to_value(forest.to_output(&forest.roots, selection, &visible)).unwrap()
    }

    #[test]
    fn a_node_without_what_is_asked_for_is_shown_above_one_that_has_it_alone() {
        let forest = forest();
        let full = to_json(&forest, &Selection { percent: Some(81), ..ALL });
        assert_eq!((&full["roots"][0]["name"], &full["roots"][0]["clusters"]), (&json!("acme"), &json!({})));
        let web = &full["roots"][0]["children"][0]["children"][0];
        assert_eq!((&web["name"], web.get("children")), (&json!("web"), None), "no namespace is that full");
        assert_eq!(full["roots"][1]["name"], "lone");
        let shallow = to_json(&forest, &Selection { percent: Some(81), depth: 2, ..ALL });
        assert_eq!(shallow["roots"].as_array().unwrap().len(), 1, "what is not shown keeps nothing");
        let west = ["west".to_owned()];
        let none = [
            Selection { percent: Some(101), ..ALL },
            Selection { clusters: &west, ..ALL },
            Selection { resources: &west, ..ALL },
        ];
        for selection in none {
            assert_eq!(to_json(&forest, &selection), json!({"roots": []}), "{selection:?}");
        }
    }

    #[test]
    fn projects_that_form_a_circle_are_no_endless_tree() {
        let forest = Forest::build(
            Vec::new(),
            vec![project("a", "b", "1", "0"), project("b", "a", "1", "0")],
            Vec::new(),
        );
        assert!(forest.roots.is_empty() && forest.nodes.is_empty());
    }
}
