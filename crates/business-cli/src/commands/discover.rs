use super::member::{self, ClusterFlags, Clusters, text};
use crate::amount;
use crate::connection::ConnectionFlags;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, Namespace};
use crate::output::{self, OutputFormat};
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
    both: ClusterFlags,
    /// The project that they are to lie in
    #[arg(long)]
    project: Option<String>,
    /// The label of namespaces that names their project, where --project does not
    #[arg(long, default_value = names::PROJECT_LABEL, value_name = "KEY")]
    project_label: String,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: OutputFormat,
}

/// A namespace of the cluster that no object manages.
#[derive(Debug)]
struct UnmanagedNamespace {
    namespace: String,
    project: String,
    quotas: usize,
    hard: ResourceList,
    used: ResourceList,
}

impl Discover {
    pub(crate) async fn run(&self, connection: &ConnectionFlags, screen: Screen) -> Result<Outcome, Failure> {
        let Clusters { host, member } = self.both.open(connection).await?;
        member::verified_record(&host, &member, &self.cluster).await?;
        let (namespaces, quotas, managed) = tokio::try_join!(
            member.list::<Value>("/api/v1/namespaces"),
            member.list::<Value>("/api/v1/resourcequotas"),
            objects::list::<Namespace>(&host, names::NAMESPACES),
        )?;
        let managed: BTreeSet<String> = managed
            .into_iter()
            .filter(|namespace| namespace.spec.cluster_name == self.cluster)
            .map(|namespace| namespace.spec.namespace)
            .collect();
        let found = self.unmanaged(&namespaces, &quotas, &managed);
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => {
                let items: Vec<Value> = found.iter().map(|one| self.object(one)).collect();
                let list = json!({"apiVersion": names::API_VERSION, "kind": "NamespaceList", "metadata": {}, "items": items});
                output::print_data(self.output, &list)?;
            }
            OutputFormat::Text | OutputFormat::Wide if found.is_empty() => {
                note("every namespace is held, off limits, or the cluster's own");
            }
            OutputFormat::Text | OutputFormat::Wide => print(table(&found).render(screen, ""))?,
        }
        Ok(Outcome::Done)
    }

    fn unmanaged(
        &self,
        namespaces: &[Value],
        quotas: &[Value],
        managed: &BTreeSet<String>,
    ) -> Vec<UnmanagedNamespace> {
        let mut by_namespace: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for quota in quotas {
            by_namespace.entry(text(quota, "/metadata/namespace")).or_default().push(quota);
        }
        let stays = |namespace: &&Value| {
            let name = text(namespace, "/metadata/name");
            managed.contains(name)
                || names::is_forbidden(name, &names::FORBIDDEN_NAMESPACES)
                || member::is_off_limits(namespace)
        };
        let unmanaged = namespaces.iter().filter(|namespace| !stays(namespace));
        unmanaged
            .map(|namespace| {
                let name = text(namespace, "/metadata/name");
                let quotas = by_namespace.get(name).map(Vec::as_slice).unwrap_or_default();
                let labels = namespace.pointer("/metadata/labels");
                let labelled =
                    labels.and_then(|labels| labels.get(&self.project_label)).and_then(Value::as_str);
                let max_amounts = |paths: &[&str]| max_amounts(quotas, paths);
                UnmanagedNamespace {
                    namespace: name.to_owned(),
                    project: self.project.clone().or_else(|| labelled.map(str::to_owned)).unwrap_or_default(),
                    quotas: quotas.len(),
                    hard: max_amounts(&["/spec/hard", "/status/used"]),
                    used: max_amounts(&["/status/used"]),
                }
            })
            .collect()
    }

    fn object(&self, found: &UnmanagedNamespace) -> Value {
        json!({
            "apiVersion": names::API_VERSION, "kind": names::NAMESPACE_KIND,
            "metadata": {"namespace": found.project, "annotations": {names::ADOPT_ANNOTATION: "true"}},
            "spec": {"clusterName": self.cluster, "namespace": found.namespace, "hard": found.hard},
        })
    }
}

/// The largest amount of each resource in these lists of the quotas.
fn max_amounts(quotas: &[&Value], paths: &[&str]) -> ResourceList {
    let mut max_amounts = ResourceList::new();
    let lists = quotas.iter().flat_map(|quota| paths.iter().filter_map(|path| quota.pointer(path)));
    for list in lists {
        let list: ResourceList = serde_json::from_value(list.clone()).unwrap_or_default();
        for (resource, amount) in list {
            let slot = max_amounts.entry(resource).or_insert(Quantity::ZERO);
            *slot = amount.max(*slot);
        }
    }
    max_amounts
}

fn table(namespaces: &[UnmanagedNamespace]) -> Table {
    let mut table =
        Table::new(&[left("NAMESPACE"), left("PROJECT"), right("QUOTAS"), left("HARD"), left("USED")]);
    for one in namespaces {
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
