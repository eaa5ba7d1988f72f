//! PostgreSQL's programs: those of the machine, else downloaded ones.

use crate::build::{self, Programs};
use crate::workspace;
use anyhow::{Result, ensure};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say;

/// If set, the programs of the machine are not used.
const FORCE_FETCH: &str = "XTASK_FETCH_POSTGRESQL";

/// The directory with initdb and postgres: on PATH, where packages put them, else fetched.
pub(crate) fn programs() -> Result<PathBuf> {
    if std::env::var_os(FORCE_FETCH).is_none()
        && let Some(found) = installed()
    {
        return Ok(found);
    }
    let dir = cache().join("postgresql-17");
    if !is_complete(&dir.join("bin")) {
        fetch(&dir)?;
    }
    Ok(dir.join("bin"))
}

/// The cache for what PostgreSQL's user runs. PostgreSQL refuses to be root, and another user cannot enter root's home.
pub(crate) fn cache() -> PathBuf {
    let is_root = std::fs::metadata("/proc/self")
        .map_or_else(|_| std::env::var("USER").is_ok_and(|user| user == "root"), |me| me.uid() == 0);
    if is_root { PathBuf::from("/var/tmp/tke-business") } else { workspace::cache() }
}

/// Links them for an instance.
pub(crate) fn link() -> Result<()> {
    workspace::link(&programs()?, &workspace::dev().join("postgresql"))
}

fn installed() -> Option<PathBuf> {
    places().into_iter().find(|dir| is_complete(dir))
}

/// Directories that may have PostgreSQL's programs: PATH, and those of packages, the newest first.
pub(crate) fn places() -> Vec<PathBuf> {
    let mut packaged: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.path().into())
        .filter_map(|dir| Some((dir.file_name()?.to_str()?.parse().ok()?, dir.join("bin"))))
        .collect();
    packaged.sort();
    let packaged = packaged.into_iter().rev().map(|(_, dir)| dir);
    workspace::path().into_iter().chain(packaged).collect()
}

fn is_complete(dir: &Path) -> bool {
    dir.join("initdb").is_file() && dir.join("postgres").is_file()
}

fn fetch(dir: &Path) -> Result<()> {
    say::begin("PostgreSQL is not on this machine: its programs are fetched");
    build::build(&[Programs::FETCH], None)?;
    let program = workspace::built(false)?.join("fetch-postgresql");
    let fetched = Command::new(program).arg(dir).stdout(say::lines()).status()?;
    ensure!(fetched.success(), "PostgreSQL cannot be fetched: install it or set DATABASE_URL");
    ensure!(is_complete(&dir.join("bin")), "the fetched archive holds no initdb in {}", dir.display());
    Ok(())
}
