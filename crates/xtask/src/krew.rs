//! The krew manifest of the command line, filled in for the archives of a release.

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process;

const TEMPLATE: &str = "deploy/krew/business.yaml";
/// The line before the part that is repeated for each archive.
const PLATFORMS: &str = "  platforms:\n";
/// The files in an archive that the manifest installs.
const ARCHIVE_FILES: [&str; 2] = ["kubectl-business", "LICENSE"];
const SYSTEMS: [&str; 3] = ["darwin", "linux", "windows"];
const ARCHITECTURES: [&str; 6] = ["386", "amd64", "arm", "arm64", "ppc64le", "s390x"];
const SHA256_LETTERS: usize = 64;

/// The release in the manifest.
struct Release {
    /// `v1.2.3`
    version: String,
    homepage: String,
    /// The URL of the directory of its archives.
    url: String,
}

/// One archive, for one platform.
struct Archive {
    os: String,
    arch: String,
    file: String,
    sha256: String,
}

/// An archive on the command line: OS-ARCH=PATH.
struct ArchiveArg {
    os: String,
    arch: String,
    path: PathBuf,
}

/// `krew` and its flags.
pub(crate) fn command() -> Command {
    let needed =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value).required(true);
    Command::new("krew").about("Write the manifest with which krew installs `kubectl business`.").args([
        needed("version", "VERSION").help("The release, such as v1.2.3."),
        needed("url", "URL").help("The folder where its archives will lie; https."),
        needed("homepage", "URL").help("Where people read about it; https."),
        needed("archive", "OS-ARCH=FILE").action(ArgAction::Append).help(
            "A .tar.gz with kubectl-business and LICENSE, such as linux-amd64=kubectl-business-linux-amd64.tar.gz; once a platform.",
        ),
        Arg::new("output").long("output").value_name("FILE").value_parser(value_parser!(PathBuf)).help("Where to, if not to standard output."),
    ])
}

/// `cargo xtask krew`.
pub(crate) fn krew(matches: &ArgMatches) -> Result<()> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let release = Release { version: text("version"), homepage: text("homepage"), url: text("url") };
    let named: Vec<ArchiveArg> = matches
        .get_many::<String>("archive")
        .into_iter()
        .flatten()
        .map(|one| ArchiveArg::of(one))
        .collect::<Result<_>>()?;
    let archives: Vec<Archive> = named.iter().map(Archive::of).collect::<Result<_>>()?;
    let template = std::fs::read_to_string(workspace::root().join(TEMPLATE)).context(TEMPLATE)?;
    let manifest = fill_template(&template, &release, &archives)?;
    match matches.get_one::<PathBuf>("output") {
        Some(path) => std::fs::write(path, manifest).with_context(|| format!("write {}", path.display()))?,
        None => terminal::say::line(manifest.trim_end()),
    }
    Ok(())
}

impl ArchiveArg {
    fn of(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not OS-ARCH=FILE");
        let (platform, path) = text.split_once('=').with_context(wrong)?;
        let (os, arch) = platform.split_once('-').with_context(wrong)?;
        ensure!(SYSTEMS.contains(&os), "{text:?}: {os:?} is none of {}", SYSTEMS.join(", "));
        ensure!(ARCHITECTURES.contains(&arch), "{text:?}: {arch:?} is none of {}", ARCHITECTURES.join(", "));
        Ok(Self { os: os.to_owned(), arch: arch.to_owned(), path: PathBuf::from(path) })
    }
}

impl Archive {
    /// Checks its contents and computes its checksum.
    fn of(named: &ArchiveArg) -> Result<Self> {
        let ArchiveArg { os, arch, path } = named;
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ensure!(file.ends_with(".tar.gz"), "{}: an archive is a .tar.gz", path.display());
        let list = stdout_of(process::Command::new("tar").arg("-tzf").arg(path))?;
        let held: BTreeSet<&str> = list.lines().map(|line| line.trim_start_matches("./")).collect();
        for name in ARCHIVE_FILES {
            ensure!(held.contains(name), "{}: there is no {name} in it", path.display());
        }
        Ok(Self { os: os.clone(), arch: arch.clone(), file: file.to_owned(), sha256: sha256(path)? })
    }
}

/// Calls `sha256sum` or `shasum`, since xtask has few dependencies.
fn sha256(path: &Path) -> Result<String> {
    let first = stdout_of(process::Command::new("sha256sum").arg(path));
    let line =
        first.or_else(|_absent| stdout_of(process::Command::new("shasum").args(["-a", "256"]).arg(path)))?;
    // A file name that has to be escaped is told by a backslash in front.
    let sum = line.split_whitespace().next().unwrap_or_default().trim_start_matches('\\').to_owned();
    ensure!(is_sha256(&sum), "{}: {line:?} is no SHA-256", path.display());
    Ok(sum)
}

fn stdout_of(command: &mut process::Command) -> Result<String> {
    let output = command.output().with_context(|| format!("start {}", command.get_program().display()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", command.get_program().display(), complaint.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// The manifest; fails if krew would refuse it.
fn fill_template(template: &str, release: &Release, archives: &[Archive]) -> Result<String> {
    let Release { version, homepage, url } = release;
    ensure!(is_version(version), "{version:?} is no version such as v1.2.3");
    for address in [homepage, url] {
        ensure!(address.starts_with("https://"), "{address:?} is no address with https");
        ensure!(
            !address.contains(['"', '\\', ' ']) && !address.contains(char::is_control),
            "{address:?} is no address"
        );
    }
    ensure!(!archives.is_empty(), "there is no archive");
    let mut platforms = BTreeSet::new();
    let (head, entry) = template.split_once(PLATFORMS).context("the template has no platforms")?;
    let head: String = head.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    let mut manifest = head.replace("@VERSION@", version).replace("@HOMEPAGE@", homepage) + PLATFORMS;
    for Archive { os, arch, file, sha256 } in archives {
        ensure!(platforms.insert((os, arch)), "there are two archives for {os}-{arch}");
        let uri = format!("{}/{file}", url.trim_end_matches('/'));
        let places = [("@OS@", os), ("@ARCH@", arch), ("@URL@", &uri), ("@SHA256@", sha256)];
        manifest += &places.iter().fold(entry.to_owned(), |text, (place, value)| text.replace(place, value));
    }
    if let Some(place) = manifest.lines().find(|line| line.contains("\"@")) {
        bail!("nothing fills {}", place.trim());
    }
    Ok(manifest)
}

fn is_sha256(text: &str) -> bool {
    text.len() == SHA256_LETTERS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether it is `v` and a semantic version.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else { return false };
    let numbers = rest.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let behind = rest.strip_prefix(numbers).unwrap_or_default();
    let is_behind = |byte: u8| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte);
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && behind.len() != 1
        && behind.bytes().all(is_behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What krew would say of it, the tests of the command line look at.
    const FILLED: &str = include_str!("krew/filled.yaml");
    const TEMPLATE: &str = include_str!("../../../deploy/krew/business.yaml");

    fn release(version: &str, url: &str) -> Release {
        Release { version: version.into(), homepage: "https://example.org/business".into(), url: url.into() }
    }

    fn archive(os: &str, arch: &str) -> Archive {
        let file = format!("kubectl-business-{os}-{arch}.tar.gz");
        Archive { os: os.into(), arch: arch.into(), file, sha256: "0123456789abcdef".repeat(4) }
    }

    #[test]
    fn a_manifest_has_a_platform_an_archive() {
        let archives = [archive("linux", "amd64"), archive("darwin", "arm64")];
        let release = release("v1.2.3", "https://example.org/releases/v1.2.3/");
        let manifest = fill_template(TEMPLATE, &release, &archives).unwrap();
        assert!(manifest == FILLED, "krew/filled.yaml has changed; look at it, then replace it:\n{manifest}");
    }

    #[test]
    fn what_krew_would_refuse_is_not_written() {
        let good = || vec![archive("linux", "amd64")];
        let error = |version: &str, url: &str, archives: &[Archive]| {
            fill_template(TEMPLATE, &release(version, url), archives).unwrap_err().to_string()
        };
        let url = "https://example.org";
        for version in ["1.2.3", "v1.2", "v1.2.x", "v01.2.3", "v1.2.3-", "v1.2.3 "] {
            assert!(error(version, url, &good()).contains("no version"), "{version}");
        }
        for version in ["v0.1.0", "v1.2.3-rc.1", "v1.2.3+build"] {
            assert!(is_version(version), "{version}");
        }
        assert!(error("v1.2.3", "http://example.org", &good()).contains("https"));
        assert!(error("v1.2.3", "https://example.org/\" x", &good()).contains("no address"));
        assert!(error("v1.2.3", url, &[]).contains("no archive"));
        let twice = [archive("linux", "amd64"), archive("linux", "amd64")];
        assert!(error("v1.2.3", url, &twice).contains("two archives for linux-amd64"));
    }

    #[test]
    fn an_archive_is_looked_into() {
        let dir = std::env::temp_dir().join(format!("xtask-krew-{}", process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let pack = |name: &str, files: &[&str]| {
            for file in files {
                std::fs::write(dir.join(file), "x").unwrap();
            }
            let path = dir.join(name);
            stdout_of(process::Command::new("tar").arg("-czf").arg(&path).arg("-C").arg(&dir).args(files))
                .unwrap();
            path
        };
        let of =
            |path: &Path| Archive::of(&ArchiveArg::of(&format!("linux-amd64={}", path.display())).unwrap());
        let whole = of(&pack("whole.tar.gz", &ARCHIVE_FILES)).unwrap();
        assert!(is_sha256(&whole.sha256) && whole.file == "whole.tar.gz", "{}", whole.sha256);
        let part = of(&pack("part.tar.gz", &["LICENSE"])).err().unwrap();
        assert!(part.to_string().contains("there is no kubectl-business in it"), "{part}");
        assert!(of(&dir.join("absent.tar.gz")).is_err() && of(&dir.join("a.zip")).is_err());
        for wrong in ["linux-amd64", "linux=f", "beos-amd64=f", "linux-68k=f"] {
            assert!(ArchiveArg::of(wrong).is_err(), "{wrong}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
