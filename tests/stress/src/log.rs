//! The log of a replica: one JSON line for each outcome, written in one call, so that it survives the
//! replica's death.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use uuid::Uuid;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    /// A write and what the store said of it.
    Write {
        /// What it was meant to do.
        op: String,
        /// The body's token.
        token: Uuid,
        /// What the caller was told.
        told: LoggedOutcome,
    },
    /// What one watch has delivered so far.
    Watched {
        /// The kind's resource.
        resource: String,
        /// Everything after this revision …
        after: u64,
        /// … up to this one …
        to: u64,
        /// … was this many events …
        events: u64,
        /// … whose revisions have this exclusive or.
        xor: u64,
    },
    /// Something that must never happen, seen by the replica itself.
    Broken {
        /// What.
        what: String,
    },
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoggedOutcome {
    /// It is stored at this revision.
    Done(u64),
    /// It is not stored: refused by a rule, or another was faster.
    No,
    /// It is not stored: the database could not be reached.
    Unavailable,
    /// The outcome is unknown.
    Unknown,
}

/// The file of one replica.
#[derive(Debug)]
pub(crate) struct Log(Mutex<File>);

impl Log {
    /// Opens it for appending.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Appends a line.
    pub(crate) fn line(&self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())?;
        Ok(())
    }
}

/// Reads a log. A last line cut off by a kill is passed over.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
