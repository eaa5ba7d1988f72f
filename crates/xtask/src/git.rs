//! Calling git.

use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// What a call of git prints, in this directory.
pub(crate) fn output(root: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new("git").current_dir(root).args(args).output().context("start git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", args.join(" "), said.trim());
    Ok(output.stdout)
}

/// The same in the workspace, as text.
pub(crate) fn text(args: &[&str]) -> Result<String> {
    let output = output(&workspace::root(), args)?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}
