//! `.dev/state.json`: the state of a running or killed `up`.

use crate::process::ProcessIdentity;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Everything the next `up` or `down` must know.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InstanceState {
    /// The `up` that looks after the children.
    pub supervisor: Option<ProcessIdentity>,
    /// Whether that `up` has come to the end of its start.
    pub ready: bool,
    /// Chosen ports, kept for the next time.
    pub ports: BTreeMap<String, u16>,
    /// Children in the order in which they were started.
    pub children: Vec<Child>,
    /// Where PostgreSQL's data lies.
    pub postgres_dir: Option<std::path::PathBuf>,
}

/// A child process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    pub name: String,
    #[serde(flatten)]
    pub identity: ProcessIdentity,
    /// Hash of what was started, so that a child of an older build is not taken over.
    pub fingerprint: String,
    pub signal: String,
}

impl InstanceState {
    pub fn load(file: &Path) -> Result<Self> {
        match std::fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("read {}", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
        }
    }

    /// Writes the file whole or not at all: `up` may be killed at any moment.
    pub fn save(&self, file: &Path) -> Result<()> {
        let next = file.with_extension("json.next");
        std::fs::write(&next, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(&next, file).with_context(|| format!("write {}", file.display()))
    }
}
