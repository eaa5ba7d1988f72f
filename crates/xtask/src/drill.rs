//! Backups of the platform's PostgreSQL while it is in use, and restores from them.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::{call, failover, postgres, up};
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use terminal::say::{self, Count};

/// One that loses nothing, and one that does while nobody serves.
const SHORT: [&str; 2] = ["--restores", "whole,cold"];

/// `drill` and what it passes on.
pub(crate) fn command() -> Command {
    let args = Arg::new("args").value_name("ARG").action(ArgAction::Append).last(true);
    Command::new("drill")
        .about(
            "Back up the database of a platform in use, restore it, and show what callers and clusters see.",
        )
        .arg(args.help("Passed on to the program; -- --help lists them."))
}

/// Every restore, or those that are chosen.
pub(crate) fn long(matches: &ArgMatches) -> Result<()> {
    up::prepare(&[Programs::FAILOVER], &ControlPlane::whole())?;
    let args: Vec<&str> =
        matches.get_many::<String>("args").into_iter().flatten().map(String::as_str).collect();
    call::listen_for_signals()?;
    failover::stress("drill", &args)
}

/// The short form, where PostgreSQL can make base backups.
pub(crate) fn short() -> Result<Count> {
    if !postgres::programs()?.join("postgres").canonicalize()?.with_file_name("pg_basebackup").is_file() {
        say::skipped(
            "there is no pg_basebackup beside postgres: install PostgreSQL with its clients (Debian: apt-get install postgresql)",
        );
        return Ok(Count::default());
    }
    up::prepare(&[Programs::FAILOVER], &ControlPlane::whole())?;
    failover::stress("drill", &SHORT).map(|()| Count::ONE)
}
