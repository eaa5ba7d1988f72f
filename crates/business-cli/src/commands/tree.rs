use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, Namespace, Project, Tenant};
use crate::output::{self, OutputFormat};
use crate::screen::{Screen, note, print};
use business_types::names;
use clap::Args;
use forest::{Forest, Selection};
use render::TreeView;

/// The trees of tenants, projects and namespaces. Pure.
pub(crate) mod forest;
/// Rendering of trees. Pure.
mod render;

const EXAMPLES: &str = "\
Examples:
  kubectl business tree                        everything that you see
  kubectl business tree shop --namespaces      one project, down to its namespaces
  kubectl business tree --resource requests.cpu --cluster east
  kubectl business tree --full 80              what is taken to 80 % or more
  kubectl business tree -o json | jq '.roots[].name'

USED is what namespaces consume in their clusters, ALLOCATED what is given to those below, HARD the limit.
% is what is allocated of the limit, and in a namespace what is used of it: from 80 it is marked !, from 95 !!.";

/// Show who holds what: tenants, projects and namespaces, with bars
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tree {
    /// Only this project and what is below it
    project: Option<String>,
    /// Only this tenant
    #[arg(long, conflicts_with = "project")]
    tenant: Option<String>,
    /// Only amounts on this cluster, and who has any; repeat it for several
    #[arg(long)]
    cluster: Vec<String>,
    /// Only amounts of this resource, and who has any; repeat it for several
    #[arg(long)]
    resource: Vec<String>,
    /// Down to the namespaces
    #[arg(long, short = 'N')]
    namespaces: bool,
    /// At most this many levels
    #[arg(long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Only limits of which this percentage or more is taken, and who has any
    #[arg(long, value_name = "PERCENT")]
    full: Option<u8>,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: OutputFormat,
}

impl Tree {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let (tenants, projects, namespaces) = tokio::try_join!(
            objects::list_or_empty::<Tenant>(api, names::TENANTS),
            objects::list_with_role_advice::<Project>(api, names::PROJECTS),
            objects::list_or_empty::<Namespace>(api, names::NAMESPACES),
        )?;
        let forest = Forest::build(tenants, projects, namespaces);
        let selection = Selection {
            clusters: &self.cluster,
            resources: &self.resource,
            namespaces: self.namespaces,
            depth: self.depth.unwrap_or(usize::MAX),
            percent: self.full.map(i128::from),
        };
        let mut roots = self.roots(&forest)?;
        let is_empty = roots.is_empty();
        let visible = forest.visible(&roots, &selection);
        roots.retain(|root| visible.contains(*root));
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => {
                output::print_data(self.output, &forest.to_output(&roots, &selection, &visible))?;
            }
            _ if is_empty => note_no_projects(),
            _ if roots.is_empty() => {
                note("nothing that you see has what --cluster, --resource and --full ask for");
            }
            format => {
                let wide = format == OutputFormat::Wide;
                let view =
                    TreeView { forest: &forest, selection: &selection, visible: &visible, screen, wide };
                print(view.render(&roots))?;
            }
        }
        Ok(Outcome::Done)
    }

    /// The roots of the trees that are shown.
    fn roots(&self, forest: &Forest) -> Result<Vec<usize>, Failure> {
        let missing = |kind: &str, name: &str| {
            Failure::Other(format!(
                "{kind} {name}: you see none of this name; `kubectl business tree` shows all"
            ))
        };
        match (&self.project, &self.tenant) {
            (Some(project), _) => {
                forest.project(project).map(|at| vec![at]).ok_or_else(|| missing("project", project))
            }
            (None, Some(tenant)) => {
                forest.tenant(tenant).map(|at| vec![at]).ok_or_else(|| missing("tenant", tenant))
            }
            (None, None) => Ok(forest.roots.clone()),
        }
    }
}

/// Prints that the caller has no role anywhere.
pub(super) fn note_no_projects() {
    note("no project is there for you: an administrator gives roles with `kubectl business access add`");
}
