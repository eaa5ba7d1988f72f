//! Audit logs in the form of Kubernetes', as far as it is needed: a simulated cluster writes them, and those of
//! kube-apiserver are read by the same structure.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Annotation: when a simulated cluster made the write, whatever it answered.
pub const MADE_AT: &str = "simulated/made-at";

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    pub kind: String,
    pub api_version: String,
    pub level: String,
    #[serde(rename = "auditID")]
    pub audit_id: String,
    pub stage: String,
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    pub verb: String,
    pub user: User,
    pub user_agent: String,
    pub object_ref: Option<ObjectReference>,
    pub response_status: Option<ResponseStatus>,
    /// RFC 3339 with microseconds.
    pub request_received_timestamp: String,
    /// When it was answered.
    pub stage_timestamp: String,
    pub annotations: BTreeMap<String, String>,
}

/// Who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    pub username: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// For what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub api_group: String,
    pub api_version: String,
    pub subresource: String,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseStatus {
    pub code: u16,
}

/// The audit log of one cluster: a file, and the one before it.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    bytes_max: u64,
    file: Mutex<(File, u64)>,
}

impl AuditLog {
    /// Goes on with a file; no file becomes larger.
    pub fn open(path: PathBuf, bytes_max: u64) -> Result<Self> {
        let file = open(&path)?;
        let length = file.metadata()?.len();
        Ok(Self { path, bytes_max, file: Mutex::new((file, length)) })
    }

    pub fn write(&self, event: &Event) -> Result<()> {
        let mut line = serde_json::to_string(event)?;
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.1 + line.len() as u64 > self.bytes_max {
            std::fs::rename(&self.path, former(&self.path))?;
            *file = (open(&self.path)?, 0);
        }
        file.0.write_all(line.as_bytes())?;
        file.1 += line.len() as u64;
        Ok(())
    }
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("open {}", path.display()))
}

fn former(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

/// All that is there of an audit log. A line that is being written is left out.
pub fn read(path: &Path) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for path in [former(path), path.to_owned()] {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        for line in BufReader::new(file).lines() {
            events.extend(serde_json::from_str::<Event>(&line?).ok());
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_what_is_there_is_read() {
        let directory = std::env::temp_dir().join(format!("simulated-audit-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("one.jsonl");
        let log = AuditLog::open(path.clone(), 10_000).unwrap();
        for number in 0..200 {
            log.write(&Event { audit_id: number.to_string(), ..Event::default() }).unwrap();
        }
        let events = read(&path).unwrap();
        assert_eq!(events.last().unwrap().audit_id, "199");
        assert!(events.len() < 100);
        assert!(path.metadata().unwrap().len() <= 10_000);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
