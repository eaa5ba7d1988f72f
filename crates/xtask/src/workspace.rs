//! Where things lie.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The directory of everything that is made here and is no source.
pub(crate) fn dev() -> PathBuf {
    root().join(".dev")
}

/// The directory of what is expensive to make and the same for every checkout of a user.
pub(crate) fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(|| dev().join("cache")).join("tke-business")
}

/// Where cargo puts everything; this program is of the dev profile.
pub(crate) fn target() -> Result<PathBuf> {
    let me = std::env::current_exe().context("find the own program")?;
    Ok(me.ancestors().nth(2).context("the own program lies in no target directory")?.to_owned())
}

/// Where cargo puts the programs of a profile.
pub(crate) fn built(release: bool) -> Result<PathBuf> {
    Ok(target()?.join(if release { "release" } else { "debug" }))
}

/// The program that is made from the files of a directory in this way: other files give another program.
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
    Ok(cache().join(format!("{name}-{}", key(bytes))))
}

/// Sixteen hexadecimal digits that stand for these bytes in the name of a file: FNV-1a.
pub(crate) fn key(bytes: impl IntoIterator<Item = u8>) -> String {
    let hash = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The first file of this name in these directories that is good enough.
pub(crate) fn find(
    name: &str,
    dirs: impl IntoIterator<Item = PathBuf>,
    good: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    dirs.into_iter().map(|dir| dir.join(name)).find(|file| file.is_file() && good(file))
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
