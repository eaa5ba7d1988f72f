//! The npm packages of the console, from its lock file.

use crate::source;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

const BUILT: &str = "crates/console-page/built/index.html";
const BELOW: &str = "node_modules/";

/// An npm package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpmPackage {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
    /// The directory of its files on this machine.
    pub(crate) directory: PathBuf,
}

#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Deserialize)]
struct Locked {
    version: Option<String>,
    license: Option<String>,
    #[serde(default)]
    dev: bool,
    #[serde(default)]
    optional: bool,
}

/// Whether business-api includes the console.
pub(crate) fn is_built() -> bool {
    source::root().join(BUILT).exists()
}

/// The packages that may be in the console; none if it is not built.
pub(crate) fn packages() -> Result<Vec<NpmPackage>> {
    if !is_built() {
        return Ok(Vec::new());
    }
    let web = source::root().join("web");
    let text =
        std::fs::read_to_string(web.join("package-lock.json")).context("read web/package-lock.json")?;
    let lock: Lock = serde_json::from_str(&text).context("web/package-lock.json")?;
    let mut packages = read(lock);
    for package in &mut packages {
        package.directory = web.join(&package.directory);
        let here = package.directory.exists();
        ensure!(here, "{} is not there: `cargo xtask web` brings it back", package.directory.display());
    }
    Ok(packages)
}

fn read(lock: Lock) -> Vec<NpmPackage> {
    let runs = lock.packages.into_iter().filter(|(_, locked)| !locked.dev && !locked.optional);
    let packages = runs.filter_map(|(path, locked)| {
        let (_, name) = path.rsplit_once(BELOW)?;
        let (name, version) = (name.to_owned(), locked.version?);
        Some(NpmPackage { name, version, licence: locked.license, directory: PathBuf::from(path) })
    });
    packages.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_builds_the_page_is_not_in_it() {
        let lock = r#"{"packages": {
            "": {"version": "0.0.0"},
            "node_modules/solid-js": {"version": "1.9.0", "license": "MIT"},
            "node_modules/solid-js/node_modules/@a/b": {"version": "2.0.0"},
            "node_modules/vite": {"version": "8.0.0", "dev": true}
        }}"#;
        let names: Vec<String> =
            read(serde_json::from_str(lock).unwrap()).into_iter().map(|package| package.name).collect();
        assert_eq!(names, ["solid-js", "@a/b"]);
    }
}
