//! The command line: commands and the flags that all of them have.

use crate::commands::access::Access;
use crate::commands::adopt::Adopt;
use crate::commands::audit::Audit;
use crate::commands::completion::{Complete, Completion};
use crate::commands::cordon::Cordon;
use crate::commands::create::Create;
use crate::commands::describe::Describe;
use crate::commands::discover::Discover;
use crate::commands::explain::Explain;
use crate::commands::import::Import;
use crate::commands::join::Join;
use crate::commands::kubeconfig::NamespaceKubeconfig;
use crate::commands::leave::Leave;
use crate::commands::lock::Lock;
use crate::commands::login::Login;
use crate::commands::login::session::Token;
use crate::commands::logout::Logout;
use crate::commands::rotate::Rotate;
use crate::commands::top::Top;
use crate::commands::transfer::Move;
use crate::commands::tree::Tree;
use crate::connection::ConnectionFlags;
use crate::screen::Color;
use clap::{Parser, Subcommand};

/// What people call the program.
pub(crate) const PROGRAM: &str = "kubectl business";

const AFTER: &str = "\
Examples:
  kubectl business tree                          who holds what, with bars
  kubectl business explain -f namespace.yaml     would it fit, and if not, what would let it in
  kubectl business create namespace web -n shop --cluster east --hard requests.cpu=2,requests.memory=4Gi --wait

Exit codes:
  0  done, or it is so
  1  something went wrong
  2  the command line is wrong
  3  the answer is no: refused, does not fit, something was found
  4  what was waited for did not come in time";

/// Projects, namespaces and their budgets on the command line.
#[derive(Debug, Parser)]
#[command(name = "kubectl-business", bin_name = PROGRAM, version, after_help = AFTER, max_term_width = 110)]
pub(crate) struct Cli {
    /// Colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
    #[command(subcommand)]
    pub(crate) command: Commands,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Commands {
    Tree(Tree),
    Top(Top),
    Explain(Explain),
    Describe(Describe),
    Create(Create),
    Move(Move),
    Access(Access),
    Kubeconfig(NamespaceKubeconfig),
    Audit(Audit),
    Join(Join),
    Rotate(Rotate),
    Leave(Leave),
    Discover(Discover),
    Adopt(Adopt),
    Import(Import),
    Lock(Lock),
    /// Let what is locked take new things again (operators)
    Unlock(Lock),
    Cordon(Cordon),
    /// Let a cluster take new things again (operators)
    Uncordon(Cordon),
    Login(Login),
    Logout(Logout),
    #[command(hide = true)]
    Token(Token),
    Completion(Completion),
    #[command(name = "__complete", hide = true)]
    Complete(Complete),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_every_command_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", sub.get_name());
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
        }
    }

    #[test]
    fn no_command_hides_a_flag_of_all() {
        let command = Cli::command();
        let of_all: Vec<_> = command.get_arguments().map(clap::Arg::get_id).collect();
        let mut waiting: Vec<_> = command.get_subcommands().collect();
        while let Some(sub) = waiting.pop() {
            let hidden: Vec<_> =
                sub.get_arguments().map(clap::Arg::get_id).filter(|id| of_all.contains(id)).collect();
            assert!(hidden.is_empty(), "{}: {hidden:?}", sub.get_name());
            waiting.extend(sub.get_subcommands());
        }
    }
}
