//! What `cargo xtask up` and `down` call once everything is built.

use clap::{Arg, ArgAction, Command};
use instance::up::{self, Asked};
use std::process::ExitCode;
use terminal::caller::Caller;
use terminal::line::{self, Up};

fn command() -> Command {
    let hidden = |name: &'static str| Arg::new(name).long(name).hide(true);
    let up = Caller::flags(Up::command()).args([hidden("instance"), hidden("audit-period")]);
    let wipe = Arg::new("wipe").long("wipe").action(ArgAction::SetTrue);
    let down = Caller::flags(Command::new("down")).args([wipe, line::output()]);
    let login = Caller::flags(Command::new("login")).args([line::person(), line::output()]);
    Command::new("instance").subcommand_required(true).subcommands([up, down, login])
}

fn main() -> ExitCode {
    match command().get_matches().subcommand() {
        Some(("up", matches)) => {
            let text = |name: &str| matches.get_one::<String>(name).cloned();
            let (instance, audit_period) = (text("instance"), text("audit-period"));
            let (asked, caller) =
                (Asked { up: Up::of(matches), instance, audit_period }, Caller::of(matches));
            caller.run("up --check", || up::up(&asked, &caller).map(|()| None))
        }
        Some(("down", matches)) => {
            Caller::of(matches).run("down", || up::down(matches.get_flag("wipe")).map(|()| None))
        }
        Some(("login", matches)) => {
            let person = line::person_of(matches);
            Caller::of(matches).run("login", || up::login(&person).map(|()| None))
        }
        _ => ExitCode::FAILURE,
    }
}
