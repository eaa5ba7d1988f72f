//! The bill of materials of a program, `CycloneDX`.

use crate::packages::{Origin, PackageId, Packages};
use crate::page::NpmPackage;
use crate::source::{LICENCE, Source};
use crate::toolchain::Toolchain;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// What a program contains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SbomInput<'a> {
    pub(crate) packages: &'a Packages,
    /// The npm packages of the console in it.
    pub(crate) page: &'a [NpmPackage],
    pub(crate) toolchain: &'a Toolchain,
}

/// The document; the same bytes for the same sources.
pub(crate) fn document(materials: SbomInput<'_>, source: &Source) -> Result<Vec<u8>> {
    let SbomInput { packages, page, toolchain } = materials;
    let (program, linked) = packages.all.split_first().context("a program without a package")?;
    let component = described(
        "application",
        &program.id.name,
        &program.id.version,
        Some(LICENCE),
        &cargo_url(&program.id),
    );
    let mut components = Vec::new();
    for package in linked {
        let licence = package.licence.as_deref();
        let url = cargo_url(&package.id);
        let mut entry = described("library", &package.id.name, &package.id.version, licence, &url);
        if let Origin::CratesIo { sha256 } = &package.origin {
            set(&mut entry, "hashes", json!([{"alg": "SHA-256", "content": sha256}]));
        }
        if let Some(repository) = &package.repository {
            set(&mut entry, "externalReferences", json!([{"type": "vcs", "url": repository}]));
        }
        components.push(entry);
    }
    let mut beside = Vec::new();
    for package in page {
        let url = npm_url(package);
        let licence = package.licence.as_deref();
        components.push(described("library", &package.name, &package.version, licence, &url));
        beside.push(url);
    }
    for (name, version, licence) in
        [("rust-std", &toolchain.rust, "MIT OR Apache-2.0"), ("glibc", &toolchain.glibc, "LGPL-2.1-or-later")]
    {
        let url = format!("pkg:generic/{name}@{}", version.replace('+', "%2B"));
        components.push(described("library", name, version, Some(licence), &url));
        beside.push(url);
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": source.timestamp()?,
            "component": component,
            "properties": [{"name": "org.opencontainers.image.revision", "value": source.revision}],
        },
        "components": components,
        "dependencies": dependencies(packages, &beside),
    });
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn described(kind: &str, name: &str, version: &str, licence: Option<&str>, url: &str) -> Value {
    let mut component = json!({"type": kind, "name": name, "version": version});
    if let Some(expression) = licence {
        set(&mut component, "licenses", json!([{"expression": expression}]));
    }
    set(&mut component, "bom-ref", json!(url));
    set(&mut component, "purl", json!(url));
    component
}

fn set(component: &mut Value, name: &str, value: Value) {
    if let Some(fields) = component.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

fn dependencies(packages: &Packages, beside: &[String]) -> Vec<Value> {
    let url = |place: &usize| packages.all.get(*place).map(|package| cargo_url(&package.id));
    let mut found = Vec::new();
    for (place, (package, dependencies)) in packages.all.iter().zip(&packages.dependencies).enumerate() {
        let mut urls: Vec<String> = dependencies.iter().filter_map(url).collect();
        if place == 0 {
            urls.extend(beside.iter().cloned());
        }
        found.push(json!({"ref": cargo_url(&package.id), "dependsOn": urls}));
    }
    found
}

fn cargo_url(id: &PackageId) -> String {
    format!("pkg:cargo/{}@{}", id.name, id.version.replace('+', "%2B"))
}

fn npm_url(package: &NpmPackage) -> String {
    format!("pkg:npm/{}@{}", package.name.replace('@', "%40"), package.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::ResolvedPackages;
    use crate::platform::Platform;
    use crate::programs::CONTROLLER;
    use cyclonedx_bom::prelude::{Bom, SpecVersion, Validate as _};
    use std::path::PathBuf;

    #[test]
    fn it_is_valid_and_names_what_the_program_links() {
        let packages =
            ResolvedPackages::resolve(Platform::Amd64, &[CONTROLLER]).unwrap().of(CONTROLLER).unwrap();
        let page = [NpmPackage {
            name: "@solidjs/router".to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            directory: PathBuf::new(),
        }];
        let toolchain = Toolchain { rust: "1.95.0".to_owned(), glibc: "2.36-9+deb12u14".to_owned() };
        let source = Source { root: PathBuf::new(), revision: "0".to_owned(), date: 1_700_000_000 };
        let made =
            document(SbomInput { packages: &packages, page: &page, toolchain: &toolchain }, &source).unwrap();
        let bom = Bom::parse_from_json(made.as_slice()).unwrap();
        let verdict = bom.validate_version(SpecVersion::V1_5);
        assert!(verdict.passed(), "{verdict:?}");
        let text = String::from_utf8(made).unwrap();
        for named in [
            "pkg:cargo/kube@",
            "pkg:npm/%40solidjs/router@1.0.0",
            "glibc@2.36-9%2Bdeb12u14",
            "2023-11-14T22:13:20Z",
        ] {
            assert!(text.contains(named), "{named}");
        }
    }
}
