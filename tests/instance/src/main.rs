//! The program that `cargo xtask up` and `down` run after the build.

use clap::{Arg, ArgAction, Command};
use instance::cable::{self, Forward};
use instance::up::{self, UpArgs};
use std::process::ExitCode;
use terminal::caller::Caller;
use terminal::line::{self, Up};

fn command() -> Command {
    let hidden = |name: &'static str| Arg::new(name).long(name).hide(true);
    let up = Caller::flags(Up::command()).args(["instance", "audit-period", "quota-recount"].map(hidden));
    let wipe = Arg::new("wipe").long("wipe").action(ArgAction::SetTrue);
    let down = Caller::flags(Command::new("down")).args([wipe, line::output()]);
    let login = Caller::flags(Command::new("login")).args([line::person(), line::output()]);
    let ways = Arg::new("way").value_name("PORT:PORT").action(ArgAction::Append).value_parser(cable::way);
    let cable = Command::new("cable").about("Forwards from one port to another.").arg(ways.required(true));
    Command::new("instance").subcommand_required(true).subcommands([up, down, login, cable])
}

fn main() -> ExitCode {
    match command().get_matches().subcommand() {
        Some(("up", matches)) => {
            let text = |name: &str| matches.get_one::<String>(name).cloned();
            let asked = UpArgs {
                up: Up::of(matches),
                instance: text("instance"),
                audit_period: text("audit-period"),
                quota_recount: text("quota-recount"),
            };
            let caller = Caller::of(matches);
            caller.run("up --check", || up::up(&asked, &caller).map(|()| None))
        }
        Some(("down", matches)) => {
            Caller::of(matches).run("down", || up::down(matches.get_flag("wipe")).map(|()| None))
        }
        Some(("login", matches)) => {
            let person = line::person_of(matches);
            Caller::of(matches).run("login", || up::login(&person).map(|()| None))
        }
        Some(("cable", matches)) => {
            let ways: Vec<Forward> = matches.get_many("way").into_iter().flatten().copied().collect();
            match cable::run(&ways) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    terminal::say::line(format_args!("{error:#}"));
                    ExitCode::FAILURE
                }
            }
        }
        _ => ExitCode::FAILURE,
    }
}
