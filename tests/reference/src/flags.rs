use crate::table::{Table, code};
use clap::{Arg, Command, CommandFactory as _, Id};

const INTRODUCTION: &str = "# Flags

What each program takes on its command line, as its `--help` says it. *Needed* has no default and must be given. A flag with an
environment variable may be given by that instead. Settings of the chart that set flags are described in
[values.schema.json](../../deploy/chart/values.schema.json).
";

/// The page of all programs.
pub(crate) fn page() -> String {
    let programs = [
        ("business-api", business_api::config::Cli::command()),
        ("business-controller", business_controller::config::Cli::command()),
        ("kubectl business", business_cli::command()),
    ];
    let mut text = INTRODUCTION.to_owned();
    for (name, mut command) in programs {
        command.build();
        text.extend([format!("\n## {name}\n\n")]);
        text.push_str(&described(&command, &[]));
        let common: Vec<&Id> =
            command.get_arguments().filter(|arg| arg.is_global_set()).map(Arg::get_id).collect();
        append_commands(&mut text, name, &command, &common);
    }
    text
}

fn append_commands(text: &mut String, above: &str, command: &Command, common: &[&Id]) {
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
    for one in commands {
        let name = format!("{above} {}", one.get_name());
        text.extend([format!("\n### {name}\n\n")]);
        text.push_str(&described(one, common));
        append_commands(text, &name, one, common);
    }
}

/// What it is for, and what it takes but for these. Flags of all commands stand at the program alone.
fn described(command: &Command, but: &[&Id]) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    let mut text = about.map(|about| format!("{}\n", about.to_string().trim())).unwrap_or_default();
    let mut table = Table::new(&["flag", "default", "meaning"]);
    let mut rows = 0;
    for arg in command.get_arguments().filter(|arg| is_documented(arg, but)) {
        table.row([code(&flag_names(arg)), default(arg), meaning(arg)]);
        rows += 1;
    }
    if rows > 0 {
        text.extend([format!("\n{}", table.as_str())]);
    }
    text
}

fn is_documented(arg: &Arg, but: &[&Id]) -> bool {
    let is_common = matches!(arg.get_id().as_str(), "help" | "version");
    !arg.is_hide_set() && !is_common && !but.contains(&arg.get_id())
}

/// `-o, --output <OUTPUT>`, with the names that it has besides.
fn flag_names(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let values = names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    let takes = arg.get_action().takes_values() && !values.is_empty();
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let others = arg.get_visible_aliases().unwrap_or_default().into_iter().map(|other| format!("--{other}"));
    let flags: Vec<String> = short.into_iter().chain(long).chain(others).collect();
    match (flags.is_empty(), takes) {
        (true, _) => values,
        (false, true) => format!("{} {values}", flags.join(", ")),
        (false, false) => flags.join(", "),
    }
}

fn default(arg: &Arg) -> String {
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    match (defaults.is_empty(), arg.is_required_set()) {
        (false, _) if arg.get_action().takes_values() => code(&defaults.join(",")),
        (true, true) => "needed".to_owned(),
        _ => String::new(),
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(|help| help.to_string().trim_end_matches('.').to_owned()).unwrap_or_default();
    if !text.is_empty() {
        text.push('.');
    }
    let values = arg.get_possible_values();
    let values: Vec<String> =
        values.iter().filter(|value| !value.is_hide_set()).map(|value| code(value.get_name())).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        text.extend([format!(" One of {}.", values.join(", "))]);
    }
    if let Some(variable) = arg.get_env() {
        text.extend([format!(" Environment: {}.", code(&variable.to_string_lossy()))]);
    }
    text
}
