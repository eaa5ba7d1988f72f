use super::login::DEFAULT_CONTEXT;
use super::login::session::LoginContext;
use crate::failure::{Failure, Outcome};
use crate::kubeconfigs::Kubeconfigs;
use crate::screen::note;
use clap::Args;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  kubectl business logout                        # out of the current context
  kubectl business logout --name carol

The provider takes the session's refresh token back where it says how. A token that kubectl has got already is good until it
ends, which is minutes at most providers.";

/// Log out: end the session, and take its context out of the kubeconfig
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Logout {
    /// The context of the login; else the current one, or `business`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Logout {
    /// `own`: the kubeconfig of `--kubeconfig`, `context`: the one of `--context`.
    pub(crate) async fn run(&self, own: Option<&Path>, context: Option<&str>) -> Result<Outcome, Failure> {
        let listed = Kubeconfigs::read(own)?;
        let there = &listed.all;
        let current = there.current_context.as_deref();
        let named = match self.name.as_deref().or(context) {
            Some(named) => [Some(named), None],
            None => [current, Some(DEFAULT_CONTEXT)],
        };
        let known = named.into_iter().flatten().find_map(|name| LoginContext::of(there, name));
        let Some(known) = known else {
            let which = named.into_iter().flatten().next().unwrap_or(DEFAULT_CONTEXT);
            return Err(Failure::Usage(format!(
                "the context {which} of {} is of no login: name one with --name; `kubectl config get-contexts` shows them",
                listed.file_of(which)?.display()
            )));
        };
        known.token.end().await?;
        let (name, file) = (&known.name, listed.file_of(&known.name)?);
        listed.remove(name)?;
        note(format_args!("logged out; the context {name} is taken out of {}", file.display()));
        for other in known.sharing(there) {
            note(format_args!(
                "the context {other} had the same session, and stays: `kubectl business login --name {other}` logs in to it again"
            ));
        }
        Ok(Outcome::Done)
    }
}
