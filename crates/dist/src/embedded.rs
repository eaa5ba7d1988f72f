//! The list of packages in a program, for `cargo audit bin`, Trivy, Grype and Syft: the section `.dep-v0` of
//! cargo-auditable.

use crate::packages::{Origin, Packages};
use anyhow::Result;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

/// The section's bytes.
pub(crate) fn section(packages: &Packages) -> Result<Vec<u8>> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(document(packages).to_string().as_bytes())?;
    Ok(zlib.finish()?)
}

fn document(packages: &Packages) -> Value {
    // Readers expect the packages sorted by name, the program among them.
    let mut order: Vec<usize> = (0..packages.all.len()).collect();
    order.sort_by_key(|place| packages.all.get(*place).map(|package| &package.id));
    let mut moved = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        if let Some(place) = moved.get_mut(*from) {
            *place = to;
        }
    }
    let mut list = Vec::new();
    for place in order {
        let (Some(package), Some(dependencies)) = (packages.all.get(place), packages.dependencies.get(place))
        else {
            continue;
        };
        let source = match package.origin {
            Origin::Workspace => "local",
            Origin::CratesIo { .. } => "crates.io",
        };
        let mut entry = json!({"name": package.id.name, "version": package.id.version, "source": source});
        let mut dependencies: Vec<usize> =
            dependencies.iter().filter_map(|place| moved.get(*place).copied()).collect();
        dependencies.sort_unstable();
        if let Some(fields) = entry.as_object_mut() {
            if !dependencies.is_empty() {
                fields.insert("dependencies".to_owned(), json!(dependencies));
            }
            if place == 0 {
                fields.insert("root".to_owned(), json!(true));
            }
        }
        list.push(entry);
    }
    json!({"packages": list})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::ResolvedPackages;
    use crate::platform::Platform;
    use crate::programs::API;

    #[test]
    fn what_reads_such_lists_reads_ours() {
        let packages = ResolvedPackages::resolve(Platform::Amd64, &[API]).unwrap().of(API).unwrap();
        let text = document(&packages).to_string();
        let read: auditable_serde::VersionInfo = text.parse().unwrap();
        assert_eq!(read.packages.len(), packages.all.len());
        let root = read.packages.iter().find(|package| package.root).unwrap();
        assert_eq!(root.name, "business-api");
        assert_eq!(root.dependencies.len(), packages.dependencies[0].len());
        let names: Vec<&str> =
            root.dependencies.iter().map(|place| read.packages[*place].name.as_str()).collect();
        assert!(names.contains(&"store") && names.contains(&"mimalloc"), "{names:?}");
    }
}
