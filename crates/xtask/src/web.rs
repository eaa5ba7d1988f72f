//! Builds the console with Node, if it is installed. The next build of business-api includes it; without it
//! business-api serves a note on what is missing.

use crate::tool::Tool;
use crate::{tree, workspace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

const NODE: u32 = 20;
/// Generated directories below `web/`.
const GENERATED: [&str; 3] = ["dist", "test-results", "playwright-report"];
/// Standard output goes to standard error, since the compiler's errors are there.
const BUILD: &str = "exec 1>&2; npm ci --no-audit --no-fund && npm run build";
/// The file with the hash of the sources that the console was built from.
const STAMP: &str = ".source";

/// `cargo xtask web`.
pub(crate) fn web() -> Result<()> {
    let source = source();
    ensure!(source.join("package.json").exists(), "{} is not there", source.display());
    check_node()?;
    build(&source)
}

/// Builds the console if that is needed and possible. Returns whether it exists.
pub(crate) fn on_demand() -> Result<bool> {
    let source = source();
    if !source.join("package.json").exists() {
        return Ok(false);
    }
    let stamp = std::fs::read_to_string(page_directory().join(STAMP)).unwrap_or_default();
    if stamp == source_hash(&source)? {
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

/// The directory that business-api includes.
fn page_directory() -> PathBuf {
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

/// Runs a shell command in a directory.
pub(crate) fn run(tool: &Tool, place: &Path, line: &str) -> Result<()> {
    tool.run(Command::new("sh").args(["-c", line]).current_dir(place), |said| tool.note(said))
}

fn build(source: &Path) -> Result<()> {
    let tool = Tool::new("console", "steps", "web")?;
    run(&tool, source, BUILD)?;
    let (dist, page) = (source.join("dist"), page_directory());
    ensure!(dist.join("index.html").exists(), "{} has no index.html", dist.display());
    for old in tree::all(&page)? {
        if old.file_name().is_none_or(|name| name != ".gitignore") {
            std::fs::remove_file(&old).with_context(|| format!("remove {}", old.display()))?;
        }
    }
    for file in tree::all(&dist)? {
        tree::copy(&file, &page.join(file.strip_prefix(&dist)?))?;
    }
    std::fs::write(page.join(STAMP), source_hash(source)?)?;
    Ok(())
}

/// A hash of names and contents of the sources.
fn source_hash(source: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    for file in tree::all(source)? {
        let name = file.strip_prefix(source)?;
        if GENERATED.iter().any(|made| name.starts_with(made)) {
            continue;
        }
        bytes.extend(name.to_string_lossy().as_bytes());
        bytes.extend(std::fs::read(&file).with_context(|| format!("read {}", file.display()))?);
    }
    Ok(workspace::content_hash(bytes))
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
        let before = source_hash(&dir).unwrap();
        write("dist/index.html", "x");
        write("node_modules/a/index.js", "x");
        assert_eq!(source_hash(&dir).unwrap(), before);
        write("src/main.ts", "2");
        assert_ne!(source_hash(&dir).unwrap(), before);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
