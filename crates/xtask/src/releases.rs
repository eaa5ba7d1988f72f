//! The releases before and after this one, for the test of an upgrade and its rollback. The one before is the last that has a tag;
//! the one after is these sources with one more migration, and functions of its own in the database.

use crate::workspace;
use crate::{cargo, tree};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

/// What a release may do to the schema of the one before: add.
const MIGRATION: (&str, &str) = (
    "migrations/99990101000000_release_after_this_one.sql",
    "ALTER TABLE objects ADD COLUMN release_after_this_one text;\n",
);
/// Tags of releases.
const TAGS: &str = "v*";
/// Another text gives all functions of the store other names.
const FUNCTION: (&str, &str) = ("crates/store/sql/apply_batch.sql", "-- release after this one\n");
const COPIED: [&str; 6] = ["Cargo.toml", "Cargo.lock", "crates", "deploy", "migrations", "tests"];

/// Files of a tree by their paths in it.
type Sources = BTreeMap<PathBuf, Vec<u8>>;

/// Builds the business-api of both; acceptance finds them as `.dev/newer/business-api` and `.dev/former/business-api`.
pub(crate) fn build() -> Result<()> {
    say::step("the release after this one built", || release("newer", "99.0.0", next()?))?;
    let Some(tag) = last_tag()? else {
        // What an earlier build left would be tried.
        let program = workspace::dev().join("former/business-api");
        if program.exists() {
            std::fs::remove_file(program)?;
        }
        say::skipped("no release has a tag yet: only the release after this one is tried beside it");
        return Ok(());
    };
    say::step(&format!("{tag} built"), || release("former", "0.0.1", tagged(&tag)?))
}

/// Builds a release. Cargo takes packages of the same version for the same, wherever they lie: it gets one of its own.
fn release(name: &str, version: &str, mut sources: Sources) -> Result<()> {
    let manifest = sources.get_mut(Path::new("Cargo.toml")).context("Cargo.toml is missing")?;
    *manifest = renumbered(&String::from_utf8_lossy(manifest), version)?.into_bytes();
    let dir = workspace::dev().join(name);
    let tree = dir.join("source");
    write(&tree, &sources)?;
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
    ensure!(built.success(), "the {name} release does not build");
    // The next build of this release puts its own program into this place.
    std::fs::copy(target.join("business-api"), dir.join("business-api"))?;
    Ok(())
}

fn renumbered(manifest: &str, version: &str) -> Result<String> {
    let line = manifest.lines().find(|line| line.starts_with("version = ")).context("no version")?;
    Ok(manifest.replacen(line, &format!("version = {version:?}"), 1))
}

/// The newest release that this one comes after; `None` where there is none, or no history.
fn last_tag() -> Result<Option<String>> {
    let git = Command::new("git")
        .current_dir(workspace::root())
        // A tag of these sources is no release before them.
        .args(["tag", "--list", TAGS, "--merged", "HEAD", "--no-contains", "HEAD"])
        .arg("--sort=-version:refname")
        .output();
    let Ok(output) = git else { return Ok(None) };
    Ok(String::from_utf8(output.stdout)?.lines().next().map(str::to_owned))
}

/// The sources of a tag.
fn tagged(tag: &str) -> Result<Sources> {
    let git = |args: &[&str]| -> Result<Vec<u8>> {
        let output = Command::new("git").current_dir(workspace::root()).args(args).output()?;
        ensure!(
            output.status.success(),
            "git {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output.stdout)
    };
    let mut sources = Sources::new();
    for name in String::from_utf8(git(&["ls-tree", "-r", "--name-only", tag])?)?.lines() {
        if COPIED.iter().any(|copied| Path::new(name).starts_with(copied)) {
            sources.insert(name.into(), git(&["show", &format!("{tag}:{name}")])?);
        }
    }
    Ok(sources)
}

/// The sources of the release after this one.
fn next() -> Result<Sources> {
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
