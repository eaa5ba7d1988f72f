//! The release after this one, for the test of an upgrade and its rollback: the same sources and one more migration.

use crate::workspace;
use crate::{cargo, tree};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use terminal::say;

/// What a release may do to the schema of the one before: add.
const MIGRATION: (&str, &str) = (
    "migrations/99990101000000_release_after_this_one.sql",
    "ALTER TABLE objects ADD COLUMN release_after_this_one text;\n",
);
const COPIED: [&str; 5] = ["Cargo.toml", "Cargo.lock", "crates", "migrations", "tests"];

/// Builds its business-api; acceptance finds it as `.dev/newer/business-api`.
pub(crate) fn build() -> Result<()> {
    say::step("the release after this one built", || {
        let dir = workspace::dev().join("newer");
        for name in COPIED {
            copy(&workspace::root().join(name), &dir.join("source").join(name))?;
        }
        let (file, text) = MIGRATION;
        write(&dir.join("source").join(file), text.as_bytes())?;
        // All default members, so that what they depend on is what this release depends on, and built already.
        let built = cargo::cargo()
            .args(["build", "--quiet", "--manifest-path"])
            .arg(dir.join("source/Cargo.toml"))
            .arg("--target-dir")
            .arg(workspace::built(false)?.with_file_name(""))
            .stdout(say::lines())
            .status()?;
        ensure!(built.success(), "the release after this one does not build");
        // The next build of this release puts its own program into this place.
        std::fs::copy(workspace::built(false)?.join("business-api"), dir.join("business-api"))?;
        Ok(())
    })
}

/// Copies what differs, so that cargo builds again only what has changed.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        return write(to, &std::fs::read(from)?);
    }
    let wanted = tree::all(from)?;
    for file in &wanted {
        let name = file.strip_prefix(from)?;
        write(&to.join(name), &std::fs::read(file)?)?;
    }
    if !to.exists() {
        return Ok(());
    }
    for file in tree::all(to)? {
        if !from.join(file.strip_prefix(to)?).exists() {
            std::fs::remove_file(&file)?;
        }
    }
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(file).is_ok_and(|now| now == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(file.parent().context("no directory")?)?;
    std::fs::write(file, bytes).with_context(|| format!("write {}", file.display()))
}
