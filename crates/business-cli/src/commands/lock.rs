use crate::api::Api;
use crate::dry_run::{DryRunFlag, suffix};
use crate::failure::{Failure, Outcome};
use crate::paths;
use crate::screen::print;
use business_types::names;
use clap::Args;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kubectl business lock web --reason 'unpaid'
  kubectl business unlock web --reason 'paid'
  kubectl business lock imagenamespace/shop -n web --reason 'evidence'
  kubectl business lock chartgroup/charts -n web --reason 'evidence'";

/// Lock a project: it takes nothing new and does not grow; or what it has in the registry (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lock {
    /// The project; or imagenamespace/NAME or chartgroup/NAME, of the project of -n
    #[arg(value_name = "PROJECT", value_parser = LockTarget::parse)]
    target: LockTarget,
    /// Why; it stands at the object and in the audit log
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    dry_run: DryRunFlag,
}

/// What can be locked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LockTarget {
    kind: LockableKind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockableKind {
    Project,
    ImageNamespace,
    ChartGroup,
}

impl LockTarget {
    /// Reads `NAME` or `KIND/NAME`.
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or(("project", text));
        let kind = match kind.to_ascii_lowercase().as_str() {
            "project" | "projects" | "prj" => LockableKind::Project,
            "imagenamespace" | "imagenamespaces" | "imn" => LockableKind::ImageNamespace,
            "chartgroup" | "chartgroups" | "rcg" => LockableKind::ChartGroup,
            _ => return Err("what is locked is PROJECT, imagenamespace/NAME or chartgroup/NAME".to_owned()),
        };
        if name.is_empty() {
            return Err("no name".to_owned());
        }
        Ok(Self { kind, name: name.to_owned() })
    }

    fn path(&self, project: &str) -> String {
        match self.kind {
            LockableKind::Project => paths::object(names::PROJECTS, &self.name),
            LockableKind::ImageNamespace => {
                paths::project_object(project, names::IMAGE_NAMESPACES, &self.name)
            }
            LockableKind::ChartGroup => paths::project_object(project, names::CHART_GROUPS, &self.name),
        }
    }
}

impl std::fmt::Display for LockTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            LockableKind::Project => "project",
            LockableKind::ImageNamespace => "imagenamespace",
            LockableKind::ChartGroup => "chartgroup",
        };
        write!(f, "{kind}/{}", self.name)
    }
}

/// What is done to the target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockAction {
    Lock,
    Unlock,
}

impl Lock {
    pub(crate) async fn run(&self, api: &Api, action: LockAction) -> Result<Outcome, Failure> {
        let act = match action {
            LockAction::Lock => "lock",
            LockAction::Unlock => "unlock",
        };
        let dry_run = self.dry_run.is_server_dry_run()?;
        let path = paths::with_dry_run(format!("{}/{act}", self.target.path(&api.project)), dry_run);
        api.post(&path, &json!({ "reason": self.reason })).await?;
        let would = suffix(dry_run);
        print(format_args!("{} {act}ed{would}\n", self.target))?;
        Ok(Outcome::Done)
    }
}
