//! Compresses the files in `built/`, once, and writes a table of them.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The highest quality: the files are compressed once.
const BROTLI_QUALITY: u32 = 11;
const BROTLI_WINDOW: u32 = 22;
const BROTLI_BUFFER: usize = 64 * 1024;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=built");
    let built = Path::new("built");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("OUT_DIR")?);
    let mut files = Vec::new();
    find(built, &mut files)?;
    let mut paths = Vec::new();
    for file in &files {
        paths.push(file.strip_prefix(built)?.to_str().context("a file's name is no text")?);
    }
    paths.sort_unstable();
    let mut table = String::from("&[\n");
    for (number, path) in paths.into_iter().enumerate() {
        let bytes = std::fs::read(built.join(path))?;
        let forms = [("plain", bytes.clone()), ("brotli", brotli(&bytes)?), ("gzip", gzip(&bytes)?)];
        write!(table, "    PageFile {{ path: {path:?}")?;
        for (form, bytes) in forms {
            std::fs::write(out.join(format!("{number}.{form}")), bytes)?;
            write!(table, ", {form}: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{number}.{form}\"))")?;
        }
        table.push_str(" },\n");
    }
    table.push(']');
    std::fs::write(out.join("files.rs"), table)?;
    Ok(())
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if entry.file_type()?.is_dir() {
            find(&entry.path(), files)?;
        } else if !is_hidden {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn brotli(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = Vec::new();
    let mut writer =
        brotli::CompressorWriter::new(&mut compressed, BROTLI_BUFFER, BROTLI_QUALITY, BROTLI_WINDOW);
    writer.write_all(bytes)?;
    writer.flush()?;
    drop(writer);
    Ok(compressed)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}
