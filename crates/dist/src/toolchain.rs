//! What a static program contains besides packages: Rust's standard library and the C library.

use crate::platform::Platform;
use anyhow::{Context, Result};
use std::process::Command;

/// Their versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    pub(crate) rust: String,
    pub(crate) glibc: String,
}

impl Toolchain {
    /// The versions on this machine for a platform.
    pub(crate) fn of(platform: Platform) -> Result<Self> {
        let said = Command::new("rustc").arg("-vV").output().context("start rustc")?;
        let said = String::from_utf8_lossy(&said.stdout);
        let rust =
            said.lines().find_map(|line| line.strip_prefix("release: ")).context("rustc says no version")?;
        let libc = platform.file_of_cc("libc.so.6")?;
        let libc = std::fs::read(&libc).with_context(|| format!("read {libc}"))?;
        let glibc = glibc_version(&libc).context("the C library says no version: is it glibc?")?;
        Ok(Self { rust: rust.to_owned(), glibc })
    }
}

/// As in `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`: the packager's where there is one.
fn glibc_version(library: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"GNU C Library (";
    let at = library.windows(BANNER.len()).position(|window| window == BANNER)?;
    let banner: Vec<u8> =
        library.get(at + BANNER.len()..)?.iter().copied().take_while(|byte| *byte != b'\n').collect();
    let banner = String::from_utf8(banner).ok()?;
    let (packager, rest) = banner.split_once(')')?;
    match packager.rsplit_once(' ') {
        Some((_, version)) if version.starts_with(|first: char| first.is_ascii_digit()) => {
            Some(version.to_owned())
        }
        _ => rest.split(' ').next_back().map(|version| version.trim_end_matches('.').to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_c_library_is_read() {
        let debian =
            b"\0GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\nCopyright";
        assert_eq!(glibc_version(debian).as_deref(), Some("2.36-9+deb12u14"));
        let plain = b"GNU C Library (GNU libc) stable release version 2.41.\n";
        assert_eq!(glibc_version(plain).as_deref(), Some("2.41"));
        assert_eq!(glibc_version(b"musl libc"), None);
    }
}
