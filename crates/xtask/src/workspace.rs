//! Directories of the workspace.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The directory of generated files, `.dev`.
pub(crate) fn dev() -> PathBuf {
    root().join(".dev")
}

/// The user's cache, shared by all checkouts, for files that are expensive to make.
pub(crate) fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(|| dev().join("cache")).join("tke-business")
}

/// cargo's target directory, from the path of this program.
pub(crate) fn target() -> Result<PathBuf> {
    let me = std::env::current_exe().context("find the own program")?;
    Ok(me.ancestors().nth(2).context("the own program lies in no target directory")?.to_owned())
}

/// cargo's directory of a profile's programs.
pub(crate) fn built(release: bool) -> Result<PathBuf> {
    Ok(target()?.join(if release { "release" } else { "debug" }))
}

/// The cache path of a program; it depends on the source files and on how it is built.
pub(crate) fn cached(name: &str, source: &Path, way: &str) -> Result<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source).with_context(|| format!("read {}", source.display()))? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut bytes = way.as_bytes().to_vec();
    for file in files {
        bytes.extend(std::fs::read(&file).with_context(|| format!("read {}", file.display()))?);
    }
    Ok(cache().join(format!("{name}-{}", content_hash(bytes))))
}

/// A hash for file names: FNV-1a, sixteen hexadecimal digits.
pub(crate) fn content_hash(bytes: impl IntoIterator<Item = u8>) -> String {
    let hash = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The first usable file of this name in these directories.
pub(crate) fn find(
    name: &str,
    dirs: impl IntoIterator<Item = PathBuf>,
    is_usable: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    dirs.into_iter().map(|dir| dir.join(name)).find(|file| file.is_file() && is_usable(file))
}

/// The directories of PATH.
pub(crate) fn path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Makes `link` point to `target`, whatever it pointed to before.
pub(crate) fn link(target: &Path, link: &Path) -> Result<()> {
    if std::fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::os::unix::fs::symlink(target, link).with_context(|| format!("link {}", link.display()))
}
