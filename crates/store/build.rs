//! The migrations are compiled in: a new one makes a new library.

use std::fmt::Write as _;
use std::path::PathBuf;

const FOLDER: &str = "../../migrations";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={FOLDER}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(FOLDER)? {
        files.push(entry?.path().canonicalize()?);
    }
    files.sort();
    let mut list = String::from("[");
    for file in files {
        let path = file.to_str().ok_or("a path that is no text")?;
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let (version, description) =
            name.split_once('_').ok_or_else(|| format!("{name}: not VERSION_DESCRIPTION.sql"))?;
        let description = description.replace('_', " ");
        write!(
            list,
            "MigrationFile {{ version: {version}, description: {description:?}, sql: include_str!({path:?}) }},"
        )?;
    }
    list.push(']');
    let out = std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?;
    Ok(std::fs::write(PathBuf::from(out).join("migrations.rs"), list)?)
}
