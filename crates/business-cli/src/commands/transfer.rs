use crate::api::Api;
use crate::connection::duration;
use crate::dry_run::{DryRunFlag, suffix};
use crate::failure::{Failure, Outcome};
use crate::objects;
use crate::paths;
use crate::screen::print;
use crate::wait::{self, Progress};
use business_types::NamespaceTransfer;
use business_types::condition::{self, TRANSFERRED};
use business_types::names;
use clap::Args;
use serde_json::json;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kubectl business move east-web --to shop -n web --reason 'the team has moved'
  kubectl business move east-web --to shop -n web --dry-run";

/// Move a namespace to another project, with what it is charged
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Move {
    /// The namespace, in the project of -n
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// The project that it shall lie in
    #[arg(long, value_name = "PROJECT")]
    to: String,
    /// Why; it stands at the namespace and in the audit log
    #[arg(long, default_value_t)]
    reason: String,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// Wait until its cluster says so, too
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
}

impl Move {
    pub(crate) async fn run(&self, api: &Api) -> Result<Outcome, Failure> {
        let (name, dry_run) = (&self.name, self.dry_run.is_server_dry_run()?);
        self.dry_run.check_wait(self.wait)?;
        let live = objects::get_namespace(api, &api.project, name).await?;
        let asked = NamespaceTransfer {
            project: self.to.clone(),
            reason: self.reason.clone(),
            uid: live.metadata.uid,
        };
        let path = format!("{}/{}", paths::namespace(&api.project, name), names::TRANSFER);
        let path = paths::with_dry_run(path, dry_run);
        api.post(&path, &json!(asked)).await?;
        if self.wait {
            let what = format!("namespace {name} is of project {} in its cluster, too", self.to);
            wait::until(&what, self.timeout, async || {
                let moved = objects::get_namespace(api, &self.to, name).await?;
                Ok(match condition::find(&moved.status.conditions, TRANSFERRED) {
                    Some(told) if told.is_true() => Progress::Done(()),
                    Some(told) => Progress::Pending(told.message.clone()),
                    None => Progress::Pending("the controller has not looked yet".to_owned()),
                })
            })
            .await?;
        }
        let would = suffix(dry_run);
        print(format_args!(
            "namespace/{name} moved from project {} to project {}{would}\n",
            api.project, self.to
        ))?;
        Ok(Outcome::Done)
    }
}
