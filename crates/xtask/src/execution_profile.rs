//! How often business-api executes which code under load, for the compiler: `crates/business-api/pgo`.
//!
//! The compiler finds the counts of a function by its symbol. In symbols are the version of the compiler, the target,
//! the profile `dist` and, for each package, its version, its features and those of all that it depends on. So counts
//! are of use for one compiler and target, and for packages whose dependencies are the same. Functions without counts
//! are compiled as usual.

use crate::{tree, workspace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

const DIRECTORY: &str = "crates/business-api/pgo";

/// What a profile was made with, and fits: the compiler and the dependencies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProfileOrigin {
    compiler: String,
    dependencies: String,
}

impl ProfileOrigin {
    /// Of what is built here and now.
    pub(crate) fn now() -> Result<Self> {
        let compiler = rustc(&["--version"])?;
        let locked = std::fs::read(workspace::root().join("Cargo.lock")).context("read Cargo.lock")?;
        Ok(Self { compiler, dependencies: workspace::content_hash(locked) })
    }

    fn read(text: &str) -> Option<Self> {
        let (compiler, dependencies) = text.trim_end().split_once('\n')?;
        let dependencies = dependencies.strip_prefix("Cargo.lock ")?.to_owned();
        Some(Self { compiler: compiler.to_owned(), dependencies })
    }

    pub(crate) fn text(&self) -> String {
        format!("{}\nCargo.lock {}\n", self.compiler, self.dependencies)
    }
}

/// The files of this machine's target: the counts, and their origin.
pub(crate) fn files() -> Result<(PathBuf, PathBuf)> {
    let directory = workspace::root().join(DIRECTORY);
    let target = target()?;
    Ok((directory.join(format!("{target}.profdata")), directory.join(format!("{target}.origin"))))
}

/// The target triple of this machine.
fn target() -> Result<String> {
    let about = rustc(&["--version", "--verbose"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc --version --verbose` names no host")?.to_owned())
}

pub(crate) fn rustc(args: &[&str]) -> Result<String> {
    let output = Command::new("rustc").args(args).output().context("start rustc")?;
    ensure!(
        output.status.success(),
        "rustc {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout).context("what rustc says is no text")?.trim().to_owned())
}

/// The profiles in the repository, for whatever target, by name. An image for a target is the same from any machine.
fn committed() -> Result<Vec<(PathBuf, ProfileOrigin)>> {
    let mut profiles = tree::all(&workspace::root().join(DIRECTORY))?;
    profiles.retain(|path| path.extension().is_some_and(|kind| kind == "profdata"));
    profiles.sort();
    profiles
        .into_iter()
        .map(|profile| {
            let origin = read(&profile.with_extension("origin"))?;
            Ok((profile, origin))
        })
        .collect()
}

/// A directory with the profiles that fit, for `dist`; says why there is none.
pub(crate) fn for_build() -> Result<Option<PathBuf>> {
    let (here, _) = files()?;
    if !here.exists() {
        say::skipped(
            "nobody has counted what business-api executes on machines of this kind: it is built for them without",
        );
    }
    let now = ProfileOrigin::now()?;
    let (fitting, others): (Vec<_>, Vec<_>) =
        committed()?.into_iter().partition(|(_, origin)| origin.compiler == now.compiler);
    for (profile, origin) in others {
        let (name, then, now) = (name_of(&profile), origin.compiler, &now.compiler);
        say::skipped(&format!("{name} is of {then}, not of {now}: `cargo xtask pgo` makes another"));
    }
    if fitting.is_empty() {
        return Ok(None);
    }
    for (profile, _) in fitting.iter().filter(|(_, origin)| *origin != now) {
        let name = name_of(profile);
        say::line(format_args!("{name} is of other dependencies: what they change is built without it"));
    }
    let fitting: Vec<PathBuf> = fitting.into_iter().map(|(profile, _)| profile).collect();
    place(&fitting).map(Some)
}

/// Fails if a profile in the repository is not of this compiler and these dependencies.
pub(crate) fn ensure_current() -> Result<()> {
    let now = ProfileOrigin::now()?;
    for (profile, origin) in committed()? {
        ensure!(
            origin == now,
            "{} is of another compiler or of other dependencies: `cargo xtask pgo` makes another",
            name_of(&profile)
        );
    }
    Ok(())
}

fn name_of(profile: &Path) -> String {
    let name = profile.file_name().unwrap_or_default();
    format!("{DIRECTORY}/{}", name.to_string_lossy())
}

fn read(origin: &Path) -> Result<ProfileOrigin> {
    let text = std::fs::read_to_string(origin).with_context(|| format!("read {}", origin.display()))?;
    ProfileOrigin::read(&text)
        .with_context(|| format!("{} does not say what the profile is of", origin.display()))
}

/// cargo does not look at what is in the files: other counts need another path.
fn place(profiles: &[PathBuf]) -> Result<PathBuf> {
    let mut all = Vec::new();
    for profile in profiles {
        all.push(std::fs::read(profile).with_context(|| format!("read {}", profile.display()))?);
    }
    let hash = workspace::content_hash(all.iter().flatten().copied());
    let directory = workspace::target()?.join("pgo").join(hash);
    std::fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    for (profile, counts) in profiles.iter().zip(all) {
        let copy = directory.join(profile.file_name().context("a profile is a file")?);
        if !copy.exists() {
            // Whole or not at all: what is there is taken for good.
            let half = copy.with_extension(std::process::id().to_string());
            std::fs::write(&half, counts).with_context(|| format!("write {}", half.display()))?;
            std::fs::rename(&half, &copy).with_context(|| format!("write {}", copy.display()))?;
        }
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_profile_is_read_as_it_was_written() {
        let now = ProfileOrigin::now().unwrap();
        assert!(now.compiler.starts_with("rustc 1."), "{now:?}");
        assert_eq!(ProfileOrigin::read(&now.text()), Some(now));
        assert_eq!(ProfileOrigin::read("rustc 1.95.0"), None);
    }

    #[test]
    fn each_profile_says_what_it_is_of() {
        committed().unwrap();
    }
}
