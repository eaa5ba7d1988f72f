//! Tests of the program `stress`: the long form is a command, the short form a step of `cargo xtask test`.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::{call, patroni, postgres, transcript, up, workspace};
use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};
use terminal::say::{self, Count};

/// A command of `stress`.
pub(crate) struct Stress {
    pub(crate) name: &'static str,
    about: &'static str,
    programs: Programs,
    /// Links the other programs that it needs, or fails with what is missing.
    needs: fn() -> Result<()>,
    /// The arguments of a run of a few minutes.
    short: &'static [&'static str],
}

pub(crate) const FAILOVER: Stress = Stress {
    name: "failover",
    about: "Let one part of PostgreSQL after another fail under load, and show what callers saw.",
    programs: Programs::FAILOVER,
    needs: || patroni::link().context("PostgreSQL under Patroni cannot be had"),
    short: &["--faults", "switchover,kill-primary"],
};

pub(crate) const DRILL: Stress = Stress {
    name: "drill",
    about: "Back up the database of a platform in use, restore it, and show what callers and clusters see.",
    programs: Programs::FAILOVER,
    needs: base_backups,
    short: &["--restores", "whole,cold"],
};

pub(crate) const FLEET: Stress = Stress {
    name: "fleet",
    about: "Let one controller after another fail before many clusters, and show who has written to each.",
    programs: Programs::FLEET,
    needs: || Ok(()),
    // Few clusters, and leases that run out soon.
    short: &[
        "--simulated=20",
        "--namespaces=20",
        "--changes=20",
        "--lease-seconds=6",
        "--renew-seconds=4",
        "--retry-seconds=1",
        "--write-seconds=3",
    ],
};

pub(crate) const ALL: [Stress; 3] = [FAILOVER, DRILL, FLEET];

impl Stress {
    /// Its command; arguments are passed on.
    pub(crate) fn command(&self) -> Command {
        let release = Arg::new("release").long("release").action(ArgAction::SetTrue);
        let args = Arg::new("args").value_name("ARG").action(ArgAction::Append).last(true);
        Command::new(self.name)
            .about(self.about)
            .arg(release.help("With programs built as they are shipped, which takes a while."))
            .arg(args.help("Passed on to the program; -- --help lists them."))
    }

    /// The long form.
    pub(crate) fn long(&self, matches: &ArgMatches) -> Result<()> {
        (self.needs)()?;
        let release = matches.get_flag("release");
        let programs = if release { self.programs.release() } else { self.programs };
        up::prepare(&[programs], &ControlPlane::whole())?;
        let args: Vec<&str> =
            matches.get_many::<String>("args").into_iter().flatten().map(String::as_str).collect();
        call::listen_for_signals()?;
        self.run(release, &args)
    }

    /// The short form; skipped if a program that it needs is missing.
    pub(crate) fn short(&self) -> Result<Count> {
        if let Err(missing) = (self.needs)() {
            say::skipped(&format!("{missing:#}"));
            return Ok(Count::default());
        }
        up::prepare(&[self.programs], &ControlPlane::whole())?;
        self.run(false, self.short).map(|()| Count::ONE)
    }

    fn run(&self, release: bool, args: &[&str]) -> Result<()> {
        let name = self.name;
        let mut command = std::process::Command::new(workspace::built(release)?.join("stress"));
        command.arg(name).args(args);
        let status = transcript::record(command, call::run)?;
        ensure!(status.success(), "the {name} test found something");
        Ok(())
    }
}

fn base_backups() -> Result<()> {
    let postgres = postgres::programs()?.join("postgres").canonicalize()?;
    ensure!(
        postgres.with_file_name("pg_basebackup").is_file(),
        "there is no pg_basebackup beside postgres: install PostgreSQL with its clients (Debian: apt-get install postgresql)"
    );
    Ok(())
}
