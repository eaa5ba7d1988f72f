//! The licence texts that have to be shipped with a program: each once, with its packages.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const RULER: &str = "--------------------------------------------------------------------------------";

/// A third-party package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThirdPartyPackage<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) licence: Option<&'a str>,
    pub(crate) directory: &'a Path,
}

/// The licence texts of all packages, as one file.
pub(crate) fn texts<'a>(packages: impl IntoIterator<Item = ThirdPartyPackage<'a>>) -> Result<String> {
    let mut list =
        String::from("This program contains the following packages. Their licences' texts stand below.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        writeln!(list, "{name}: {}", package.licence.unwrap_or("see below"))?;
        for text in files(package.directory)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        write!(list, "\n{RULER}\n{}\n{RULER}\n\n{}\n", names.join(", "), text.trim_end())?;
    }
    Ok(list)
}

fn files(directory: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|known| name.starts_with(known)) && entry.file_type()?.is_file() {
            let bytes = std::fs::read(entry.path())?;
            found.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_once_with_all_who_are_under_it() {
        let dir = std::env::temp_dir().join(format!("dist-licences-{}", std::process::id()));
        for name in ["a", "b"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
            std::fs::write(dir.join(name).join("LICENSE-MIT"), "the same text").unwrap();
        }
        std::fs::write(dir.join("a/Notice.md"), "a's own").unwrap();
        let (a, b) = (dir.join("a"), dir.join("b"));
        let of = |name, directory| ThirdPartyPackage { name, version: "1", licence: Some("MIT"), directory };
        let text = texts([of("a", a.as_path()), of("b", b.as_path())]).unwrap();
        assert_eq!(text.matches("the same text").count(), 1);
        assert!(text.contains("a 1, b 1\n") && text.contains("a's own"), "{text}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
