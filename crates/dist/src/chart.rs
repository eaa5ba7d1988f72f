//! The Helm chart as one archive, in which symbolic links to the rest of deploy/ are files.

use crate::source::{Source, VERSION};
use crate::{OutputDirectory, oci};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;

const CHART: &str = "deploy/chart";
/// The chart's name, and the top directory of the archive.
const NAME: &str = "business";
const IGNORED: &str = ".helmignore";
const READABLE: u32 = 0o644;

/// The command `chart`.
pub(crate) fn run(into: &OutputDirectory) -> Result<()> {
    let into = into.into.as_path();
    std::fs::create_dir_all(into).with_context(|| format!("create {}", into.display()))?;
    write(&Source::from_environment()?, into)
}

/// Writes the archive.
pub(crate) fn write(source: &Source, into: &Path) -> Result<()> {
    let files = files(&source.root.join(CHART))?;
    let version = files.get("Chart.yaml").context("the chart has no Chart.yaml")?;
    let is_of = |line: &str| line == format!("version: {VERSION}");
    ensure!(String::from_utf8_lossy(version).lines().any(is_of), "Chart.yaml is of another version");
    let file = into.join(format!("{NAME}-{VERSION}.tgz"));
    std::fs::write(&file, oci::gzip(&archive(&files, source.date)?)?)
        .with_context(|| format!("write {}", file.display()))
}

fn archive(files: &BTreeMap<String, Vec<u8>>, date: u64) -> Result<Vec<u8>> {
    let named: Vec<_> = files.iter().map(|(path, bytes)| (format!("{NAME}/{path}"), bytes)).collect();
    oci::archive(named.iter().map(|(path, bytes)| (path.as_str(), READABLE, bytes.as_slice())), date)
}

/// The files by their paths in the chart; links are followed.
fn files(chart: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let ignored = std::fs::read_to_string(chart.join(IGNORED)).context("read .helmignore")?;
    let ignored: Vec<&str> =
        ignored.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if let Some(line) =
        ignored.iter().find(|line| line.contains(['*', '?', '[', '!']) || !line.ends_with('/'))
    {
        bail!("{IGNORED}: {line:?} is no directory, and nothing else is understood here");
    }
    let mut files = BTreeMap::new();
    take(chart, "", &ignored, &mut files)?;
    Ok(files)
}

fn take(directory: &Path, at: &str, ignored: &[&str], files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a file whose name is no text")?;
        let path = entry.path();
        if std::fs::metadata(&path)?.is_dir() {
            let below = format!("{at}{name}/");
            if !ignored.contains(&below.as_str()) {
                take(&path, &below, ignored, files)?;
            }
        } else {
            let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            files.insert(format!("{at}{name}"), bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_what_the_links_lead_to() {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(CHART);
        let files = files(&chart).unwrap();
        for path in ["Chart.yaml", "templates/platform.yaml", "source/base/api/deployment.yaml"] {
            assert!(files.contains_key(path), "{path}");
        }
        assert!(!files.keys().any(|path| path.contains("postgres-dev")), "as .helmignore says");
        let bytes = archive(&files, 1).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries: Vec<_> = archive.entries().unwrap().map(Result::unwrap).collect();
        assert_eq!(entries.len(), files.len());
        for entry in entries {
            assert!(entry.path().unwrap().starts_with("business"));
            assert_eq!(entry.header().entry_type(), tar::EntryType::Regular);
        }
    }
}
