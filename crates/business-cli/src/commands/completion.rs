/// The candidates for the word that is being typed.
mod words;

use crate::api::Api;
use crate::connection::ConnectionFlags;
use crate::failure::{Failure, Outcome};
use crate::paths;
use crate::screen::print;
use business_types::names;
use clap::{Args, Command, FromArgMatches as _, ValueEnum};
use serde::Deserialize;
use std::time::Duration;
use words::{Choices, ObjectKind};

const EXAMPLES: &str = "\
Examples:
  source <(kubectl-business completion bash)
  kubectl-business completion zsh > ~/.zfunc/_kubectl-business
  kubectl-business completion fish > ~/.config/fish/completions/kubectl-business.fish
  kubectl-business completion kubectl > ~/bin/kubectl_complete-business && chmod +x ~/bin/kubectl_complete-business

The last one is for `kubectl business`: kubectl's own completion asks the program of that name on PATH.";

/// Timeout of asking the server for names.
const DEADLINE: Duration = Duration::from_secs(2);
/// Limit of the names that are proposed.
const NAMES_MAX: usize = 500;
/// The last line of the output, as in cobra: the directive whether the shell may complete files.
const FILES_DIRECTIVE: &str = ":0";
const NO_FILES_DIRECTIVE: &str = ":4";

/// Print a script that completes the command line
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completion {
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    /// For `kubectl business`, in whatever shell kubectl completes
    Kubectl,
}

impl Completion {
    pub(crate) fn run(&self) -> Result<Outcome, Failure> {
        print(match self.shell {
            Shell::Bash => include_str!("completion/completion.bash"),
            Shell::Zsh => include_str!("completion/completion.zsh"),
            Shell::Fish => include_str!("completion/completion.fish"),
            Shell::Kubectl => include_str!("completion/kubectl_complete-business"),
        })?;
        Ok(Outcome::Done)
    }
}

/// What the scripts ask: a line for each word that may stand next, with what it means, and whether files may
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The words behind the program's name, after `--`, so that none of them is taken as a flag of this call; the last
    /// one is being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Complete {
    /// `line`: all commands and flags.
    pub(crate) async fn run(&self, mut line: Command) -> Result<Outcome, Failure> {
        line.build();
        let (words, files) = match words::choices(&line, &self.words) {
            Choices::Words(words) => (words, NO_FILES_DIRECTIVE),
            Choices::Names(kind, prefix) => (self.names(kind, &prefix).await, NO_FILES_DIRECTIVE),
            Choices::Files => (Vec::new(), FILES_DIRECTIVE),
            Choices::Nothing => (Vec::new(), NO_FILES_DIRECTIVE),
        };
        let lines = words.iter().map(|(word, description)| {
            if description.is_empty() { format!("{word}\n") } else { format!("{word}\t{description}\n") }
        });
        print(format!("{}{files}\n", lines.collect::<String>()))?;
        Ok(Outcome::Done)
    }

    /// The names that the caller sees and that have the typed prefix. None if the server does not answer.
    async fn names(&self, kind: ObjectKind, prefix: &str) -> Vec<(String, String)> {
        let typed = self.words.last().and_then(|word| word.strip_prefix(prefix)).unwrap_or_default();
        let Some(connection) = self.connection() else { return Vec::new() };
        let listed = async {
            let api = connection.open().await?.without_warnings();
            list_kind(&api, kind).await
        };
        let answered = tokio::time::timeout(DEADLINE, listed).await.ok();
        let names = answered.and_then(Result::ok).unwrap_or_default();
        let fitting = names.into_iter().filter(|name| name.starts_with(typed)).take(NAMES_MAX);
        fitting.map(|name| (format!("{prefix}{name}"), String::new())).collect()
    }

    /// The connection flags of an incomplete command line.
    fn connection(&self) -> Option<ConnectionFlags> {
        let (_, before) = self.words.split_last()?;
        let flags = ConnectionFlags::augment_args(Command::new("line").no_binary_name(true));
        let known = flags.ignore_errors(true).try_get_matches_from(connection_words(before)).ok()?;
        ConnectionFlags::from_arg_matches(&known).ok()
    }
}

/// The words that are connection flags, and their values.
fn connection_words(words: &[String]) -> Vec<&str> {
    let flags = ConnectionFlags::augment_args(Command::new("line"));
    let is_known = |word: &str| {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        flags.get_arguments().any(|arg| {
            name.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long))
                || (!word.starts_with("--")
                    && word.strip_prefix('-').is_some_and(|rest| {
                        rest.chars().next() == arg.get_short() && arg.get_short().is_some()
                    }))
        })
    };
    let mut kept = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if is_known(word) {
            kept.push(word);
            let has_value = word.contains('=') || (!word.starts_with("--") && word.len() > 2);
            kept.extend((!has_value).then(|| rest.next()).flatten());
        }
    }
    kept
}

#[derive(Deserialize)]
struct NamedObject {
    metadata: NameMeta,
}

#[derive(Deserialize)]
struct NameMeta {
    name: String,
}

async fn list_kind(api: &Api, kind: ObjectKind) -> Result<Vec<String>, Failure> {
    match kind {
        ObjectKind::Projects => list_names(api, &paths::collection(names::PROJECTS)).await,
        ObjectKind::Namespaces => list_names(api, &paths::namespaces_of(&api.project)).await,
        ObjectKind::Tenants => list_names(api, &paths::collection(names::TENANTS)).await,
        ObjectKind::Clusters => match list_names(api, &paths::collection(names::MEMBER_CLUSTERS)).await {
            // A caller who is no operator sees only the clusters that are offered.
            Err(failure) if failure.is_forbidden() => {
                list_names(api, &paths::collection(names::CLUSTER_OFFERS)).await
            }
            other => other,
        },
    }
}

async fn list_names(api: &Api, path: &str) -> Result<Vec<String>, Failure> {
    let all: Vec<NamedObject> = api.list(path).await?;
    Ok(all.into_iter().map(|listed| listed.metadata.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_one_talks_to_is_read_out_of_a_line_that_is_not_whole() {
        let words = ["tree", "--context", "east", "--full", "80", "-nshop", "--as=eve", "--tenant", ""];
        let complete = Complete { words: words.map(str::to_owned).to_vec() };
        let connection = complete.connection().unwrap();
        assert_eq!(connection.context.as_deref(), Some("east"));
        assert_eq!(connection.namespace.as_deref(), Some("shop"));
        assert_eq!(connection.impersonate.as_deref(), Some("eve"));
    }
}
