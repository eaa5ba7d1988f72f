//! `cargo xtask bench`: benchmarks, with other systems for comparison. Benchmarks of the whole server run on an instance of
//! their own, built for release; those of the store need only a PostgreSQL.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::{call, cargo, image, up, workspace};
use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use terminal::line;

/// A benchmark: its name, what it measures, and the arguments of the program for whole servers.
struct Measurement {
    name: &'static str,
    about: &'static str,
    over_https: &'static [&'static str],
}

const MEASUREMENTS: [Measurement; 13] = [
    Measurement { name: "store", about: "writes and reads of the store, beside pgbench", over_https: &[] },
    Measurement {
        name: "quota",
        about: "creates with quota in one project, beside pgbench",
        over_https: &[],
    },
    Measurement {
        name: "http",
        about: "creates, reads and applies over HTTPS, beside a custom resource and an empty backend",
        over_https: &["http"],
    },
    Measurement {
        name: "watch",
        about: "from a POST to the event at each of many watchers",
        over_https: &["watch"],
    },
    Measurement { name: "list", about: "whole lists, selectors, tenants", over_https: &["list"] },
    Measurement {
        name: "job",
        about: "the main job, beside plain loops in the member cluster",
        over_https: &["job"],
    },
    Measurement {
        name: "template",
        about: "namespaces with a full template and bindings, beside a plain loop that writes the same",
        over_https: &["template"],
    },
    Measurement {
        name: "access",
        about: "from a role that is given or taken to the last binding in the member cluster",
        over_https: &["access"],
    },
    Measurement {
        name: "memory",
        about: "memory of the programs when the platform is full",
        over_https: &["memory"],
    },
    Measurement {
        name: "tree",
        about: "`kubectl business tree` of 10,000 projects, from its start to its end",
        over_https: &[],
    },
    Measurement {
        name: "soak",
        about: "an hour of a fleet's requests while a member comes and goes: times, and whether anything grows",
        over_https: &["soak"],
    },
    Measurement {
        name: "compare",
        about: "the same as a saved run (`soak -- --save FILE`), and beside it: `compare FILE`",
        over_https: &["soak"],
    },
    Measurement {
        name: "all",
        about: "everything but memory, tree and soak",
        over_https: &["http", "watch", "list", "job", "template", "access"],
    },
];

/// The points of the store's benchmark that concern quota.
const QUOTA_POINTS: [&str; 2] = ["--only", "64 clients"];

/// `bench` and its flags.
pub(crate) fn command() -> Command {
    let names = PossibleValuesParser::new(MEASUREMENTS.map(|known| known.name));
    let told: Vec<String> =
        MEASUREMENTS.iter().map(|known| format!("{}: {}", known.name, known.about)).collect();
    Command::new("bench").about("Measure beside the rivals.").args([
        Arg::new("what").required(true).value_parser(names).help(told.join("; ")),
        Arg::new("file").required_if_eq("what", "compare").help("For `compare`: a result that was saved."),
        line::members("1"),
        line::replicas(),
        Arg::new("args")
            .action(ArgAction::Append)
            .last(true)
            .help("What the measuring program is told, for example `-- --rounds 1`; `-- --help` shows it."),
    ])
}

/// Runs a benchmark.
pub(crate) fn bench(matches: &ArgMatches) -> Result<()> {
    let what = matches.get_one::<String>("what").map(String::as_str).unwrap_or_default();
    let mut args: Vec<&str> =
        matches.get_many::<String>("args").into_iter().flatten().map(String::as_str).collect();
    if let Some(file) = matches.get_one::<String>("file") {
        args.extend(["--against", file]);
    }
    match what {
        "quota" => example("bench", &[&QUOTA_POINTS, args.as_slice()].concat())?,
        "store" => example("bench", &args)?,
        "all" => example("bench", &[])?,
        "tree" => tree(&args)?,
        _ => {}
    }
    if matches!(what, "store" | "all") {
        example("bench_read", &[])?;
    }
    let over_https = MEASUREMENTS.iter().find(|known| known.name == what).map(|known| known.over_https);
    match over_https {
        None | Some([]) => Ok(()),
        Some(names) => whole_server(names, matches, &args),
    }
}

/// Runs an example of the store, which starts its own PostgreSQL.
fn example(name: &str, args: &[&str]) -> Result<()> {
    let mut command = cargo::cargo();
    command.args(["run", "--quiet", "--release", "--package", "store", "--example", name, "--"]);
    let status = command.args(args).status()?;
    ensure!(status.success(), "the measurement of the store failed");
    Ok(())
}

/// Runs the speed test of the command line.
fn tree(args: &[&str]) -> Result<()> {
    let mut command = cargo::cargo();
    command.args(["test", "--quiet", "--release", "--package", "business-cli", "--test", "program", "--"]);
    command.args(["--ignored", "--nocapture", "ten_thousand"]).args(args);
    ensure!(command.status()?.success(), "the measurement of the command line failed");
    Ok(())
}

/// Measures the programs as they are shipped.
fn whole_server(names: &[&str], matches: &ArgMatches, args: &[&str]) -> Result<()> {
    up::prepare(&[Programs::DIST, Programs::BENCH], &ControlPlane::measured())?;
    let programs = workspace::target()?.join("measured");
    image::programs(&programs)?;
    let bench = beside(&programs)?;
    let number = |name: &str| line::number(matches, name).to_string();
    let mut words = vec!["platform".to_owned(), "--clusters".to_owned(), number("members")];
    words.extend(["--replicas".to_owned(), number("replicas")]);
    words.extend(names.iter().map(|&name| name.to_owned()));
    words.push("--".to_owned());
    words.extend(args.iter().map(|&arg| arg.to_owned()));
    match call::become_program(&bench, words.into_iter().map(OsString::from))? {}
}

/// Puts the benchmark program beside the programs that it starts.
pub(crate) fn beside(programs: &Path) -> Result<PathBuf> {
    let (built, bench) = (workspace::built(true)?.join("bench"), programs.join("bench"));
    std::fs::copy(&built, &bench).with_context(|| format!("copy {}", built.display()))?;
    Ok(bench)
}
