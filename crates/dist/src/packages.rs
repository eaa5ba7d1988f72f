//! The packages that are linked into a program, as cargo resolves them; without build dependencies and proc macros.

use crate::platform::Platform;
use crate::programs::Program;
use crate::source;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// Name and version, which identify a package of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackageId {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// One package.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) id: PackageId,
    pub(crate) origin: Origin,
    /// An SPDX expression.
    pub(crate) licence: Option<String>,
    pub(crate) repository: Option<String>,
    /// The directory of its sources on this machine.
    pub(crate) directory: PathBuf,
}

/// Where a package comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This workspace.
    Workspace,
    /// crates.io; with the SHA-256 of what was downloaded.
    CratesIo { sha256: String },
}

/// The packages of one program; the first is the program's own.
#[derive(Clone, Debug)]
pub(crate) struct Packages {
    pub(crate) all: Vec<Package>,
    /// The dependencies of each package, as indices of `all`.
    pub(crate) dependencies: Vec<BTreeSet<usize>>,
}

/// The packages of all programs that are built in one call.
#[derive(Debug)]
pub(crate) struct ResolvedPackages {
    packages: BTreeMap<PackageId, Package>,
    dependencies: Dependencies,
}

type Dependencies = BTreeMap<PackageId, BTreeSet<PackageId>>;

impl ResolvedPackages {
    /// Runs `cargo tree` and `cargo metadata`.
    pub(crate) fn resolve(platform: Platform, programs: &[Program]) -> Result<Self> {
        let packages = programs.iter().flat_map(|program| ["--package", program.package]);
        let mut tree = vec!["tree", "--locked", "--target", platform.triple(), "--charset", "ascii"];
        tree.extend(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", " {p}"]);
        let tree = cargo(tree.into_iter().chain(packages))?;
        let metadata = cargo(["metadata", "--locked", "--format-version", "1"])?;
        let metadata = serde_json::from_str(&metadata).context("what `cargo metadata` says")?;
        let lock = std::fs::read_to_string(source::root().join("Cargo.lock")).context("read Cargo.lock")?;
        Ok(Self { packages: packages_by_id(metadata, &checksums(&lock))?, dependencies: parse_tree(&tree)? })
    }

    /// The packages of one program.
    pub(crate) fn of(&self, program: Program) -> Result<Packages> {
        let root = self
            .dependencies
            .keys()
            .find(|id| id.name == program.package)
            .context("cargo knows no such program")?;
        let mut found = vec![root];
        let mut seen = BTreeSet::from([root]);
        let mut next = 0;
        while let Some(id) = found.get(next) {
            found.extend(self.dependencies.get(id).into_iter().flatten().filter(|id| seen.insert(id)));
            next += 1;
        }
        if let Some(others) = found.get_mut(1..) {
            others.sort();
        }
        let places: BTreeMap<&PackageId, usize> =
            found.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let mut packages = Packages { all: Vec::new(), dependencies: Vec::new() };
        for id in &found {
            let package = self
                .packages
                .get(id)
                .with_context(|| format!("cargo says nothing of {} {}", id.name, id.version))?;
            packages.all.push(package.clone());
            let dependencies = self.dependencies.get(id).into_iter().flatten();
            packages.dependencies.push(dependencies.filter_map(|id| places.get(id).copied()).collect());
        }
        Ok(packages)
    }
}

fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<String> {
    let output =
        Command::new("cargo").current_dir(source::root()).args(args).output().context("start cargo")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo: {}", complaint.trim());
    String::from_utf8(output.stdout).context("what cargo says is no text")
}

/// Parses lines such as `2 serde v1.0.0 (/path) (*)`: depth, package, and a mark that its dependencies are listed
/// above.
fn parse_tree(tree: &str) -> Result<Dependencies> {
    let mut dependencies = Dependencies::new();
    let mut above: Vec<PackageId> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let mut word = || words.next().with_context(|| format!("`{line}` is no line of `cargo tree`"));
        let depth: usize = word()?.parse().with_context(|| format!("`{line}` has no depth"))?;
        let name = word()?.to_owned();
        let version = word()?.trim_start_matches('v').to_owned();
        let id = PackageId { name, version };
        above.truncate(depth);
        if let Some(parent) = above.last() {
            dependencies.entry(parent.clone()).or_default().insert(id.clone());
        }
        dependencies.entry(id.clone()).or_default();
        above.push(id);
    }
    Ok(dependencies)
}

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

fn packages_by_id(
    metadata: Metadata,
    checksums: &BTreeMap<PackageId, String>,
) -> Result<BTreeMap<PackageId, Package>> {
    let mut packages = BTreeMap::new();
    for found in metadata.packages {
        let id = PackageId { name: found.name, version: found.version };
        let origin = if found.source.is_none() {
            Origin::Workspace
        } else {
            let sha256 =
                checksums.get(&id).with_context(|| format!("Cargo.lock has no checksum of {}", id.name))?;
            Origin::CratesIo { sha256: sha256.clone() }
        };
        // Before there were expressions, a slash stood between two licences.
        let licence = found.license.map(|licence| licence.replace('/', " OR "));
        let directory = found.manifest_path.parent().context("a manifest without a directory")?.to_owned();
        packages.insert(id.clone(), Package { id, origin, licence, repository: found.repository, directory });
    }
    Ok(packages)
}

/// The checksums in a Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<PackageId, String> {
    let mut found = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
            Some(line.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sha256)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert(PackageId { name, version }, sha256);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{API, CONTROLLER, PLUGIN};

    fn id(name: &str, version: &str) -> PackageId {
        PackageId { name: name.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn a_tree_is_read_whose_branches_stand_once() {
        let tree =
            "0 a v1.0.0 (/path)\n1 b v2.0.0\n2 c v3.0.0\n1 c v3.0.0\n\n0 d v1.0.0 (/other)\n1 b v2.0.0 (*)\n";
        let dependencies = parse_tree(tree).unwrap();
        assert_eq!(dependencies[&id("a", "1.0.0")], BTreeSet::from([id("b", "2.0.0"), id("c", "3.0.0")]));
        assert_eq!(dependencies[&id("b", "2.0.0")], BTreeSet::from([id("c", "3.0.0")]));
        assert_eq!(dependencies[&id("d", "1.0.0")], BTreeSet::from([id("b", "2.0.0")]));
    }

    #[test]
    fn programs_hold_what_they_link_and_nothing_that_builds_or_tests() {
        let resolved = ResolvedPackages::resolve(Platform::Amd64, &[API, CONTROLLER, PLUGIN]).unwrap();
        let names = |program| -> Vec<String> {
            resolved.of(program).unwrap().all.into_iter().map(|package| package.id.name).collect()
        };
        let (api, controller) = (names(API), names(CONTROLLER));
        assert_eq!(api.first().map(String::as_str), Some("business-api"));
        for linked in ["store", "sqlx-core", "ring", "libmimalloc-sys"] {
            assert!(api.iter().any(|name| name == linked), "{linked}");
        }
        // The controller has no database; brotli compresses the page before anything is linked; proptest tests.
        for (names, other) in
            [(&controller, "sqlx-core"), (&api, "brotli"), (&controller, "proptest"), (&api, "serde_derive")]
        {
            assert!(!names.iter().any(|name| name == other), "{other}");
        }
    }
}
