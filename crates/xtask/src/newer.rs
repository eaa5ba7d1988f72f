//! The release after this one, for the test of an upgrade and its rollback: the same sources, one more migration, and
//! functions of its own in the database.

use crate::workspace;
use crate::{cargo, tree};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use terminal::say;

/// What a release may do to the schema of the one before: add.
const MIGRATION: (&str, &str) = (
    "migrations/99990101000000_release_after_this_one.sql",
    "ALTER TABLE objects ADD COLUMN release_after_this_one text;\n",
);
const VERSION: &str = "version = \"99.0.0\"";
/// Another text gives all functions of the store other names.
const FUNCTION: (&str, &str) = ("crates/store/sql/apply_batch.sql", "-- release after this one\n");
const COPIED: [&str; 6] = ["Cargo.toml", "Cargo.lock", "crates", "deploy", "migrations", "tests"];

/// Files of a tree by their paths in it.
type Sources = BTreeMap<PathBuf, Vec<u8>>;

/// Builds its business-api; acceptance finds it as `.dev/newer/business-api`.
pub(crate) fn build() -> Result<()> {
    say::step("the release after this one built", || {
        let dir = workspace::dev().join("newer");
        let tree = dir.join("source");
        write(&tree, &sources()?)?;
        // All default members, so that what they depend on is what this release depends on, and built already.
        let target = workspace::built(false)?;
        let built = cargo::cargo()
            // It is built once and never edited: what cargo would keep for the next build is as large as the build.
            .env("CARGO_INCREMENTAL", "0")
            .args(["build", "--quiet", "--manifest-path"])
            .arg(tree.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(target.parent().context("no target directory")?)
            .stdout(say::lines())
            .status()?;
        ensure!(built.success(), "the release after this one does not build");
        // The next build of this release puts its own program into this place.
        std::fs::copy(target.join("business-api"), dir.join("business-api"))?;
        Ok(())
    })
}

/// The manifest with a version of its own: cargo takes packages of the same version for the same, wherever they lie.
fn renumbered(manifest: &str) -> Result<String> {
    let line = manifest.lines().find(|line| line.starts_with("version = ")).context("no version")?;
    Ok(manifest.replacen(line, VERSION, 1))
}

fn sources() -> Result<Sources> {
    let root = workspace::root();
    let mut sources = Sources::new();
    for name in COPIED {
        let path = root.join(name);
        let files = if path.is_dir() { tree::all(&path)? } else { vec![path] };
        for file in files {
            sources.insert(file.strip_prefix(&root)?.to_owned(), std::fs::read(&file)?);
        }
    }
    let (file, text) = MIGRATION;
    sources.insert(file.into(), text.as_bytes().to_vec());
    let (file, more) = FUNCTION;
    sources.get_mut(Path::new(file)).with_context(|| format!("{file} is missing"))?.extend(more.bytes());
    let manifest = sources.get_mut(Path::new("Cargo.toml")).context("Cargo.toml is missing")?;
    *manifest = renumbered(&String::from_utf8_lossy(manifest))?.into_bytes();
    Ok(sources)
}

/// Writes what differs, so that cargo builds again only what has changed.
fn write(dir: &Path, sources: &Sources) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    for file in tree::all(dir)? {
        if !sources.contains_key(file.strip_prefix(dir)?) {
            std::fs::remove_file(&file)?;
        }
    }
    for (name, bytes) in sources {
        let file = dir.join(name);
        if std::fs::read(&file).is_ok_and(|now| now == *bytes) {
            continue;
        }
        std::fs::create_dir_all(file.parent().context("no directory")?)?;
        std::fs::write(&file, bytes).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
