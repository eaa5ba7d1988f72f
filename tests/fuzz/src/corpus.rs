use crate::FuzzTarget;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// The directory of all corpora.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Inputs of a target, in the order of their names.
pub fn load(target: &FuzzTarget) -> std::io::Result<Vec<Vec<u8>>> {
    let directory = directory().join(target.name);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    paths.into_iter().map(std::fs::read).collect()
}

/// Keeps an input; gives the file's path.
pub fn save(target: &FuzzTarget, kind: &str, input: &[u8]) -> std::io::Result<PathBuf> {
    let directory = directory().join(target.name);
    std::fs::create_dir_all(&directory)?;
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = directory.join(format!("{kind}-{:016x}", hasher.finish()));
    std::fs::write(&path, input)?;
    Ok(path)
}
