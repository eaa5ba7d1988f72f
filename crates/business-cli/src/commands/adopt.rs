use super::explain::read_documents;
use super::member::{self, ClusterFlags, Clusters, text};
use crate::connection::ConnectionFlags;
use crate::dry_run::DryRunFlag;
use crate::failure::{Failure, Outcome};
use crate::paths;
use crate::screen::print;
use business_types::names;
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  kubectl business discover east --kubeconfig east-admin.kubeconfig --project shop -o yaml > take.yaml
  kubectl business adopt -f take.yaml --kubeconfig east-admin.kubeconfig --dry-run
  kubectl business adopt -f take.yaml --kubeconfig east-admin.kubeconfig

All of the file is taken, in one transaction, or nothing. Here --kubeconfig is the member cluster's that the file names: what is
not there would be made, so it is looked for first.";

/// Limit of the objects in a file. The server creates as many in one transaction.
const OBJECTS_MAX: usize = 1000;

/// Take over namespaces that are there already: they are charged, and what runs in them goes on (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Adopt {
    /// A file with the namespaces, as `discover -o yaml` writes it
    #[arg(long, short, value_name = "FILE")]
    filename: PathBuf,
    #[command(flatten)]
    both: ClusterFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
}

impl Adopt {
    pub(crate) async fn run(&self, connection: &ConnectionFlags) -> Result<Outcome, Failure> {
        let dry_run = self.dry_run.is_server_dry_run()?;
        let Clusters { host, member } = self.both.open(connection).await?;
        let mut items = read_documents(&self.filename, OBJECTS_MAX)?;
        self.fail_if_any(items.iter().filter_map(problem_of))?;
        let clusters: BTreeSet<&str> = items.iter().map(|item| text(item, "/spec/clusterName")).collect();
        if clusters.len() > 1 {
            let why = format!("it names several clusters ({clusters:?}): take those of each by themselves");
            return Err(Failure::File { path: self.filename.clone(), why });
        }
        for cluster in clusters {
            member::verified_record(&host, &member, cluster).await?;
        }
        let existing = member.list::<Value>("/api/v1/namespaces").await?;
        let existing: BTreeMap<&str, &Value> =
            existing.iter().map(|namespace| (text(namespace, "/metadata/name"), namespace)).collect();
        self.fail_if_any(items.iter().filter_map(|item| problem_there(item, &existing)))?;
        items.iter_mut().for_each(set_adopt_annotation);
        let list = json!({
            "apiVersion": names::API_VERSION, "kind": "NamespaceList", "metadata": {}, "items": items,
        });
        let path = paths::with_dry_run(paths::collection(names::NAMESPACES), dry_run);
        host.post(&path, &list).await?;
        let (count, are) = if items.len() == 1 {
            ("1 namespace".to_owned(), "is")
        } else {
            (format!("{} namespaces", items.len()), "are")
        };
        if dry_run {
            print(format_args!("{count} would be taken\n"))?;
        } else {
            print(format_args!("{count} {are} taken; the controller marks what is there\n"))?;
        }
        Ok(Outcome::Done)
    }

    /// Fails with all problems, if there are any.
    fn fail_if_any(&self, wrong: impl Iterator<Item = String>) -> Result<(), Failure> {
        let wrong: Vec<String> = wrong.collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::File { path: self.filename.clone(), why: wrong.join("\n  ") })
    }
}

/// Why an object of the file cannot be adopted.
fn problem_of(item: &Value) -> Option<String> {
    let (name, project) = (text(item, "/spec/namespace"), text(item, "/metadata/namespace"));
    if text(item, "/kind") != names::NAMESPACE_KIND || text(item, "/apiVersion") != names::API_VERSION {
        return Some(format!("{} is no Namespace of {}", text(item, "/kind"), names::API_VERSION));
    }
    if project.is_empty() {
        return Some(format!("namespace {name}: say in metadata.namespace which project it is to lie in"));
    }
    let cluster = text(item, "/spec/clusterName");
    cluster.is_empty().then(|| format!("namespace {name}: say in spec.clusterName in which cluster it is"))
}

/// Why the namespace of an item cannot be adopted. `existing`: the namespaces of its cluster, by name.
fn problem_there(item: &Value, existing: &BTreeMap<&str, &Value>) -> Option<String> {
    let name = text(item, "/spec/namespace");
    match existing.get(name) {
        None => Some(format!("namespace {name} is not there: it would be made")),
        Some(namespace) => member::is_off_limits(namespace).then(|| {
            format!(
                "namespace {name} is off limits: nobody adopts what is labelled {}",
                names::OFF_LIMITS_LABEL
            )
        }),
    }
}

/// Sets the annotation that allows the controller to take the namespace over.
fn set_adopt_annotation(item: &mut Value) {
    let metadata = item.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(names::ADOPT_ANNOTATION.to_owned(), json!("true"));
    }
}
