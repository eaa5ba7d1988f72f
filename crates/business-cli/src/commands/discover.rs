use super::member::{self, Both, BothClusters, text};
use crate::amount;
use crate::connection::ConnectionFlags;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, Namespace};
use crate::output::{self, View};
use crate::screen::{Cell, Screen, Table, left, note, print, right};
use business_types::names;
use clap::Args;
use meta::quantity::{Quantity, ResourceList};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const EXAMPLES: &str = "\
Examples:
  kubectl business discover east --kubeconfig east-admin.kubeconfig
  kubectl business discover east --kubeconfig east-admin.kubeconfig --project shop -o yaml > take.yaml
  kubectl business adopt -f take.yaml --kubeconfig east-admin.kubeconfig --dry-run

Here --kubeconfig is the member cluster's. -o yaml is a list of objects for `adopt`: look at it, say the project of each, and
strike out what stays as it is.";

/// List the namespaces of a cluster that nobody holds (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Discover {
    /// The member cluster
    cluster: String,
    #[command(flatten)]
    both: BothClusters,
    /// The project that they are to lie in
    #[arg(long)]
    project: Option<String>,
    /// The label of namespaces that names their project, where --project does not
    #[arg(long, default_value = names::PROJECT_LABEL, value_name = "KEY")]
    project_label: String,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: View,
}

/// A namespace that no object holds.
#[derive(Debug)]
struct Found {
    namespace: String,
    project: String,
    quotas: usize,
    hard: ResourceList,
    used: ResourceList,
}

impl Discover {
    pub(crate) async fn run(&self, connection: &ConnectionFlags, screen: Screen) -> Result<Outcome, Failure> {
        let Both { host, member } = self.both.open(connection).await?;
        member::record(&host, &member, &self.cluster).await?;
        let (namespaces, quotas, held) = tokio::try_join!(
            member.list::<Value>("/api/v1/namespaces"),
            member.list::<Value>("/api/v1/resourcequotas"),
            objects::all::<Namespace>(&host, names::NAMESPACES),
        )?;
        let held: BTreeSet<String> = held
            .into_iter()
            .filter(|namespace| namespace.spec.cluster_name == self.cluster)
            .map(|namespace| namespace.spec.namespace)
            .collect();
        let found = self.found(&namespaces, &quotas, &held);
        match self.output {
            View::Json | View::Yaml => {
                let items: Vec<Value> = found.iter().map(|one| self.object(one)).collect();
                let list = json!({"apiVersion": names::API_VERSION, "kind": "NamespaceList", "metadata": {}, "items": items});
                output::data(self.output, &list)?;
            }
            View::Text | View::Wide if found.is_empty() => {
                note("every namespace is held, or the cluster's own");
            }
            View::Text | View::Wide => print(table(&found).shown(screen, ""))?,
        }
        Ok(Outcome::Done)
    }

    fn found(&self, namespaces: &[Value], quotas: &[Value], held: &BTreeSet<String>) -> Vec<Found> {
        let mut by_namespace: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for quota in quotas {
            by_namespace.entry(text(quota, "/metadata/namespace")).or_default().push(quota);
        }
        let own = |name: &str| held.contains(name) || names::is_forbidden(name, &names::FORBIDDEN_NAMESPACES);
        let free = namespaces.iter().filter(|namespace| !own(text(namespace, "/metadata/name")));
        free.map(|namespace| {
            let name = text(namespace, "/metadata/name");
            let quotas = by_namespace.get(name).map(Vec::as_slice).unwrap_or_default();
            let labels = namespace.pointer("/metadata/labels");
            let labelled = labels.and_then(|labels| labels.get(&self.project_label)).and_then(Value::as_str);
            let most = |paths: &[&str]| most(quotas, paths);
            Found {
                namespace: name.to_owned(),
                project: self.project.clone().or_else(|| labelled.map(str::to_owned)).unwrap_or_default(),
                quotas: quotas.len(),
                hard: most(&["/spec/hard", "/status/used"]),
                used: most(&["/status/used"]),
            }
        })
        .collect()
    }

    fn object(&self, found: &Found) -> Value {
        json!({
            "apiVersion": names::API_VERSION, "kind": names::NAMESPACE_KIND,
            "metadata": {"namespace": found.project, "annotations": {names::ADOPT_ANNOTATION: "true"}},
            "spec": {"clusterName": self.cluster, "namespace": found.namespace, "hard": found.hard},
        })
    }
}

/// The greatest amount of each resource in some lists of some quotas.
fn most(quotas: &[&Value], paths: &[&str]) -> ResourceList {
    let mut most = ResourceList::new();
    let lists = quotas.iter().flat_map(|quota| paths.iter().filter_map(|path| quota.pointer(path)));
    for list in lists {
        let list: ResourceList = serde_json::from_value(list.clone()).unwrap_or_default();
        for (resource, amount) in list {
            let slot = most.entry(resource).or_insert(Quantity::ZERO);
            *slot = amount.max(*slot);
        }
    }
    most
}

fn table(found: &[Found]) -> Table {
    let mut table =
        Table::new(&[left("NAMESPACE"), left("PROJECT"), right("QUOTAS"), left("HARD"), left("USED")]);
    for one in found {
        let project = if one.project.is_empty() { "-" } else { &one.project };
        table.row([
            Cell::from(one.namespace.as_str()),
            project.into(),
            one.quotas.to_string().into(),
            amount::list_text(&one.hard).into(),
            amount::list_text(&one.used).into(),
        ]);
    }
    table
}
