//! Watchers through each replica, whose events are compared with the history in the end.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use kit::{Endpoint, Lines};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Until a watcher that was cut off comes back.
const RETRY: Duration = Duration::from_millis(100);
/// A bookmark comes once a minute; a connection that says nothing for longer is dead.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// Events of one resource without a break: everything after `after`.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedRange {
    pub(crate) after: u64,
    pub(crate) revisions: Vec<u64>,
}

impl WatchedRange {
    /// Up to where it has seen everything.
    pub(crate) fn to(&self) -> u64 {
        self.revisions.last().copied().unwrap_or(self.after)
    }
}

/// What one watcher has seen. A new part begins when it was told that history is gone, and listed again.
#[derive(Clone, Debug)]
pub(crate) struct WatchRecord {
    pub(crate) resource: &'static str,
    pub(crate) replica: String,
    parts: Arc<Mutex<Vec<WatchedRange>>>,
}

impl WatchRecord {
    /// Everything that it has seen.
    pub(crate) fn parts(&self) -> Vec<WatchedRange> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often it was told to list again.
    pub(crate) fn restarts(&self) -> usize {
        self.parts().len().saturating_sub(1)
    }

    /// Whether it has not heard of this revision of its resource.
    pub(crate) fn behind(&self, newest: u64) -> bool {
        self.last().is_none_or(|last| last < newest)
    }

    fn begin(&self, after: u64) {
        let part = WatchedRange { after, revisions: Vec::new() };
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    fn add(&self, revision: u64) -> Result<()> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.last_mut().context("an event before the list")?.revisions.push(revision);
        Ok(())
    }

    fn last(&self) -> Option<u64> {
        self.parts().last().map(WatchedRange::to)
    }
}

/// One watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) watched: WatchRecord,
    endpoint: Endpoint,
}

enum WatchEnd {
    /// It goes on from where it was.
    Disconnected,
    /// It has to list again.
    Expired,
}

impl Watcher {
    /// A watcher of all objects of a resource at a replica.
    pub(crate) fn new(endpoint: Endpoint, replica: &str, resource: &'static str) -> Self {
        let watched = WatchRecord { resource, replica: replica.to_owned(), parts: Arc::default() };
        Self { watched, endpoint }
    }

    /// Watches until told to stop.
    pub(crate) async fn run(self, stop: Arc<AtomicBool>) -> Result<()> {
        let mut gone = true;
        while !stop.load(Ordering::Relaxed) {
            if gone {
                let Ok(revision) = self.list().await else {
                    tokio::time::sleep(RETRY).await;
                    continue;
                };
                self.watched.begin(revision);
            }
            // A broken connection is a cut, too; what contradicts itself is found by the comparison.
            gone = matches!(self.watch(&stop).await, Ok(WatchEnd::Expired));
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    fn path(&self) -> String {
        format!("/apis/business.tkestack.io/v1/{}", self.watched.resource)
    }

    async fn list(&self) -> Result<u64> {
        let list = self.endpoint.connect().await?.json(Method::GET, &self.path(), &Value::Null).await?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        revision.context("the list has no revision")?.parse().context("read the list's revision")
    }

    async fn watch(&self, stop: &AtomicBool) -> Result<WatchEnd> {
        let from = self.watched.last().context("nothing was listed")?;
        let path = format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}", self.path());
        let mut connection = self.endpoint.connect().await?;
        let response = connection.open(Method::GET, &path, Bytes::new()).await?;
        match response.status().as_u16() {
            200 => {}
            410 => return Ok(WatchEnd::Expired),
            code => bail!("watch: {code}"),
        }
        let mut lines = Lines::of(response);
        while !stop.load(Ordering::Relaxed) {
            let line = tokio::time::timeout(SILENCE_MAX, lines.line()).await??;
            let Some(line) = line else { return Ok(WatchEnd::Disconnected) };
            if let Some(ended) = self.hear(&line)? {
                return Ok(ended);
            }
        }
        Ok(WatchEnd::Disconnected)
    }

    fn hear(&self, line: &[u8]) -> Result<Option<WatchEnd>> {
        let event: Value = serde_json::from_slice(line)?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match text("/type") {
            "ADDED" | "MODIFIED" | "DELETED" => {
                self.watched.add(text("/object/metadata/resourceVersion").parse()?)?;
                Ok(None)
            }
            "BOOKMARK" => Ok(None),
            _ if event.pointer("/object/code") == Some(&Value::from(410)) => Ok(Some(WatchEnd::Expired)),
            _ => Ok(Some(WatchEnd::Disconnected)),
        }
    }
}
