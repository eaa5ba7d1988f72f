use crate::api::Api;
use crate::connection::duration;
use crate::dry_run::{DryRun, DryRunFlag};
use crate::failure::{Failure, Outcome};
use crate::objects;
use crate::output::{self, Told};
use crate::screen::print;
use crate::wait::{self, Look};
use crate::wanted::{NamespaceFlags, ProjectFlags, Wanted, WantedKind};
use business_types::{Condition, NamespacePhase, ProjectPhase};
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
    what: CreatedKind,
}

#[derive(Debug, Subcommand)]
enum CreatedKind {
    /// A project: a budget
    #[command(visible_alias = "prj", after_help = EXAMPLES)]
    Project {
        #[command(flatten)]
        flags: ProjectFlags,
        #[command(flatten)]
        how: HowToCreate,
    },
    /// A namespace of a project (-n) in a member cluster
    #[command(visible_alias = "ns", after_help = EXAMPLES)]
    Namespace {
        #[command(flatten)]
        flags: NamespaceFlags,
        #[command(flatten)]
        how: HowToCreate,
    },
}

#[derive(Debug, Args)]
struct HowToCreate {
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
    output: Told,
}

impl Create {
    pub(crate) async fn run(&self, api: &Api) -> Result<Outcome, Failure> {
        let (wanted, how) = match &self.what {
            CreatedKind::Project { flags, how } => (flags.new_one()?, how),
            CreatedKind::Namespace { flags, how } => {
                // No server refuses what is only printed.
                let is_printed = how.dry_run.who() == DryRun::Client;
                let project = if is_printed { api.named_project()? } else { &api.project };
                (flags.new_one(project)?, how)
            }
        };
        how.make(api, &wanted).await?;
        Ok(Outcome::Done)
    }
}

impl HowToCreate {
    async fn make(&self, api: &Api, wanted: &Wanted) -> Result<(), Failure> {
        let (word, full) = (wanted.kind.word(), wanted.kind.full_name());
        self.dry_run.before_waiting(self.wait)?;
        if self.dry_run.who() == DryRun::Client {
            return match self.output {
                Told::Json => output::json(&wanted.named_body()),
                Told::Yaml => output::yaml(&wanted.named_body()),
                Told::Name => print(format_args!("{full}/{}\n", wanted.name)),
                Told::Text => print(format_args!("{word}/{} created (dry run)\n", wanted.name)),
            };
        }
        let rehearsal = self.dry_run.who() == DryRun::Server;
        let mut made = wanted.write(api, rehearsal).await?;
        let name = made.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.wait {
            made = ready(api, wanted, &name, self.timeout).await?;
        }
        match self.output {
            Told::Json => output::json(&made),
            Told::Yaml => output::yaml(&made),
            Told::Name => print(format_args!("{full}/{name}\n")),
            Told::Text => {
                let how = match (rehearsal, self.wait) {
                    (true, _) => "created (server dry run)",
                    (false, true) => "created, and can be used",
                    (false, false) => "created",
                };
                print(format_args!("{word}/{name} {how}\n"))
            }
        }
    }
}

/// Waits until the controller has made it usable, and returns the object.
async fn ready(api: &Api, wanted: &Wanted, name: &str, timeout: Duration) -> Result<Value, Failure> {
    let what = format!("{} {name} can be used", wanted.kind.word());
    let look = async || match wanted.kind {
        WantedKind::Project => {
            let live = objects::project(api, name).await?;
            let status = &live.status;
            Ok(match status.phase {
                ProjectPhase::Active => Look::Yes(()),
                phase => Look::NotYet(state(phase.as_str(), &status.message, &status.conditions)),
            })
        }
        WantedKind::Namespace => {
            let live = objects::namespace(api, &wanted.payer, name).await?;
            let status = &live.status;
            Ok(match status.phase {
                NamespacePhase::Available => Look::Yes(()),
                phase => Look::NotYet(state(phase.as_str(), &status.message, &status.conditions)),
            })
        }
    };
    wait::until(&what, timeout, look).await?;
    match wanted.kind {
        WantedKind::Project => api.get(&crate::paths::named(business_types::names::PROJECTS, name)).await,
        WantedKind::Namespace => api.get(&crate::paths::namespace(&wanted.payer, name)).await,
    }
}

/// A phase, and why.
fn state(phase: &str, message: &str, conditions: &[Condition]) -> String {
    let ready = conditions.iter().find(|condition| condition.type_ == business_types::condition::READY);
    let why = if message.is_empty() { ready.map_or("", |ready| ready.message.as_str()) } else { message };
    if why.is_empty() { phase.to_owned() } else { format!("{phase}: {why}") }
}
