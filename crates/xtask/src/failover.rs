//! The platform on PostgreSQL under Patroni, of which one part after another fails.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::{call, patroni, up, workspace};
use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};
use terminal::say::{self, Count};

/// What takes a few minutes.
const SHORT: [&str; 2] = ["--faults", "switchover,kill-primary"];

/// `failover` and what it passes on.
pub(crate) fn command() -> Command {
    let args = Arg::new("args").value_name("ARG").action(ArgAction::Append).last(true);
    Command::new("failover")
        .about("Let one part of PostgreSQL after another fail under load, and show what callers saw.")
        .arg(args.help("Passed on to the program; -- --help lists them."))
}

/// Everything that can fail, or what is chosen.
pub(crate) fn long(matches: &ArgMatches) -> Result<()> {
    patroni::link()?;
    up::prepare(&[Programs::FAILOVER], &ControlPlane::whole())?;
    let args: Vec<&str> =
        matches.get_many::<String>("args").into_iter().flatten().map(String::as_str).collect();
    call::listen_for_signals()?;
    stress("failover", &args)
}

/// The short form, where PostgreSQL under Patroni can be had.
pub(crate) fn short() -> Result<Count> {
    if let Err(missing) = patroni::link() {
        say::skipped(&format!("PostgreSQL under Patroni cannot be had: {missing:#}"));
        return Ok(Count::default());
    }
    up::prepare(&[Programs::FAILOVER], &ControlPlane::whole())?;
    stress("failover", &SHORT).map(|()| Count::ONE)
}

/// Runs a test of the program `stress`.
pub(crate) fn stress(name: &str, args: &[&str]) -> Result<()> {
    let mut command = std::process::Command::new(workspace::built(false)?.join("stress"));
    command.arg(name).args(args).stdout(say::lines());
    let status = call::wait(command.spawn().with_context(|| format!("start stress {name}"))?)?;
    ensure!(status.success(), "the {name} test found something");
    Ok(())
}
