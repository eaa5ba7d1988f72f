//! The files of the working tree, without build output and downloads.

use anyhow::{Context, Result};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const SKIPPED: [&str; 4] = ["target", ".git", ".dev", "node_modules"];

/// All files below `dir` with one of these extensions, sorted.
pub(crate) fn files(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = all(dir)?;
    found.retain(|path| path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)));
    Ok(found)
}

/// All files below `dir`, sorted.
pub(crate) fn all(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        let entries = std::fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !SKIPPED.contains(&name) {
                    waiting.push(path);
                }
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a file and creates its parent directories. A symbolic link stays one.
pub(crate) fn copy(file: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.parent().context("no directory")?)?;
    let copied = if file.is_symlink() {
        std::fs::read_link(file).and_then(|target| symlink(target, to))
    } else {
        std::fs::copy(file, to).map(drop)
    };
    copied.with_context(|| format!("write {}", to.display()))
}

/// The part of a Rust file before its tests.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod ").map_or(text, |(before, _)| before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_directory_is_copied_as_one() {
        let place = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        symlink("elsewhere", place.join("link")).unwrap();
        copy(&place.join("link"), &place.join("below/copy")).unwrap();
        assert_eq!(std::fs::read_link(place.join("below/copy")).unwrap(), Path::new("elsewhere"));
        std::fs::remove_dir_all(&place).unwrap();
    }
}
