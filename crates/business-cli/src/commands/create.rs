use crate::api::Api;
use crate::connection::duration;
use crate::desired::{DesiredKind, DesiredObject, NamespaceFlags, ProjectFlags};
use crate::dry_run::{DryRunFlag, DryRunStrategy};
use crate::failure::{Failure, Outcome};
use crate::objects;
use crate::output::{self, CreateFormat};
use crate::paths;
use crate::screen::print;
use crate::wait::{self, Progress};
use business_types::condition::{self, READY};
use business_types::{Condition, NamespacePhase, ProjectPhase, names};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kubectl business create project shop --tenant acme --hard east:requests.cpu=10,requests.memory=20Gi,pods=50
  kubectl business create project shop-web --parent shop --hard east:requests.cpu=4,requests.memory=8Gi,pods=20
  kubectl business create namespace web -n shop --cluster east --hard requests.cpu=2,requests.memory=4Gi,pods=10 --wait
  kubectl business create namespace web -n shop --cluster east --hard pods=10 --dry-run=client -o yaml > web.yaml";

/// Make a project or a namespace
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    #[command(subcommand)]
    what: CreateCommand,
}

#[derive(Debug, Subcommand)]
enum CreateCommand {
    /// A project: a budget
    #[command(visible_alias = "prj", after_help = EXAMPLES)]
    Project {
        #[command(flatten)]
        flags: ProjectFlags,
        #[command(flatten)]
        how: CreateFlags,
    },
    /// A namespace of a project (-n) in a member cluster
    #[command(visible_alias = "ns", after_help = EXAMPLES)]
    Namespace {
        #[command(flatten)]
        flags: NamespaceFlags,
        #[command(flatten)]
        how: CreateFlags,
    },
}

#[derive(Debug, Args)]
struct CreateFlags {
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// Wait until it can be used
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
    /// What to print
    #[arg(long, short, value_enum, default_value_t)]
    output: CreateFormat,
}

impl Create {
    pub(crate) async fn run(&self, api: &Api) -> Result<Outcome, Failure> {
        let (desired, how) = match &self.what {
            CreateCommand::Project { flags, how } => (flags.new_object()?, how),
            CreateCommand::Namespace { flags, how } => {
                // The server does not check an object that is only printed.
                let is_printed = how.dry_run.strategy() == DryRunStrategy::Client;
                let project = if is_printed { api.named_project()? } else { &api.project };
                (flags.new_object(project)?, how)
            }
        };
        how.create(api, &desired).await?;
        Ok(Outcome::Done)
    }
}

impl CreateFlags {
    async fn create(&self, api: &Api, desired: &DesiredObject) -> Result<(), Failure> {
        let (word, full) = (desired.kind.word(), desired.kind.full_name());
        self.dry_run.check_wait(self.wait)?;
        if self.dry_run.strategy() == DryRunStrategy::Client {
            return match self.output {
                CreateFormat::Json => output::print_json(&desired.named_body()),
                CreateFormat::Yaml => output::print_yaml(&desired.named_body()),
                CreateFormat::Name => print(format_args!("{full}/{}\n", desired.name)),
                CreateFormat::Text => print(format_args!("{word}/{} created (dry run)\n", desired.name)),
            };
        }
        let is_dry_run = self.dry_run.strategy() == DryRunStrategy::Server;
        let mut created = desired.write(api, is_dry_run).await?;
        let name = created.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.wait {
            created = wait_until_usable(api, desired, &name, self.timeout).await?;
        }
        match self.output {
            CreateFormat::Json => output::print_json(&created),
            CreateFormat::Yaml => output::print_yaml(&created),
            CreateFormat::Name => print(format_args!("{full}/{name}\n")),
            CreateFormat::Text => {
                let how = match (is_dry_run, self.wait) {
                    (true, _) => "created (server dry run)",
                    (false, true) => "created, and can be used",
                    (false, false) => "created",
                };
                print(format_args!("{word}/{name} {how}\n"))
            }
        }
    }
}

/// Waits until the controller has made the object usable, and returns it.
async fn wait_until_usable(
    api: &Api,
    desired: &DesiredObject,
    name: &str,
    timeout: Duration,
) -> Result<Value, Failure> {
    let what = format!("{} {name} can be used", desired.kind.word());
    let check = async || match desired.kind {
        DesiredKind::Project => {
            let live = objects::get_project(api, name).await?;
            let status = &live.status;
            Ok(match status.phase {
                ProjectPhase::Active => Progress::Done(()),
                phase => Progress::Pending(phase_text(phase.as_str(), &status.message, &status.conditions)),
            })
        }
        DesiredKind::Namespace => {
            let live = objects::get_namespace(api, &desired.payer, name).await?;
            let status = &live.status;
            Ok(match status.phase {
                NamespacePhase::Available => Progress::Done(()),
                phase => Progress::Pending(phase_text(phase.as_str(), &status.message, &status.conditions)),
            })
        }
    };
    wait::until(&what, timeout, check).await?;
    let path = match desired.kind {
        DesiredKind::Project => paths::object(names::PROJECTS, name),
        DesiredKind::Namespace => paths::namespace(&desired.payer, name),
    };
    api.get(&path).await
}

/// The phase and its reason.
fn phase_text(phase: &str, message: &str, conditions: &[Condition]) -> String {
    let ready = condition::find(conditions, READY);
    let why = if message.is_empty() { ready.map_or("", |ready| ready.message.as_str()) } else { message };
    if why.is_empty() { phase.to_owned() } else { format!("{phase}: {why}") }
}
