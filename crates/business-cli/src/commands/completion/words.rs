//! The candidates for the next word of a command line: a pure function of the commands and of what is typed.

use clap::{Arg, Command};

/// Candidates for the word that is being typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choices {
    /// These words, each with its description.
    Words(Vec<(String, String)>),
    /// The names of objects of a kind. The prefix goes before each name.
    Names(ObjectKind, String),
    Files,
    Nothing,
}

/// A kind whose names are completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Projects,
    /// The namespaces of the project that the line names.
    Namespaces,
    Clusters,
    Tenants,
}

impl ObjectKind {
    /// The kind of a value name of the help, or of a KIND argument.
    fn of(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "project" | "projects" | "prj" => Some(Self::Projects),
            "namespace" | "namespaces" | "ns" | "bns" => Some(Self::Namespaces),
            "cluster" | "clusters" | "membercluster" | "memberclusters" | "mc" => Some(Self::Clusters),
            "tenant" | "tenants" | "tnt" => Some(Self::Tenants),
            _ => None,
        }
    }
}

/// The state after parsing the words before the one that is being typed.
struct CompletionState<'a> {
    command: &'a Command,
    /// The name of its parent command.
    parent: &'a str,
    /// A flag whose value comes next.
    pending_flag: Option<&'a Arg>,
    /// Positional arguments after the last command.
    positionals: Vec<&'a str>,
    /// Whether `--` has ended the flags.
    flags_ended: bool,
}

/// `words`: those after the program's name; the last one is being typed. `command` has to be built.
pub(super) fn choices(command: &Command, words: &[String]) -> Choices {
    let Some((typed, before)) = words.split_last() else { return Choices::Nothing };
    let mut state = CompletionState {
        command,
        parent: "",
        pending_flag: None,
        positionals: Vec::new(),
        flags_ended: false,
    };
    for word in before {
        state.consume(word);
    }
    state.choices(typed)
}

impl<'a> CompletionState<'a> {
    fn consume(&mut self, word: &'a str) {
        if self.pending_flag.take().is_some() {
            return;
        }
        if !self.flags_ended && word == "--" {
            self.flags_ended = true;
        } else if !self.flags_ended && word.len() > 1 && word.starts_with('-') {
            self.pending_flag = self
                .flag(word)
                .filter(|(flag, value)| value.is_none() && takes_value(flag) && !flag.is_require_equals_set())
                .map(|(flag, _)| flag);
        } else if let Some(command) =
            self.command.find_subcommand(word).filter(|_| self.positionals.is_empty())
        {
            self.parent = self.command.get_name();
            self.command = command;
        } else {
            self.positionals.push(word);
        }
    }

    /// The flag of a word, and its value if it is in the same word.
    fn flag(&self, word: &'a str) -> Option<(&'a Arg, Option<&'a str>)> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if let Some(long) = name.strip_prefix("--") {
            let is_it =
                |arg: &&Arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long));
            return self.command.get_arguments().find(is_it).map(|arg| (arg, value));
        }
        let mut letters = word.strip_prefix('-')?.chars();
        let short = letters.next()?;
        let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(short))?;
        Some((arg, (!letters.as_str().is_empty()).then_some(letters.as_str())))
    }

    fn choices(&self, typed: &str) -> Choices {
        if let Some(flag) = self.pending_flag {
            return self.values(flag, typed, "");
        }
        if !self.flags_ended && typed.starts_with('-') {
            return match typed.split_once('=') {
                Some((name, value)) => {
                    let flag = self.command.get_arguments().find(|arg| {
                        name.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long))
                            && takes_value(arg)
                    });
                    flag.map_or(Choices::Nothing, |flag| self.values(flag, value, &format!("{name}=")))
                }
                None => Choices::Words(self.flags(typed)),
            };
        }
        let commands: Vec<_> =
            self.command.get_subcommands().filter(|_| self.positionals.is_empty()).collect();
        if !commands.is_empty() {
            let shown = commands.iter().filter(|command| !command.is_hide_set());
            let words = shown.map(|command| (command.get_name().to_owned(), first_line(command.get_about())));
            return Choices::Words(words.filter(|(name, _)| name.starts_with(typed)).collect());
        }
        let positionals: Vec<_> = self.command.get_positionals().collect();
        let next = positionals
            .get(self.positionals.len())
            .or_else(|| positionals.last().filter(|last| is_repeatable(last)));
        next.map_or(Choices::Nothing, |arg| self.values(arg, typed, ""))
    }

    fn flags(&self, typed: &str) -> Vec<(String, String)> {
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let words =
            shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), first_line(arg.get_help()))));
        words.filter(|(name, _)| name.starts_with(typed)).collect()
    }

    /// The values that an argument can have.
    fn values(&self, arg: &Arg, typed: &str, prefix: &str) -> Choices {
        let possible = arg.get_possible_values();
        // KIND/NAME
        if let Some((kind, _)) = typed.split_once('/')
            && let Some(object_kind) = ObjectKind::of(kind)
            && possible.iter().any(|value| value.matches(kind, true))
        {
            return Choices::Names(object_kind, format!("{prefix}{kind}/"));
        }
        if !possible.is_empty() {
            let shown =
                possible.iter().filter(|value| !value.is_hide_set() && value.get_name().starts_with(typed));
            let words =
                shown.map(|value| (format!("{prefix}{}", value.get_name()), first_line(value.get_help())));
            return Choices::Words(words.collect());
        }
        let value_name = arg.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
        let kind =
            || self.positionals.first().copied().and_then(ObjectKind::of).filter(|_| value_name == "NAME");
        // `explain` takes names of existing objects, `create` does not.
        let explained = || (self.parent == "explain" && arg.is_positional()).then(|| self.command.get_name());
        match ObjectKind::of(value_name).or_else(kind).or_else(|| ObjectKind::of(explained()?)) {
            Some(object_kind) => Choices::Names(object_kind, prefix.to_owned()),
            None if value_name == "FILE" => Choices::Files,
            None => Choices::Nothing,
        }
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_repeatable(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    fn at(line: &str) -> Choices {
        let mut command = Cli::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        choices(&command, &words)
    }

    fn words(line: &str) -> Vec<String> {
        match at(line) {
            Choices::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn commands_flags_and_values_are_known_wherever_they_stand() {
        assert_eq!(words("tr"), ["tree"]);
        assert_eq!(words("--context here tr"), ["tree"]);
        assert_eq!(words("create pr"), ["project"]);
        assert_eq!(words("tree --out"), ["--output"]);
        assert_eq!(words("tree --output js"), ["json"]);
        assert_eq!(words("tree -o y"), ["yaml"]);
        assert_eq!(words("tree --output=w"), ["--output=wide"]);
        assert_eq!(words("describe c"), ["cluster"]);
        assert!(
            !words("").iter().any(|word| word.starts_with('_') || word == "token"),
            "what is hidden stays so"
        );
    }

    #[test]
    fn names_are_those_of_what_is_asked_for() {
        assert_eq!(at("tree sh"), Choices::Names(ObjectKind::Projects, String::new()));
        assert_eq!(at("tree shop "), Choices::Nothing);
        assert_eq!(at("tree --tenant=a"), Choices::Names(ObjectKind::Tenants, "--tenant=".to_owned()));
        assert_eq!(at("cordon "), Choices::Names(ObjectKind::Clusters, String::new()));
        assert_eq!(at("lock --reason unpaid "), Choices::Names(ObjectKind::Projects, String::new()));
        assert_eq!(at("lock --dry-run "), Choices::Names(ObjectKind::Projects, String::new()));
        assert_eq!(at("describe tenant a"), Choices::Names(ObjectKind::Tenants, String::new()));
        assert_eq!(at("describe clusters "), Choices::Names(ObjectKind::Clusters, String::new()));
        assert_eq!(at("describe project/op-"), Choices::Names(ObjectKind::Projects, "project/".to_owned()));
        assert_eq!(at("describe ns/"), Choices::Names(ObjectKind::Namespaces, "ns/".to_owned()));
        assert_eq!(at("describe pod/"), Choices::Words(Vec::new()));
        assert_eq!(at("explain project op-"), Choices::Names(ObjectKind::Projects, String::new()));
        assert_eq!(at("explain ns -n shop "), Choices::Names(ObjectKind::Namespaces, String::new()));
        assert_eq!(at("explain project shop --display-name "), Choices::Nothing);
        assert_eq!(at("create project "), Choices::Nothing);
        assert_eq!(at("kubeconfig -n shop "), Choices::Names(ObjectKind::Namespaces, String::new()));
        assert_eq!(at("move -nshop east-front --to "), Choices::Names(ObjectKind::Projects, String::new()));
    }

    #[test]
    fn files_are_the_shells_and_what_is_free_is_nobodys() {
        assert_eq!(at("explain -f "), Choices::Files);
        assert_eq!(at("lock shop --reason "), Choices::Nothing);
        assert_eq!(at("tree --no-such-flag "), Choices::Names(ObjectKind::Projects, String::new()));
        assert_eq!(at("tree --no-such-flag=x"), Choices::Nothing);
    }
}
