//! Several controllers before many clusters, of which one controller after another fails.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::{call, failover, up};
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use terminal::say::Count;

/// What takes two minutes: few clusters, and leases that run out soon.
const SHORT: [&str; 7] = [
    "--simulated=20",
    "--namespaces=20",
    "--changes=20",
    "--lease-seconds=6",
    "--renew-seconds=4",
    "--retry-seconds=1",
    "--write-seconds=3",
];

/// `fleet` and what it passes on.
pub(crate) fn command() -> Command {
    let args = Arg::new("args").value_name("ARG").action(ArgAction::Append).last(true);
    Command::new("fleet")
        .about(
            "Let one controller after another fail before many clusters, and show who has written to each.",
        )
        .arg(args.help("Passed on to the program; -- --help lists them."))
}

/// A hundred simulated clusters, or what is chosen.
pub(crate) fn long(matches: &ArgMatches) -> Result<()> {
    up::prepare(&[Programs::FLEET], &ControlPlane::whole())?;
    let args: Vec<&str> =
        matches.get_many::<String>("args").into_iter().flatten().map(String::as_str).collect();
    call::listen_for_signals()?;
    failover::stress("fleet", &args)
}

/// The short form.
pub(crate) fn short() -> Result<Count> {
    up::prepare(&[Programs::FLEET], &ControlPlane::whole())?;
    failover::stress("fleet", &SHORT).map(|()| Count::ONE)
}
