//! The console's page. Node builds it, where it is there, and the next build of business-api takes it in; without it
//! business-api says at its place what is missing.

use crate::tool::Tool;
use crate::{tree, workspace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

const NODE: u32 = 20;
/// Directories below `web/` that are made, and are no sources.
const MADE: [&str; 3] = ["dist", "test-results", "playwright-report"];
/// Its standard output goes to standard error, since the compiler's complaints are there.
const BUILD: &str = "exec 1>&2; npm ci --no-audit --no-fund && npm run build";
/// The file that says of which sources the page was built.
const STAMP: &str = ".source";

/// `cargo xtask web`.
pub(crate) fn web() -> Result<()> {
    let source = source();
    ensure!(source.join("package.json").exists(), "{} is not there", source.display());
    check_node()?;
    build(&source)
}

/// Builds the page if that is needed and possible: everything else works without it. Returns whether it is there.
pub(crate) fn on_demand() -> Result<bool> {
    let source = source();
    if !source.join("package.json").exists() {
        return Ok(false);
    }
    let stamp = std::fs::read_to_string(taken().join(STAMP)).unwrap_or_default();
    if stamp == key(&source)? {
        return Ok(true);
    }
    // The platform is whole without it.
    let built = check_node().and_then(|()| say::step("console built", || build(&source)));
    if let Err(error) = &built {
        say::skipped(&format!("{error:#}: the console has no page"));
    }
    Ok(built.is_ok())
}

fn source() -> PathBuf {
    workspace::root().join("web")
}

/// Where business-api takes it from.
fn taken() -> PathBuf {
    workspace::root().join("crates/console-page/built")
}

pub(crate) fn check_node() -> Result<()> {
    let wanted = format!("Node {NODE} or newer is needed to build the console");
    let output = Command::new("node").arg("--version").output();
    let output = output.ok().filter(|output| output.status.success()).context(wanted.clone())?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    ensure!(major.is_some_and(|major: u32| major >= NODE), "{wanted}; this machine has {version}");
    Ok(())
}

/// Runs a line of the shell there.
pub(crate) fn run(tool: &Tool, place: &Path, line: &str) -> Result<()> {
    tool.run(Command::new("sh").args(["-c", line]).current_dir(place), |said| tool.note(said))
}

fn build(source: &Path) -> Result<()> {
    let tool = Tool::new("console", "steps", "web")?;
    run(&tool, source, BUILD)?;
    let (dist, taken) = (source.join("dist"), taken());
    ensure!(dist.join("index.html").exists(), "{} has no index.html", dist.display());
    for old in tree::all(&taken)? {
        if old.file_name().is_none_or(|name| name != ".gitignore") {
            std::fs::remove_file(&old).with_context(|| format!("remove {}", old.display()))?;
        }
    }
    for file in tree::all(&dist)? {
        tree::copy(&file, &taken.join(file.strip_prefix(&dist)?))?;
    }
    std::fs::write(taken.join(STAMP), key(source)?)?;
    Ok(())
}

/// Stands for the sources: names and contents.
fn key(source: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    for file in tree::all(source)? {
        let name = file.strip_prefix(source)?;
        if MADE.iter().any(|made| name.starts_with(made)) {
            continue;
        }
        bytes.extend(name.to_string_lossy().as_bytes());
        bytes.extend(std::fs::read(&file).with_context(|| format!("read {}", file.display()))?);
    }
    Ok(workspace::key(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_changes_no_key_and_a_source_does() {
        let dir = std::env::temp_dir().join(format!("xtask-web-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let file = dir.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("src/main.ts", "1");
        let before = key(&dir).unwrap();
        write("dist/index.html", "x");
        write("node_modules/a/index.js", "x");
        assert_eq!(key(&dir).unwrap(), before);
        write("src/main.ts", "2");
        assert_ne!(key(&dir).unwrap(), before);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
