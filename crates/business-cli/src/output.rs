//! Output for programs: JSON or YAML on standard output.

use crate::failure::Failure;
use crate::screen::print;
use clap::ValueEnum;
use serde::Serialize;

/// How something that is looked at is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// For people
    #[default]
    Text,
    /// For people with a wide terminal: exact amounts and more columns
    Wide,
    Json,
    Yaml,
}

/// How something that was written is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Told {
    /// A line for people
    #[default]
    Text,
    /// KIND.GROUP/NAME, as kubectl takes it
    Name,
    Json,
    Yaml,
}

pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(unwritable)?;
    text.push('\n');
    print(text)
}

pub(crate) fn yaml(value: &impl Serialize) -> Result<(), Failure> {
    print(meta::yaml::text(value).map_err(unwritable)?)
}

/// For a program, in the form that is asked for.
pub(crate) fn data(view: View, value: &impl Serialize) -> Result<(), Failure> {
    if view == View::Yaml { yaml(value) } else { json(value) }
}

fn unwritable(error: impl std::fmt::Display) -> Failure {
    Failure::Stopped(format!("the answer cannot be written: {error}"))
}
