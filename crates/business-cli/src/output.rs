//! Output for programs: JSON or YAML on standard output.

use crate::failure::Failure;
use crate::screen::print;
use clap::ValueEnum;
use serde::Serialize;

/// The output format of commands that read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    #[default]
    Text,
    /// For people with a wide terminal: exact amounts and more columns
    Wide,
    Json,
    Yaml,
}

/// The output format of `create`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CreateFormat {
    /// A line for people
    #[default]
    Text,
    /// KIND.GROUP/NAME, as kubectl takes it
    Name,
    Json,
    Yaml,
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(unwritable)?;
    text.push('\n');
    print(text)
}

pub(crate) fn print_yaml(value: &impl Serialize) -> Result<(), Failure> {
    print(meta::yaml::to_string(value).map_err(unwritable)?)
}

/// Prints JSON or YAML.
pub(crate) fn print_data(format: OutputFormat, value: &impl Serialize) -> Result<(), Failure> {
    if format == OutputFormat::Yaml { print_yaml(value) } else { print_json(value) }
}

fn unwritable(error: impl std::fmt::Display) -> Failure {
    Failure::Other(format!("the answer cannot be written: {error}"))
}
