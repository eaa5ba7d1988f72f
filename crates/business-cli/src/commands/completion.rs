use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::screen::print;
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  source <(kubectl-business completion bash)
  kubectl-business completion zsh > ~/.zfunc/_kubectl-business
  kubectl-business completion fish > ~/.config/fish/completions/kubectl-business.fish";

/// Print a script that completes the command line
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completion {
    shell: CompletedShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

impl Completion {
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        let shell = match self.shell {
            CompletedShell::Bash => Shell::Bash,
            CompletedShell::Zsh => Shell::Zsh,
            CompletedShell::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Line::command(), "kubectl-business", &mut script);
        print(String::from_utf8_lossy(&script))?;
        Ok(Outcome::Done)
    }
}
