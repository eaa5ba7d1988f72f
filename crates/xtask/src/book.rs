//! The book: docs/ as a site, built by mdBook.

/// Checks of the pages.
mod pages;
/// Preparing and checking the site.
mod site;

use crate::build::Programs;
use crate::{build, call, cargo, workspace};
use anyhow::{Context as _, Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::{Path, PathBuf};
use terminal::say::{self, Count};

/// `book` and its flags.
pub(crate) fn command() -> Command {
    let open = Arg::new("open").long("open").action(ArgAction::SetTrue).help("Show it in a browser.");
    let source = Arg::new("source").long("source").value_name("URL").help(
        "Where the files of the project are shown, such as https://example.org/tke-business/blob/main: links out of docs/ \
         lead there. Without it they are text.",
    );
    Command::new("book").about("Build the documentation as a site.").args([open, source])
}

/// The command `reference`.
pub(crate) fn reference_command() -> Command {
    Command::new("reference").about("Write docs/reference out of the code.")
}

/// Builds the site and prints its path.
pub(crate) fn book(matches: &ArgMatches) -> Result<()> {
    pages::check()?;
    let mdbook = mdbook()?.context("mdBook is not installed and cannot be")?;
    let source: Option<&String> = matches.get_one("source");
    let site = make(&mdbook, source.map(String::as_str), matches.get_flag("open"))?;
    say::line(format_args!("the book: {}", site.join("index.html").display()));
    Ok(())
}

/// Writes the reference pages.
pub(crate) fn reference() -> Result<()> {
    call_reference(&[])
}

/// A step of `test`.
pub(crate) fn level() -> Result<Count> {
    let mut count = Count::default();
    for (what, step) in [
        ("every page has its place, every alert its runbook", pages::check as fn() -> Result<()>),
        ("the reference is what the code says", || call_reference(&["--check"])),
    ] {
        say::step(what, step)?;
        count.add(Count::ONE);
    }
    let Some(mdbook) = mdbook()? else {
        say::skipped("mdBook is not installed and cannot be: the site is not built");
        return Ok(count);
    };
    say::step("mdBook builds the site, whose links lead somewhere", || {
        site::check(&make(&mdbook, None, false)?)
    })?;
    count.add(Count::ONE);
    Ok(count)
}

fn call_reference(flags: &[&str]) -> Result<()> {
    build::build(&[Programs::REFERENCE], None)?;
    let mut command = std::process::Command::new(workspace::built(false)?.join("reference"));
    let status = call::run(command.args(flags).arg(workspace::root().join("docs/reference")))?;
    ensure!(status.success(), "docs/reference is not what the code says");
    Ok(())
}

/// Builds the site from scratch.
fn make(mdbook: &Path, source: Option<&str>, open: bool) -> Result<PathBuf> {
    let place = workspace::target()?.join("book");
    let site = place.join("site");
    site::stage(&place.join("source"), source)?;
    let output = std::process::Command::new(mdbook)
        .args(["build", "--dest-dir"])
        .arg(&site)
        .args(open.then_some("--open"))
        .arg(place.join("source"))
        .output()
        .context("start mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said.contains(" WARN ") || said.contains("ERROR");
    ensure!(output.status.success() && !complaint, "mdbook: {said}");
    Ok(site)
}

/// mdBook, without its server and watcher.
fn mdbook() -> Result<Option<PathBuf>> {
    cargo::tool("mdbook", &["--no-default-features", "--features", "search", "mdbook@0.5.4"])
}
