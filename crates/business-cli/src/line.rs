//! What one types: commands and the flags that all of them have.

use crate::commands::access::Access;
use crate::commands::completion::Completion;
use crate::commands::cordon::Cordon;
use crate::commands::create::Create;
use crate::commands::explain::Explain;
use crate::commands::lock::Lock;
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
pub(crate) struct Line {
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,
    /// Colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tree(Tree),
    Explain(Explain),
    Create(Create),
    Access(Access),
    Lock(Lock),
    /// Let a locked project take new things again (operators)
    Unlock(Lock),
    Cordon(Cordon),
    /// Let a cluster take new things again (operators)
    Uncordon(Cordon),
    Completion(Completion),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_every_command_has_examples() {
        let command = Line::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{}", sub.get_name());
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
        }
    }
}
