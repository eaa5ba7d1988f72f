use super::tree;
use crate::amount;
use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, Namespace, Project};
use crate::output::{self, OutputFormat};
use crate::screen::{Cell, Screen, Table, Tone, left, note, print, right};
use business_types::names;
use clap::{Args, ValueEnum};
use meta::quantity::Quantity;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

const EXAMPLES: &str = "\
Examples:
  kubectl business top                                   who holds most, and who idles most
  kubectl business top projects --resource requests.cpu  the same of projects
  kubectl business top --by idle --limit 20 --cluster east
  kubectl business top --by idle -o json

HELD is what a namespace is charged, and what a project has beside what its child projects have; USED what runs consumes of
it; IDLE the rest.";

/// Show who holds most, and who idles most
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// Whom to compare
    #[arg(value_enum, default_value_t)]
    what: TopKind,
    /// Only one of the two lists
    #[arg(long, value_enum)]
    by: Option<Order>,
    /// At most this many of each
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    limit: usize,
    /// Only this cluster; repeat it for several
    #[arg(long)]
    cluster: Vec<String>,
    /// Only this resource; repeat it for several
    #[arg(long)]
    resource: Vec<String>,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TopKind {
    #[default]
    #[value(alias = "ns")]
    Namespaces,
    #[value(alias = "prj")]
    Projects,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    Held,
    Idle,
}

/// What a namespace or project has of a resource on a cluster.
#[derive(Clone, Debug, Serialize)]
struct Holding {
    #[serde(skip_serializing_if = "String::is_empty")]
    project: String,
    name: String,
    held: Quantity,
    used: Quantity,
    idle: Quantity,
}

/// One resource on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ResourceKey {
    cluster: String,
    resource: String,
}

/// One resource of one project on one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProjectResourceKey<'a> {
    project: &'a str,
    cluster: &'a str,
    resource: &'a str,
}

/// All holdings, by cluster and resource.
#[derive(Debug, Default)]
struct Holdings(BTreeMap<ResourceKey, Vec<Holding>>);

impl Top {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let namespaces = objects::list_with_role_advice::<Namespace>(api, names::NAMESPACES);
        let projects = || objects::list_with_role_advice::<Project>(api, names::PROJECTS);
        let holdings = match self.what {
            TopKind::Namespaces => Holdings::of_namespaces(&namespaces.await?),
            TopKind::Projects => {
                let (namespaces, projects) = tokio::try_join!(namespaces, projects())?;
                Holdings::of_projects(&projects, &namespaces)
            }
        };
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => {
                output::print_data(self.output, &self.to_json(holdings))?;
            }
            // A caller who sees a holding sees its project, too.
            _ if holdings.0.is_empty() && projects().await?.is_empty() => tree::note_no_projects(),
            OutputFormat::Text | OutputFormat::Wide => self.show(holdings, screen)?,
        }
        Ok(Outcome::Done)
    }

    fn matches(&self, key: &ResourceKey) -> bool {
        let listed = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        listed(&self.cluster, &key.cluster) && listed(&self.resource, &key.resource)
    }

    /// The largest holdings in this order, at most `--limit`.
    fn largest(&self, holdings: &mut [Holding], order: Order) -> Vec<Holding> {
        let key = |holding: &Holding| if order == Order::Held { holding.held } else { holding.idle };
        holdings.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
        holdings.iter().filter(|holding| !key(holding).is_zero()).take(self.limit).cloned().collect()
    }

    fn orders(&self) -> Vec<Order> {
        self.by.map_or_else(|| vec![Order::Held, Order::Idle], |order| vec![order])
    }

    fn to_json(&self, holdings: Holdings) -> serde_json::Value {
        let mut places = Vec::new();
        for (key, mut all) in holdings.0.into_iter().filter(|(key, _)| self.matches(key)) {
            let mut one = json!({"cluster": key.cluster, "resource": key.resource});
            for order in self.orders() {
                let field = if order == Order::Held { "held" } else { "idle" };
                if let Some(one) = one.as_object_mut() {
                    one.insert(field.to_owned(), json!(self.largest(&mut all, order)));
                }
            }
            places.push(one);
        }
        json!({ "places": places })
    }

    fn show(&self, holdings: Holdings, screen: Screen) -> Result<(), Failure> {
        let mut text = String::new();
        for (key, mut all) in holdings.0.into_iter().filter(|(key, _)| self.matches(key)) {
            for order in self.orders() {
                let first = self.largest(&mut all, order);
                if first.is_empty() {
                    continue;
                }
                let most = if order == Order::Held { "holds" } else { "idles" };
                let title = format!("Who {most} most {} on {}", key.resource, key.cluster);
                text.extend([screen.paint(Tone::Head, &title).as_str(), "\n"]);
                text.push_str(&self.table(&first).render(screen, "  "));
                text.push('\n');
            }
        }
        if text.is_empty() {
            note("nobody holds anything that you see");
            return Ok(());
        }
        print(format_args!("{}\n", text.trim_end_matches('\n')))
    }

    fn table(&self, holdings: &[Holding]) -> Table {
        let shown = |amount: Quantity| {
            if self.output == OutputFormat::Wide { amount.to_string() } else { amount::short_text(amount) }
        };
        let mut table =
            Table::new(&[left("NAME"), right("HELD"), right("USED"), right("IDLE"), right("IDLE %")]);
        for holding in holdings {
            let Holding { project, name, held, used, idle } = holding;
            let name = if project.is_empty() { name.clone() } else { format!("{project}/{name}") };
            let percent = amount::percent(*idle, *held);
            table.row([
                Cell::from(name),
                shown(*held).into(),
                shown(*used).into(),
                shown(*idle).into(),
                percent.map_or_else(String::new, |percent| percent.to_string()).into(),
            ]);
        }
        table
    }
}

impl Holdings {
    fn add(&mut self, key: ResourceKey, holding: Holding) {
        self.0.entry(key).or_default().push(holding);
    }

    fn of_namespaces(namespaces: &[Namespace]) -> Self {
        let mut holdings = Self::default();
        for namespace in namespaces {
            for (resource, held) in namespace.status.charged(&namespace.spec) {
                let used = amount::get(&namespace.status.used, resource);
                let key =
                    ResourceKey { cluster: namespace.spec.cluster_name.clone(), resource: resource.clone() };
                let project = namespace.metadata.namespace.clone();
                let holding = Holding::new(project, namespace.name(), *held, used);
                holdings.add(key, holding);
            }
        }
        holdings
    }

    /// A project's budget without that of its children, and the usage of its own namespaces.
    fn of_projects(projects: &[Project], namespaces: &[Namespace]) -> Self {
        let mut given: BTreeMap<ProjectResourceKey<'_>, Quantity> = BTreeMap::new();
        let mut used: BTreeMap<ProjectResourceKey<'_>, Quantity> = BTreeMap::new();
        for project in projects {
            for (cluster, quota) in &project.spec.clusters {
                for (resource, amount) in &quota.hard {
                    let key =
                        ProjectResourceKey { project: &project.spec.parent_project_name, cluster, resource };
                    let sum = given.entry(key).or_insert(Quantity::ZERO);
                    *sum = amount::saturating_add(*sum, *amount);
                }
            }
        }
        for namespace in namespaces {
            for (resource, amount) in &namespace.status.used {
                let (project, cluster) = (&namespace.metadata.namespace, &namespace.spec.cluster_name);
                let key = ProjectResourceKey { project, cluster, resource };
                let sum = used.entry(key).or_insert(Quantity::ZERO);
                *sum = amount::saturating_add(*sum, *amount);
            }
        }
        let mut holdings = Self::default();
        for project in projects {
            for (cluster, quota) in &project.spec.clusters {
                for (resource, hard) in &quota.hard {
                    let key = ProjectResourceKey { project: project.name(), cluster, resource };
                    let of = |sums: &BTreeMap<_, Quantity>| sums.get(&key).copied().unwrap_or(Quantity::ZERO);
                    let holding = Holding::new(
                        String::new(),
                        project.name(),
                        amount::saturating_sub(*hard, of(&given)),
                        of(&used),
                    );
                    holdings
                        .add(ResourceKey { cluster: cluster.clone(), resource: resource.clone() }, holding);
                }
            }
        }
        holdings
    }
}

impl Holding {
    fn new(project: String, name: &str, held: Quantity, used: Quantity) -> Self {
        Self { project, name: name.to_owned(), held, used, idle: amount::saturating_sub(held, used) }
    }
}
