use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, Namespace, Project, Tenant};
use crate::output::{self, View};
use crate::screen::{Screen, note, print};
use business_types::names;
use clap::Args;
use forest::{Forest, Selection};

/// Tenants, projects and namespaces, one below the other. Pure.
pub(crate) mod forest;
/// Lines with bars. Pure.
mod drawn;

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
    /// So many levels
    #[arg(long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Only limits of which this percentage or more is taken, and who has any
    #[arg(long, value_name = "PERCENT")]
    full: Option<u8>,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: View,
}

impl Tree {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let (tenants, projects, namespaces) = tokio::try_join!(
            objects::seen::<Tenant>(api, names::TENANTS),
            objects::all_by_role::<Project>(api, names::PROJECTS),
            objects::seen::<Namespace>(api, names::NAMESPACES),
        )?;
        let forest = Forest::grown(tenants, projects, namespaces);
        let selection = Selection {
            clusters: &self.cluster,
            resources: &self.resource,
            namespaces: self.namespaces,
            depth: self.depth.unwrap_or(usize::MAX),
            percent: self.full.map(i128::from),
        };
        let mut roots = self.roots(&forest)?;
        let is_empty = roots.is_empty();
        let shown = forest.shown(&roots, &selection);
        roots.retain(|root| shown.has(*root));
        match self.output {
            View::Json | View::Yaml => output::data(self.output, &forest.told(&roots, &selection, &shown))?,
            _ if is_empty => nothing(),
            _ if roots.is_empty() => {
                note("nothing that you see has what --cluster, --resource and --full ask for");
            }
            view => {
                print(drawn::lines(&forest, &roots, &selection, &shown, screen, view == View::Wide))?;
            }
        }
        Ok(Outcome::Done)
    }

    /// Where it begins.
    fn roots(&self, forest: &Forest) -> Result<Vec<usize>, Failure> {
        let missing = |kind: &str, name: &str| {
            Failure::Stopped(format!(
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

/// Says that the caller has no role anywhere.
pub(super) fn nothing() {
    note("no project is there for you: an administrator gives roles with `kubectl business access add`");
}
