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
  kubectl business cordon east
  kubectl business uncordon east";

/// Close a cluster: nothing new comes to it and nothing in it grows (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cordon {
    /// The member cluster
    cluster: String,
    #[command(flatten)]
    dry_run: DryRunFlag,
}

/// What is done to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CordonAction {
    Cordon,
    Uncordon,
}

impl Cordon {
    pub(crate) async fn run(&self, api: &Api, action: CordonAction) -> Result<Outcome, Failure> {
        let dry_run = self.dry_run.is_server_dry_run()?;
        set(api, &self.cluster, action, dry_run).await?;
        let act = match action {
            CordonAction::Cordon => "cordoned",
            CordonAction::Uncordon => "uncordoned",
        };
        let would = suffix(dry_run);
        print(format_args!("membercluster/{} {act}{would}\n", self.cluster))?;
        Ok(Outcome::Done)
    }
}

/// Closes a cluster, or opens it.
pub(crate) async fn set(
    api: &Api,
    cluster: &str,
    action: CordonAction,
    dry_run: bool,
) -> Result<(), Failure> {
    let cordoned = action == CordonAction::Cordon;
    let path = paths::with_dry_run(paths::object(names::MEMBER_CLUSTERS, cluster), dry_run);
    api.merge_patch(&path, &json!({"spec": {"cordoned": cordoned}})).await.map(drop)
}
