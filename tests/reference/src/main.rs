//! `reference DIR` writes the reference pages of the book out of the code, `reference --check DIR` says which of them the code
//! has outgrown. `cargo xtask reference` and the step `book` of `cargo xtask test` call it.

/// Tables of Markdown.
mod table;
/// What the programs take on their command lines.
mod flags;
/// What the programs count.
mod metrics;
/// What the kinds of the API hold.
mod fields;
/// Why the API refuses.
mod errors;

use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgAction, Command, value_parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What every page says of itself.
const MADE: &str = "<!-- Written by `cargo xtask reference` from the code. -->\n\n";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command tells what is wrong")]
fn complain(text: &str) {
    eprintln!("{text}");
}

async fn run() -> Result<()> {
    let matches = Command::new("reference")
        .about("Writes the reference pages of the book out of the code.")
        .arg(Arg::new("check").long("check").action(ArgAction::SetTrue).help("Only compare."))
        .arg(Arg::new("dir").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)))
        .get_matches();
    let dir: &PathBuf = matches.get_one("dir").context("no directory")?;
    let pages = [
        ("flags.md", flags::page()),
        ("metrics.md", metrics::page().await?),
        ("fields.md", fields::page()),
        ("errors.md", errors::page()?),
    ];
    if matches.get_flag("check") { check(dir, &pages) } else { write(dir, &pages) }
}

fn write(dir: &Path, pages: &[(&str, String)]) -> Result<()> {
    for (name, page) in pages {
        let file = dir.join(name);
        std::fs::write(&file, format!("{MADE}{page}"))
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

fn check(dir: &Path, pages: &[(&str, String)]) -> Result<()> {
    let outgrown = pages.iter().filter(|(name, page)| {
        std::fs::read_to_string(dir.join(name)).ok().as_deref() != Some(format!("{MADE}{page}").as_str())
    });
    let names: Vec<&str> = outgrown.map(|(name, _)| *name).collect();
    ensure!(
        names.is_empty(),
        "docs/reference: the code says something else now than {}: run `cargo xtask reference`, and look at what changed",
        names.join(", ")
    );
    Ok(())
}
