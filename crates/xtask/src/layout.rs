//! Where things lie: the workspace, the directory of one instance, and what several instances share.

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of one instance; `.dev` for `up`, one below it for checks and tests.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
    /// Ports are looked for from here on.
    pub(crate) first_port: u16,
}

impl Layout {
    pub(crate) fn of_up() -> Self {
        Self { dir: workspace().join(".dev"), first_port: 20_000 }
    }

    pub(crate) fn of_check() -> Self {
        Self { dir: workspace().join(".dev/check"), first_port: 21_000 }
    }

    pub(crate) fn of_accept() -> Self {
        Self { dir: workspace().join(".dev/accept"), first_port: 22_000 }
    }

    pub(crate) fn of_manifests() -> Self {
        Self { dir: workspace().join(".dev/manifests"), first_port: 22_500 }
    }

    pub(crate) fn of_bench() -> Self {
        Self { dir: workspace().join(".dev/bench"), first_port: 23_000 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Deletes everything but other instances' directories.
    pub(crate) fn wipe(&self) -> Result<()> {
        let others = ["check", "accept", "manifests", "bench"].map(|name| self.dir.join(name));
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let path = entry?.path();
            if others.contains(&path) {
                continue;
            }
            let removed = if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            removed.with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }

    /// A short name of this directory, for what has to lie elsewhere.
    pub(crate) fn short_hash(&self) -> String {
        hash(self.dir.to_string_lossy().as_bytes())
    }
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Where cargo puts the programs of the dev or the release profile.
pub(crate) fn built(program: &str, release: bool) -> Result<PathBuf> {
    let me = std::env::current_exe().context("find the own program")?;
    let target = me.ancestors().nth(2).context("the own program lies in no target directory")?;
    Ok(target.join(if release { "release" } else { "debug" }).join(program))
}

/// The cargo that runs us, in the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// What is expensive to make and the same for every checkout of a user.
pub(crate) fn cache() -> PathBuf {
    let home =
        std::env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    base.or(home).unwrap_or_else(|| workspace().join(".dev/cache")).join("tke-business")
}

/// Sixteen hexadecimal digits that stand for these bytes.
pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).get(..8).unwrap_or_default())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
