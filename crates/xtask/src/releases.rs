//! The releases before and after this one, for testing upgrade and rollback. The previous release is the last tag, or
//! the commit that is named. The next one is these sources with one more migration and other function names in the
//! database.

use crate::{cargo, git, tree, workspace};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use terminal::say;

/// The next release's migration. A release may only add to the schema.
const MIGRATION: (&str, &str) = (
    "migrations/99990101000000_release_after_this_one.sql",
    "ALTER TABLE objects ADD COLUMN release_after_this_one text;\n",
);
/// Tags of releases.
const TAGS: &str = "v*";
/// The variable that names the commit to use as the previous release.
const PREVIOUS_REVISION: &str = "XTASK_FORMER";
const SHALLOW: &str = "this clone is shallow, so no release's tag can be seen: nothing is tried that came before. \
    `git fetch --unshallow --tags` brings the tags, and XTASK_FORMER=REV names any other commit";
/// The programs of a release.
const PROGRAMS: [&str; 2] = ["business-api", "business-controller"];
/// A change of this file gives all SQL functions of the store other names.
const FUNCTION: (&str, &str) = ("crates/store/sql/apply_batch.sql", "-- release after this one\n");
const COPIED: [&str; 6] = ["Cargo.toml", "Cargo.lock", "crates", "deploy", "migrations", "tests"];

/// Contents by path.
type Sources = BTreeMap<PathBuf, Vec<u8>>;

/// Builds the programs of both, for the acceptance tests, in `.dev/newer` and `.dev/former`.
pub(crate) fn build() -> Result<()> {
    say::step("the release after this one built", || release("newer", "99.0.0", next()?))?;
    let root = workspace::root();
    if let Some(revision) = previous_release(&root, &std::env::var(PREVIOUS_REVISION).unwrap_or_default())? {
        return say::step(&format!("{revision} built, as the release before this one"), || {
            release("former", "0.0.1", committed(&root, &revision)?)
        });
    }
    say::step("no release before this one", || {
        // Otherwise what an earlier build left would be tested.
        for program in PROGRAMS.map(|program| workspace::dev().join("former").join(program)) {
            if program.exists() {
                std::fs::remove_file(program)?;
            }
        }
        match why_none(&root) {
            Ok(why) => say::needless(why),
            Err(why) => say::skipped(why),
        }
        Ok(())
    })
}

/// Builds a release with a version of its own, since cargo confuses packages of the same name and version.
fn release(name: &str, version: &str, mut sources: Sources) -> Result<()> {
    let manifest = sources.get_mut(Path::new("Cargo.toml")).context("Cargo.toml is missing")?;
    *manifest = renumbered(&String::from_utf8_lossy(manifest), version)?.into_bytes();
    let dir = workspace::dev().join(name);
    let tree = dir.join("source");
    write(&tree, &sources)?;
    // All default members, so that they have the dependencies of this release, which are built already.
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
    // The next build of this release puts its own programs into this place.
    for program in PROGRAMS {
        std::fs::copy(target.join(program), dir.join(program)).with_context(|| format!("copy {program}"))?;
    }
    Ok(())
}

fn renumbered(manifest: &str, version: &str) -> Result<String> {
    let line = manifest.lines().find(|line| line.starts_with("version = ")).context("no version")?;
    Ok(manifest.replacen(line, &format!("version = {version:?}"), 1))
}

/// The commit that is named, else the newest release tag in the history; `None` without one.
fn previous_release(root: &Path, named: &str) -> Result<Option<String>> {
    if !named.is_empty() {
        git::output(root, &["rev-parse", "--verify", &format!("{named}^{{commit}}")])
            .with_context(|| format!("{PREVIOUS_REVISION}={named} names no commit"))?;
        return Ok(Some(named.to_owned()));
    }
    // A tag of these sources is no release before them.
    let of_others = ["--merged", "HEAD", "--no-contains", "HEAD", "--sort=-version:refname"];
    let Ok(tags) = git::output(root, &[&["tag", "--list", TAGS][..], &of_others].concat()) else {
        return Ok(None);
    };
    Ok(String::from_utf8(tags)?.lines().next().map(str::to_owned))
}

/// Why there is no previous release; the error says why that cannot be known.
fn why_none(root: &Path) -> Result<&'static str, &'static str> {
    match git::output(root, &["rev-parse", "--is-shallow-repository"]).as_deref() {
        Ok(b"true\n") => Err(SHALLOW),
        Ok(_) => Ok("no release has a tag yet; XTASK_FORMER=REV names a commit to be tried as one"),
        Err(_) => Err("there is no history here, so nothing is tried that came before"),
    }
}

/// The sources of a commit.
fn committed(root: &Path, revision: &str) -> Result<Sources> {
    let mut sources = Sources::new();
    let names = String::from_utf8(git::output(root, &["ls-tree", "-r", "-z", "--name-only", revision])?)?;
    for name in names.split_terminator('\0') {
        if COPIED.iter().any(|copied| Path::new(name).starts_with(copied)) {
            sources.insert(name.into(), git::output(root, &["show", &format!("{revision}:{name}")])?);
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

/// Writes only files that differ, so that cargo rebuilds only what has changed.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(root: &Path, args: &[&str]) {
        let who = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        git::output(root, &[&who[..], args].concat()).unwrap();
    }

    #[test]
    fn the_release_before_is_the_last_tag_or_what_is_named_and_a_shallow_clone_says_that_it_sees_none() {
        let root = std::env::temp_dir().join(format!("xtask-releases-{}", std::process::id()));
        let (whole, shallow) = (root.join("whole"), root.join("shallow"));
        std::fs::create_dir_all(whole.join("crates")).unwrap();
        run(&whole, &["init", "--quiet"]);
        for (text, tag) in [("one", Some("v0.9.0")), ("two", Some("v0.10.0")), ("three", None)] {
            std::fs::write(whole.join("crates/text"), text).unwrap();
            run(&whole, &["add", "--all"]);
            run(&whole, &["commit", "--quiet", "--message", text]);
            if let Some(tag) = tag {
                run(&whole, &["tag", tag]);
            }
        }
        assert_eq!(previous_release(&whole, "").unwrap().as_deref(), Some("v0.10.0"));
        let named = previous_release(&whole, "HEAD~2").unwrap().unwrap();
        let sources = committed(&whole, &named).unwrap();
        assert_eq!(sources, Sources::from([(PathBuf::from("crates/text"), b"one".to_vec())]));
        let unknown = format!("{:#}", previous_release(&whole, "v7").unwrap_err());
        assert!(unknown.starts_with("XTASK_FORMER=v7 names no commit"), "{unknown}");

        let from = format!("file://{}", whole.display());
        run(&root, &["clone", "--quiet", "--depth=1", "--no-tags", &from, "shallow"]);
        assert_eq!(previous_release(&shallow, "").unwrap(), None);
        let unseen = why_none(&shallow).unwrap_err();
        assert!(unseen.contains("shallow"), "{unseen}");
        let none = why_none(&whole).unwrap();
        assert!(none.contains("no release has a tag"), "{none}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
