use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::paths;
use crate::screen::print;
use business_types::names;
use clap::Args;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  kubectl business lock web --reason 'unpaid'
  kubectl business unlock web --reason 'paid'";

/// Lock a project: it takes nothing new and does not grow (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lock {
    /// The project
    project: String,
    /// Why; it stands at the project and in the audit log
    #[arg(long)]
    reason: String,
    /// Only ask whether it would be done
    #[arg(long)]
    dry_run: bool,
}

impl Lock {
    pub(crate) async fn run(&self, api: &Api, lock: bool) -> Result<Outcome, Failure> {
        let act = if lock { "lock" } else { "unlock" };
        let path = format!("{}/{act}", paths::named(names::PROJECTS, &self.project));
        let path = if self.dry_run { paths::rehearsed(&path) } else { path };
        api.post(&path, &json!({ "reason": self.reason })).await?;
        let would = if self.dry_run { " (dry run)" } else { "" };
        print(format_args!("project/{} {act}ed{would}\n", self.project))?;
        Ok(Outcome::Done)
    }
}
