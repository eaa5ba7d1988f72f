//! Audit logs in the form of Kubernetes', as far as it is needed: a simulated cluster writes them, and those of
//! kube-apiserver are read by the same structure.

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
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

/// Reads a log that is being written, a part after the other.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    read: u64,
}

impl Tail {
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// What is new. A line that is not complete is left for the next time; a log that has begun anew is an error, since
    /// what stood in it before may not have been read.
    pub fn new_events(&mut self) -> Result<Vec<Event>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("read {}", self.path.display())),
        };
        ensure!(file.metadata()?.len() >= self.read, "{} was begun anew", self.path.display());
        file.seek(SeekFrom::Start(self.read))?;
        let (mut reader, mut line, mut events) = (BufReader::new(file), String::new(), Vec::new());
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let event = serde_json::from_str(&line);
            events.push(event.with_context(|| format!("read {}: {line}", self.path.display()))?);
            self.read += line.len() as u64;
            line.clear();
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_what_is_there_is_read_once() {
        let directory = std::env::temp_dir().join(format!("simulated-audit-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("one.jsonl");
        let log = AuditLog::open(path.clone(), 10_000).unwrap();
        let mut tail = Tail::new(path.clone());
        let write = |number: u32| {
            log.write(&Event { audit_id: number.to_string(), ..Event::default() }).unwrap();
        };
        (0..3).for_each(write);
        let ids = |tail: &mut Tail| -> Vec<String> {
            tail.new_events().unwrap().into_iter().map(|event| event.audit_id).collect()
        };
        assert_eq!(ids(&mut tail), ["0", "1", "2"]);
        write(3);
        assert_eq!((ids(&mut tail), ids(&mut tail)), (vec!["3".to_owned()], Vec::new()));
        (4..200).for_each(write);
        assert!(path.metadata().unwrap().len() <= 10_000);
        assert!(former(&path).metadata().unwrap().len() <= 10_000);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
