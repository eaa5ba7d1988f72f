//! Compares the images of two builds of the same sources, byte by byte.

use crate::image;
use crate::oci::read::{Entry, UnpackedImage};
use crate::platform::Platform;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use terminal::say;

/// Two directories of images.
#[derive(clap::Args, Debug)]
pub(crate) struct CompareSettings {
    one: PathBuf,
    other: PathBuf,
}

/// The command `compare`: fails with the first difference.
pub(crate) fn run(settings: &CompareSettings) -> Result<()> {
    for ((program, one), (_, other)) in
        image::archives(&settings.one)?.into_iter().zip(image::archives(&settings.other)?)
    {
        if std::fs::read(&one)? == std::fs::read(&other)? {
            say::line(format_args!("{}: both builds made the same bytes", program.binary));
            continue;
        }
        bail!("{}: {}", program.binary, first_difference(&one, &other));
    }
    Ok(())
}

fn first_difference(one: &Path, other: &Path) -> String {
    for platform in Platform::ALL {
        let (one, other) = (UnpackedImage::open(one, platform), UnpackedImage::open(other, platform));
        let (one, other) = match (one, other) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(_), Err(_)) => continue,
            _ => return format!("only one of them is for {}", platform.name()),
        };
        if let Some(difference) = difference(&one.files, &other.files) {
            return format!("{}: {difference}", platform.name());
        }
        if one.config != other.config {
            return format!("{}: configurations: {} and {}", platform.name(), one.config, other.config);
        }
    }
    "the files are the same; how they are packed differs".to_owned()
}

type Files = BTreeMap<String, Entry>;

fn difference(one: &Files, other: &Files) -> Option<String> {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    names.into_iter().find_map(|name| match (one.get(name), other.get(name)) {
        (Some(one), Some(other)) if one == other => None,
        (Some(one), Some(other)) if one.mode != other.mode => {
            Some(format!("{name} has mode {:o} and {:o}", one.mode, other.mode))
        }
        (Some(one), Some(other)) => {
            let at = one.bytes.iter().zip(&other.bytes).position(|(one, other)| one != other);
            let at = at.unwrap_or(one.bytes.len().min(other.bytes.len()));
            let sizes = format!("{} and {} bytes", one.bytes.len(), other.bytes.len());
            Some(format!(
                "{name} ({sizes}) differs from byte {at} on: {} and {}",
                context_of(one, at),
                context_of(other, at)
            ))
        }
        _ => Some(format!("{name} is in one of them only")),
    })
}

/// The bytes around a position, as text.
fn context_of(entry: &Entry, at: usize) -> String {
    const SHOWN: usize = 48;
    let from = at.saturating_sub(SHOWN / 2);
    let bytes = entry.bytes.get(from..(at + SHOWN).min(entry.bytes.len())).unwrap_or_default();
    format!("\"{}\"", bytes.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, u32, &str)]) -> Files {
        let entry = |mode, text: &str| Entry { mode, bytes: text.as_bytes().to_vec() };
        entries.iter().map(|(name, mode, text)| ((*name).to_owned(), entry(*mode, text))).collect()
    }

    #[test]
    fn the_first_difference_is_told_with_what_stands_there() {
        let one = files(&[("a", 0o444, "same"), ("b", 0o444, "built in /home/one/")]);
        assert_eq!(difference(&one, &one), None);
        let other = files(&[("a", 0o444, "same"), ("b", 0o444, "built in /home/two/")]);
        let told = difference(&one, &other).unwrap();
        assert!(told.contains("from byte 15") && told.contains("/home/two"), "{told}");
        assert!(difference(&one, &files(&[("a", 0o555, "same")])).unwrap().contains("mode"));
        assert!(difference(&one, &files(&[("a", 0o444, "same")])).unwrap().contains("only"));
    }
}
