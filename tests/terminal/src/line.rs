use crate::say::Output;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;

/// Which PostgreSQL the platform is to use, instead of a private one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Postgres {
    /// Three nodes under Patroni.
    Ha,
    /// One that the user has: `postgres://…`
    Url(String),
}

impl Postgres {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "ha" => Ok(Self::Ha),
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Self::Url(url.to_owned()))
            }
            _ => Err("neither `ha` nor postgres://user:password@host:port/database".to_owned()),
        }
    }
}

/// What `up` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Up {
    /// Run the main job and stop.
    pub check: bool,
    /// Whom to talk to.
    pub output: Output,
    /// Go on in the background.
    pub detach: bool,
    /// A cluster the user has.
    pub kubeconfig: Option<PathBuf>,
    /// Member clusters besides the host cluster.
    pub members: u8,
    /// Address of this machine as that cluster reaches it.
    pub advertise_address: Option<String>,
    /// Replicas of business-api.
    pub replicas: u8,
    /// Replicas of business-controller.
    pub controllers: u8,
    /// Another PostgreSQL than a private one.
    pub postgres: Option<Postgres>,
}

impl Up {
    /// `up` and its flags.
    pub fn command() -> Command {
        let check =
            "Run the whole main job in a directory of its own, stop everything, and say whether it worked.";
        let cluster = "A cluster you have, instead of a local control plane.";
        let advertise = "Address of this machine as the cluster of --kubeconfig reaches it.";
        let postgres = "PostgreSQL on three nodes under Patroni, or one that you have; DATABASE_URL does the latter unseen by others.";
        Command::new("up").about("Run the whole platform on this machine.").args([
            Arg::new("check").long("check").action(ArgAction::SetTrue).help(check),
            output().requires("check"),
            Arg::new("detach")
                .long("detach")
                .action(ArgAction::SetTrue)
                .conflicts_with("check")
                .help("Go on in the background once everything runs."),
            Arg::new("kubeconfig")
                .long("kubeconfig")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(cluster),
            members("0"),
            Arg::new("advertise-address")
                .long("advertise-address")
                .value_name("ADDRESS")
                .requires("kubeconfig")
                .help(advertise),
            replicas(),
            controllers(),
            Arg::new("postgres")
                .long("postgres")
                .value_name("ha|URL")
                .value_parser(Postgres::parse)
                .help(postgres),
        ])
    }

    /// What its flags say.
    pub fn of(matches: &ArgMatches) -> Self {
        Self {
            check: matches.get_flag("check"),
            output: output_of(matches),
            detach: matches.get_flag("detach"),
            kubeconfig: matches.get_one("kubeconfig").cloned(),
            members: number(matches, "members"),
            advertise_address: matches.get_one("advertise-address").cloned(),
            replicas: number(matches, "replicas"),
            controllers: number(matches, "controllers"),
            postgres: matches.get_one("postgres").cloned(),
        }
    }
}

/// Who logs in.
pub fn person() -> Arg {
    Arg::new("person")
        .value_name("NAME")
        .required(true)
        .help("Somebody of the local platform's identity provider.")
}

/// Who that is.
pub fn person_of(matches: &ArgMatches) -> String {
    matches.get_one::<String>("person").cloned().unwrap_or_default()
}

/// `--output`.
pub fn output() -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_parser(PossibleValuesParser::new(["text", "json"]))
        .default_value("text")
        .help("Whom to talk to: a person, or a program that reads one JSON document a line.")
}

/// What `--output` says.
pub fn output_of(matches: &ArgMatches) -> Output {
    match matches.get_one::<String>("output").map(String::as_str) {
        Some("json") => Output::Json,
        _ => Output::Text,
    }
}

/// `--members`.
pub fn members(default: &'static str) -> Arg {
    let help = "Member clusters besides the host cluster.";
    Arg::new("members")
        .long("members")
        .value_name("N")
        .value_parser(value_parser!(u8))
        .default_value(default)
        .help(help)
}

/// `--replicas`.
pub fn replicas() -> Arg {
    let help = "Replicas of business-api.";
    Arg::new("replicas")
        .long("replicas")
        .value_name("N")
        .value_parser(value_parser!(u8))
        .default_value("1")
        .help(help)
}

/// `--controllers`.
fn controllers() -> Arg {
    let help = "Replicas of business-controller.";
    Arg::new("controllers")
        .long("controllers")
        .value_name("N")
        .value_parser(value_parser!(u8))
        .default_value("1")
        .help(help)
}

/// What a flag with a number says.
pub fn number(matches: &ArgMatches, name: &str) -> u8 {
    matches.get_one(name).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(line: &[&str]) -> Result<Up, clap::Error> {
        Up::command().try_get_matches_from(["up"].iter().chain(line)).map(|matches| Up::of(&matches))
    }

    #[test]
    fn flags_are_read_and_those_that_do_not_go_together_are_refused() {
        let plain = up(&[]).unwrap();
        assert_eq!((plain.members, plain.replicas, plain.output), (0, 1, Output::Text));
        assert_eq!(up(&["--check", "-o", "json", "--members=2"]).unwrap().members, 2);
        assert_eq!(up(&["--postgres", "ha"]).unwrap().postgres, Some(Postgres::Ha));
        let url = "postgres://u:p@h/d";
        assert_eq!(up(&["--postgres", url]).unwrap().postgres, Some(Postgres::Url(url.to_owned())));
        for wrong in [
            &["-o", "json"][..],
            &["--check", "--detach"],
            &["--advertise-address", "x"],
            &["--members", "x"],
            &["--postgres", "mysql://h/d"],
        ] {
            assert_eq!(up(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
    }
}
